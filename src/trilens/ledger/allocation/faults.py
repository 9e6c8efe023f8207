"""GPUs that a fault took out of service, and since when they are back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger import causes
from trilens.ledger.allocation.fleet import Outage
from trilens.model.event import EventKind
from trilens.model.ledger_facts import WORKS_MS
from trilens.model.machine import MachineState
from trilens.model.xid import XIDS, Asks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.ledger.allocation.times import Times
    from trilens.model.event import EventRecord
    from trilens.model.ledger_facts import Facts

REMEMBERED_MS: Final = 86_400_000  # what a fault broke a day before is mended, or not ready, or lost by now


def fault_outages(
    facts: Facts, worked: Callable[[str], Times], from_ms: int, to_ms: int
) -> dict[str, list[Outage]]:
    """By UUID. `worked` tells when programs made progress on a GPU: then it was back. In earlier hours the
    books tell it."""
    by_gpu: defaultdict[str, list[EventRecord]] = defaultdict(list)
    numbers = _by_number(facts) if facts.faults else {}
    for fault in sorted(facts.faults, key=lambda one: (one.t_ms, one.node, one.cluster, one.id)):
        uuid = fault.uuid or _only_one(fault, numbers.get((fault.node, str(fault.gpu)), {}))
        if uuid is not None and from_ms - REMEMBERED_MS <= fault.t_ms < to_ms and _takes_out(fault):
            by_gpu[uuid].append(fault)
    returns = _returns(facts) if by_gpu else {}
    found: dict[str, list[Outage]] = {}
    for uuid, faults in by_gpu.items():
        outages: list[Outage] = []
        before = [hour_ms for hour_ms in facts.worked.get(uuid, ()) if hour_ms < from_ms]
        for fault in faults:
            back = _back_ms(fault, worked(uuid), [*returns.get(uuid, ()), *before])
            begin, end = max(fault.t_ms, from_ms), to_ms if back is None else min(back, to_ms)
            if outages and begin < outages[-1].to_ms:
                begin = outages[-1].to_ms  # the first of several is what it is out for
            if begin < end:
                outages.append(Outage(begin, end, causes.FAULT, fault.t_ms))
        found[uuid] = outages
    return found


def _takes_out(fault: EventRecord) -> bool:
    meaning = XIDS.get(fault.code) if fault.kind is EventKind.XID and fault.code is not None else None
    return meaning is not None and meaning.asks in (Asks.GPU_RESET, Asks.NODE_OUT)


def _by_number(facts: Facts) -> dict[tuple[str, str], dict[str, str]]:
    """By node and number, then by cluster: the last that was there."""
    found: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for interval in sorted(facts.gpus, key=lambda one: (one.from_ms, one.gpu.key)):
        gpu = interval.gpu
        if gpu.index:
            found[gpu.node, gpu.index][gpu.cluster] = gpu.key.uuid
    return found


def _only_one(fault: EventRecord, by_cluster: Mapping[str, str]) -> str | None:
    fitting = [uuid for cluster, uuid in by_cluster.items() if fault.may_be_in(cluster)]
    return fitting[0] if len(fitting) == 1 else None


def _returns(facts: Facts) -> dict[str, list[int]]:
    """When a GPU began to report, or its node to be ready: after a fault, that is coming back."""
    ready: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for interval in facts.machines:
        if interval.machine.state is MachineState.READY:
            ready[interval.machine.cluster, interval.machine.node].append(interval.from_ms)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for gpu in facts.gpus:
        found[gpu.gpu.key.uuid] += [gpu.from_ms, *ready.get((gpu.gpu.cluster, gpu.gpu.node), ())]
    return found


def _back_ms(fault: EventRecord, worked: Times, returns: Sequence[int]) -> int | None:
    times = [at_ms for at_ms in returns if at_ms > fault.t_ms]
    times += [max(begin, fault.t_ms) for begin, end in worked if end - max(begin, fault.t_ms) > WORKS_MS]
    return min(times, default=None)
