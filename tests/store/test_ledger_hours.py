"""An hour of the ledger is there whole and once, whatever happens, and its corrections stay in sight."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ledger_books import DAY_MS, TUNING, bill, emptied, hour, hour_ms, row

from trilens.model.errors import QueryTooLarge, StoreError, StoreReadOnly
from trilens.model.ledger import FLEET, HOUR_MS, Basis, Bucket, Warned
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.workload import Doubt
from trilens.store.ledger import Ledger

if TYPE_CHECKING:
    import pyarrow as pa

    from trilens.model.ledger import LedgerHour
    from trilens.store.engine import Engine

WINDOW = Window(hour_ms(0), hour_ms(48))
FIRST = hour(3, row(3), row(3, TUNING, quanta=7), bills=[bill(3, gpu_ms=2_000)])
OTHER = hour(3, row(3, quanta=4), row(3, TUNING, quanta=8), bills=[bill(3, gpu_ms=2_000)])


@pytest.fixture
def engine(tables: Engine) -> Engine:
    return emptied(tables)


def amounts(ledger: Ledger) -> dict[object, int]:
    return {one.keys[0]: one.quanta for one in ledger.sums([Dimension.TEAM], WINDOW)}


def rows_on_disk(engine: Engine, table: str = "ledger_rows") -> int:
    return int(engine.query_arrow(f"SELECT count() AS n FROM {table}")["n"][0].as_py())


def test_everything_comes_back_as_it_was_told(engine: Engine) -> None:
    told = [
        row(3, doubts=("a", "it's")),
        row(3, FLEET, quanta=None, currency="", cause="free", basis=Basis.NODE),
        row(3, TUNING, bucket=Bucket.STALLED, since_ms=5, step=0, throttled_ms=9, quanta=-(1 << 62)),
    ]
    bills = [bill(3), bill(3, node="n2", quanta=None, currency="", components={}, price="")]
    ledger = Ledger(engine)
    assert ledger.write(hour(3, *told, bills=bills, warnings=["odd"]), reason="closed") == 0
    ledger = Ledger(engine)
    assert ledger.bills(hour_ms(3), hour_ms(4)) == bills
    assert ledger.bills(hour_ms(4), hour_ms(5)) == []
    (batch,) = ledger.rows(WINDOW)
    found = {one["bucket"]: one for one in batch.to_pylist()}
    fleet, stalled = found["unallocated"], found["stalled"]
    assert (fleet["workload_name"], fleet["team"], fleet["run"], fleet["quanta"]) == ("", None, None, None)
    assert (stalled["workload_uid"], stalled["attempt"], stalled["step"], stalled["since_ms"]) == (
        "u2",
        0,
        0,
        5,
    )
    assert stalled["quanta"] == -(1 << 62)
    assert found["productive"]["doubts"] == ["a", "it's"]
    (booked,) = ledger.hours(hour_ms(0), hour_ms(9))
    assert booked[:3] == (hour_ms(3), 0, hour_ms(4))
    assert (booked.rows, booked.gpu_ms, booked.unpriced_ms) == (3, 3_000, 1_000)
    assert (booked.quanta, booked.currency) == (5 - (1 << 62), "USD")
    assert (booked.changed_quanta, booked.reason, booked.prices) == (0, "closed", "p")
    assert booked.warnings == (Warned(Doubt("odd", "it's odd", "do it"), 7),)


def test_a_warning_of_an_earlier_version_has_no_remedy(engine: Engine) -> None:
    Ledger(engine).write(FIRST)
    as_it_was = """UPDATE warnings = '[["odd","so",7]]'"""
    engine.command(f"ALTER TABLE ledger_hours {as_it_was} WHERE 1 SETTINGS mutations_sync = 1")
    (booked,) = Ledger(engine).hours(hour_ms(3), hour_ms(4))
    assert booked.warnings == (Warned(Doubt("odd", "so"), 7),)


def test_the_same_rows_are_no_revision(engine: Engine) -> None:
    ledger = Ledger(engine)
    assert ledger.write(FIRST) == 0
    (before,) = ledger.hours(hour_ms(3), hour_ms(4))
    assert ledger.write(FIRST, reason="again") is None
    assert Ledger(engine).write(FIRST) is None
    assert ledger.hours(hour_ms(3), hour_ms(4)) == [before]


def test_what_else_is_told_of_the_same_rows_is_taken_over(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(FIRST)
    priced = replace(FIRST, prices="another")
    assert ledger.write(priced) is None
    assert ledger.write(replace(priced, warnings=hour(3, warnings=["new"]).warnings)) is None
    (booked,) = Ledger(engine).hours(hour_ms(3), hour_ms(4))
    assert (booked.revision, booked.prices, booked.warnings[0].doubt.code) == (0, "another", "new")
    assert amounts(ledger) == {"vision": 5, "nlp": 7}


def test_other_rows_are_a_correction_that_stays_in_sight(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(FIRST, reason="closed")
    assert ledger.write(OTHER, reason="late records") == 1
    first, second = ledger.hours(hour_ms(3), hour_ms(4))
    assert (first.revision, first.reason, first.changed_quanta) == (0, "closed", 0)
    assert (second.revision, second.reason, second.changed_quanta) == (1, "late records", 1)
    assert amounts(ledger) == {"vision": 4, "nlp": 8}
    ledger.settle()
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 4, "nlp": 8}
    assert rows_on_disk(engine) == 2
    assert rows_on_disk(engine, "ledger_bills") == 1
    assert Ledger(engine).write(FIRST) == 2


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        pytest.param([row(3, quanta=9), row(3, TUNING, quanta=3)], 4, id="from one to another"),
        pytest.param([row(3, quanta=9), row(3, TUNING, quanta=7)], 4, id="more in all"),
        pytest.param([row(3, TUNING, quanta=12)], 5, id="a row less"),
        pytest.param([row(3, bucket=Bucket.STALLED), row(3, TUNING, quanta=7)], 5, id="another bucket"),
        pytest.param([row(3, quanta=None, currency=""), row(3, TUNING, quanta=7)], 5, id="no price"),
        pytest.param([row(3, doubts=("x",)), row(3, TUNING, quanta=7)], 0, id="nothing but a doubt"),
    ],
)
def test_how_much_moved(engine: Engine, after: list[object], moved: int) -> None:
    ledger = Ledger(engine)
    ledger.write(FIRST)
    assert ledger.write(replace(FIRST, rows=tuple(after))) == 1  # type: ignore[arg-type]
    assert ledger.hours(hour_ms(3), hour_ms(4))[-1].changed_quanta == moved


def test_an_open_hour_has_no_revisions(engine: Engine) -> None:
    ledger = Ledger(engine)
    for part in (1, 2, 3):
        assert ledger.write(hour(3, row(3, quanta=part), upto=part / 4), reason="open") == 0
    assert ledger.write(hour(3, row(3, quanta=4))) == 0
    (booked,) = ledger.hours(hour_ms(3), hour_ms(4))
    assert (booked.upto_ms, booked.quanta, booked.changed_quanta) == (hour_ms(4), 4, 0)
    assert amounts(ledger) == {"vision": 4}
    assert ledger.write(hour(3, row(3, quanta=5))) == 1


def test_an_open_hour_that_is_over_with_the_same_rows_is_closed(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(hour(3, row(3), upto=0.5))
    assert ledger.write(hour(3, row(3))) is None
    assert [one.upto_ms for one in Ledger(engine).hours(hour_ms(3), hour_ms(4))] == [hour_ms(4)]
    assert ledger.write(hour(3, row(3, quanta=6))) == 1


def test_an_hour_that_a_wrong_clock_closed_may_be_opened_again(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(hour(3, row(3)))
    assert ledger.write(hour(3, row(3, quanta=1), upto=0.3)) == 1
    assert ledger.write(hour(3, row(3, quanta=2), upto=0.6)) == 1
    assert amounts(ledger) == {"vision": 2}


def test_hours_together(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is new, one that is the same, one that is corrected, one that is still open."""
    ledger = Ledger(engine)
    ledger.write_all([hour(1, row(1)), hour(2, row(2)), hour(3, row(3), upto=0.5)])
    again = [hour(0, row(0)), hour(1, row(1)), hour(2, row(2, quanta=9)), hour(3, row(3, quanta=6))]
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "ledger_hours")
        with pytest.raises(StoreReadOnly):
            ledger.write_all(again)
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 15}
    assert ledger.write_all(again, reason="late") == [0, None, 1, 0]
    assert [one.changed_quanta for one in ledger.hours(hour_ms(0), hour_ms(4))] == [0, 0, 0, 4, 0]
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 25}
    assert ledger.write_all([]) == []


def test_an_hour_without_rows(engine: Engine) -> None:
    ledger = Ledger(engine)
    assert ledger.write(hour(3)) == 0
    assert ledger.write(hour(3)) is None
    assert [one.rows for one in ledger.hours(hour_ms(3), hour_ms(4))] == [0]
    assert ledger.sums([Dimension.TEAM], WINDOW) == []
    assert list(ledger.rows(WINDOW)) == []


def fail_at(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    *,
    after: bool = False,
    for_good: bool = False,
) -> None:
    """Inserts into this table fail: before anything is written, or so that only the answer is lost. With
    `for_good` nothing is answered after that."""
    insert = engine.insert_arrow

    def failing(name: str, rows: pa.Table) -> None:
        if name == table and not after:
            raise StoreReadOnly("no space left on disk")
        insert(name, rows)
        if name == table:
            if for_good:
                monkeypatch.setattr(engine, "query_arrow", unanswered)
            raise StoreError("the connection was cut")

    def unanswered(*_: object, **__: object) -> pa.Table:
        raise StoreError("the connection is still cut")

    monkeypatch.setattr(engine, "insert_arrow", failing)


@pytest.mark.parametrize("table", ["ledger_bills", "ledger_hours"])
@pytest.mark.parametrize("restart", [True, False], ids=["after a crash", "after an error"])
def test_a_write_that_is_interrupted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, table: str, restart: bool
) -> None:
    ledger = Ledger(engine)
    ledger.write(FIRST)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, table)
        with pytest.raises(StoreReadOnly):
            ledger.write(OTHER)
    assert rows_on_disk(engine) == 4
    assert amounts(ledger) == {"vision": 5, "nlp": 7}
    assert len(ledger.bills(hour_ms(3), hour_ms(4))) == 1
    if restart:
        ledger = Ledger(engine)
        assert rows_on_disk(engine) == 2
    assert amounts(ledger) == {"vision": 5, "nlp": 7}
    assert ledger.write(OTHER) == 1
    ledger.settle()
    assert rows_on_disk(engine) == 2
    assert amounts(ledger) == {"vision": 4, "nlp": 8}


def test_rows_that_come_after_their_write_was_given_up(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that did not answer in time has not stopped."""
    ledger = Ledger(engine)
    ledger.write(FIRST)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "ledger_bills")
        with pytest.raises(StoreReadOnly):
            ledger.write(OTHER)
    late = engine.query_arrow("SELECT * FROM ledger_rows ORDER BY written DESC LIMIT 2")
    ledger.settle()
    engine.insert_arrow("ledger_rows", late)
    assert amounts(ledger) == {"vision": 5, "nlp": 7}
    ledger.settle()
    assert rows_on_disk(engine) == 2


def test_rows_that_were_replaced_are_gone_after_a_crash_too(engine: Engine) -> None:
    """They are named by no hour any more, and their numbers are not the last."""
    ledger = Ledger(engine)
    ledger.write(hour(3, row(3, quanta=1), upto=0.5))
    ledger.write(hour(3, row(3, quanta=2), upto=0.6))
    ledger.write(hour(4, row(4, quanta=3)))
    assert rows_on_disk(engine) == 3
    restarted = Ledger(engine)
    assert rows_on_disk(engine) == 2
    assert amounts(restarted) == {"vision": 5}


def test_an_answer_that_was_lost_is_no_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(engine)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "ledger_hours", after=True)
        assert ledger.write(FIRST) == 0
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 5, "nlp": 7}


def test_a_day_whose_answer_was_lost_is_made(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a name on disk: were its rows deleted, the day would have cost nothing after the next start."""
    ledger = Ledger(engine)
    ledger.write_all([FIRST, hour(24, row(24))])
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "ledger_days_made", after=True)
        assert ledger.settle() == 1
    ledger.write(hour(25, row(25), upto=0.5))
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 15, "nlp": 7}


def test_rows_that_did_not_read_back_come_back_when_the_hour_is_computed_again(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write_all([FIRST, hour(4, row(4))])
    engine.command("DELETE FROM ledger_rows WHERE team = 'nlp'")  # as when a damaged part is set aside
    assert ledger.write_all([FIRST, hour(4, row(4))], reason="asked for") == [1, None]
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 10, "nlp": 7}
    assert ledger.hours(hour_ms(3), hour_ms(4))[-1].changed_quanta == 7


@pytest.mark.parametrize("table", ["ledger_rows", "ledger_bills"])
def test_hours_that_have_lost_rows_or_bills_are_known(engine: Engine, table: str) -> None:
    ledger = Ledger(engine)
    whole = [hour(at, row(at), bills=[bill(at, gpu_ms=1_000)]) for at in (2, 3, 4)]
    ledger.write_all([*whole, hour(5)])
    ledger.write(replace(whole[0], rows=(row(2, quanta=6),)))
    assert ledger.incomplete(hour_ms(0), hour_ms(9)) == []
    engine.command(f"DELETE FROM {table} WHERE hour_ms IN ({hour_ms(3)}, {hour_ms(4)})")
    assert ledger.incomplete(hour_ms(0), hour_ms(4)) == [hour_ms(3)]
    assert ledger.incomplete(hour_ms(0), hour_ms(9)) == [hour_ms(3), hour_ms(4)]
    ledger.write_all(whole[1:])
    assert ledger.incomplete(hour_ms(0), hour_ms(9)) == []


@pytest.mark.parametrize("after", [FIRST, OTHER], ids=["the old rows", "the new rows"])
def test_an_hour_whose_name_came_to_be_without_anybody_knowing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, after: LedgerHour
) -> None:
    """Its rows were given up, and those before it are in no name: one of the two is to be there, once."""
    ledger = Ledger(engine)
    ledger.write(FIRST)
    with monkeypatch.context() as patch:
        fail_at(engine, patch, "ledger_hours", after=True, for_good=True)
        with pytest.raises(StoreError, match="still cut"):
            ledger.write(OTHER)
    ledger.write(hour(4, row(4)))
    ledger.settle()
    ledger = Ledger(engine)
    assert ledger.incomplete(hour_ms(0), hour_ms(4)) == [hour_ms(3)]
    assert ledger.write(after) == 2
    assert ledger.incomplete(hour_ms(0), hour_ms(4)) == []
    before = [one.quanta for one in after.rows]
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": before[0] + 5, "nlp": before[1]}


def test_rows_that_nobody_names_go_with_the_next_write_of_their_hour(engine: Engine) -> None:
    """A server went on with a write that had failed, and Trilens was started again meanwhile."""
    Ledger(engine).write(FIRST)
    engine.command("INSERT INTO ledger_rows SELECT * REPLACE (written - 1 AS written) FROM ledger_rows")
    ledger = Ledger(engine)
    assert amounts(ledger) == {"vision": 10, "nlp": 14}
    assert ledger.incomplete(hour_ms(0), hour_ms(9)) == [hour_ms(3)]
    assert ledger.write(FIRST, reason="rows were missing") == 1
    assert amounts(ledger) == amounts(Ledger(engine)) == {"vision": 5, "nlp": 7}
    assert ledger.incomplete(hour_ms(0), hour_ms(9)) == []


@pytest.mark.parametrize("lost", ["ledger_days WHERE team = 'nlp'", "ledger_day_pairs WHERE one = 'nlp'"])
def test_a_day_that_lost_rows_is_made_again(engine: Engine, lost: str) -> None:
    ledger = Ledger(engine)
    ledger.write_all([FIRST, hour(24, row(24))])
    assert ledger.settle() == 1
    engine.command(f"DELETE FROM {lost}")
    restarted = Ledger(engine)
    assert restarted.settle() == 1
    assert amounts(restarted) == {"vision": 10, "nlp": 7}
    assert Ledger(engine).settle() == 0


def test_what_was_answered_without_lost_rows_is_not_answered_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.store.ledger._SETTLED_AGAIN", 1)
    ledger = Ledger(engine)
    ledger.write_all([FIRST, hour(24, row(24))])
    ledger.settle()
    engine.command("DELETE FROM ledger_days WHERE team = 'nlp'")
    engine.command("DELETE FROM ledger_day_pairs WHERE one = 'nlp'")
    assert amounts(ledger) == {"vision": 10}
    assert ledger.settle() == 1
    assert amounts(ledger) == {"vision": 10, "nlp": 7}


def test_an_answer_that_nobody_could_read_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.store.ledger_reads._MOST_SUMS", 2)
    ledger = Ledger(engine)
    ledger.write_all([hour(at, row(at)) for at in range(3)])
    assert len(ledger.sums([Dimension.TEAM], WINDOW)) == 1
    with pytest.raises(QueryTooLarge, match=r"more than 2 lines.*fewer dimensions"):
        ledger.sums([Dimension.GPU, Dimension.HOUR], WINDOW)


def test_a_clock_that_was_set_back_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger(engine).write(FIRST)
    monkeypatch.setattr("trilens.store.numbered.time.time_ns", lambda: 1_000_000)
    ledger = Ledger(engine)
    assert ledger.write(OTHER) == 1
    assert ledger.write(replace(OTHER, prices="another")) is None
    again = Ledger(engine)
    assert amounts(again) == {"vision": 4, "nlp": 8}
    assert again.hours(hour_ms(3), hour_ms(4))[-1].prices == "another"


def test_an_amount_that_no_table_holds(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(FIRST)
    with pytest.raises(StoreError, match="cannot be kept"):
        ledger.write(hour(3, row(3, quanta=1 << 70)))
    assert amounts(ledger) == {"vision": 5, "nlp": 7}


def test_who_reads_sees_an_hour_as_it_was_when_they_began(engine: Engine) -> None:
    ledger = Ledger(engine)
    ledger.write(hour(3, row(3), row(3, TUNING)))
    ledger.write(hour(4, row(4), row(4, TUNING)))
    batches = ledger.rows(WINDOW)
    assert next(batches).num_rows == 2
    ledger.write(hour(4, row(4)))
    ledger.settle()
    assert [batch.num_rows for batch in batches] == [1]
    with ledger._numbers.reading() as counts:
        ledger.write(hour(3, row(3)))
        ledger.settle()
        found = engine.query_arrow(f"SELECT count() AS n FROM ledger_rows WHERE {counts}")
        assert found["n"][0].as_py() == 3
    ledger.settle()
    assert rows_on_disk(engine) == 2


def test_old_months_go(engine: Engine) -> None:
    ledger = Ledger(engine)
    december, january = -20 * 24, 0
    for number in (december, january):
        ledger.write(hour(number, row(number), bills=[bill(number)]))
        ledger.write(hour(number, row(number, quanta=6), bills=[bill(number)]))
    ledger.settle()
    assert ledger.delete_before(hour_ms(0)) > 0
    for known in (ledger, Ledger(engine)):
        booked = known.hours(hour_ms(december), hour_ms(24))
        assert [(one.hour_ms, one.revision) for one in booked] == [(hour_ms(0), 0), (hour_ms(0), 1)]
        assert len(known.bills(hour_ms(december), hour_ms(24))) == 1
        everything = Window(hour_ms(december), hour_ms(24))
        assert [one.quanta for one in known.sums([], everything)] == [6]
    assert ledger.delete_before(hour_ms(0)) == 0
    assert DAY_MS % HOUR_MS == 0
