"""Which GPUs have a fault of their hardware that nothing shows to be mended, and which fault that is.

An Xid is told once, and the finding of it is over minutes later; the GPU stays as it is until somebody resets
it. Events tell of it, also those that agents kept while this server was away, of which there is no finding;
and findings of what DCGM alone has told. Which Xids count is one rule with the ledger (model/gpu_fault.py).
What shows that the GPU is back is what the ledger takes for it, too (ledger/allocation/faults.py), as far as
that is on disk: of the hour of the fault itself nobody has booked yet whether a program worked after it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.detect.gpu_fault import CODE, what_to_do
from trilens.model.event import EventRecord
from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.gpu_fault import REMEMBERED_MS, GpuNumbers, may_take_out, xid_meaning
from trilens.model.machine import MachineState
from trilens.model.xid import XIDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trilens.model.finding import FindingInterval
    from trilens.model.gpu import GpuInterval
    from trilens.model.machine import MachineInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import GpuUuid

_SAME_MS: Final = 3_000  # who asks so soon after somebody else has the same answer
_XID: Final = "xid-"


class GpuFaults(Protocol):
    def at(self, now_ms: int, guard: QueryGuard | None = None) -> Mapping[GpuUuid, Finding]: ...


class Findings(Protocol):
    def during(
        self,
        from_ms: int,
        to_ms: int,
        *,
        kinds: Collection[FindingKind] = (),
        causes: Collection[str] = (),
        guard: QueryGuard | None = None,
    ) -> Sequence[FindingInterval]: ...


class Events(Protocol):
    def taking_out(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Sequence[EventRecord]: ...


class GpuLives(Protocol):
    def gpus_named(
        self, uuids: Collection[str], until_ms: int, guard: QueryGuard | None = None
    ) -> Sequence[GpuInterval]: ...

    def gpus_on(
        self, nodes: Collection[str], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> Sequence[GpuInterval]: ...


class MachineLives(Protocol):
    def unfinished(self) -> Sequence[MachineInterval]: ...


class BookedWork(Protocol):
    def hours_of_work(
        self, gpus: Collection[str], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Mapping[str, Sequence[int]]: ...


class _Fault(NamedTuple):
    gpu: GpuUuid
    since_ms: int
    told: Finding | EventRecord


class _Found(NamedTuple):
    at_ms: int
    faults: Mapping[GpuUuid, Finding]


class StandingFaults:
    """Thread-safe."""

    def __init__(
        self,
        findings: Findings,
        events: Events,
        gpus: GpuLives,
        machines: MachineLives,
        booked: BookedWork,
    ) -> None:
        self._findings = findings
        self._events = events
        self._gpus = gpus
        self._machines = machines
        self._booked = booked
        self._found: _Found | None = None

    def at(self, now_ms: int, guard: QueryGuard | None = None) -> Mapping[GpuUuid, Finding]:
        """The first that stands, of each GPU: what came after it followed. Raises TrilensError."""
        found = self._found
        if found is None or abs(now_ms - found.at_ms) > _SAME_MS:
            self._found = found = _Found(now_ms, self._standing(now_ms, guard))
        return found.faults

    def _standing(self, now_ms: int, guard: QueryGuard | None) -> Mapping[GpuUuid, Finding]:
        since_ms = now_ms - REMEMBERED_MS
        faults = [*self._found_faults(since_ms, now_ms, guard), *self._told_faults(since_ms, now_ms, guard)]
        if not faults:
            return {}
        returns = self._returns({one.gpu for one in faults}, now_ms, guard)
        standing: dict[GpuUuid, Finding] = {}
        for one in sorted(faults, key=lambda one: one.since_ms):
            if one.gpu not in standing and one.since_ms >= returns[one.gpu]:
                standing[one.gpu] = _of_the_gpu_alone(one)
        return standing

    def _found_faults(self, since_ms: int, now_ms: int, guard: QueryGuard | None) -> list[_Fault]:
        causes = [f"{_XID}{code}" for code in may_take_out()]
        found = self._findings.during(
            since_ms, now_ms, kinds=(FindingKind.GPU_FAULT,), causes=causes, guard=guard
        )
        return [
            _Fault(gpu, one.finding.onset_ms, one.finding)
            for one in found
            if one.finding.onset_ms >= since_ms
            and one.finding.severity is Severity.CRITICAL  # it asks for that, by all that its line said
            and (gpu := one.finding.subject.gpu) is not None
        ]

    def _told_faults(self, since_ms: int, now_ms: int, guard: QueryGuard | None) -> list[_Fault]:
        told = self._events.taking_out(since_ms, now_ms, guard=guard)
        nameless = {one.node for one in told if not one.uuid}
        numbers = GpuNumbers(self._gpus.gpus_on(nameless, since_ms, now_ms, guard))
        return [_Fault(gpu, one.t_ms, one) for one in told if (gpu := numbers.gpu_of(one)) is not None]

    def _returns(
        self, uuids: Collection[GpuUuid], now_ms: int, guard: QueryGuard | None
    ) -> Mapping[GpuUuid, int]:
        """When each was last seen to be back: it reported anew, its node was ready anew, a program worked."""
        ready = {
            (one.machine.cluster, one.machine.node): one.from_ms
            for one in self._machines.unfinished()
            if one.machine.state is MachineState.READY
        }
        hours = self._booked.hours_of_work(uuids, now_ms - REMEMBERED_MS, now_ms, guard=guard)
        found = {uuid: max(hours.get(uuid, ()), default=0) for uuid in uuids}
        for interval in self._gpus.gpus_named(uuids, now_ms, guard):
            gpu = interval.gpu
            ready_ms = ready.get((gpu.cluster, gpu.node), 0)
            found[gpu.key.uuid] = max(found[gpu.key.uuid], interval.from_ms, ready_ms)
        return found


def _of_the_gpu_alone(fault: _Fault) -> Finding:
    """Without who had it, whom a finding's own sentence names: that is not everybody's to know, and the fault
    outlives him."""
    told = _as_found(fault.told, fault.gpu) if isinstance(fault.told, EventRecord) else fault.told
    where = told.subject
    gpu = f"GPU {where.gpu_number or where.gpu} of {where.node or 'its node'}"
    code = told.cause.removeprefix(_XID)
    known = XIDS.get(int(code)) if code.isdecimal() else None
    title = f", {known.title}" if known is not None else ""
    return replace(
        told,
        subject=Subject(cluster=where.cluster, node=where.node, gpu=where.gpu, gpu_number=where.gpu_number),
        text=f"{gpu} has a fault, and nothing shows that it is mended: Xid {code}{title}",
        evidence=(),
        doubts=(),
    )


def _as_found(event: EventRecord, uuid: GpuUuid) -> Finding:
    """As it would have been found, had somebody looked then."""
    assert event.code is not None  # else it took nothing out
    number = str(event.gpu) if event.gpu is not None else None
    asks = xid_meaning(event.code, event.text).asks
    gpu = f"GPU {number}" if number is not None else uuid
    return Finding(
        CODE,
        FindingKind.GPU_FAULT,
        Subject(cluster=event.cluster or None, node=event.node or None, gpu=uuid, gpu_number=number),
        Severity.CRITICAL,
        f"{_XID}{event.code}",
        event.t_ms,
        event.text,
        what_to_do(asks, event.node, gpu, number or uuid),
    )
