"""Steps as they come in, by this server's clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenes import START_MS
from trilens.detect.records import RankRecords
from trilens.model.run import Ending, NoteRecord, RankProcess, RunFacts, RunId, StepRecord, WriterId
from trilens.model.run_commit import RunCommit

RUN = RunId("r")


def _step(
    n: int, end_ms: int, rank: int = 0, ms: int = 1000, attempt: int = 0, **values: float
) -> StepRecord:
    phases = {"data": 100_000, "grad_sync": 150_000, "barrier": 50_000, "forward": 300_000}
    start_us = (end_ms - ms) * 1000
    return StepRecord(RUN, n, rank, 0, n, start_us, ms * 1000, phases, values=values)


def _process(rank: int = 0, heard_ms: int = START_MS, **changes: object) -> RankProcess:
    process = RankProcess(RUN, rank, WriterId(f"{rank:032x}"), START_MS, heard_ms=heard_ms)
    return replace(process, **changes)


def _told(records: RankRecords, count: int, shift_ms: int = 0, rank: int = 0, late_ms: int = 300) -> None:
    for n in range(count):
        end_ms = START_MS + 1000 * (n + 1)
        records.take(RunCommit(steps=[_step(n, end_ms + shift_ms, rank)]), end_ms + late_ms)


def test_steps_come_as_columns_in_their_order() -> None:
    records = RankRecords()
    records.take(RunCommit(facts=[RunFacts(RUN, START_MS, total_steps=9)]), START_MS)
    steps = [_step(0, START_MS + 1000, loss=2.5, grad_norm=1.0), _step(1, START_MS + 2000, train_loss=2.0)]
    records.take(RunCommit(steps=steps), START_MS + 2000)
    (view,) = records.processes([_process(heard_ms=START_MS + 2000)], START_MS + 2500)[RUN]
    assert view.steps.step.tolist() == [0, 1]
    assert view.steps.end_ms.tolist() == [START_MS + 1000, START_MS + 2000]
    assert view.steps.ms.tolist() == [1000, 1000]
    assert view.steps.data_ms.tolist() == [100, 100]
    assert view.steps.sync_ms.tolist() == [200, 200]
    assert view.steps.loss.tolist() == [2.5, 2.0]
    assert view.steps.grad_norm[0] == 1.0
    assert np.isnan(view.steps.grad_norm[1])
    assert view.heard_ms == START_MS + 2000
    facts = records.facts(RUN)
    assert facts is not None
    assert facts.total_steps == 9


@pytest.mark.parametrize("shift_ms", [-3_600_000, 0, 90_000])
def test_a_programs_clock_is_moved_to_this_servers(shift_ms: int) -> None:
    records = RankRecords()
    _told(records, 20, shift_ms)
    late = _step(20, START_MS + 21_000 + shift_ms)
    records.take(RunCommit(steps=[late]), START_MS + 40_000)  # one batch that was long on its way
    (view,) = records.processes([_process()], START_MS + 40_000)[RUN]
    assert np.abs(view.steps.end_ms[-1] - (START_MS + 21_000)) <= 300


def test_records_that_waited_somewhere_look_as_if_made_when_they_came() -> None:
    records = RankRecords()
    for n in range(20):  # of an hour, all at once
        records.take(RunCommit(steps=[_step(n, START_MS + 180_000 * n)]), START_MS + 3_600_000 + 100 * n)
        now_ms = START_MS + 3_600_000 + 100 * n
        (view,) = records.processes([_process()], now_ms)[RUN]
        assert view.steps.end_ms[-1] == now_ms


def test_a_heartbeat_tells_when_steps_that_waited_were_made() -> None:
    """A job that hung while nobody listened has done so since its last step."""
    records = RankRecords()
    back_ms = START_MS + 600_000
    steps = [_step(n, START_MS + 1000 * n) for n in range(20)]
    records.take(RunCommit(steps=steps), back_ms)
    alive = _process(heard_ms=back_ms, told_ms=back_ms - 200, step=19)
    (view,) = records.processes([alive], back_ms)[RUN]
    assert view.steps.end_ms[-1] == START_MS + 19_200
    further = replace(alive, step=400)  # and more steps are on their way
    (view,) = records.processes([further], back_ms)[RUN]
    assert view.steps.end_ms[-1] == back_ms


def test_only_the_last_steps_are_kept_and_what_was_seen_does_not_change() -> None:
    records = RankRecords()
    _told(records, 600)
    (before,) = records.processes([_process()], START_MS)[RUN]
    held = before.steps.step.copy()
    assert held.tolist() == list(range(88, 600))
    for n in range(600, 1500):
        records.take(RunCommit(steps=[_step(n, START_MS + 1000 * n)]), START_MS + 1000 * n)
    assert before.steps.step.tolist() == held.tolist()
    (after,) = records.processes([_process()], START_MS)[RUN]
    assert after.steps.step.tolist() == list(range(988, 1500))


def test_the_latest_life_of_each_rank_is_shown_in_order() -> None:
    records = RankRecords()
    _told(records, 3, rank=1)
    lives = [
        _process(1, attempt=1, writer=WriterId("f" * 32)),
        _process(1, ending=Ending.FAILED),
        _process(0),
    ]
    views = records.processes(lives, START_MS, lambda process: 10 + process.rank)[RUN]
    assert [(view.rank, view.row) for view in views] == [(0, 10), (1, 11)]
    assert views[1].process is not None
    assert views[1].process.ending is None
    assert len(views[1].steps) == 0  # those were of its first life


def test_what_a_rank_does_has_its_beginning() -> None:
    records = RankRecords()
    at = START_MS
    for heard_ms, phase, since in ((at, "data", at), (at + 2000, "data", at), (at + 4000, None, None)):
        (view,) = records.processes([_process(heard_ms=heard_ms, phase=phase)], heard_ms)[RUN]
        assert (view.doing, view.doing_since_ms) == (phase, since)
    ended = _process(heard_ms=at, phase="data", ending=Ending.LOST)
    (view,) = records.processes([ended], at + 9000)[RUN]
    assert view.doing is None


def test_notes_are_shown_for_some_minutes() -> None:
    records = RankRecords()
    note = NoteRecord(RUN, 0, 0, 0, START_MS, "frozen", "locked")
    records.take(RunCommit(notes=[note]), START_MS)
    assert records.processes([_process()], START_MS + 1000)[RUN][0].notes == (note,)
    assert records.processes([_process()], START_MS + 601_000)[RUN][0].notes == ()


def test_a_run_that_nobody_asks_for_is_forgotten() -> None:
    records = RankRecords()
    records.take(RunCommit(facts=[RunFacts(RUN, START_MS)]), START_MS)
    _told(records, 3)
    assert records.processes([], START_MS + 3_600_000) == {}
    assert records.facts(RUN) is None
    assert len(records.processes([_process()], START_MS + 3_600_000)[RUN][0].steps) == 0
