"""What an incident has cost so far: GPUs that stood still in full, those that were slow in part."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.alert.incidents.causes import STANDSTILL
from trilens.model.ledger import HOUR_MS, as_amount, as_quanta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.alert.incidents.told import Told
    from trilens.model.incident import SymptomKind
    from trilens.model.workload import WorkloadKey

_ALL: Final = Decimal(1)
_MOST_PIECES: Final = 200  # of a workload; what is older is a sum


class HourlyCosts(Protocol):
    @property
    def currency(self) -> str: ...

    def of(self, workload: WorkloadKey) -> Decimal | None:
        """What its GPUs cost an hour, or did before it lost them; None where no price is known."""


class Loss(NamedTuple):
    quanta: int
    currency: str


class Share(NamedTuple):
    """So much of a workload's time was lost from one moment to another, by one symptom."""

    symptom: tuple[SymptomKind, str]
    workload: WorkloadKey
    from_ms: int
    to_ms: int
    part: Decimal  # 0 to 1

    @classmethod
    def of(cls, told: Told, workload: WorkloadKey, now_ms: int) -> Share | None:
        """None where it costs nothing, or nobody knows how much."""
        symptom = told.symptom
        from_ms = max(symptom.onset_ms, told.since_ms.get(workload, symptom.onset_ms))
        to_ms = symptom.ended_ms if symptom.ended_ms is not None else now_ms
        if told.trouble in STANDSTILL:
            return cls(told.key, workload, from_ms, to_ms, _ALL)
        if told.slowdown is not None and told.slowdown > 1:
            return cls(told.key, workload, from_ms, to_ms, _ALL - _ALL / Decimal(told.slowdown))
        return None


class _Piece(NamedTuple):
    from_ms: int
    to_ms: int
    part: Decimal
    per_hour: Decimal

    @property
    def amount(self) -> Decimal:
        return self.part * self.per_hour * (self.to_ms - self.from_ms) / HOUR_MS


class Losses:
    """Of one incident, added up as it goes on: a workload that costs less now, or is slowed down less, has
    lost what it had."""

    def __init__(self, before: Loss | None = None, until_ms: int = 0) -> None:
        """`before` is what was lost until then, when it was read back from disk."""
        self.until_ms = until_ms  # up to when it was counted
        self._currency = before.currency if before is not None else None
        self._sum = as_amount(before.quanta) if before is not None else Decimal(0)
        self._summed_ms = until_ms  # all until then is in the sum, or counts no more
        self._pieces: dict[WorkloadKey, list[_Piece]] = {}
        self._counted_ms: dict[tuple[tuple[SymptomKind, str], WorkloadKey], int] = {}

    @property
    def loss(self) -> Loss | None:
        """None where no price is known of any."""
        if self._currency is None:
            return None
        pieces = sum((one.amount for its in self._pieces.values() for one in its), self._sum)
        return Loss(as_quanta(pieces), self._currency)

    def count(self, shares: Iterable[Share], costs: HourlyCosts) -> None:
        """What is new of them, at what it costs now. Of moments with several losses of one workload the
        greatest counts."""
        if self._currency is not None and self._currency != costs.currency:
            return
        by_workload: defaultdict[WorkloadKey, list[_Piece]] = defaultdict(list)
        for share in shares:
            per_hour = costs.of(share.workload)
            if per_hour is None:
                continue
            self._currency = costs.currency
            who = (share.symptom, share.workload)
            from_ms = max(share.from_ms, self._counted_ms.get(who, 0), self._summed_ms)
            if from_ms < share.to_ms:
                self._counted_ms[who] = share.to_ms
                self.until_ms = max(self.until_ms, share.to_ms)
                by_workload[share.workload].append(_Piece(from_ms, share.to_ms, share.part, per_hour))
        for workload, pieces in by_workload.items():
            self._put(workload, pieces)

    def absorb(self, other: Losses) -> None:
        """Those of an incident that turned out to be this one."""
        if other._currency is None or self._currency not in (None, other._currency):
            return
        self._currency = other._currency
        self._sum += other._sum
        self._summed_ms = max(self._summed_ms, other._summed_ms)
        self.until_ms = max(self.until_ms, other.until_ms)
        for workload, pieces in other._pieces.items():
            self._put(workload, pieces)
        for who, until_ms in other._counted_ms.items():
            self._counted_ms[who] = max(until_ms, self._counted_ms.get(who, 0))

    def _put(self, workload: WorkloadKey, pieces: Sequence[_Piece]) -> None:
        its = _overlaid([*self._pieces.get(workload, ()), *pieces])
        for one in its[:-_MOST_PIECES]:
            self._sum += one.amount
            self._summed_ms = max(self._summed_ms, one.to_ms)
        self._pieces[workload] = its[-_MOST_PIECES:]


def _overlaid(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Side by side, with the greatest part of each moment; of two that are as great, the first."""
    edges = sorted({edge for one in pieces for edge in (one.from_ms, one.to_ms)})
    found: list[_Piece] = []
    for start, end in pairwise(edges):
        there = [one for one in pieces if one.from_ms <= start < one.to_ms]
        if not there:
            continue
        most = max(there, key=lambda one: one.part)._replace(from_ms=start, to_ms=end)
        if found and found[-1].to_ms == start and found[-1][2:] == most[2:]:
            most = most._replace(from_ms=found.pop().from_ms)
        found.append(most)
    return found
