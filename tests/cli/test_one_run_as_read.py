"""`trilens runs show` and `trilens lineage` of runs that went wrong, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from command_here import trilens_here
from memory_api import Api, running
from simulated_job import Job
from trilens.model.run import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Of two ranks one was killed, and the other failed for want of it. It saw the same data in all steps,
    and one loss was far from the others."""
    job = Job()
    job.start(2)
    job.train(12)
    job.save()
    job.crash(Ending.FAILED)
    source = job.source
    source.facts[0] = replace(source.facts[0], config={f"option_{n:02}": n for n in range(30)})
    source.told_processes[:] = [
        replace(one, ending=Ending.LOST)
        if one.rank == 1
        else replace(one, error="RuntimeError: Connection reset by peer")
        for one in source.told_processes
    ]
    source.told_steps[:] = [
        replace(one, values={"loss": 100.0 if one.step == 11 else 1.0}, samples=250_000)
        for one in source.told_steps
    ]
    source.told_batches[:] = [replace(one, epoch=None, first=0) for one in source.told_batches]
    source.told_checkpoints[:] = [replace(one, duration_us=250) for one in source.told_checkpoints]
    with running(Api(runs=source).build()) as url:
        yield url


def said(server: str, *arguments: str) -> list[str]:
    answer = trilens_here(*arguments, "--server", server)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()


def test_a_rank_that_was_killed_stands_before_the_error_of_those_that_missed_it(server: str) -> None:
    lines = said(server, "runs", "show", "run-a")
    assert lines[1].startswith("  failed ")
    assert lines[2:4] == [
        "  rank 1 fell silent: killed, or the machine is gone",
        "  rank 0: RuntimeError: Connection reset by peer",
    ]


def test_a_long_config_is_cut_unless_all_is_asked_for(server: str) -> None:
    short = said(server, "runs", "show", "run-a")
    assert "  option_19: 19" in short
    assert "  option_20: 20" not in short
    assert "and 10 more; --all shows each" in short
    assert "  option_29: 29" in said(server, "runs", "show", "run-a", "--all")


def test_figures_are_in_units_that_people_read(server: str) -> None:
    lines = said(server, "runs", "show", "run-a")
    assert lines[5] == "  loss 1, samples a second 500,000, 2 ranks"
    assert "250 us" in lines[lines.index("checkpoints") + 2]


def test_samples_seen_again_in_no_known_epoch_are_no_fault_yet(server: str) -> None:
    assert said(server, "lineage", "run-a", "--checkpoint", "12")[-1] == (
        "4 samples of train were seen more than once, such as 0, 1, 2, 3; "
        "no epoch was told, so it may be in several"
    )


def test_one_spike_is_called_one(server: str) -> None:
    assert said(server, "lineage", "run-a", "--before-spike")[0] == "1 spike of loss in 12 points"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("runs", "List runs, the newest first"),
        ("spool", "List what programs of this machine told"),
        ("preflight", "Check the machines of a distributed job"),
    ],
)
def test_help_of_a_command_with_commands_below_says_what_it_does_alone(command: str, says: str) -> None:
    assert says in trilens_here(command, "--help").stdout
