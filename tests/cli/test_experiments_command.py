"""`trilens experiments` of a sweep, and costs per unit of its runs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from command_here import trilens_here
from ledger_nights import holder, hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from memory_runs import MemoryRuns
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.run import Ending, RankProcess, RunFacts, RunId, StepRecord, ValidationRecord, WriterId

if TYPE_CHECKING:
    from collections.abc import Iterator

HOURS = 9
BEGIN_MS = (time.time_ns() // 1_000_000 // HOUR_MS - HOURS - 1) * HOUR_MS
LOSSES = {
    "run-1": (8, [2.0, 1.5, 1.2, 1.1, 1.095, 1.094, 1.093, 1.0935, 1.0931]),
    "run-2": (16, [2.0, 1.8, 1.6, 1.4, 1.2, 1.1, 1.05, 1.0, 0.95]),
    "run-3": (16, [2.1, 1.9, 1.8, 1.7, 1.65, 1.6, 1.5, 1.45, 1.4]),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Three runs of nine hours, each validated at the end of each; then an hour of nothing."""
    runs = MemoryRuns()
    end_ms = BEGIN_MS + HOURS * HOUR_MS
    for name, (_, losses) in LOSSES.items():
        run = RunId(name)
        runs.facts.append(RunFacts(run, BEGIN_MS, "sweep", f"lr-{name}"))
        runs.told_processes.append(
            RankProcess(
                run,
                0,
                WriterId(name),
                BEGIN_MS,
                gpus=("GPU-1",),
                heard_ms=end_ms,
                ended_ms=end_ms,
                ending=Ending.FINISHED,
            )
        )
        runs.told_validations += [
            ValidationRecord(
                run, 100 * (at + 1), 0, 0, at, BEGIN_MS + (at + 1) * HOUR_MS, None, {"loss": loss}
            )
            for at, loss in enumerate(losses)
        ]
    for name, experiment in (("mixed-a", "mixed"), ("mixed-b", "mixed"), ("steps-a", "steps")):
        run = RunId(name)
        runs.facts.append(RunFacts(run, BEGIN_MS - 1, experiment, name))
        runs.told_processes.append(RankProcess(run, 0, WriterId(name), BEGIN_MS - 1, heard_ms=end_ms, step=9))
        runs.told_steps += [
            StepRecord(run, step, 0, 0, step, (BEGIN_MS + step) * 1000, 1_000, values={"loss": 9.0 - step})
            for step in range(10)
        ]
    runs.told_validations.append(
        ValidationRecord(RunId("mixed-a"), 5, 0, 0, 0, BEGIN_MS, None, {"loss": 3.0})
    )
    hours = [
        hour(
            at_ms,
            *(
                row(at_ms, holder(f"job-{name}", "research", name, "sweep"), Bucket.PRODUCTIVE, gpus=gpus)
                for name, (gpus, _) in LOSSES.items()
                if at_ms < end_ms
            ),
        )
        for at_ms in range(BEGIN_MS, end_ms + HOUR_MS, HOUR_MS)
    ]
    with running(Api(book=MemoryBook(*hours), runs=runs).build()) as url:
        yield url


def said(server: str, *arguments: str) -> list[str]:
    answer = trilens_here(*arguments, "--server", server)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def test_the_runs_of_an_experiment(server: str) -> None:
    lines = said(server, "experiments", "sweep")
    assert [line.rpartition("  ")[0].rstrip() for line in lines[:4]] == [
        "run       name      from  state     step  last loss  best          gpu-hours  cost     bus"
        "y  goodput",
        "run-1  *  lr-run-1  sdk   finished  -     1.093      1.093 at 700  72.00      $288.00  -     100 %",
        "run-2  *  lr-run-2  sdk   finished  -     0.95       0.95 at 900   144.00     $576.00  -     100 %",
        "run-3     lr-run-3  sdk   finished  -     1.4        1.4 at 900    144.00     $576.00  -     100 %",
    ]
    assert lines[5] == (
        "* no other run is as good and as cheap: cost against best loss (of its validations, less is better)"
    )
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime((BEGIN_MS + 4 * HOUR_MS) / 1000))
    assert lines[7:] == [
        f"run-1 had stopped improving at step 400 ({when} UTC, loss 1.1): no value after it was better by "
        "more than 1 %; $160.00 and 40.0 GPU-hours were spent after that (56 % of it all)"
    ]


def test_the_course_of_each_run_against_what_it_had_cost(server: str) -> None:
    told = httpx.get(f"{server}/api/experiments/courses", params={"experiment": "sweep"}).json()["data"]
    assert (told["metric"], told["of"], told["maximize"]) == ("loss", "validation", False)
    assert (told["names"], told["currency"]) == (["loss"], "USD")
    first = {one["run"]: one for one in told["runs"]}["run-1"]
    assert first["values"] == LOSSES["run-1"][1]
    assert first["steps"][-1] == 900
    assert first["spent"] == pytest.approx([32 * hours for hours in range(1, HOURS + 1)])  # 8 GPUs at $4
    assert first["gpu_hours"][-1] == pytest.approx(72)


def test_a_course_without_money_has_its_steps(server: str) -> None:
    told = httpx.get(f"{server}/api/experiments/courses", params={"experiment": "steps"}).json()["data"]
    (course,) = told["runs"]
    assert (told["of"], told["currency"], course["spent"]) == ("step", None, [])
    assert course["values"] == [9.0 - step for step in range(10)]
    other = httpx.get(f"{server}/api/experiments/courses", params={"experiment": "nobody's"}).json()["data"]
    assert (other["metric"], other["runs"]) == (None, [])


def test_runs_without_a_cost_are_compared_by_their_gpu_hours() -> None:
    """One had begun before the ledger, and is better than the other in both."""
    runs, end_ms = MemoryRuns(), BEGIN_MS + HOUR_MS
    for name, began_ms, loss in (("before", BEGIN_MS - HOUR_MS, 1.0), ("within", BEGIN_MS, 3.0)):
        run = RunId(name)
        runs.facts.append(RunFacts(run, began_ms, "late", name))
        runs.told_processes.append(
            RankProcess(
                run, 0, WriterId(name), began_ms, gpus=(f"GPU-{name}",), heard_ms=end_ms, ended_ms=end_ms
            )
        )
        runs.told_validations.append(ValidationRecord(run, 5, 0, 0, 0, end_ms, None, {"loss": loss}))
    rows = [
        row(BEGIN_MS, holder("a", "x", name), Bucket.PRODUCTIVE, gpus=gpus)
        for name, gpus in (("before", 1), ("within", 4))
    ]
    with running(Api(book=MemoryBook(hour(BEGIN_MS, *rows)), runs=runs).build()) as url:
        lines = said(url, "experiments", "late")
    assert {line.split()[0]: "*" in line for line in lines[1:3]} == {"before": True, "within": False}
    assert "as cheap: GPU-hours against best loss" in lines[-1]


def test_the_other_way_round_the_worst_is_the_best(server: str) -> None:
    found = json.loads(said(server, "experiments", "sweep", "--maximize", "--json")[0])
    runs = {run["run"]: run for run in found[0]["runs"]}
    assert {name: run["metric"]["best"] for name, run in runs.items()} == {
        "run-1": 2.0,
        "run-2": 2.0,
        "run-3": 2.1,
    }
    assert {name for name, run in runs.items() if run["on_front"]} == {"run-1", "run-3"}


def test_a_smaller_gain_counts(server: str) -> None:
    found = json.loads(said(server, "experiments", "sweep", "--least-gain", "0.0001", "--json")[0])
    stopped = {run["run"]: run["stopped"] for run in found[0]["runs"]}
    assert stopped["run-1"] is None, "only two values came after the last that was better"


def test_a_metric_that_nobody_told(server: str) -> None:
    found = json.loads(said(server, "experiments", "sweep", "--metric", "f1", "--json")[0])
    assert [run["metric"] for run in found[0]["runs"]] == [None] * 3
    warned = trilens_here("experiments", "steps", "--metric", "f1", "--server", server)
    assert warned.stderr == "warning: no run of steps told of f1; their last values are of loss\n"


def test_values_of_steps_and_of_validations_are_not_compared(server: str) -> None:
    mixed, steps = (
        json.loads(said(server, "experiments", name, "--json")[0])[0]["runs"] for name in ("mixed", "steps")
    )
    told = {run["run"]: run["metric"] and (run["metric"]["of"], run["metric"]["best"]) for run in mixed}
    assert told == {"mixed-a": ("validation", 3.0), "mixed-b": None}
    assert [(run["metric"]["of"], run["metric"]["best"]) for run in steps] == [("step", 0.0)]
    assert [run["cost"] for run in steps] == [None], "its first hour is not booked"


def test_all_experiments(server: str) -> None:
    lines = said(server, "experiments")
    assert lines[1].split()[:6] == ["sweep", "3", "0", "sdk", "360.00", "$1,440.00"]


def test_a_percent_of_improvement(server: str) -> None:
    lines = said(server, "cost", "--per", "improvement", "--from", "-20h")
    assert [line.split() for line in lines[3:]] == [
        ["run-2", "lr-run-2", "52.5", "$576.00", "144.0", "$10.97", "loss", "2", "->", "0.95"],
        ["run-3", "lr-run-3", "33.3333", "$576.00", "144.0", "$17.28", "loss", "2.1", "->", "1.4"],
        ["run-1", "lr-run-1", "45.35", "$288.00", "72.0", "$6.35", "loss", "2", "->", "1.093"],
    ]


@pytest.mark.parametrize(("arguments", "code"), [(["--least-gain", "2"], 2), (["unknown"], 1)], ids=str)
def test_bad_questions(server: str, arguments: list[str], code: int) -> None:
    assert trilens_here("experiments", *arguments, "--server", server).returncode == code
