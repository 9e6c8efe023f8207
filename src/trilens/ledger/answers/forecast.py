"""What a month will have cost: what was spent, and the days that are left at the mean of the last whole days.

The bounds hold four of five such months if days are independent of each other: with the spread of the days
looked at, of so many days to come, and of a mean that is known from few days only (Student's t).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers import sharing
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Sharing, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.ledger.source import LedgerBook
    from trilens.model.query import QueryGuard

DAY_MS: Final = 24 * HOUR_MS
_DAYS: Final = 28  # whole weeks, so that each weekday counts alike
# 90 % of Student's t with 1, 2, ... degrees of freedom.
_T: Final = tuple(
    map(
        Decimal,
        (
            *("3.078", "1.886", "1.638", "1.533", "1.476", "1.440", "1.415", "1.397", "1.383", "1.372"),
            *("1.363", "1.356", "1.350", "1.345", "1.341", "1.337", "1.333", "1.330", "1.328", "1.325"),
            *("1.323", "1.321", "1.319", "1.318", "1.316", "1.315", "1.314"),
        ),
    )
)


class Month(NamedTuple):
    """Of UTC. `upto_ms` is until when its hours are booked, None where none is; `whole_days` are those of the
    last weeks of which each hour is booked and closed."""

    from_ms: int
    to_ms: int
    upto_ms: int | None
    whole_days: tuple[int, ...]


@dataclass(slots=True)
class Spent:
    """By days of UTC, in quanta."""

    days: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    unpriced_ms: int = 0  # of the month

    def in_month(self, month: Month) -> int:
        return sum(quanta for day, quanta in self.days.items() if day >= month.from_ms)


class Forecast(NamedTuple):
    """At the end of the month, in quanta. `expected` is None with less than one whole day to go by, the
    bounds are with less than two."""

    spent: int
    expected: int | None
    low: int | None
    high: int | None
    per_day: Fraction | None


def month_bounds(now_ms: int) -> tuple[int, int]:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    first = datetime(now.year, now.month, 1, tzinfo=UTC)
    after = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return round(first.timestamp() * 1000), round(after.timestamp() * 1000)


def month_of(book: LedgerBook, now_ms: int, guard: QueryGuard | None = None) -> Month:
    from_ms, to_ms = month_bounds(now_ms)
    today = now_ms // DAY_MS * DAY_MS
    reached: dict[int, int] = {}
    for hour in book.hours(min(from_ms, today - _DAYS * DAY_MS), now_ms + 1, guard=guard):
        reached[hour.hour_ms] = hour.upto_ms
    whole = tuple(
        day
        for day in range(today - _DAYS * DAY_MS, today, DAY_MS)
        if all(reached.get(hour) == hour + HOUR_MS for hour in range(day, day + DAY_MS, HOUR_MS))
    )
    upto_ms = max((upto for hour, upto in reached.items() if hour >= from_ms), default=None)
    return Month(from_ms, to_ms, upto_ms, whole)


def spent_by(
    book: LedgerBook,
    dimension: Dimension | None,
    month: Month,
    now_ms: int,
    guard: QueryGuard | None = None,
    where: Mapping[Dimension, tuple[str | None, ...]] = MappingProxyType({}),
) -> dict[tuple[str | None, str], Spent]:
    """By a key of the dimension and currency; all of it is under None without a dimension."""
    from_ms = min([month.from_ms, *month.whole_days])
    window = Window(from_ms, now_ms // HOUR_MS * HOUR_MS + HOUR_MS, where)
    by = [Dimension.DAY] if dimension is None else [Dimension.DAY, dimension]
    found: defaultdict[tuple[str | None, str], Spent] = defaultdict(Spent)
    for one in sharing.sums(book, by, window, Sharing.NONE, guard):
        day, name = one.keys[0], one.keys[1] if dimension is not None else None
        assert isinstance(day, int)
        mine = found[None if name is None else str(name), one.currency]
        mine.days[day] += one.quanta
        if day >= month.from_ms:
            mine.unpriced_ms += one.unpriced_ms
    return dict(found)


def forecast(spent: Spent, month: Month) -> Forecast:
    so_far = spent.in_month(month)
    known = [spent.days.get(day, 0) for day in month.whole_days]
    if not known or month.upto_ms is None:
        return Forecast(so_far, None, None, None, None)
    left = Fraction(max(0, month.to_ms - month.upto_ms), DAY_MS)
    mean = Fraction(sum(known), len(known))
    expected = so_far + round(mean * left)
    if len(known) < 2:
        return Forecast(so_far, expected, None, None, mean)
    variance = Fraction(sum((one - mean) * (one - mean) for one in known), len(known) - 1)
    of_sum = variance * (left + left * left / len(known))
    spread = (Decimal(of_sum.numerator) / Decimal(of_sum.denominator)).sqrt()
    half = round(spread * _T[min(len(known) - 1, len(_T)) - 1])
    return Forecast(so_far, expected, max(so_far, expected - half), expected + half, mean)
