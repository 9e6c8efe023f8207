"""Whose the time of a holding is, as it was at that time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.allocation import doubts
from trilens.ledger.allocation.booking_time import Hold
from trilens.model.gpu import HELD_BEFORE_SEEN
from trilens.model.ledger import FLEET, Holder
from trilens.model.ledger_facts import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.allocation.holding_time import Line
    from trilens.ledger.allocation.holdings import Holding
    from trilens.model.ledger_facts import Facts
    from trilens.model.run import RunId
    from trilens.model.workload import Membership, WorkloadKey

_NOBODY: Final = Owner(0, None, None, None, None)
_BEGINNING: Final = attrgetter("from_ms")


class HoldsOfGpus(NamedTuple):
    by_gpu: dict[str, list[Hold]]  # by UUID, in the order of the holdings
    holders: list[Holder]  # in their order, the fleet first: the numbers in `by_gpu`
    doubts: dict[str, int]  # about time that is in none of them


def holds_of(
    lines: Sequence[Line], holdings: Sequence[Holding], facts: Facts, there_until: Mapping[str, int]
) -> HoldsOfGpus:
    """`there_until` is until when the node of each GPU was there."""
    whose = _Whose(facts)
    pieces: list[tuple[Line, Holding, int, int, int, tuple[str, ...]]] = []
    untold: defaultdict[str, int] = defaultdict(int)
    for line in lines:
        at, run, from_ms, to_ms, _, codes = line
        holding = holdings[at]
        member = holding.member
        if holding.is_guess:
            codes = (*codes, HELD_BEFORE_SEEN)
        until = there_until.get(holding.gpu.uuid)
        if holding.is_open and (until is None or until < to_ms):
            if until is None:
                untold[doubts.POD_WITHOUT_END] += to_ms - from_ms
                continue
            codes = (*codes, doubts.POD_WITHOUT_END)
        owned = whose.owned(member.workload, from_ms, to_ms)
        if len(owned) > 1:
            codes = (*codes, doubts.TEAM_CHANGED)
        if len(codes) > 1:
            codes = tuple(sorted(codes))
        for begin, end, owner in owned:
            pieces.append((line, holding, begin, end, whose.number(member, run, owner), codes))
    holders, places = _in_order(whose.holders)
    found: defaultdict[str, list[Hold]] = defaultdict(list)
    for line, holding, begin, end, number, codes in pieces:
        gpu, share = holding.gpu, holding.share
        found[gpu.uuid].append(Hold(line.holding, gpu, begin, end, share, places[number], line.spans, codes))
    return HoldsOfGpus(found, holders, untold)


class _Whose:
    """The holders of an hour, numbered as they are met; the fleet is the first."""

    def __init__(self, facts: Facts) -> None:
        self._owners = facts.owners
        self._runs = facts.runs
        self._in_turn: dict[WorkloadKey, list[Owner]] = {}
        self._met: dict[tuple[int, RunId | None, Owner], int] = {}
        self._numbers: dict[Holder, int] = {FLEET: 0}

    @property
    def holders(self) -> list[Holder]:
        return [*self._numbers]

    def owned(self, workload: WorkloadKey, from_ms: int, to_ms: int) -> list[tuple[int, int, Owner]]:
        """Who a workload belonged to, one after the other."""
        told = self._owners.get(workload, ())
        if len(told) < 2:
            return [(from_ms, to_ms, told[0] if told else _NOBODY)]
        owners = self._in_turn.get(workload)
        if owners is None:
            # Of two at once always the same.
            owners = sorted(told, key=lambda owner: (owner.from_ms, repr(owner)))
            self._in_turn[workload] = owners
        first = max(bisect_right(owners, from_ms, key=_BEGINNING) - 1, 0)
        ends = [*(owner.from_ms for owner in owners[first + 1 :]), to_ms]
        found: list[tuple[int, int, Owner]] = []
        begin = from_ms
        for owner, end in zip(owners[first:], ends, strict=True):
            if begin < min(end, to_ms):
                found.append((begin, min(end, to_ms), owner))
                begin = min(end, to_ms)
        return found

    def number(self, member: Membership, run: RunId | None, owner: Owner) -> int:
        met = id(member), run, owner  # a pod has several GPUs
        known = self._met.get(met)
        if known is None:
            told = self._runs.get(run) if run is not None else None
            holder = Holder(
                workload=member.workload,
                attempt=member.attempt,
                namespace=member.pod.namespace,
                run=run,
                experiment=(told.experiment if told is not None else None) or owner.experiment,
                team=owner.team,
                cost_centre=owner.cost_centre,
                queue=owner.queue,
            )
            known = self._met[met] = self._numbers.setdefault(holder, len(self._numbers))
        return known


def _in_order(holders: Sequence[Holder]) -> tuple[list[Holder], list[int]]:
    """Sorted, and the place of each in that order, which does not depend on who was met first."""
    order = sorted(range(len(holders)), key=lambda number: _order(holders[number]))
    places = [0] * len(holders)
    for place, number in enumerate(order):
        places[number] = place
    return [holders[number] for number in order], places


def _order(holder: Holder) -> tuple[object, ...]:
    """What is not told comes first."""
    return tuple([() if told is None else (told,) for told in holder])
