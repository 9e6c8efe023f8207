"""What is kept in memory of runs is what is on disk, whatever is written meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from run_records import OTHER, RUN, facts, position, process, step
from trilens.model.errors import StoreError
from trilens.model.run import Ending
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import AttemptSpan, LastSteps, Tail
from trilens.store.latest_steps import MOST_LIVES, LatestSteps, time_of
from trilens.store.run_memory import RunMemory
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.model.run import RankProcess, RunId, StepRecord
    from trilens.store.engine import Engine


class Reads:
    """The statements that an engine was asked."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        ask = engine.query_arrow

        def noted(statement: str, **others: Any) -> Any:
            self.asked.append(statement)
            return ask(statement, **others)

        monkeypatch.setattr(engine, "query_arrow", noted)

    def taken(self) -> int:
        count, self.asked = len(self.asked), []
        return count


def span(first: int, last: int) -> AttemptSpan:
    return AttemptSpan(0, 0, first, last, last - first + 1, None, None, 0, 1, first, last)


def test_what_was_read_is_not_read_again_and_what_is_written_is_seen(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = RunRecords(engine)
    records.commit(RunCommit([facts()], [process(1), process(0)], positions=[position(1, span(5, 8))]))
    reads = Reads(engine, monkeypatch)
    assert records.processes([RUN]) == [process(0), process(1)]
    assert (records.spans(RUN), records.first_steps([RUN])) == ([span(5, 8)], {RUN: 5})
    assert reads.taken() == 2
    ended, again = process(1, step=9, ending=Ending.FAILED), process(0, attempt=1)
    records.commit(RunCommit(processes=[ended, again], positions=[position(2, span(5, 8), span(2, 3))]))
    assert records.processes([RUN]) == [process(0), again, ended]
    assert (records.spans(RUN), records.first_steps([RUN])) == ([span(5, 8), span(2, 3)], {RUN: 2})
    assert records.processes([RUN]) == RunRecords(engine).processes([RUN])


def test_what_is_heard_is_shown_and_what_is_written_is_kept(engine: Engine) -> None:
    records = RunRecords(engine)
    records.commit(RunCommit(processes=[process(0), process(1)], positions=[position(0)]))
    assert [one.step for one in records.processes([RUN])] == [None, None]
    heard = process(0, step=3)
    records.heard(heard)
    assert [one.step for one in records.processes([RUN])] == [3, None]
    records.commit(RunCommit(processes=[heard], positions=[position(1)]))
    assert records.heard_lately() == []
    assert [one.step for one in records.processes([RUN])] == [3, None]
    assert records.processes([OTHER]) == []
    other = process(0, run=OTHER)
    records.heard(other)
    assert records.processes([OTHER, RUN]) == [other, heard, process(1)]


def test_what_is_not_written_does_not_count(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(engine)
    records.commit(RunCommit(processes=[process(0)], positions=[position(0)]))
    assert records.processes([RUN]) == [process(0)]

    def fails(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(engine, "insert_arrow", fails)
    with pytest.raises(StoreError):
        records.commit(RunCommit(processes=[process(1)], positions=[position(1)]))
    assert records.processes([RUN]) == [process(0)]


def test_what_expires_is_forgotten(engine: Engine) -> None:
    records = RunRecords(engine)
    records.commit(
        RunCommit([facts()], [process(0, heard_ms=5)], [step(1)], positions=[position(0, span(1, 1))])
    )
    tail = Tail(RUN, 0, 0, 0)
    assert len(records.processes([RUN])) == len(records.spans(RUN)) == len(records.latest([tail])) == 1
    later_ms = 1 << 42
    assert records.delete_expired(later_ms, later_ms) > 0
    assert (records.processes([RUN]), records.spans(RUN), records.latest([tail])) == ([], [], {})


def test_what_expired_before_it_failed_is_forgotten_too(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = RunRecords(engine)
    records.commit(RunCommit([facts()], [process(0, heard_ms=5)], [step(1)], positions=[position(0)]))
    tail, later_ms = Tail(RUN, 0, 0, 0), 1 << 42
    assert len(records.latest([tail])) == 1
    command = engine.command

    def fails(statement: str) -> None:
        if statement.startswith("DELETE"):  # partitions went before
            raise StoreError("the disk is full")
        command(statement)

    monkeypatch.setattr(engine, "command", fails)
    with pytest.raises(StoreError):
        records.delete_expired(later_ms, later_ms)
    assert records.latest([tail]) == {}


def test_the_last_steps_grow_with_what_is_written(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    records = RunRecords(engine)
    told = [step(n, values={"loss": float(n)}) for n in range(5)]
    records.commit(RunCommit(steps=[*told[:3], step(9, rank=1)], positions=[position(0)]))
    tail = Tail(RUN, 0, 0, 1)
    assert records.latest([tail]) == {RUN: LastSteps([*map(time_of, told[1:3])], {"loss": 2.0})}
    reads = Reads(engine, monkeypatch)
    records.commit(RunCommit(steps=[*told[3:], step(9, rank=1, n=10)], positions=[position(1)]))
    reads.taken()
    grown = records.latest([tail])
    assert grown == {RUN: LastSteps([*map(time_of, told[1:])], {"loss": 4.0})}
    assert reads.taken() == 0
    assert records.latest([tail._replace(first_step=4)])[RUN].times == [time_of(told[4])]
    assert records.latest([tail._replace(first_step=0)])[RUN].times == [*map(time_of, told)]
    assert reads.taken() == 2, "what lies before is read"
    back = step(2, n=5, values={"loss": 7.0})
    records.commit(RunCommit(steps=[back], positions=[position(2)]))
    assert records.latest([tail]) == RunRecords(engine).latest([tail])
    assert records.latest([tail])[RUN].values == {"loss": 7.0}, "of the last, though its number is lower"
    assert records.latest([Tail(OTHER, 0, 0, 0)]) == {}


class Disk:
    """Reads what is on it; something may be written while it does."""

    def __init__(self, *written: RankProcess) -> None:
        self.written = [*written]
        self.meanwhile: Callable[[], None] = lambda: None
        self.read = 0

    def __call__(self, runs: Sequence[RunId], _guard: object) -> Iterable[RankProcess]:
        self.read += 1
        found = [one for one in self.written if one.run in runs]
        self.meanwhile()
        return found


def test_what_is_written_while_it_is_read_is_not_lost() -> None:
    disk = Disk(process(0))
    memory = RunMemory(disk, 100)
    disk.meanwhile = lambda: memory.put([process(0, step=7), process(1)])
    assert memory.of([RUN]) == memory.of([RUN]) == [process(0, step=7), process(1)]
    assert disk.read == 1


def test_what_is_forgotten_while_it_is_read_is_read_again() -> None:
    disk = Disk(process(0))
    memory = RunMemory(disk, 100)
    disk.meanwhile = memory.forget
    assert memory.of([RUN]) == memory.of([RUN]) == [process(0)]
    assert disk.read == 2


def test_a_read_that_fails_leaves_nothing() -> None:
    disk = Disk(process(0))
    memory = RunMemory(disk, 100)

    def fails() -> None:
        raise StoreError("no")

    disk.meanwhile = fails
    with pytest.raises(StoreError):
        memory.of([RUN])
    disk.meanwhile = lambda: None
    memory.put([process(5)])
    assert memory.of([RUN]) == [process(0)]


def test_those_asked_for_last_are_kept() -> None:
    disk = Disk(process(0), process(1), process(0, run=OTHER))
    memory = RunMemory(disk, 2)
    memory.of([OTHER])
    memory.of([RUN])
    assert memory.of([OTHER, RUN]) == [process(0, run=OTHER), process(0), process(1)]
    assert disk.read == 3
    memory.of([OTHER])
    assert disk.read == 3


def test_steps_written_while_they_are_read_come_once() -> None:
    told = [step(n) for n in range(3)]

    def read(_wanted: object, _guard: object) -> dict[RunId, LastSteps]:
        known = [time_of(one) for one in told[:2]]
        steps.put([told[1], told[2]])  # of which the first was on disk when it was read
        return {RUN: LastSteps(known, {})}

    steps = LatestSteps(read)
    tail = Tail(RUN, 0, 0, 0)
    assert steps.of([tail]) == steps.of([tail]) == {RUN: LastSteps([*map(time_of, told)], {})}


def test_steps_that_nobody_asks_for_any_more_go() -> None:
    told: list[StepRecord] = [step(n) for n in range(1_500)]
    steps = LatestSteps(lambda *_: {RUN: LastSteps([time_of(told[0])], {})})
    steps.of([Tail(RUN, 0, 0, 0)])
    steps.put(told[1:])
    tail = Tail(RUN, 0, 0, 1_490)
    assert len(steps.of([tail])[RUN].times) == 10
    assert len(steps._lives[RUN, 0, 0].times) == 10


def test_steps_of_a_life_that_nobody_asks_for_do_not_pile_up() -> None:
    told: list[StepRecord] = [step(n) for n in range(3_000)]
    reads: list[int] = []

    def read(wanted: Sequence[Tail], _guard: object) -> dict[RunId, LastSteps]:
        reads.append(wanted[0].first_step)
        first = wanted[0].first_step
        return {RUN: LastSteps([time_of(one) for one in told[first : first + 10]], {})}

    steps = LatestSteps(read)
    steps.of([Tail(RUN, 0, 0, 0)])
    for n in range(1, 3_000):
        steps.put([told[n]])
    assert steps._lives == {}
    assert steps.of([Tail(RUN, 0, 0, 2_490)])[RUN].times == [*map(time_of, told[2_490:2_500])]
    assert reads == [0, 2_490], "who asks again has it read"


def test_lives_asked_for_last_are_kept() -> None:
    reads: list[int] = []

    def read(wanted: Sequence[Tail], _guard: object) -> dict[RunId, LastSteps]:
        reads.extend(tail.rank for tail in wanted)
        return {}

    steps = LatestSteps(read)
    for rank in (*range(MOST_LIVES), 0, MOST_LIVES, 0, 1):
        steps.of([Tail(RUN, rank, 0, 0)])
    assert reads == [*range(MOST_LIVES), MOST_LIVES, 1]
