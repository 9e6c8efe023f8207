"""Whether a month's money will do, and until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.answers.forecast import DAY_MS, Forecast, Spent, forecast
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from trilens.ledger.answers.forecast import Month
    from trilens.model.ledger_sums import Dimension

# How many units of the ledger's currency one of this currency is at that time; None where no rate tells.
ExchangeRates = Callable[[str, int], Decimal | None]


def no_rates(currency: str, at_ms: int) -> Decimal | None:
    """Where no price file tells of any."""
    del currency, at_ms
    return None


class BudgetState(StrEnum):
    WITHIN = "within"
    AT_RISK = "at-risk"  # the upper bound of the forecast is above it
    WILL_EXCEED = "will-exceed"
    EXCEEDED = "exceeded"
    UNKNOWN = "unknown"  # within so far, and too little is known to tell more; or not even that


class BudgetStanding(NamedTuple):
    """`exceeded_ms` is the day on which it was, or will be at the mean of the last days; None where that is
    not this month. `forecast` is None where a part of the money is of a currency that cannot be turned into
    the budget's: `gap` says so."""

    dimension: Dimension
    name: str
    currency: str
    amount: int  # in quanta
    forecast: Forecast | None
    state: BudgetState
    exceeded_ms: int | None
    unpriced_ms: int  # of it, this month: not in what was spent
    gap: Doubt | None


def standing(
    dimension: Dimension,
    name: str,
    currency: str,
    amount: int,
    spent: Mapping[tuple[str | None, str], Spent],
    month: Month,
    rates: ExchangeRates,
) -> BudgetStanding:
    """`spent` is by name and currency."""
    mine = Spent()
    without_rate: set[str] = set()
    for (whose, of), one in spent.items():
        if whose != name:
            continue
        mine.unpriced_ms += one.unpriced_ms
        for day, quanta in one.days.items():
            rate = _rate(of, currency, day, rates)
            if rate is not None:
                mine.days[day] += round(quanta * rate)
            elif quanta:
                without_rate.add(of)
    expected = forecast(mine, month)
    state, exceeded_ms = _state(amount, mine, expected, month)
    if not without_rate:
        return BudgetStanding(
            dimension, name, currency, amount, expected, state, exceeded_ms, mine.unpriced_ms, None
        )
    if state is not BudgetState.EXCEEDED:  # what can be turned may be enough to tell that it is
        state, exceeded_ms = BudgetState.UNKNOWN, None
    gap = _no_rate(sorted(without_rate), currency)
    return BudgetStanding(dimension, name, currency, amount, None, state, exceeded_ms, mine.unpriced_ms, gap)


def _rate(of: str, wanted: str, day: int, rates: ExchangeRates) -> Fraction | None:
    """Through the ledger's currency, by the rates at the beginning of the day."""
    if of == wanted:
        return Fraction(1)
    one, other = rates(of, day), rates(wanted, day)
    return None if one is None or other is None else Fraction(one) / Fraction(other)


def _no_rate(of: list[str], wanted: str) -> Doubt:
    return Doubt(
        "no-exchange-rate",
        f"money is in {' and '.join(of)}, and on some day nothing tells what that is in {wanted}",
        "write rates under exchange in prices.file, or the budget in the currency of the ledger",
    )


def _state(amount: int, spent: Spent, expected: Forecast, month: Month) -> tuple[BudgetState, int | None]:
    if expected.spent > amount:
        return BudgetState.EXCEEDED, _when_exceeded(amount, spent, month)
    if expected.expected is None or month.upto_ms is None:
        return BudgetState.UNKNOWN, None
    if expected.expected > amount and expected.per_day:
        left = (amount - expected.spent) / expected.per_day
        return BudgetState.WILL_EXCEED, (month.upto_ms + round(left * DAY_MS)) // DAY_MS * DAY_MS
    if expected.high is not None and expected.high > amount:
        return BudgetState.AT_RISK, None
    return BudgetState.WITHIN, None


def _when_exceeded(amount: int, spent: Spent, month: Month) -> int | None:
    total = 0
    for day, quanta in sorted(spent.days.items()):
        if day < month.from_ms:
            continue
        total += quanta
        if total > amount:
            return day
    return None
