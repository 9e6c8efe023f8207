"""Who held which GPU: bindings, each cut to the life of its pod and told with its workload."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.allocation import doubts
from trilens.model.gpu import HELD_BEFORE_SEEN

if TYPE_CHECKING:
    from fractions import Fraction

    from trilens.model.gpu import GpuKey
    from trilens.model.ledger_facts import Facts
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import Membership, PodKey

LAGS_MS: Final = 60_000  # who holds a GPU is looked at every 15 s: so short a time without a pod is no wonder


class Holding(NamedTuple):
    """A container has a GPU, or a part of one, inside of an hour."""

    gpu: GpuKey
    from_ms: int
    to_ms: int
    began_ms: int  # maybe before the hour
    is_open: bool  # nobody has told an end, neither of the binding nor of the pod
    member: Membership
    node: str
    container: str
    share: Fraction | None
    rank: int | None
    local_rank: int | None
    is_guess: bool = False  # nobody saw it: it is told of the time before the first look


class Held(NamedTuple):
    """`doubts` are about time that is in no holding, by code: how many GPU-milliseconds."""

    holdings: list[Holding]
    doubts: dict[str, int]


def held(facts: Facts, from_ms: int, to_ms: int) -> Held:
    members: dict[PodKey, list[MembershipInterval]] = {}
    told: defaultdict[str, int] = defaultdict(int)
    for interval in facts.members:
        if _is_forward(interval.from_ms, interval.to_ms, told):
            members.setdefault(interval.membership.pod, []).append(interval)
    holdings: list[Holding] = []
    for binding, begin_ms, end_ms in facts.bindings:
        if not _is_forward(begin_ms, end_ms, told):
            continue
        first = begin_ms if begin_ms > from_ms else from_ms
        last = to_ms if end_ms is None or end_ms > to_ms else end_ms
        if first >= last:
            continue
        is_guess = HELD_BEFORE_SEEN in [doubt.code for doubt in binding.doubts]
        for interval in members.get(binding.pod, ()):
            member_end = interval.to_ms
            since = interval.from_ms if interval.from_ms > first else first
            until = last if member_end is None or member_end > last else member_end
            if since >= until:
                continue
            holdings.append(
                Holding(
                    binding.gpu,
                    since,
                    until,
                    begin_ms if begin_ms > interval.from_ms else interval.from_ms,
                    end_ms is None and member_end is None,
                    interval.membership,
                    interval.node,
                    binding.container,
                    binding.share,
                    binding.rank,
                    binding.local_rank,
                    is_guess,
                )
            )
        if binding.pod not in members and last - first > LAGS_MS:
            told[doubts.HOLDER_UNKNOWN] += last - first
    holdings.sort(key=_order)
    return Held(holdings, told)


def _order(holding: Holding) -> tuple[str, str, int, PodKey, str, int]:
    gpu = holding.gpu
    return gpu.uuid, gpu.instance, holding.from_ms, holding.member.pod, holding.container, holding.to_ms


def _is_forward(from_ms: int, to_ms: int | None, told: defaultdict[str, int]) -> bool:
    """An interval that ends before it begins is empty, and said."""
    if to_ms is None or to_ms >= from_ms:
        return True
    told[doubts.CLOCK_JUMPED] += from_ms - to_ms
    return False
