"""GPUs that a fault took out of service, and since when they are back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.ledger import causes
from trilens.ledger.allocation.fleet import Outage
from trilens.model.gpu_fault import REMEMBERED_MS, GpuNumbers, takes_out
from trilens.model.ledger_facts import WORKS_MS
from trilens.model.machine import MachineState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.ledger.allocation.times import Times
    from trilens.model.event import EventRecord
    from trilens.model.ledger_facts import Facts
    from trilens.model.workload import GpuUuid


def fault_outages(
    facts: Facts, worked: Callable[[str], Times], from_ms: int, to_ms: int
) -> dict[str, list[Outage]]:
    """By UUID. `worked` tells when programs made progress on a GPU: then it was back. In earlier hours the
    books tell it."""
    by_gpu: defaultdict[GpuUuid, list[EventRecord]] = defaultdict(list)
    numbers = GpuNumbers(facts.gpus if facts.faults else ())
    for fault in sorted(facts.faults, key=lambda one: (one.t_ms, one.node, one.cluster, one.id)):
        uuid = numbers.gpu_of(fault)
        if uuid is not None and from_ms - REMEMBERED_MS <= fault.t_ms < to_ms and takes_out(fault):
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
