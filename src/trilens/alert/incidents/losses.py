"""What an incident has cost so far: GPUs that stood still in full, those that were slow in part."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.alert.incidents.causes import STANDSTILL
from trilens.model.ledger import HOUR_MS, as_quanta

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.alert.incidents.told import Told
    from trilens.model.workload import WorkloadKey


class HourlyCosts(Protocol):
    @property
    def currency(self) -> str: ...

    def of(self, workload: WorkloadKey) -> Decimal | None:
        """What its GPUs cost an hour, or did before it lost them; None where no price is known."""


class Loss(NamedTuple):
    quanta: int
    currency: str


class Share(NamedTuple):
    """So much of a workload's time was lost from one moment to another."""

    workload: WorkloadKey
    from_ms: int
    to_ms: int
    part: Decimal  # 0 to 1

    @classmethod
    def of(cls, told: Told, workload: WorkloadKey, now_ms: int) -> Share | None:
        """None where it costs nothing, or nobody knows how much."""
        symptom = told.symptom
        to_ms = symptom.ended_ms if symptom.ended_ms is not None else now_ms
        if told.trouble in STANDSTILL:
            return cls(workload, symptom.onset_ms, to_ms, _ALL)
        if told.slowdown is not None and told.slowdown > 1:
            return cls(workload, symptom.onset_ms, to_ms, _ALL - _ALL / Decimal(told.slowdown))
        return None


_ALL: Final = Decimal(1)


def lost(shares: Iterable[Share], costs: HourlyCosts) -> Loss | None:
    """Of moments with several losses of one workload the greatest counts. None where no price is known of
    any."""
    by_workload: defaultdict[WorkloadKey, list[Share]] = defaultdict(list)
    for share in shares:
        by_workload[share.workload].append(share)
    amounts = [
        per_hour * _lost_ms(its) / HOUR_MS
        for workload, its in by_workload.items()
        if (per_hour := costs.of(workload)) is not None
    ]
    return Loss(as_quanta(sum(amounts, Decimal(0))), costs.currency) if amounts else None


def _lost_ms(shares: Iterable[Share]) -> Decimal:
    its = [share for share in shares if share.from_ms < share.to_ms]
    edges = sorted({edge for share in its for edge in (share.from_ms, share.to_ms)})
    total = Decimal(0)
    for start, end in pairwise(edges):
        part = max((one.part for one in its if one.from_ms <= start < one.to_ms), default=Decimal(0))
        total += part * (end - start)
    return total
