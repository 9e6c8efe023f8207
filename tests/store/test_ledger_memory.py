"""What was asked of the ledger is not read again until hours are others; and then it is."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from ledger_books import TUNING, bill, emptied, hour, hour_ms, row

from trilens.model.ledger import FLEET, HOUR_MS, Bucket, NodeBill
from trilens.model.ledger_sums import Dimension, Sum, Window
from trilens.store import ledger_memory
from trilens.store.ledger import Ledger

if TYPE_CHECKING:
    import pyarrow as pa

    from trilens.store.engine import Engine

WINDOW = Window(hour_ms(0), hour_ms(6))
BY = (Dimension.TEAM, Dimension.BUCKET)


class Reads:
    """The statements that the engine was asked since `begin`."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._told: list[str] = []
        asked = engine.query_arrow

        def query_arrow(statement: str, **others: Any) -> pa.Table:
            self._told.append(statement)
            return asked(statement, **others)

        monkeypatch.setattr(engine, "query_arrow", query_arrow)

    def begin(self) -> None:
        self._told.clear()

    @property
    def told(self) -> list[str]:
        return self._told


@pytest.fixture
def reads(tables: Engine, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(emptied(tables), monkeypatch)


@pytest.fixture
def ledger(tables: Engine, reads: Reads) -> Ledger:
    """Hours 3 and 4 are over, hour 5 is open."""
    found = Ledger(tables)
    found.write_all([hour(at, row(at), row(at, FLEET), bills=[bill(at)]) for at in (3, 4)])
    found.write(open_hour(5))
    reads.begin()
    return found


def open_hour(quanta: int, upto: float = 0.5) -> Any:
    return hour(5, row(5, quanta=quanta), row(5, TUNING, quanta=quanta), bills=[bill(5)], upto=upto)


def amounts(ledger: Ledger) -> dict[object, int]:
    return {one.keys: one.quanta for one in ledger.sums(BY, WINDOW)}


def test_what_was_found_is_not_read_again(ledger: Ledger, reads: Reads) -> None:
    questions = (
        lambda: ledger.sums(BY, WINDOW),
        lambda: ledger.sums(BY, Window(hour_ms(3), hour_ms(6), {Dimension.TEAM: ("nlp", None)})),
        lambda: ledger.episodes(WINDOW),
        lambda: ledger.bills(hour_ms(3), hour_ms(6)),
        lambda: ledger.billed_hours("lab", hour_ms(3), hour_ms(6)),
        lambda: ledger.hours(hour_ms(0), hour_ms(6)),
    )
    for ask in questions:
        first = ask()
        assert first
        reads.begin()
        assert ask() == first
        assert reads.told == []


def test_of_a_window_with_the_open_hour_only_that_is_read_once_more(ledger: Ledger, reads: Reads) -> None:
    assert amounts(ledger) == {
        ("vision", "productive"): 15,
        ("nlp", "productive"): 5,
        (None, "unallocated"): 10,
    }
    ledger.write(open_hour(7, upto=0.6))
    reads.begin()
    assert amounts(ledger)["vision", "productive"] == 17
    (statement,) = reads.told
    assert f"hour_ms >= {hour_ms(5)}" in statement
    assert str(hour_ms(0)) not in statement


def test_of_the_open_hour_one_read_answers_whatever_is_asked(
    ledger: Ledger, reads: Reads, tables: Engine
) -> None:
    rows = [row(5), row(5, FLEET), row(5, TUNING, quanta=None, currency=""), row(5, quanta=9, node="n2")]
    ledger.write(hour(5, *rows, upto=0.6))
    now = Window(hour_ms(5), hour_ms(6))
    asked = [
        ((Dimension.WORKLOAD, Dimension.RUN), now),
        ((Dimension.DAY, Dimension.HOUR, Dimension.TEAM), now),
        ((), Window(hour_ms(5), hour_ms(6), {Dimension.TEAM: ("vision", None), Dimension.CLUSTER: ("lab",)})),
        ((Dimension.BASIS,), Window(hour_ms(5), hour_ms(6), {Dimension.BUCKET: ()})),
    ]
    reads.begin()
    found = [ledger.sums(by, window) for by, window in asked]
    assert len(reads.told) == 1
    ledger.write(hour(5, *rows))  # once it is over, each is asked of the engine
    reads.begin()
    assert [Ledger(tables).sums(by, window) for by, window in asked] == found
    assert len(reads.told) > len(asked)
    assert [len(one) for one in found] == [3, 3, 1, 0]


def test_after_an_hour_of_many_lines_one_of_few_is_read_once_again(
    ledger: Ledger, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(first: int) -> int:
        reads.begin()
        for by in ((Dimension.TEAM,), (Dimension.RUN,), (Dimension.WORKLOAD,)):
            ledger.sums(by, Window(hour_ms(first), hour_ms(first + 1)))
        return len(reads.told)

    monkeypatch.setattr("trilens.store.ledger_reads._FEW_LINES", 1)
    assert asked(5) == 3, "its lines, and then two that the engine adds up"
    ledger.write(hour(6, row(6), upto=0.5))
    assert asked(6) == 1


def test_of_the_open_hour_nodes_and_names_of_workloads_are_asked_of_the_engine(ledger: Ledger) -> None:
    ledger.write(hour(5, row(5), row(5, quanta=9, node="n2"), row(5, TUNING), upto=0.6))
    by_node = ledger.sums([Dimension.NODE], Window(hour_ms(5), hour_ms(6)))
    assert {one.keys[0]: one.quanta for one in by_node} == {"n1": 10, "n2": 9}
    tuned = Window(hour_ms(5), hour_ms(6), {Dimension.WORKLOAD: ("job/tune",)})
    assert [one.quanta for one in ledger.sums([], tuned)] == [5]


def test_an_hour_that_is_corrected_is_read_again(ledger: Ledger) -> None:
    amounts(ledger)
    ledger.write(hour(3, row(3, quanta=100), bills=[bill(3, there_ms=5)]), reason="prices")
    assert amounts(ledger)["vision", "productive"] == 110
    assert ledger.episodes(WINDOW)[0].quanta == 110
    assert ledger.bills(hour_ms(3), hour_ms(4))[0].there_ms == 5
    assert [one.revision for one in ledger.hours(hour_ms(0), hour_ms(6))] == [0, 1, 0, 0]


def test_hours_of_work_are_those_of_rows_that_count_and_read_once(ledger: Ledger, reads: Reads) -> None:
    def worked() -> dict[str, list[int]]:
        reads.begin()
        return ledger.hours_of_work({"GPU-1", "GPU-2"}, hour_ms(2), hour_ms(6))

    ledger.write_all([hour(at, row(at, gpu_ms=90_000)) for at in (3, 4)])
    ledger.write(hour(5, row(5, gpu_ms=90_000), upto=0.5))
    assert worked() == {"GPU-1": [hour_ms(3), hour_ms(4), hour_ms(5)]}
    assert worked() == {"GPU-1": [hour_ms(3), hour_ms(4), hour_ms(5)]}
    assert reads.told == []
    ledger.write(hour(5, row(5, gpu_ms=90_000, bucket=Bucket.STALLED), upto=0.6))
    assert worked() == {"GPU-1": [hour_ms(3), hour_ms(4)]}
    (statement,) = reads.told
    assert f"hour_ms >= {hour_ms(5)}" in statement
    ledger.write(hour(3, row(3, gpu_ms=90_000, bucket=Bucket.STALLED)))
    assert worked() == {"GPU-1": [hour_ms(4)]}
    ledger.delete_before(hour_ms(24 * 40))
    assert worked() == {}


def test_a_question_of_many_gpus_weighs_as_much_as_an_answer(
    tables: Engine, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.store.ledger_reads._ALL_LINES", 300)
    ledger = Ledger(tables)
    ledger.write(hour(3, row(3)))
    asked = [{f"GPU-{many}-{number}" for number in range(80)} for many in range(12)]
    for gpus in (*asked, asked[0]):
        reads.begin()
        ledger.hours_of_work(gpus, hour_ms(3), hour_ms(4))
    assert reads.told, "the first had to go: twelve questions of 28 lines each have no room"


def test_what_else_is_told_of_an_hour_is_read_again(ledger: Ledger, tables: Engine) -> None:
    """Its rows are the same, and carry the number that they had."""
    assert ledger.hours(hour_ms(5), hour_ms(6))[0].upto_ms == hour_ms(5) + HOUR_MS // 2
    ledger.write(open_hour(5, upto=0.75))
    assert ledger.hours(hour_ms(5), hour_ms(6))[0].upto_ms == hour_ms(5) + HOUR_MS * 3 // 4
    assert Ledger(tables).hours(hour_ms(0), hour_ms(6)) == ledger.hours(hour_ms(0), hour_ms(6))


def test_an_hour_that_was_read_while_it_was_written_is_not_kept(ledger: Ledger) -> None:
    memory = ledger_memory.RememberedHours()
    turn, _ = memory.of([hour_ms(3)])
    memory.changed([hour_ms(3)])
    memory.keep(turn, {hour_ms(3): ()})
    assert memory.of([hour_ms(3)])[1] == {}


def test_what_was_deleted_is_forgotten(ledger: Ledger) -> None:
    assert amounts(ledger)
    ledger.delete_before(hour_ms(24 * 40))
    assert amounts(ledger) == {}
    assert ledger.hours(hour_ms(0), hour_ms(6)) == []
    assert ledger.episodes(WINDOW) == []


@pytest.mark.parametrize("others", [(), (3,), (3, 4)], ids=["open", "corrected", "both"])
def test_of_what_an_hour_was_before_nothing_is_kept(ledger: Ledger, others: tuple[int, ...]) -> None:
    """Nobody asks for it again: with an open hour that is another every minute it would fill all the room."""
    kept = []
    for quanta in range(6, 10):
        ledger.write_all([hour(at, row(at, quanta=quanta), bills=[bill(at)]) for at in others])
        ledger.write(open_hour(quanta))
        amounts(ledger)
        ledger.bills(hour_ms(3), hour_ms(6))
        gc.collect()
        kept.append(sum(type(one) in (Sum, NodeBill) for one in gc.get_objects()))
    assert kept[1:] == kept[:1] * 3
    ledger.delete_before(hour_ms(24 * 40))
    gc.collect()
    assert not any(type(one) is Sum for one in gc.get_objects())


def test_a_question_of_many_hours_weighs_as_much_as_an_answer(
    tables: Engine, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names each hour, and could take all memory though its answer is one line."""
    monkeypatch.setattr("trilens.store.ledger_reads._ALL_LINES", 300)
    ledger = Ledger(tables)
    ledger.write_all([hour(at, row(at), bills=[bill(at)]) for at in range(24)])
    day = Window(hour_ms(0), hour_ms(24))
    asked = [Window(day.from_ms, day.to_ms, {Dimension.TEAM: (str(name),)}) for name in range(40)]
    for window in (*asked, asked[0]):
        reads.begin()
        ledger.sums((), window)
    assert reads.told, "the first had to go: forty questions of nine lines each have no room"


def test_parts_stand_in_the_order_of_the_whole(ledger: Ledger, tables: Engine) -> None:
    """With amounts that are alike, with and without a workload and a run."""
    alike = [row(5, TUNING, quanta=0), row(5, FLEET, quanta=0), row(5, quanta=0)]
    ledger.write(hour(5, *alike, row(5, bucket=Bucket.STALLED, quanta=0), upto=0.6))
    for by in ((Dimension.WORKLOAD, Dimension.RUN), (Dimension.HOUR, Dimension.TEAM), BY, ()):
        parted = ledger.sums(by, WINDOW)
        ledger.write(hour(5, *alike, row(5, bucket=Bucket.STALLED, quanta=0)))  # it is over: read as one
        assert parted == Ledger(tables).sums(by, WINDOW), by
        ledger.write(hour(5, *alike, row(5, bucket=Bucket.STALLED, quanta=0), upto=0.6))
