"""Steps go before the rest of a run, and a run that is over long ago goes whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizes import on_every_engine

from run_records import OTHER, RUN, batch, facts, position, process, step
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import Portion
from trilens.store.run_expiry import delete_expired_runs
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    import pytest

    from trilens.store.engine import Engine

DAY_MS = 86_400_000
NOW_MS = 1_768_392_000_000


def told(records: RunRecords, monkeypatch: pytest.MonkeyPatch, days_ago: int, number: int) -> None:
    """By then, of one run that lasts and of one that was there only then."""
    at_ms = NOW_MS - days_ago * DAY_MS
    monkeypatch.setattr("trilens.store.run_commits.time.time_ns", lambda: at_ms * 1_000_000)
    run = OTHER if number == 0 else RUN
    records.commit(
        RunCommit(
            facts=[facts(run)],
            processes=[process(run=run, heard_ms=at_ms), process(heard_ms=at_ms)],
            steps=[step(number, run=run, values={"loss": 1.0}), step(number, values={"loss": 1.0})],
            batches=[batch(number, dataset="d", size=1, ids=(5,))],
            positions=[position(number, run=run), position(number)],
        )
    )


@on_every_engine
def test_what_is_old_goes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(engine)
    told(records, monkeypatch, 500, 0)
    told(records, monkeypatch, 100, 1)
    told(records, monkeypatch, 1, 2)
    before_ms, steps_before_ms = NOW_MS - 400 * DAY_MS, NOW_MS - 90 * DAY_MS
    assert delete_expired_runs(engine, before_ms, steps_before_ms) > 0
    assert {at.step for at in records.steps(RUN, 0, 9)} == {2}
    assert [seen.step for seen in records.sightings(5)] == [2]
    assert [point.step for point in records.curve(RUN, "loss", 0, 9)] == [1, 2]
    assert [share.batches for share in records.shares(RUN, [Portion(0, 0, 9)])] == [2]
    assert [known.run for known in records.runs()] == [RUN]
    assert records.processes([OTHER]) == records.positions(OTHER) == []
    assert [at.seq for at in records.positions(RUN)] == [2]
    assert delete_expired_runs(engine, before_ms, steps_before_ms) == 0
