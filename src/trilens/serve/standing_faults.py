"""Which GPUs have a fault of their hardware that nothing shows to be mended, and which fault that is.

An Xid is told once, and the finding of it is over minutes later; the GPU stays as it is until somebody resets
it. What shows that it is back is what the ledger takes for it, too (ledger/allocation/faults.py), as far as
that is on disk: of the hour of the fault itself nobody has booked yet whether a program worked after it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.machine import MachineState
from trilens.model.xid import XIDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from trilens.model.finding import FindingInterval
    from trilens.model.gpu import GpuInterval
    from trilens.model.machine import MachineInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import GpuUuid

_REMEMBERED_MS: Final = 86_400_000  # as in the ledger: after a day it is mended, or lost by now
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
        guard: QueryGuard | None = None,
    ) -> Sequence[FindingInterval]: ...


class GpuLives(Protocol):
    def gpus_named(
        self, uuids: Collection[str], until_ms: int, guard: QueryGuard | None = None
    ) -> Sequence[GpuInterval]: ...


class MachineLives(Protocol):
    def unfinished(self) -> Sequence[MachineInterval]: ...


class BookedWork(Protocol):
    def hours_of_work(
        self, gpus: Collection[GpuUuid], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> Mapping[str, Sequence[int]]: ...


class StandingFaults:
    """Thread-safe: it remembers nothing."""

    def __init__(
        self, findings: Findings, gpus: GpuLives, machines: MachineLives, booked: BookedWork
    ) -> None:
        self._findings = findings
        self._gpus = gpus
        self._machines = machines
        self._booked = booked

    def at(self, now_ms: int, guard: QueryGuard | None = None) -> Mapping[GpuUuid, Finding]:
        """The first that stands, of each GPU: what came after it followed. Raises TrilensError."""
        since_ms = now_ms - _REMEMBERED_MS
        told = self._findings.during(since_ms, now_ms, kinds=(FindingKind.GPU_FAULT,), guard=guard)
        by_gpu: defaultdict[GpuUuid, list[Finding]] = defaultdict(list)
        for one in sorted((one.finding for one in told), key=lambda one: one.onset_ms):
            if one.subject.gpu is not None and one.onset_ms >= since_ms and _takes_out(one):
                by_gpu[one.subject.gpu].append(one)
        if not by_gpu:
            return {}
        returns = self._returns(by_gpu.keys(), now_ms, guard)
        found = {}
        for uuid, faults in by_gpu.items():
            standing = next((one for one in faults if one.onset_ms >= returns[uuid]), None)
            if standing is not None:
                found[uuid] = _of_the_gpu_alone(standing)
        return found

    def _returns(
        self, uuids: Collection[GpuUuid], now_ms: int, guard: QueryGuard | None
    ) -> Mapping[GpuUuid, int]:
        """When each was last seen to be back: it reported anew, its node was ready anew, a program worked."""
        ready = {
            (one.machine.cluster, one.machine.node): one.from_ms
            for one in self._machines.unfinished()
            if one.machine.state is MachineState.READY
        }
        hours = self._booked.hours_of_work(uuids, now_ms - _REMEMBERED_MS, now_ms, guard)
        found = {uuid: max(hours.get(uuid, ()), default=0) for uuid in uuids}
        for interval in self._gpus.gpus_named(uuids, now_ms, guard):
            gpu = interval.gpu
            ready_ms = ready.get((gpu.cluster, gpu.node), 0)
            found[gpu.key.uuid] = max(found[gpu.key.uuid], interval.from_ms, ready_ms)
        return found


def _takes_out(finding: Finding) -> bool:
    """An Xid that asks for a reset of the GPU, or for its node to be taken out."""
    return finding.severity is Severity.CRITICAL and finding.cause.startswith(_XID)


def _of_the_gpu_alone(finding: Finding) -> Finding:
    """Without who had it, whom its own sentence names: that is not everybody's to know, and the fault
    outlives him."""
    where = finding.subject
    gpu = f"GPU {where.gpu_number or where.gpu} of {where.node or 'its node'}"
    code = finding.cause.removeprefix(_XID)
    known = XIDS.get(int(code)) if code.isdecimal() else None
    title = f", {known.title}" if known is not None else ""
    return replace(
        finding,
        subject=Subject(cluster=where.cluster, node=where.node, gpu=where.gpu, gpu_number=where.gpu_number),
        text=f"{gpu} has a fault, and nothing shows that it is mended: Xid {code}{title}",
        evidence=(),
        doubts=(),
    )
