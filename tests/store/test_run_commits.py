"""A group of records is on disk whole or not at all, whatever interrupts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sizes import alone_and_on_a_cluster, on_every_engine

from run_records import RUN, batch, position, step
from trilens.model.errors import StoreError, StoreReadOnly
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import Portion
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.migrations import migrate
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

GROUP = RunCommit(
    steps=[step(n, values={"loss": 2.0}) for n in range(3)],
    batches=[batch(n, dataset="d", size=1, ids=(n,)) for n in range(3)],
    positions=[position(0)],
)
NEXT = RunCommit(steps=[step(3, values={"loss": 2.0})], positions=[position(1)])


def fail_at(engine: Engine, monkeypatch: pytest.MonkeyPatch, table: str, *, after: bool = False) -> None:
    """Inserts into this table fail: before anything is written, or so that only the answer is lost."""
    insert = engine.insert_arrow

    def failing(name: str, rows: pa.Table) -> None:
        if name == table and not after:
            raise StoreReadOnly("no space left on disk")
        insert(name, rows)
        if name == table:
            raise StoreError("the connection was cut")

    monkeypatch.setattr(engine, "insert_arrow", failing)


def seen(records: RunRecords) -> tuple[int, int, int, int, int]:
    (share,) = records.shares(RUN, [Portion(0, 0, 99)])
    curve = records.curve(RUN, "loss", 0, 99)
    assert {point.mean for point in curve} == {2.0}
    steps, batches = records.steps(RUN, 0, 99), records.batches(RUN, 0, 99)
    return len(steps), len(batches), len(records.sightings(1)), share.samples, len(curve)


@pytest.mark.parametrize("table", ["run_curves", "run_samples", "run_positions"])
@alone_and_on_a_cluster
def test_a_crash_in_the_middle(engine: Engine, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    records = RunRecords(engine)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, table)
        with pytest.raises(StoreReadOnly):
            records.commit(GROUP)
    restarted = RunRecords(engine)
    assert restarted.steps(RUN, 0, 99) == []
    assert restarted.positions(RUN) == []
    restarted.commit(GROUP)
    assert seen(restarted) == (3, 3, 1, 3, 3)


@on_every_engine
def test_an_error_in_the_middle_is_undone_before_the_next_group(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = RunRecords(engine)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "run_positions")
        for _ in range(2):
            with pytest.raises(StoreReadOnly):
                records.commit(GROUP)
    records.commit(GROUP)
    records.commit(NEXT)
    assert seen(records) == (4, 3, 1, 3, 4)
    assert seen(RunRecords(engine)) == (4, 3, 1, 3, 4)


@alone_and_on_a_cluster
def test_rows_of_several_groups_are_never_taken_for_an_interrupted_one(engine: Engine) -> None:
    """The table of positions may be the one that was damaged."""
    records = RunRecords(engine)
    records.commit(GROUP)
    records.commit(NEXT)
    engine.command("TRUNCATE TABLE run_positions")
    again = RunRecords(engine)
    assert seen(again) == (4, 3, 1, 3, 4)
    again.commit(RunCommit(steps=[step(4, values={"loss": 2.0})], positions=[position(2)]))
    assert seen(RunRecords(engine)) == (5, 3, 1, 3, 5)


@alone_and_on_a_cluster
def test_an_answer_that_was_lost_is_no_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(engine)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "run_positions", after=True)
        records.commit(GROUP)
    records.commit(NEXT)
    assert seen(records) == (4, 3, 1, 3, 4)


MORE = RunCommit(steps=NEXT.steps, positions=NEXT.positions, before=GROUP.positions)


def commit_in_vain(records: RunRecords, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is written, and nobody hears of it."""
    with monkeypatch.context() as patch:

        def cut(*_: object, **__: object) -> None:
            raise StoreError("the connection was cut")

        fail_at(engine, patch, "run_positions", after=True)
        patch.setattr(engine, "query_arrow", cut)
        with pytest.raises(StoreError):
            records.commit(MORE)


@alone_and_on_a_cluster
def test_a_group_of_which_nobody_heard_may_be_sent_again_after_a_kill(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its positions were there, and its records deleted: its writers would be told that all is there."""
    records = RunRecords(engine)
    records.commit(GROUP)
    commit_in_vain(records, engine, monkeypatch)
    records._commits._undo_failed()  # before the next group, and then the process is killed
    restarted = RunRecords(engine)
    assert restarted.positions(RUN) == GROUP.positions
    restarted.commit(MORE)
    assert seen(restarted) == (4, 3, 1, 3, 4)


@pytest.mark.parametrize("killed_at", ["run_positions", "DELETE"])
@alone_and_on_a_cluster
def test_a_kill_while_a_group_is_undone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """Whatever the writers are told then, each record is there once."""
    records = RunRecords(engine)
    records.commit(GROUP)
    commit_in_vain(records, engine, monkeypatch)
    with monkeypatch.context() as patch:
        if killed_at == "DELETE":
            patch.setattr(engine, "command", lambda _: (_ for _ in ()).throw(StoreError("killed")))
        else:
            fail_at(engine, patch, killed_at)
        with pytest.raises(StoreError):
            records._commits._undo_failed()
    restarted = RunRecords(engine)
    if restarted.positions(RUN) == GROUP.positions:
        restarted.commit(MORE)
    assert restarted.positions(RUN) == NEXT.positions
    assert seen(restarted) == (4, 3, 1, 3, 4)


@alone_and_on_a_cluster
def test_what_arrives_after_it_was_given_up_does_not_count(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, late = RunRecords(engine), []
    insert = engine.insert_arrow
    with monkeypatch.context() as patch:

        def slow(name: str, rows: pa.Table) -> None:
            if name == "run_steps":
                late.append(rows)
                raise StoreError("no answer")
            insert(name, rows)

        patch.setattr(engine, "insert_arrow", slow)
        with pytest.raises(StoreError):
            records.commit(GROUP)
    monkeypatch.setattr("trilens.store.run_commits._LOOK_S", 0.0)
    records.commit(GROUP)
    engine.insert_arrow("run_steps", late[0])
    records.commit(MORE)
    assert seen(records) == (4, 3, 1, 3, 4)
    commits = records._commits
    commits._given_up = [one._replace(until_s=0.0) for one in commits._given_up]
    engine.insert_arrow("run_steps", late[0])
    records.delete_late()  # the last look, and no group after it
    assert (seen(records), commits._given_up) == ((4, 3, 1, 3, 4), [])


def test_what_a_server_that_worked_before_had_on_its_way_does_not_count(
    location: str | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[tuple[str, pa.Table]] = []
    with Engine.open(location, EngineOptions(may_write=lambda: True)) as engine:
        migrate(engine)
        deposed = RunRecords(engine)
        deposed.commit(GROUP)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "insert_arrow", lambda name, rows: late.append((name, rows)))
            deposed.commit(MORE)
        records = RunRecords(engine)
        for name, rows in late:
            engine.insert_arrow(name, rows)
        records.commit(MORE)
        assert seen(records) == (4, 3, 1, 3, 4)
        assert seen(RunRecords(engine)) == (4, 3, 1, 3, 4)


@alone_and_on_a_cluster
def test_a_clock_that_was_set_back_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(engine)
    records.commit(GROUP)
    monkeypatch.setattr("trilens.store.run_commits.time.time_ns", lambda: 1_000_000)
    records.commit(NEXT)
    again = RunRecords(engine)
    assert [at.seq for at in again.positions(RUN)] == [1]
    assert seen(again) == (4, 3, 1, 3, 4)
