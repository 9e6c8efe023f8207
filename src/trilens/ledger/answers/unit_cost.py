"""What one of something cost: a step, a million tokens, a request, a percent of improvement."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.ledger import as_amount
from trilens.model.ledger_sums import TOLD_WELL, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trilens.ledger.source import ServingMinutes
    from trilens.model.ledger_facts import Facts
    from trilens.model.ledger_sums import Sum
    from trilens.model.workload import WorkloadKey

    _Pod: TypeAlias = tuple[str, str, str]  # cluster, namespace, name
    _Span: TypeAlias = tuple[int, int | None]  # since when, and until when if it is over

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


class Served(NamedTuple):
    """What came out of a workload's servers, None where that is not told of, in `told` of the `there` minutes
    in which its pods held GPUs."""

    requests: int | None
    tokens: int | None
    told: float
    there: int

    @property
    def share(self) -> Decimal:
        return min(Decimal(1), Decimal(repr(self.told)) / self.there) if self.there else Decimal(1)


def per_unit(cost: Sum, units: Decimal | None, told: Decimal | None = None) -> Decimal | None:
    """None where there is nothing to divide by, or a part of the cost has no price. Where units are told of
    only in a part of the time, they are divided into what that part cost: all of the cost by a part of the
    units would be a price many times too high."""
    if units is None or units <= 0 or not cost.currency or cost.unpriced_ms:
        return None
    share = told if told is not None and told < TOLD_WELL else Decimal(1)
    return as_amount(cost.quanta) * share / units


def served(facts: Facts, minutes: ServingMinutes) -> dict[WorkloadKey, Served]:
    """By workload, also where none of its pods told of anything: it may in another span."""
    held: defaultdict[_Pod, list[_Span]] = defaultdict(list)  # for each of its GPUs, which is what costs
    for binding in facts.bindings:
        held[binding.binding.pod[:3]].append((binding.from_ms, binding.to_ms))
    pods: defaultdict[WorkloadKey, defaultdict[_Pod, list[_Span]]] = defaultdict(lambda: defaultdict(list))
    for member in facts.members:
        pods[member.membership.workload][member.membership.pod[:3]].append((member.from_ms, member.to_ms))
    return {workload: _served(of, held, minutes) for workload, of in pods.items()}


def together(each: list[Served]) -> Served:
    """Of one workload, in several spans."""
    return Served(
        _sum(one.requests for one in each),
        _sum(one.tokens for one in each),
        sum(one.told for one in each),
        sum(one.there for one in each),
    )


def _served(
    pods: Mapping[_Pod, list[_Span]], held: Mapping[_Pod, list[_Span]], minutes: ServingMinutes
) -> Served:
    gpus = _many([span for pod in pods for span in held.get(pod, ())], minutes)
    there = int(gpus.sum())
    tellers = [pod for pod in pods if pod in minutes.pods]
    if not tellers:
        return Served(None, None, 0.0, there)
    rows = [minutes.pods[pod] for pod in tellers]
    requests, tokens = minutes.requests[rows], minutes.tokens[rows]
    # A counter may come into being with the first request: who tells how much it works tells of none before.
    knows = ~(np.isnan(requests) & np.isnan(tokens) & np.isnan(minutes.running[rows]))
    stays = np.zeros(knows.shape, bool)
    for row, pod in enumerate(tellers):
        spans = held.get(pod) or pods[pod]
        stays[row] = _many(spans, minutes) > 0
        if knows[row].any() and min(begin for begin, _ in spans) > minutes.from_ms:
            knows[row, : int(knows[row].argmax())] = True  # it starts, and nothing comes out of it yet
    # Of replicas over several pods one tells for all of its own.
    told = gpus * (stays & knows).sum(axis=0) / np.maximum(stays.sum(axis=0), 1)
    return Served(_total(requests), _total(tokens), float(told.sum()), there)


def _many(spans: list[_Span], minutes: ServingMinutes) -> NDArray[np.int64]:
    """How many of them last, in each minute."""
    width = minutes.requests.shape[1]
    changes = np.zeros(width + 1, np.int64)
    for begin, end in spans:
        first = max(begin - minutes.from_ms, 0) // MINUTE_MS
        last = width if end is None else -(-(end - minutes.from_ms) // MINUTE_MS)
        if first < min(last, width):
            changes[first] += 1
            changes[min(last, width)] -= 1
    return np.cumsum(changes[:-1])


def _total(told: NDArray[np.float64]) -> int | None:
    return None if np.isnan(told).all() else round(float(np.nansum(told)))


def _sum(each: Iterable[int | None]) -> int | None:
    known = [one for one in each if one is not None]
    return sum(known) if known else None
