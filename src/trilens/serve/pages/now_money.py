"""What the ledger says, as the page Now tells it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.told import workload_name
from trilens.ledger.answers import sharing
from trilens.ledger.answers.burn import burn
from trilens.ledger.answers.why import FOR_NOTHING
from trilens.model.ledger_sums import Dimension, Sharing
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.event_answers import WorkloadName
from trilens.serve.money.cost_causes import why_answer
from trilens.serve.money.cost_view import amount_text
from trilens.serve.pages.incident_names import clusters_of, may_be_in
from trilens.serve.pages.now_answers import BurnNow, GpuState, IncidentNow, RangeMoney, SpenderNow
from trilens.serve.pages.now_rates import BY, STATES, Rates, gpu_states, rates_of, spent_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.answers.burn import Burn
    from trilens.ledger.source import FactSource, LedgerBook
    from trilens.model.incident import Incident
    from trilens.model.ledger_sums import Window
    from trilens.model.query import QueryGuard
    from trilens.serve.gpu_bindings import GpusNow
    from trilens.serve.money.cost_answers import WhyAnswer
    from trilens.serve.pages.now_changes import Before
    from trilens.serve.pages.now_rates import Spender, Spent

    # Quanta of workloads as incidents name them, in each cluster.
    PerHour = Mapping[str, Mapping[str, int]]

INCIDENTS: Final = 20
_SPENDERS: Final = 8
_FOR_NOTHING: Final = tuple(bucket.value for bucket in FOR_NOTHING)
_SPENT_BY: Final = (Dimension.WORKLOAD, Dimension.TEAM, Dimension.BUCKET)


@dataclass(frozen=True, slots=True)
class MoneyNow:
    """All that is of the ledger: made anew once it has booked more."""

    currency: str  # "" without any price
    rates: Rates | None  # None where nothing of the last hours is booked
    rates_before: Rates | None
    before: Before | None
    burn: BurnNow | None
    gpus: Sequence[GpuState] | None
    money: RangeMoney
    teams: Sequence[SpenderNow]
    workloads: Sequence[SpenderNow]
    per_hour: PerHour
    doubts: Sequence[DoubtAnswer]


def money_now(
    book: LedgerBook, facts: FactSource, window: Window, now_ms: int, was: Before | None, guard: QueryGuard
) -> MoneyNow:
    now = burn(book, BY, now_ms, {}, guard)
    why = why_answer(book, facts, window, now_ms, guard=guard)
    currency = _currency(why, now)
    rates = rates_of(now, currency) if now is not None else None
    rates_before = rates_of(was.burn, currency) if was is not None else None
    sums = sharing.sums(book, _SPENT_BY, window, Sharing.NONE, guard)
    spent = spent_in(sums, currency, _FOR_NOTHING)
    return MoneyNow(
        currency,
        rates,
        rates_before,
        was,
        _burn_now(now, rates, rates_before),
        gpu_states(rates) if rates is not None else None,
        _range_money(why, currency),
        _spenders(spent.teams, rates.teams if rates is not None else {}),
        _spenders(spent.workloads, rates.workloads if rates is not None else {}),
        _per_hour(rates),
        list(_doubts(why, now, currency)),
    )


def _currency(why: WhyAnswer, now: Burn | None) -> str:
    """The one in which most is spent."""
    spent = [(float(one.spent or 0), one.currency) for one in why.totals if one.currency]
    if spent:
        return max(spent)[1]
    totals = now.totals if now is not None else ()
    return next((one.currency for one in totals if one.currency), "")


def _burn_now(now: Burn | None, rates: Rates | None, was: Rates | None) -> BurnNow | None:
    if now is None or rates is None:
        return None
    change = None
    if was is not None and rates.total.is_priced and was.total.is_priced:
        change = amount_text(rates.total.quanta - was.total.quanta)
    return BurnNow(
        now.from_ms, now.upto_ms, rates.total.amount, was.total.amount if was is not None else None, change
    )


def unbooked_gpus(now: GpusNow) -> list[GpuState]:
    """Before the first hour is booked: what GPUs there are, and of none what it does."""
    lost = sum(one.lost or 0 for one in now.nodes)
    blind = sum(one.expected for one in now.nodes if one.is_blind)
    seen = len({key.uuid for key in now.gpus})
    counts = {"broken": lost, "unknown": seen + blind}
    return [GpuState(name, counts.get(name, 0), None) for name in STATES]


def _per_hour(rates: Rates | None) -> PerHour:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for whose, spent in rates.workloads.items() if rates is not None else ():
        if whose.workload is not None and spent.is_priced:
            found[workload_name(whose.workload)][whose.workload.cluster] += spent.quanta
    return found


def incidents_now(lasting: Iterable[Incident], money: MoneyNow) -> list[IncidentNow]:
    """The gravest first, and of these what has lost most."""
    worst = sorted(lasting, key=lambda one: (one.severity.gravity, -(one.lost_quanta or 0), one.onset_ms))
    return [_incident(one, money.per_hour, money.currency) for one in worst[:INCIDENTS]]


def lost_by(incidents: Iterable[Incident], currency: str) -> str | None:
    """By all of which it is known in that currency; None where that is none."""
    lost = [_lost(one, currency) for one in incidents]
    known = [one for one in lost if one is not None]
    return amount_text(sum(known)) if known else None


def _lost(one: Incident, currency: str) -> int | None:
    return one.lost_quanta if one.currency == currency else None


def _incident(one: Incident, per_hour: PerHour, currency: str) -> IncidentNow:
    clusters = clusters_of(one)
    costs = [
        quanta
        for name in one.workloads
        for cluster, quanta in per_hour.get(name, {}).items()
        if may_be_in(cluster, clusters)
    ]
    workload = one.subject.workload
    lost = _lost(one, currency)
    return IncidentNow(
        one.id,
        one.title,
        one.severity.value,
        WorkloadName(*workload) if workload is not None else None,
        list(one.workloads),
        one.subject.team,
        one.subject.node,
        one.onset_ms,
        amount_text(lost) if lost is not None else None,
        amount_text(sum(costs)) if costs else None,
        one.acknowledged_by or None,
    )


def _range_money(why: WhyAnswer, currency: str) -> RangeMoney:
    total = next((one for one in why.totals if one.currency == (currency or None)), None)
    rest = next((one for one in why.rest if one.currency == (currency or None)), None)
    return RangeMoney(
        why.from_ms,
        why.to_ms,
        total.spent if total is not None else None,
        total.for_nothing if total is not None else None,
        total.share if total is not None else None,
        total.buckets if total is not None else {},
        why.causes,
        rest.amount if rest is not None else None,
        rest.causes if rest is not None else None,
        sum(one.gpu_ms for one in why.totals if one.currency is None),
        why.hours,
        why.warnings,
    )


def _spenders(spent: Mapping[Spender, Spent], rates: Mapping[Spender, Spent]) -> list[SpenderNow]:
    largest = sorted(spent.items(), key=lambda one: (-one[1].quanta, -one[1].unpriced_ms))[:_SPENDERS]
    return [
        SpenderNow(
            whose.team,
            whose.workload_name,
            whose.is_fleet,
            now.amount if (now := rates.get(whose)) is not None else None,
            now.gpus if now is not None else None,
            one.amount,
            one.lost_amount,
            one.unpriced_ms,
        )
        for whose, one in largest
    ]


def _doubts(why: WhyAnswer, now: Burn | None, currency: str) -> Iterable[DoubtAnswer]:
    if now is None:
        yield DoubtAnswer(
            "not-booked",
            "nothing of the last hours is booked: how fast money goes, and on what, is not known yet",
            "hours are booked from the first GPU that reports; trilens ledger says more",
        )
    others = sorted({one.currency for one in why.totals if one.currency} - {currency})
    if others:
        yield DoubtAnswer(
            "several-currencies",
            f"only what costs {currency} is shown: there is spending in {', '.join(others)}, too",
            "the page Money has each currency",
        )
    hours = why.hours
    if missing := hours.asked - hours.booked:
        text = "1 hour of this span is" if missing == 1 else f"{missing:,} hours of this span are"
        yield DoubtAnswer("hours-missing", f"{text} not booked", None)
