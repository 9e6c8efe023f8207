"""A run's course, read at once: the same as by the engine's own sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from run_records import OTHER, RUN, position, process, step
from trilens.model.run_commit import RunCommit
from trilens.store.runs import RunRecords
from trilens.store.step_grids import RunCourse, StepGrids

if TYPE_CHECKING:
    from trilens.store.engine import Engine

SECOND_US = 1_000_000


@pytest.fixture
def grids(engine: Engine) -> StepGrids:
    """Half a second a step, of two ranks that come in two groups; step 3 was done again."""
    records = RunRecords(engine)
    for rank in (0, 1):
        steps = [step(n, rank, values={"lr": 0.1, "loss": float(n + rank)}) for n in range(8)]
        again = step(3, rank, 1, n=8, start_us=4 * SECOND_US, values={"loss": math.nan if rank else 2.0})
        late = step(99, rank, values={"loss": 1.0}, start_us=99 * SECOND_US)
        records.commit(RunCommit(steps=[*steps, again, late], positions=[position(rank, rank=rank)]))
    records.commit(RunCommit(steps=[step(1, run=OTHER)], positions=[position(0, run=OTHER)]))
    return StepGrids(engine)


def shown(course: RunCourse) -> tuple[object, ...]:
    values = [
        (one.name, one.slot.tolist(), np.round(one.mean, 9).tolist(), one.step.tolist(), one.odd.tolist())
        for one in course.values
    ]
    times = course.times
    return values, times.step.tolist(), times.attempt.tolist(), times.t_us.tolist()


def test_it_is_what_the_engine_adds_up(grids: StepGrids, monkeypatch: pytest.MonkeyPatch) -> None:
    span = (SECOND_US, SECOND_US, 4)  # from the second on, four slots of one
    values = grids.values(RUN, *span)
    assert [one.name for one in values] == ["loss", "lr"]
    added_up = RunCourse(values, grids.times(RUN, "loss", SECOND_US, 5 * SECOND_US))
    read = grids.course(RUN, *span)
    assert shown(read) == shown(added_up)
    loss = read.values[0]
    assert (loss.slot.tolist(), loss.odd.tolist()) == ([0, 1, 2, 3], [0, 0, 0, 1])
    assert read.times.step.tolist() == [2, 3, 4, 5, 6, 7, 3]
    monkeypatch.setattr("trilens.store.step_grids._ROWS_READ", 3)
    assert shown(grids.course(RUN, *span)) == shown(added_up), "of more rows than are read"


def test_its_steps_are_those_of_the_value_that_is_told_most(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seldom = [{"accuracy": 0.5} if n % 4 == 0 else {} for n in range(8)]
    steps = [step(n, values={"loss": 1.0, **seldom[n]}) for n in range(8)]
    RunRecords(engine).commit(RunCommit(steps=steps, positions=[position(0)]))
    grids = StepGrids(engine)
    for _ in range(2):
        found = grids.course(RUN, 0, 9 * SECOND_US, 1)
        assert [one.name for one in found.values] == ["loss", "accuracy"]
        assert found.times.step.tolist() == [*range(8)]
        monkeypatch.setattr("trilens.store.step_grids._ROWS_READ", 3)  # now the engine adds up


def test_a_run_that_tells_of_no_value_has_its_steps(grids: StepGrids) -> None:
    found = grids.course(OTHER, 0, SECOND_US, 2)
    assert (found.values, found.times.step.tolist()) == ([], [1])
    assert not len(grids.course(OTHER, 9 * SECOND_US, SECOND_US, 2).times)


def test_runs_are_found_by_a_pods_uid_or_its_name(engine: Engine) -> None:
    records, grids = RunRecords(engine), StepGrids(engine)
    named = process(0, namespace="ml", pod="a", pod_uid="u1", heard_ms=5)
    nameless = process(0, run=OTHER, namespace="ml", pod="b", heard_ms=6)
    records.commit(RunCommit(processes=[named, nameless], positions=[position(0)]))
    assert [one.run for one in grids.runs_of_pods("lab", [("ml", "a", "u1")], 0, 9_000)] == [RUN]
    assert [one.run for one in grids.runs_of_pods("lab", [("ml", "a", "u2")], 0, 9_000)] == []
    assert [one.run for one in grids.runs_of_pods("lab", [("ml", "b", "u2")], 0, 9_000)] == [OTHER]
    assert grids.runs_of_pods("lab", [("ml", "b", "u2")], 2_000, 9_000) == []


def test_runs_of_another_cluster_are_not_found_by_a_pod_of_this_one(engine: Engine) -> None:
    records, grids = RunRecords(engine), StepGrids(engine)
    told = process(0, namespace="ml", pod="a", pod_uid="u1", heard_ms=5, cluster="west")
    records.commit(RunCommit(processes=[told], positions=[position(0)]))
    assert grids.runs_of_pods("lab", [("ml", "a", "u1")], 0, 9_000) == []
    assert [one.run for one in grids.runs_of_pods("west", [("ml", "a", "u1")], 0, 9_000)] == [RUN]
