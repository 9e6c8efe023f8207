"""What was spent adds up: by whatever it is grouped, compared, or shared out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_nights import NIGHT_MS, a_night, holder, hour, row
from memory_book import MemoryBook
from trilens.ledger.answers.cost import (
    booked_stretches,
    by_keys,
    compared,
    hours_known,
    period_before,
    totals,
    whole_hours,
)
from trilens.ledger.answers.goodput import goodput
from trilens.ledger.answers.sharing import FLEET_KEY, divided_by, sums
from trilens.model.ledger import HOUR_MS, Basis, Bucket, Holder
from trilens.model.ledger_sums import Dimension, Sharing, Sum, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_MS = 24 * HOUR_MS
TEAM, BUCKET, WORKLOAD, DAY = Dimension.TEAM, Dimension.BUCKET, Dimension.WORKLOAD, Dimension.DAY

amounts = st.integers(0, 10**15)
some_sums = st.lists(
    st.builds(
        lambda keys, gpu_ms, quanta, unpriced, currency: Sum(
            keys, gpu_ms, 0, 0, gpu_ms, quanta if currency else 0, unpriced if currency else gpu_ms, currency
        ),
        st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y"])),
        amounts,
        amounts,
        amounts,
        st.sampled_from(["", "USD", "EUR"]),
    ),
    max_size=12,
)


def money(found: Iterable[Sum]) -> dict[str, int]:
    """By currency, of those that have one."""
    whole: defaultdict[str, int] = defaultdict(int)
    for one in found:
        if one.currency:
            whole[one.currency] += one.quanta
    return dict(whole)


@settings(max_examples=40)
@given(some_sums, st.sampled_from([None, (0,), (1,), ()]))
def test_nothing_is_lost_by_grouping(found: list[Sum], keep: tuple[int, ...] | None) -> None:
    grouped = by_keys(found, keep=keep)
    assert money(grouped) == money(found)
    assert sum(one.gpu_ms for one in grouped) == sum(one.gpu_ms for one in found)
    assert sum(one.unpriced_ms for one in grouped) == sum(one.unpriced_ms for one in found)
    assert len({(one.keys, one.currency) for one in grouped}) == len(grouped)


def test_time_without_a_price_stands_with_the_only_currency_of_its_keys() -> None:
    priced, other = Sum(("a",), 5, 0, 0, 5, 7, 0, "USD"), Sum(("a",), 5, 0, 0, 5, 7, 0, "EUR")
    unpriced = Sum(("a",), 3, 0, 0, 3, 0, 3, "")
    assert by_keys([priced, unpriced]) == [Sum(("a",), 8, 0, 0, 8, 7, 3, "USD")]
    assert unpriced in by_keys([priced, other, unpriced])


@settings(max_examples=30)
@given(some_sums, some_sums)
def test_a_comparison_holds_both_periods(now: list[Sum], before: list[Sum]) -> None:
    now, before = by_keys(now), by_keys(before)
    lines = compared((TEAM, BUCKET), now, before, DAY_MS)
    assert [line.now for line in lines if line.now is not None] == now
    assert sorted(map(repr, (line.before for line in lines if line.before is not None))) == sorted(
        map(repr, before)
    )
    assert all(
        line.now.keys == line.before.keys and line.now.currency == line.before.currency
        for line in lines
        if line.now is not None and line.before is not None
    )
    whole = totals(now, before)
    assert money(line.now for line in whole if line.now is not None) == money(now)


def test_a_day_is_compared_with_the_day_at_its_place() -> None:
    now = [Sum((10 * DAY_MS,), 1, 0, 0, 1, 9, 0, "USD")]
    before = [Sum((3 * DAY_MS,), 1, 0, 0, 1, 5, 0, "USD")]
    (line,) = compared((DAY,), now, before, 7 * DAY_MS)
    assert (line.now, line.before) == (now[0], before[0])


def test_hours_are_whole() -> None:
    assert whole_hours(HOUR_MS - 1, HOUR_MS + 1) == (0, 2 * HOUR_MS)
    assert whole_hours(HOUR_MS, HOUR_MS) == (HOUR_MS, 2 * HOUR_MS)
    assert period_before(Window(5, 8)) == Window(2, 5)


@given(st.integers(0, 10**30), st.lists(st.integers(0, 10**18), min_size=1).filter(any))
def test_a_total_is_divided_without_a_remainder(total: int, weights: list[int]) -> None:
    parts = divided_by(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    assert all(
        abs(part * whole - total * weight) < whole for part, weight in zip(parts, weights, strict=True)
    )


teams = st.sampled_from(["vision", "research", None])
held = st.tuples(
    st.integers(0, 30), teams, st.integers(1, HOUR_MS), st.sampled_from([None, 3, 4_000_000_001])
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(held, max_size=12), st.lists(st.tuples(st.integers(0, 30), st.integers(1, HOUR_MS)), max_size=6)
)
def test_what_is_shared_out_adds_up_by_any_dimensions(
    holders: list[tuple[int, str | None, int, int | None]], free: list[tuple[int, int]]
) -> None:
    rows: defaultdict[int, list] = defaultdict(list)
    for number, (at, team, ms, price) in enumerate(holders):
        rows[at] += row(at * HOUR_MS, holder(f"w{number}", team), Bucket.PRODUCTIVE, ms=ms, price=price)
    for at, ms in free:
        rows[at] += row(at * HOUR_MS, Holder(), Bucket.UNALLOCATED, ms=ms)
    book = MemoryBook(*(hour(at * HOUR_MS, found) for at, found in rows.items()))
    window = Window(0, 48 * HOUR_MS)
    asked = [(TEAM,), (TEAM, BUCKET), (WORKLOAD,), (DAY, TEAM), (BUCKET,), (Dimension.NODE, WORKLOAD)]
    plain = sums(book, (), window, Sharing.NONE, None)
    for by in asked:
        shared = sums(book, by, window, Sharing.BY_COST, None)
        assert money(shared) == money(plain)
        assert sum(one.gpu_ms for one in shared) == sum(one.gpu_ms for one in plain)
    by_team = {one.keys: one.quanta for one in sums(book, (TEAM,), window, Sharing.BY_COST, None)}
    for team in ("vision", "research"):
        only = sums(book, (), Window(0, 48 * HOUR_MS, {TEAM: (team,)}), Sharing.BY_COST, None)
        assert sum(one.quanta for one in only) == by_team.get((team,), 0), "whoever else is asked about"


def test_free_time_goes_to_those_who_held_gpus_on_that_day_by_what_they_cost() -> None:
    book = MemoryBook(
        hour(
            0,
            row(0, holder("a", "vision"), Bucket.PRODUCTIVE, gpus=3),
            row(0, holder("b", "research"), Bucket.STALLED, gpus=1),
            row(0, Holder(), Bucket.UNALLOCATED, gpus=4),
        ),
        hour(DAY_MS, row(DAY_MS, Holder(), Bucket.BROKEN, gpus=2)),
    )
    window = Window(0, 2 * DAY_MS)
    unit = 4_000_000_000
    assert {one.keys: one.quanta for one in sums(book, (TEAM,), window, Sharing.BY_COST, None)} == {
        ("vision",): 6 * unit,
        ("research",): 2 * unit,
        (FLEET_KEY,): 2 * unit,
    }
    split = sums(book, (TEAM, BUCKET), window, Sharing.BY_COST, None)
    assert {one.keys: one.quanta // unit for one in split} == {
        ("vision", "productive"): 3,
        ("vision", "unallocated"): 3,
        ("research", "stalled"): 1,
        ("research", "unallocated"): 1,
        (FLEET_KEY, "broken"): 2,
    }
    unshared = sums(book, (TEAM,), window, Sharing.NONE, None)
    assert {one.keys: one.quanta // unit for one in unshared} == {
        ("vision",): 3,
        ("research",): 1,
        (FLEET_KEY,): 6,
    }


def test_hours_that_are_open_missing_or_corrected_are_counted() -> None:
    hours = a_night()
    book = MemoryBook(*hours[:3], hours[1])
    book.write(hour(hours[3].hour_ms, upto_ms=hours[3].hour_ms + 60_000))
    window = Window(hours[0].hour_ms, hours[0].hour_ms + DAY_MS)
    now_ms = hours[3].hour_ms + 120_000
    known = hours_known(book.hours(window.from_ms, window.to_ms), window, now_ms)
    assert (known.asked, known.booked, known.open, known.corrected) == (4, 4, 1, 1)
    assert known.upto_ms == hours[3].hour_ms + 60_000
    assert [(one.doubt.code, one.hours, one.gpu_ms) for one in known.warnings] == [
        ("no-price", 3, 6 * HOUR_MS)
    ]
    later = hours_known((), Window(NIGHT_MS, NIGHT_MS + DAY_MS), NIGHT_MS + 3 * HOUR_MS + 1)
    assert (later.asked, later.booked) == (4, 0)


def test_goodput_leaves_out_what_no_signal_told_of() -> None:
    whose = holder("a", "vision")
    book = MemoryBook(
        hour(
            0,
            row(0, whose, Bucket.PRODUCTIVE, gpus=2, throttled_ms=HOUR_MS // 4),
            row(0, whose, Bucket.STALLED, gpus=1),
            row(0, Holder(), Bucket.UNALLOCATED, gpus=1),
            row(0, whose, Bucket.PRODUCTIVE, gpus=4, basis=Basis.NONE),
        )
    )
    (whole,) = sums(book, (), Window(0, HOUR_MS), Sharing.NONE, None)
    assert goodput(whole) == (0.5, 0.5, 0.25)
    team, fleet = sums(book, (TEAM,), Window(0, HOUR_MS), Sharing.NONE, None)
    assert (goodput(team).ratio, goodput(fleet)) == (2 / 3, (0.0, 1.0, None))
    assert goodput(Sum((), 0, 0, 0, 0, 0, 0, "")) == (None, None, None)


def test_stretches_of_booked_hours_are_at_most_a_day() -> None:
    booked = [hour(n * HOUR_MS) for n in (0, 1, *range(3, 30))]
    book = MemoryBook(*booked, hour(30 * HOUR_MS, upto_ms=30 * HOUR_MS + 5))
    assert booked_stretches(book.hours(0, DAY_MS * 2)) == [
        (0, 2 * HOUR_MS),
        (3 * HOUR_MS, 27 * HOUR_MS),
        (27 * HOUR_MS, 30 * HOUR_MS + 5),
    ]
