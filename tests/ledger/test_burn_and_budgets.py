"""How fast money is spent, what a month will have cost, and whether a budget will do."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_nights import NIGHT_MS, holder, hour, row
from memory_book import MemoryBook
from trilens.ledger.answers.budgets import BudgetState, no_rates, standing
from trilens.ledger.answers.burn import burn
from trilens.ledger.answers.forecast import DAY_MS, Month, Spent, forecast, month_bounds, month_of, spent_by
from trilens.ledger.answers.money_text import money, unit_price
from trilens.model.ledger import HOUR_MS, Bucket, NodeBill
from trilens.model.ledger_sums import Dimension

TEAM = Dimension.TEAM
UNIT = 10**9
MONTH_MS, NEXT_MS = 1_793_491_200_000, 1_796_083_200_000  # 2026-11-01 and 2026-12-01


def busy(hour_ms: int, gpus: int, *, upto_ms: int | None = None):
    ms = (upto_ms if upto_ms is not None else hour_ms + HOUR_MS) - hour_ms
    return hour(hour_ms, row(hour_ms, holder("a", "x"), Bucket.PRODUCTIVE, gpus=gpus, ms=ms), upto_ms=upto_ms)


def test_the_rate_is_that_of_the_open_hour() -> None:
    upto_ms = NIGHT_MS + HOUR_MS // 2
    book = MemoryBook(busy(NIGHT_MS - HOUR_MS, 2), busy(NIGHT_MS, 10, upto_ms=upto_ms))
    found = burn(book, (TEAM,), upto_ms, {})
    assert found is not None
    assert (found.from_ms, found.upto_ms) == (NIGHT_MS, upto_ms)
    assert [(one.keys, one.quanta, one.gpus) for one in found.rates] == [(("x",), 40 * UNIT, 10.0)]


def test_a_young_hour_is_told_with_the_one_before() -> None:
    upto_ms = NIGHT_MS + 120_000
    book = MemoryBook(busy(NIGHT_MS - HOUR_MS, 2), busy(NIGHT_MS, 64, upto_ms=upto_ms))
    found = burn(book, (), upto_ms, {})
    assert found is not None
    assert found.from_ms == NIGHT_MS - HOUR_MS
    assert found.totals[0].gpus == pytest.approx(2 * 30 / 31 + 64 / 31)


def test_an_hour_that_is_over_and_not_closed_counts_for_as_long_as_it_is_booked() -> None:
    upto_ms = NIGHT_MS + 120_000
    before = busy(NIGHT_MS - HOUR_MS, 2, upto_ms=NIGHT_MS - 60_000)
    found = burn(MemoryBook(before, busy(NIGHT_MS, 2, upto_ms=upto_ms)), (), upto_ms, {})
    assert found is not None
    assert found.totals[0].gpus == pytest.approx(2.0)


def test_a_server_that_has_just_begun_tells_the_rate_of_what_it_knows() -> None:
    """Of the half hour that is over it has seen the last five minutes."""
    upto_ms, seen_ms = NIGHT_MS + HOUR_MS // 2, 300_000
    young = busy(NIGHT_MS, 8, upto_ms=NIGHT_MS + seen_ms)
    bill = NodeBill(NIGHT_MS, "c", "n", seen_ms, 8 * seen_ms, None, 0, "", {}, "")
    found = burn(MemoryBook(replace(young, upto_ms=upto_ms, bills=(bill,))), (), upto_ms, {})
    assert found is not None
    assert found.totals[0].gpus == pytest.approx(8.0)


def test_what_is_long_ago_is_not_now() -> None:
    assert burn(MemoryBook(busy(NIGHT_MS, 2)), (), NIGHT_MS + 9 * HOUR_MS, {}) is None


def test_months_are_of_utc() -> None:
    assert month_bounds(NIGHT_MS) == (MONTH_MS, NEXT_MS)
    assert month_bounds(NEXT_MS - 1) == (MONTH_MS, NEXT_MS)
    december = month_bounds(NEXT_MS)
    assert december == (NEXT_MS, NEXT_MS + 31 * DAY_MS)


def test_a_forecast_is_what_was_spent_and_the_mean_of_whole_days() -> None:
    days = [MONTH_MS + number * HOUR_MS for number in range(72)]
    upto_ms = MONTH_MS + 72 * HOUR_MS
    book = MemoryBook(*(busy(at, 1 if at < MONTH_MS + DAY_MS else 2) for at in days))
    month = month_of(book, upto_ms)
    assert (month.upto_ms, len(month.whole_days)) == (upto_ms, 3)
    spent = spent_by(book, TEAM, month, upto_ms)["x", "USD"]
    told = forecast(spent, month)
    assert told.spent == (96 + 192 + 192) * UNIT
    assert told.expected == told.spent + 27 * 160 * UNIT
    assert told.low is not None and told.high is not None
    # s = 55.4, 27 days to come, 3 known: 1.886 * 55.4 * sqrt(27 + 27^2 / 3)
    assert (told.high - told.low) / 2 / UNIT == pytest.approx(1.886 * 55.4256 * (27 + 243) ** 0.5, rel=1e-4)


def test_less_than_a_day_foretells_nothing_and_one_day_no_bounds() -> None:
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + 5 * HOUR_MS, ())
    assert forecast(Spent({MONTH_MS: 7}), month) == (7, None, None, None, None)
    one = forecast(Spent({MONTH_MS: 7}), Month(MONTH_MS, NEXT_MS, MONTH_MS + DAY_MS, (MONTH_MS,)))
    assert (one.expected, one.low) == (7 * 30, None)


def test_a_day_with_a_hole_is_not_whole() -> None:
    book = MemoryBook(*(busy(MONTH_MS + at * HOUR_MS, 1) for at in range(48) if at != 30))
    assert month_of(book, MONTH_MS + 2 * DAY_MS).whole_days == (MONTH_MS,)


@given(st.lists(st.integers(0, 10**15), min_size=2, max_size=28), st.integers(0, 30))
def test_bounds_hold_the_expected_and_never_less_than_what_was_spent(days: list[int], gone: int) -> None:
    first = MONTH_MS + gone * DAY_MS - len(days) * DAY_MS
    spent = Spent({first + at * DAY_MS: quanta for at, quanta in enumerate(days)})
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + gone * DAY_MS, tuple(spent.days))
    told = forecast(spent, month)
    assert told.low is not None and told.expected is not None and told.high is not None
    assert told.spent <= told.low <= told.expected <= told.high


@pytest.mark.parametrize(
    ("amount", "state", "day"),
    [
        (150, BudgetState.EXCEEDED, 1),
        (1000, BudgetState.WILL_EXCEED, 9),
        (3001, BudgetState.WITHIN, None),
    ],
)
def test_a_budget(amount: int, state: BudgetState, day: int | None) -> None:
    days = {MONTH_MS + at * DAY_MS: 100 for at in range(10)}
    spent = Spent({at: quanta for at, quanta in days.items() if at < MONTH_MS + 9 * DAY_MS})
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + 9 * DAY_MS, tuple(spent.days))
    found = standing(TEAM, "x", "USD", amount, {("x", "USD"): spent}, month, no_rates)
    assert found.forecast is not None
    assert (found.state, found.forecast.spent) == (state, 900)
    when = MONTH_MS + day * DAY_MS if day is not None else None
    assert found.exceeded_ms == (when + DAY_MS if state is BudgetState.WILL_EXCEED and when else when)


def test_a_budget_that_only_the_upper_bound_exceeds_is_at_risk_and_one_of_nobody_is_within() -> None:
    spent = Spent({MONTH_MS: 0, MONTH_MS + DAY_MS: 200})
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + 2 * DAY_MS, tuple(spent.days))
    found = {("x", "USD"): spent}
    assert standing(TEAM, "x", "USD", 3_001, found, month, no_rates).state is BudgetState.AT_RISK
    assert standing(TEAM, "y", "USD", 1, found, month, no_rates).state is BudgetState.WITHIN
    unknown = month._replace(whole_days=())
    assert standing(TEAM, "x", "USD", 3_001, found, unknown, no_rates).state is BudgetState.UNKNOWN


def rates(currency: str, at_ms: int) -> Decimal | None:
    """The ledger is in USD; a euro is 1.25 of them, and 1 from the second day on; of yen nothing is known."""
    return {"USD": Decimal(1), "EUR": Decimal("1.25") if at_ms < MONTH_MS + DAY_MS else Decimal(1)}.get(
        currency
    )


def test_money_of_another_currency_counts_by_the_rate_of_its_day() -> None:
    spent = {
        ("x", "USD"): Spent({MONTH_MS: 100, MONTH_MS + DAY_MS: 100}),
        ("x", "EUR"): Spent({MONTH_MS: 8}),
        ("y", "USD"): Spent({MONTH_MS: 5_000}),
    }
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + 2 * DAY_MS, (MONTH_MS, MONTH_MS + DAY_MS))
    euros = standing(TEAM, "x", "EUR", 150, spent, month, rates)
    assert euros.forecast is not None
    assert (euros.forecast.spent, euros.gap) == (100 * 4 // 5 + 8 + 100, None)
    assert (euros.state, euros.exceeded_ms) == (BudgetState.EXCEEDED, MONTH_MS + DAY_MS)
    dollars = standing(TEAM, "x", "USD", 10**6, spent, month, rates)
    assert dollars.forecast is not None
    assert dollars.forecast.spent == 100 + 10 + 100


def test_money_that_no_rate_turns_makes_a_budget_unknown_and_never_0() -> None:
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + DAY_MS, (MONTH_MS,))
    spent = {("x", "USD"): Spent({MONTH_MS: 100}), ("x", "JPY"): Spent({MONTH_MS: 7}, 60_000)}
    for currency, left in (("JPY", "USD"), ("USD", "JPY")):
        found = standing(TEAM, "x", currency, 10**6, spent, month, rates)
        assert (found.forecast, found.state, found.unpriced_ms) == (None, BudgetState.UNKNOWN, 60_000)
        assert found.gap is not None
        assert found.gap.code == "no-exchange-rate"
        assert f"money is in {left}, and" in found.gap.text
    assert standing(TEAM, "x", "USD", 99, spent, month, rates).state is BudgetState.EXCEEDED


def test_time_without_a_price_is_told_with_a_budget() -> None:
    month = Month(MONTH_MS, NEXT_MS, MONTH_MS + DAY_MS, (MONTH_MS,))
    spent = {("x", "USD"): Spent({MONTH_MS: 100}), ("x", ""): Spent({MONTH_MS: 0}, 60_000)}
    found = standing(TEAM, "x", "USD", 10**6, spent, month, no_rates)
    assert (found.unpriced_ms, found.gap) == (60_000, None)


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("1638.4", "USD", "$1,638.40"),
        ("-0.5", "EUR", "-€0.50"),
        ("0.001", "USD", "<$0.01"),
        ("0", "GBP", "£0.00"),
        ("1234.5", "CHF", "CHF 1,234.50"),
        ("1234.5", "JPY", "JPY 1,234"),
        ("12", "CAD", "CAD 12.00"),
    ],
)
def test_money_in_words(amount: str, currency: str, text: str) -> None:
    assert money(Decimal(amount), currency) == text


def test_money_in_brief_and_of_one_unit() -> None:
    assert money(Decimal("1638.4"), "USD", brief=True) == "$1,638"
    assert money(Decimal("99.999"), "USD", brief=True) == "$100.00"
    assert unit_price(Decimal("0.000312345"), "USD") == "$0.000312"
    assert unit_price(Decimal("12.345"), "USD") == "$12.34"
