"""What one of something cost: a step, a million tokens, a request, a percent of improvement."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.ledger import as_amount
from trilens.model.ledger_sums import TOLD_WELL, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.ledger.source import ServingMinutes
    from trilens.model.ledger_facts import Facts
    from trilens.model.ledger_sums import Sum
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import WorkloadKey


COUNTED_IN: Final = {
    Unit.STEP: "step",
    Unit.TOKEN: "million tokens",
    Unit.REQUEST: "request",
    Unit.IMPROVEMENT: "percent",
}
DEFINED_AS: Final = {
    Unit.STEP: "what a run cost in these hours by the steps that it kept: one for all ranks, without those "
    "that a crash threw away",
    Unit.TOKEN: "what a run or an inference server cost in these hours by a million tokens: of a run those "
    "of all its ranks and kept steps, of a server those that came out (completion tokens, no prompts)",
    Unit.REQUEST: "what an inference server cost in these hours, idle or not, by the requests that ended",
    Unit.IMPROVEMENT: "what a run cost from its beginning on, where all of that is booked, by how far its "
    "best validation value is from its first, in percent of the first",
}


class Told(NamedTuple):
    """`many` were told of in `told` of the `there` minutes of the workload's pods; None where nobody told."""

    many: int | None
    told: float
    there: int

    @property
    def share(self) -> Decimal:
        return min(Decimal(1), Decimal(repr(self.told)) / self.there) if self.there else Decimal(1)


class Served(NamedTuple):
    requests: Told
    tokens: Told


def per_unit(cost: Sum, units: Decimal | None, told: Decimal | None = None) -> Decimal | None:
    """None where there is nothing to divide by, or a part of the cost has no price. Where units are told of
    only in a part of the time, they are divided into what that part cost: all of the cost by a part of the
    units would be a price many times too high."""
    if units is None or units <= 0 or not cost.currency or cost.unpriced_ms:
        return None
    share = told if told is not None and told < TOLD_WELL else Decimal(1)
    return as_amount(cost.quanta) * share / units


def served(facts: Facts, minutes: ServingMinutes) -> dict[WorkloadKey, Served]:
    """By the workload that each pod is in, also where it told of nothing: it may in another span."""
    lives: defaultdict[WorkloadKey, defaultdict[tuple[str, str, str], list[MembershipInterval]]]
    lives = defaultdict(lambda: defaultdict(list))
    for one in facts.members:
        lives[one.membership.workload][one.membership.pod[:3]].append(one)
    found = {}
    for workload, of in lives.items():
        width = minutes.tokens.shape[1]
        if not any(pod in minutes.pods for pod in of):
            untold = Told(None, 0.0, sum(_many(each, minutes.from_ms, width) for each in of.values()))
            found[workload] = Served(untold, untold)
            continue
        there = np.array([_there(each, minutes.from_ms, width) for each in of.values()])
        rows = [(at, minutes.pods[pod]) for at, pod in enumerate(of) if pod in minutes.pods]
        places, told = (list(each) for each in zip(*rows, strict=True))
        found[workload] = Served(
            _told(minutes.requests[told], there, places), _told(minutes.tokens[told], there, places)
        )
    return found


def together(each: list[Served]) -> Served:
    """Of one workload, in several spans."""

    def add(parts: list[Told]) -> Told:
        known = [one.many for one in parts if one.many is not None]
        return Told(
            sum(known) if known else None, sum(one.told for one in parts), sum(one.there for one in parts)
        )

    return Served(add([one.requests for one in each]), add([one.tokens for one in each]))


def _many(lives: list[MembershipInterval], from_ms: int, width: int) -> int:
    """The minutes in which a pod was there: of a fleet, of which few pods serve, without looking at each."""
    end_ms = from_ms + width * MINUTE_MS
    spans = [(max(one.from_ms, from_ms), min(one.to_ms or end_ms, end_ms)) for one in lives]
    return sum(-(-(end - begin) // MINUTE_MS) for begin, end in spans if begin < end)


def _there(lives: list[MembershipInterval], from_ms: int, width: int) -> NDArray[np.bool_]:
    """In which minutes a pod was there."""
    begins = from_ms + MINUTE_MS * np.arange(width)
    found = np.zeros(width, bool)
    for one in lives:
        found |= (begins + MINUTE_MS > one.from_ms) & (begins < (one.to_ms or np.inf))
    return found


def _told(told: NDArray[np.float64], there: NDArray[np.bool_], places: list[int]) -> Told:
    """`told` are the rows of the pods at `places`. Of replicas over several pods one tells for all of its
    own: all pods of a minute count as told as far as those that ever tell do."""
    alive = there.sum(axis=0)
    ever = ~np.isnan(told).all(axis=1)
    if not ever.any():
        return Told(None, 0.0, int(alive.sum()))
    tellers = there[places][ever]
    telling = (tellers & ~np.isnan(told[ever])).sum(axis=0)
    minutes = alive * telling / np.maximum(tellers.sum(axis=0), 1)
    return Told(round(float(np.nansum(told))), float(minutes.sum()), int(alive.sum()))
