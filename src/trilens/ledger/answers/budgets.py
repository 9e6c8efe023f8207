"""Whether a month's money will do, and until when."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.answers.forecast import DAY_MS, Forecast, Spent, forecast

if TYPE_CHECKING:
    from trilens.ledger.answers.forecast import Month
    from trilens.model.ledger_sums import Dimension


class BudgetState(StrEnum):
    WITHIN = "within"
    AT_RISK = "at-risk"  # the upper bound of the forecast is above it
    WILL_EXCEED = "will-exceed"
    EXCEEDED = "exceeded"
    UNKNOWN = "unknown"  # within so far, and too little is known to tell more


class BudgetStanding(NamedTuple):
    """`exceeded_ms` is the day on which it was, or will be at the mean of the last days; None where that is
    not this month."""

    dimension: Dimension
    name: str
    currency: str
    amount: int  # in quanta
    forecast: Forecast
    state: BudgetState
    exceeded_ms: int | None
    unpriced_ms: int  # of it, this month: not in what was spent


def standing(
    dimension: Dimension, name: str, currency: str, amount: int, spent: Spent | None, month: Month
) -> BudgetStanding:
    spent = spent if spent is not None else Spent()
    expected = forecast(spent, month)
    state, exceeded_ms = _state(amount, spent, expected, month)
    return BudgetStanding(dimension, name, currency, amount, expected, state, exceeded_ms, spent.unpriced_ms)


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
