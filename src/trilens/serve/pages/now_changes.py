"""What is different from yesterday: rates of teams, workloads that began or ended, GPUs, incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.burn import burn
from trilens.model.ledger import HOUR_MS
from trilens.serve.money.cost_view import amount_text
from trilens.serve.pages.now_answers import ChangedRate, Changes, LostGpus, NewIncidents
from trilens.serve.pages.now_money import lost_by
from trilens.serve.pages.now_rates import BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.answers.burn import Burn
    from trilens.ledger.source import LedgerBook
    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.resolve.gpus.missing import NodeGpus
    from trilens.serve.pages.now_rates import Rates, Spender, Spent

DAY_MS: Final = 24 * HOUR_MS
_SHOWN: Final = 5
_SMALL: Final = 0.02  # of a team's rate: less than that is how jobs come and go


class Before(NamedTuple):
    """How it was at a moment; `is_yesterday` is false where less than a day is known."""

    at_ms: int
    is_yesterday: bool
    burn: Burn


def before(book: LedgerBook, now_ms: int, guard: QueryGuard | None) -> Before | None:
    """A day ago, or in the first hour that is known; None where that is the present."""
    this_hour = now_ms // HOUR_MS * HOUR_MS
    yesterday = burn(book, BY, now_ms - DAY_MS, {}, guard)
    if yesterday is not None:
        return Before(now_ms - DAY_MS, True, yesterday)
    known = sorted({one.hour_ms for one in book.hours(now_ms - DAY_MS, this_hour, guard=guard)})
    if not known:
        return None
    first = known[1] if len(known) > 1 else known[0]  # the very first is when everything starts
    found = burn(book, BY, first + HOUR_MS - 1, {}, guard)
    return Before(found.from_ms, False, found) if found is not None else None


def changes(
    now: Rates | None,
    was: Rates | None,
    incidents: NewIncidents,
    nodes: Iterable[NodeGpus],
) -> Changes:
    lost = [LostGpus(one.cluster, one.node, one.lost) for one in nodes if one.lost]
    lost.sort(key=lambda one: (-one.gpus, one.node))
    if now is None or was is None:
        return Changes(incidents, None, None, None, None, None, None, None, lost)
    began = [
        _changed(whose, None, now.workloads[whose]) for whose in now.workloads if whose not in was.workloads
    ]
    ended = [
        _changed(whose, was.workloads[whose], None) for whose in was.workloads if whose not in now.workloads
    ]
    return Changes(
        incidents,
        _teams(now.teams, was.teams),
        _largest(began),
        len(began),
        _largest(ended),
        len(ended),
        round(was.total.gpus),
        round(now.total.gpus),
        lost,
    )


def new_incidents(known: Iterable[Incident], since_ms: int, currency: str) -> NewIncidents:
    new = [one for one in known if one.detected_ms >= since_ms and one.merged_into is None]
    over = sum(one.resolved_ms is not None for one in new)
    return NewIncidents(len(new), over, lost_by(new, currency))


def _teams(now: Mapping[Spender, Spent], was: Mapping[Spender, Spent]) -> list[ChangedRate]:
    found = []
    for whose in {**now, **was}:
        then, here = was.get(whose), now.get(whose)
        moved = abs((here.quanta if here else 0) - (then.quanta if then else 0))
        if moved > _SMALL * (then.quanta if then else 0):
            found.append(_changed(whose, then, here))
    return _largest(found)


def _changed(whose: Spender, was: Spent | None, now: Spent | None) -> ChangedRate:
    moved = (now.quanta if now is not None else 0) - (was.quanta if was is not None else 0)
    return ChangedRate(
        whose.team,
        whose.workload_name,
        whose.is_fleet,
        was.amount if was is not None else None,
        now.amount if now is not None else None,
        amount_text(moved),
        was.gpus if was is not None else 0.0,
        now.gpus if now is not None else 0.0,
    )


def _largest(found: Sequence[ChangedRate]) -> list[ChangedRate]:
    """Without a price, by GPUs."""
    return sorted(found, key=lambda one: (-abs(float(one.change)), -abs(one.gpus - one.gpus_before)))[:_SHOWN]
