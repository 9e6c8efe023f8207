"""What /api/cost answers, as types: the OpenAPI schema is made from them.

Money is a decimal text, exact to 1e-9, and always beside its currency; null is "no price is known", never
zero. Times are in milliseconds, GPU time in GPU-milliseconds, shares from 0 to 1.
"""

from __future__ import annotations

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001  msgspec reads the annotations
from trilens.serve.event_answers import WorkloadName

Key = str | int | WorkloadName | None


class SpentAnswer(msgspec.Struct, frozen=True):
    """`amount` is of what has a price; `unpriced_gpu_ms` is GPU time without one. `goodput` is useful time of
    all that some signal told of, `told` how much of all time that is, `throttled` the share of useful time
    with the clocks held down."""

    amount: str | None
    gpu_ms: int
    unpriced_gpu_ms: int
    goodput: float | None
    told: float | None
    throttled: float | None


class CostLine(msgspec.Struct, frozen=True):
    """`keys` by dimension: null where there is none, as the fleet has no team; a day or an hour is its
    beginning. `change` is null where one of the periods has no price for it, `change_ratio` also where not
    all hours of the period before are booked."""

    keys: dict[str, Key]
    currency: str | None
    now: SpentAnswer | None
    before: SpentAnswer | None
    change: str | None
    change_ratio: float | None
    status: str | None  # new, gone


class WarningAnswer(msgspec.Struct, frozen=True):
    """A doubt about so many hours and so much GPU time of the whole fleet in them."""

    code: str
    text: str
    remedy: str | None
    gpu_ms: int
    hours: int


class HoursAnswer(msgspec.Struct, frozen=True):
    """`asked` hours have begun, `booked` of these are computed, `open` of these are still open, until
    `upto_ms`; `corrected` ones were computed again with another result."""

    asked: int
    booked: int
    open: int
    upto_ms: int | None
    corrected: int


class CostAnswer(msgspec.Struct, frozen=True):
    """Whole hours of [from_ms, to_ms), and of the period before, as long. Lines are not `compared` where that
    was not asked for, or days have no counterpart in it."""

    from_ms: int
    to_ms: int
    before_from_ms: int
    by: list[str]
    share_fleet: str
    compared: bool
    lines: list[CostLine]
    totals: list[CostLine]
    left_out: int
    hours: HoursAnswer
    hours_before: HoursAnswer | None
    warnings: list[WarningAnswer]


class CauseAnswer(msgspec.Struct, frozen=True):
    """`sentence` says it all, `what` only what happened; the fields say it for machines. `hours` is GPU time
    by GPUs. `gpus` of free ones are how many were on the average. `lost_steps` were thrown away with a
    crash."""

    sentence: str
    what: str
    bucket: str
    cause: str
    workload: WorkloadName | None
    run: str | None
    team: str | None
    cluster: str
    node: str | None
    nodes: list[str]
    since_ms: int | None
    first_hour_ms: int
    last_hour_ms: int
    step: int | None
    lost_steps: list[int] | None
    times: int
    gpus: int
    gpu_ms: int
    hours: float
    amount: str | None
    unpriced_gpu_ms: int
    currency: str | None
    share: float | None  # of all that was spent in this currency
    remedy: str


class RestAnswer(msgspec.Struct, frozen=True):
    """Smaller causes together; `causes` is null where they were not counted."""

    causes: int | None
    gpu_ms: int
    amount: str | None
    unpriced_gpu_ms: int
    currency: str | None


class ForNothing(msgspec.Struct, frozen=True):
    """Of a currency: all that was spent, and what of it for nothing."""

    currency: str | None
    spent: str | None
    for_nothing: str | None
    share: float | None  # of the money, or of GPU time where nothing has a price
    gpu_ms: int
    for_nothing_gpu_ms: int
    buckets: dict[str, str | None]


class WhyAnswer(msgspec.Struct, frozen=True):
    from_ms: int
    to_ms: int
    causes: list[CauseAnswer]
    rest: list[RestAnswer]
    totals: list[ForNothing]
    hours: HoursAnswer
    warnings: list[WarningAnswer]


class RateAnswer(msgspec.Struct, frozen=True):
    keys: dict[str, Key]
    currency: str | None
    per_hour: str | None
    gpus: float
    unpriced_gpus: float


class BurnAnswer(msgspec.Struct, frozen=True):
    from_ms: int
    upto_ms: int
    rates: list[RateAnswer]
    totals: list[RateAnswer]


class ForecastAnswer(msgspec.Struct, frozen=True):
    """At the end of the month, with bounds that hold four of five; null with too few whole days."""

    keys: dict[str, Key]
    currency: str
    spent: str
    expected: str | None
    low: str | None
    high: str | None
    per_day: str | None
    unpriced_gpu_ms: int


class BudgetAnswer(msgspec.Struct, frozen=True):
    """`state` is within, at-risk, will-exceed, exceeded or unknown; `exceeded_ms` the day on which it was or
    will be. `spent` is null where `gap` says why it cannot be told in this currency."""

    kind: str
    name: str
    currency: str
    amount: str
    spent: str | None
    share: float | None
    expected: str | None
    low: str | None
    high: str | None
    state: str
    exceeded_ms: int | None
    unpriced_gpu_ms: int
    gap: DoubtAnswer | None


class MonthAnswer(msgspec.Struct, frozen=True):
    """`days` whole days are what the forecast goes by."""

    from_ms: int
    to_ms: int
    upto_ms: int | None
    days: int
    method: str
    totals: list[ForecastAnswer]
    teams: list[ForecastAnswer]


class NowAnswer(msgspec.Struct, frozen=True):
    """`burn` is null when nothing of the last hours is booked."""

    now_ms: int
    burn: BurnAnswer | None
    month: MonthAnswer
    budgets: list[BudgetAnswer]


class UnitLine(msgspec.Struct, frozen=True):
    """`units` got done for `amount`; `per_unit` is null where one of them is unknown or zero. A run's or a
    workload's name is in `keys`. `told` is the share of the time of which units are known, null where that is
    not asked (of runs): where it is less than 0.95, `per_unit` is that share of `amount` by `units`."""

    keys: dict[str, Key]
    name: str | None
    currency: str | None
    amount: str | None
    gpu_ms: int
    unpriced_gpu_ms: int
    units: float | None
    per_unit: str | None
    detail: str
    told: float | None


class UnitsAnswer(msgspec.Struct, frozen=True):
    from_ms: int
    to_ms: int
    per: str
    unit: str
    definition: str
    lines: list[UnitLine]
    hours: HoursAnswer
    warnings: list[WarningAnswer]
