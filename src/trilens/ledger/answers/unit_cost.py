"""What one of something cost: a step, a million tokens, a request, a percent of improvement."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.ledger import as_amount
from trilens.model.ledger_sums import Unit

if TYPE_CHECKING:
    from decimal import Decimal

    from numpy.typing import NDArray

    from trilens.ledger.source import ServingMinutes
    from trilens.model.ledger_facts import Facts
    from trilens.model.ledger_sums import Sum
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
    Unit.TOKEN: "what a run or an inference server cost in these hours by a million tokens: of all ranks and "
    "kept steps, or those that came out",
    Unit.REQUEST: "what an inference server cost in these hours, idle or not, by the requests that ended",
    Unit.IMPROVEMENT: "what a run cost from its beginning on, where all of that is booked, by how far its "
    "best validation value is from its first, in percent of the first",
}


class Served(NamedTuple):
    requests: int | None
    tokens: int | None


def per_unit(cost: Sum, units: Decimal | None) -> Decimal | None:
    """None where there is nothing to divide by, or a part of the cost has no price."""
    if units is None or units <= 0 or not cost.currency or cost.unpriced_ms:
        return None
    return as_amount(cost.quanta) / units


def served(facts: Facts, minutes: ServingMinutes) -> dict[WorkloadKey, Served]:
    """By the workload that each pod is in; None where its servers did not tell."""
    workload_of = {
        (
            one.membership.pod.cluster,
            one.membership.pod.namespace,
            one.membership.pod.name,
        ): one.membership.workload
        for one in facts.members
    }
    found: defaultdict[WorkloadKey, list[Served]] = defaultdict(list)
    for pod, row in minutes.pods.items():
        workload = workload_of.get(pod)
        if workload is not None:
            found[workload].append(Served(_total(minutes.requests[row]), _total(minutes.tokens[row])))
    return {workload: together(each) for workload, each in found.items()}


def together(each: list[Served]) -> Served:
    def add(told: list[int | None]) -> int | None:
        known = [one for one in told if one is not None]
        return sum(known) if known else None

    return Served(add([one.requests for one in each]), add([one.tokens for one in each]))


def _total(told: NDArray[np.float64]) -> int | None:
    return None if np.isnan(told).all() else round(float(np.nansum(told)))
