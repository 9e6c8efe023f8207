"""What the ledger adds up to, as /api/cost tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.ledger.answers.goodput import goodput
from trilens.model.ledger import as_amount
from trilens.model.workload import WorkloadKey
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.event_answers import WorkloadName
from trilens.serve.money.cost_answers import (
    BudgetAnswer,
    BurnAnswer,
    CauseAnswer,
    CostLine,
    ForecastAnswer,
    ForNothing,
    HoursAnswer,
    RateAnswer,
    RestAnswer,
    SpentAnswer,
    WarningAnswer,
)
from trilens.serve.money.cost_sentence import cause_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from trilens.ledger.answers.budgets import BudgetStanding
    from trilens.ledger.answers.burn import Burn, Rate
    from trilens.ledger.answers.cause_texts import Cause
    from trilens.ledger.answers.cost import HoursKnown, Keys, Line
    from trilens.ledger.answers.forecast import Forecast
    from trilens.ledger.answers.why import Rest, Why
    from trilens.model.ledger_sums import Dimension, Sum, Window
    from trilens.serve.money.cost_answers import Key


def amount_text(quanta: int) -> str:
    return decimal_text(as_amount(quanta))


def decimal_text(amount: Decimal) -> str:
    """Exact, without zeros at its end."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def keys_answer(by: Sequence[Dimension], keys: Keys) -> dict[str, Key]:
    return {
        name.value: WorkloadName(*key) if isinstance(key, WorkloadKey) else key
        for name, key in zip(by, keys, strict=True)
    }


def hours_answer(hours: HoursKnown) -> HoursAnswer:
    return HoursAnswer(hours.asked, hours.booked, hours.open, hours.upto_ms, hours.corrected)


def warnings_answer(hours: HoursKnown) -> list[WarningAnswer]:
    return [WarningAnswer(*doubt, gpu_ms, count) for doubt, gpu_ms, count in hours.warnings]


def cost_line(
    by: Sequence[Dimension], line: Line, *, comparable: bool = True, is_whole: bool = True
) -> CostLine:
    """`is_whole`: all of the period before is booked. A share of a part of it would say nothing."""
    now, before = line.now, line.before
    change = ratio = status = None
    if comparable:
        status = "new" if before is None else "gone" if now is None else None
    if line.currency and comparable:
        was = before.quanta if before is not None else 0
        moved = (now.quanta if now is not None else 0) - was
        change, ratio = amount_text(moved), moved / was if was and is_whole else None
    return CostLine(
        keys_answer(by, line.keys),
        line.currency or None,
        spent_answer(now),
        spent_answer(before),
        change,
        ratio,
        status,
    )


def spent_answer(of: Sum | None) -> SpentAnswer | None:
    if of is None:
        return None
    return SpentAnswer(
        amount_text(of.quanta) if of.currency else None, of.gpu_ms, of.unpriced_ms, *goodput(of)
    )


def cause_answer(cause: Cause, nodes: Sequence[str], why: Why, window: Window) -> CauseAnswer:
    one = cause.episode
    spent = next((of.quanta for of in why.spent if of.currency == one.currency and of.currency), 0)
    return CauseAnswer(
        cause_sentence(cause, window),
        cause.text,
        one.bucket.value,
        one.cause,
        WorkloadName(*one.workload) if one.workload is not None else None,
        one.run,
        one.team,
        one.cluster,
        one.node,
        [*nodes],
        one.since_ms,
        one.first_ms,
        one.last_ms,
        one.step,
        [*cause.lost] if cause.lost is not None else None,
        cause.times,
        one.gpus,
        one.gpu_ms,
        round(one.gpu_ms / max(one.gpus, 1) / 3_600_000, 3),
        amount_text(one.quanta) if one.currency else None,
        one.unpriced_ms,
        one.currency or None,
        one.quanta / spent if spent else None,
        cause.remedy,
    )


def rest_answer(rest: Rest) -> RestAnswer:
    amount = amount_text(rest.quanta) if rest.currency else None
    return RestAnswer(rest.causes, rest.gpu_ms, amount, rest.unpriced_ms, rest.currency or None)


def for_nothing(why: Why) -> list[ForNothing]:
    found = []
    wasted = {one.currency: one for one in why.for_nothing}
    for spent in why.spent:
        nothing = wasted.get(spent.currency)
        money = nothing.quanta if nothing is not None else 0
        time = nothing.gpu_ms if nothing is not None else 0
        share = money / spent.quanta if spent.quanta else time / spent.gpu_ms if spent.gpu_ms else None
        found.append(
            ForNothing(
                spent.currency or None,
                amount_text(spent.quanta) if spent.currency else None,
                amount_text(money) if spent.currency else None,
                share,
                spent.gpu_ms,
                time,
                {
                    str(one.keys[0]): amount_text(one.quanta) if one.currency else None
                    for one in why.buckets
                    if one.currency == spent.currency
                },
            )
        )
    return found


def burn_answer(by: Sequence[Dimension], burn: Burn) -> BurnAnswer:
    def rates(by: Sequence[Dimension], told: Sequence[Rate]) -> list[RateAnswer]:
        return [
            RateAnswer(
                keys_answer(by, one.keys),
                one.currency or None,
                amount_text(one.quanta) if one.currency else None,
                one.gpus,
                one.unpriced,
            )
            for one in told
        ]

    return BurnAnswer(burn.from_ms, burn.upto_ms, rates(by, burn.rates), rates((), burn.totals))


def forecast_answer(keys: dict[str, Key], currency: str, told: Forecast, unpriced_ms: int) -> ForecastAnswer:
    return ForecastAnswer(
        keys,
        currency,
        amount_text(told.spent),
        _amount(told.expected),
        _amount(told.low),
        _amount(told.high),
        _amount(round(told.per_day)) if told.per_day is not None else None,
        unpriced_ms,
    )


def budget_answer(one: BudgetStanding) -> BudgetAnswer:
    told = one.forecast
    return BudgetAnswer(
        one.dimension.value,
        one.name,
        one.currency,
        amount_text(one.amount),
        amount_text(told.spent) if told is not None else None,
        told.spent / one.amount if told is not None else None,
        _amount(told.expected) if told is not None else None,
        _amount(told.low) if told is not None else None,
        _amount(told.high) if told is not None else None,
        one.state.value,
        one.exceeded_ms,
        one.unpriced_ms,
        DoubtAnswer(*one.gap) if one.gap is not None else None,
    )


def _amount(quanta: int | None) -> str | None:
    return amount_text(quanta) if quanta is not None else None
