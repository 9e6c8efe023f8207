"""`trilens runs` and `trilens lineage` against a server with runs in memory."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from command_here import trilens_here
from memory_api import Api, running
from simulated_job import Job
from trilens.model.run import ArtifactRecord, Ending, NoteRecord, RunId
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from memory_runs import MemoryRuns

BASE, TUNED = RunId("5f3a-base"), RunId("5f9c-tuned")


def some_runs() -> MemoryRuns:
    """A job of two ranks: 4 steps to a checkpoint, 2 more, a crash; again from step 4 to step 8. Then another
    run that begins with its last checkpoint and fails."""
    base = Job(run=BASE)
    base.start(2)
    base.train(4)
    at_4 = base.save()
    base.train(2)
    base.crash()
    base.start(2, at_4)
    base.train(4)
    at_8 = base.save()
    base.crash(Ending.FINISHED)
    tuned = Job(source=base.source, run=TUNED, now_ms=base.now_ms)
    tuned.start(1, at_8)
    tuned.train(2)
    tuned.crash(Ending.FAILED)
    source = base.source
    source.facts[:] = [replace(one, name=one.run.partition("-")[2], total_steps=10) for one in source.facts]
    source.told_processes[-1] = replace(source.told_processes[-1], error="CUDA out of memory")
    source.told_notes.append(NoteRecord(BASE, 1, 0, 0, base.now_ms, "barrier", "rank 1 is missing", 5))
    source.told_artifacts.append(
        ArtifactRecord(BASE, 1, 0, 0, base.now_ms, "stacks", "../stacks.txt", b"Thread 1\x1b[2J\n")
    )
    return source


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running(Api(runs=some_runs()).build()) as url:
        yield url


def said(server: str, *arguments: str) -> list[str]:
    answer = trilens_here(*arguments, "--server", server)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def test_a_table_of_runs(server: str) -> None:
    lines = said(server, "runs")
    titles = "run experiment name workload state steps progress left loss samples/s heard started"
    assert lines[0].split() == titles.split(" ")
    tuned, base = lines[1:]
    assert tuned.split()[:5] == ["5f9c-tuned", "exp", "tuned", "-", "failed"]
    assert base.split()[:5] == ["5f3a-base", "exp", "base", "-", "finished"]
    assert re.search(r" 8/10 +80% ", base)
    failed = json.loads("\n".join(said(server, "runs", "--state", "failed", "--json")))
    assert [one["run"] for one in failed] == ["5f9c-tuned"]
    assert failed[0]["error"] == "CUDA out of memory"
    assert said(server, "runs", "--experiment", "none") == []
    assert said(server, "runs", "--since", "-1h") == []


def test_one_run(server: str) -> None:
    lines = said(server, "runs", "show", "base")
    assert lines[0] == "run 5f3a-base, exp/base"
    attempts = lines[lines.index("attempts") + 1 :]
    assert attempts[0] == (
        "attempt  ranks  steps  began                 from                       thrown away  ended     error"
    )
    assert attempts[1].split() == ["0", "0-1", "1..6", "2026-01-14T12:00:07Z", "nothing", "5..6", "lost"]
    assert attempts[2].split()[:3] == ["1", "0-1", "5..8"]
    assert "step 4, /ckpt/5f3a-base/4" in attempts[2]
    assert "and 2 of earlier attempts; --all shows each" in lines
    assert [line for line in lines if line.endswith("rank 1 is missing")]


@pytest.mark.parametrize("written", ["5f3a", "5f3a-base", "base", "exp/base"])
def test_ways_to_name_a_run(server: str, written: str) -> None:
    (found,) = json.loads("\n".join(said(server, "runs", "show", written, "--json")))
    assert found["run"]["run"] == "5f3a-base"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["runs", "show", "5f"],
            "'5f' may be any of 5f9c-tuned (exp/tuned, failed), 5f3a-base (exp/base, finished)",
        ),
        (["runs", "show", "nothing"], "no run 'nothing' is known"),
        (["runs", "--state", "asleep"], "none of running, stalled, finished, failed, lost"),
        (["lineage", "base"], "ask one question"),
        (["lineage", "base", "--step", "1", "--sample", "1"], "ask one question"),
        (["lineage", "--step", "1"], "name a run"),
        (["lineage", "base", "--step", "99"], "no step 99 of 5f3a-base is known (known are 1 to 6, 5 to 8)"),
        (["lineage", "base", "--checkpoint", "5"], "(those of steps 4, 8 are near)"),
        (["lineage", "base", "--checkpoint", "/none"], "no checkpoint at '/none' is known"),
        (["lineage", "base", "--before-spike", "--value", "none"], "told of no value 'none'"),
    ],
)
def test_what_cannot_be_answered(server: str, arguments: list[str], words: str) -> None:
    answer = trilens_here(*arguments, "--server", server)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr


def test_artifacts_are_saved_inside_the_folder(server: str, tmp_path: Path) -> None:
    (found,) = json.loads(
        "\n".join(said(server, "runs", "artifacts", "base", "--save", f"{tmp_path}/in", "--json"))
    )
    assert found["saved"] == f"{tmp_path}/in/rank1-1.0.0-.._stacks.txt"
    (saved,) = (tmp_path / "in").iterdir()
    assert saved.read_bytes() == b"Thread 1\x1b[2J\n"


def test_stacks_are_printed_without_what_steers_a_terminal(server: str) -> None:
    assert said(server, "runs", "artifacts", "base", "--show", "1.0.0") == ["Thread 1[2J"]
    missing = trilens_here("runs", "artifacts", "base", "--show", "9.9.9", "--server", server)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("trilens: 5f3a-base has no artifact '9.9.9' (")


def test_the_runs_of_a_workload(tmp_path: Path) -> None:
    job = Job(run=RunId("in-a-pod"), now_ms=minute(1))
    job.start(1)
    job.train(3)
    (process,) = job.source.told_processes
    job.source.told_processes[:] = [replace(process, namespace="ml", pod="train-0", pod_uid="uid-train-0-0")]
    with (
        some_records(tmp_path) as workloads,
        running(Api(runs=job.source, workloads=workloads).build()) as url,
    ):
        lines = said(url, "show", "ml/train", "--at", str(minute(5) / 1000))
        (row,) = [line for line in lines if line.startswith("in-a-pod")]
        assert row.split()[:3] == ["in-a-pod", "exp/name-in-a-pod", "stalled"]
        assert lines[lines.index("runs") + 1].split()[:2] == ["run", "name"]
        others = said(url, "show", "ml/tune")
        assert "runs" not in others


def test_a_step_that_was_done_twice(server: str) -> None:
    lines = said(server, "lineage", "base", "--step", "5")
    assert lines[:2] == ["step 5 of 5f3a-base", "  done in attempts 0-1; what counts is attempt 1"]
    ranks = lines[lines.index("ranks") + 2 : lines.index("phases") - 1]
    assert [line.split()[:3] for line in ranks] == [
        ["0", "0", "no,"],
        ["1", "0", "yes"],
        ["0", "1", "no,"],
        ["1", "1", "yes"],
    ]
    assert "GPU-1" in ranks[3]
    assert "forward  400 ms   -" in lines
    first = lines[lines.index("batches") + 2]
    assert first.split() == ["0", "5", "0", "train", "0", "4", "32..35"]
    (one,) = json.loads("\n".join(said(server, "lineage", "base", "--step", "5", "--rank", "1", "--json")))
    assert [(each["rank"], each["attempt"], each["kept"]) for each in one["ranks"]] == [
        (1, 0, False),
        (1, 1, True),
    ]


def test_what_is_inside_a_checkpoint(server: str) -> None:
    lines = said(server, "lineage", "base", "--checkpoint", "8")
    assert lines[0] == "checkpoint of step 8 of 5f3a-base"
    inside = lines.index("inside")
    assert [line.split() for line in lines[inside + 2 : inside + 4]] == [["0", "1..4"], ["1", "5..8"]]
    gone = lines.index("done and thrown away")
    assert lines[gone + 2].split() == ["0", "5..6"]
    assert lines[lines.index("samples") + 2].split() == ["train", "16", "64", "0"]
    assert "doubts" not in lines
    by_path = said(server, "lineage", "base", "--checkpoint", "/ckpt/5f3a-base/8/model.pt")
    assert by_path == lines


def test_every_sample_inside_as_lines(server: str) -> None:
    batches = [json.loads(line) for line in said(server, "lineage", "base", "--checkpoint", "8", "--samples")]
    assert sorted(sample for batch in batches for sample in batch["samples"]) == [*range(64)]
    assert {(batch["attempt"], batch["step"]) for batch in batches} == {
        *((0, step) for step in range(1, 5)),
        *((1, step) for step in range(5, 9)),
    }


def test_who_saw_a_sample(server: str) -> None:
    found = json.loads("\n".join(said(server, "lineage", "base", "--sample", "33", "--json")))
    assert [(one["step"], one["attempt"], one["kept"], one["checkpoints"]) for one in found] == [
        (5, 0, False, []),
        (5, 1, True, [8]),
    ]
    lines = said(server, "lineage", "--sample", "3")
    assert [line.split()[0] for line in lines[1:]] == ["5f3a-base", "5f9c-tuned"]
    nobody = trilens_here("lineage", "--sample", "no/such.jpg", "--server", server)
    assert (nobody.returncode, nobody.stdout) == (0, "")
    assert "no batch with sample no/such.jpg is known" in nobody.stderr


def test_of_several_runs_with_one_name_the_latest_is_shown_and_the_others_are_named() -> None:
    source = some_runs()
    source.facts[:] = [replace(one, name="again") for one in source.facts]
    with running(Api(runs=source).build()) as url:
        for written in ("again", "exp/again"):
            answer = trilens_here("runs", "show", written, "--json", "--server", url)
            assert json.loads(answer.stdout)[0]["run"]["run"] == TUNED
            assert (
                f"the latest called '{written}', {TUNED}; others are {BASE} (exp/again, finished)"
                in answer.stderr
            )
