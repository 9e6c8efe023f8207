"""Which GPUs have a fault of their hardware that nothing shows to be mended, and which fault that is.

A kernel tells an Xid once, and the finding of it is over minutes later; the GPU stays as it is until somebody
resets it. What shows that it is back is what the ledger takes for it, too (ledger/allocation/faults.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from trilens.alert.incidents.causes import Trouble, trouble_of_alert, trouble_of_finding
from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.incident import SymptomKind
from trilens.model.ledger_facts import WORKS_MS
from trilens.model.machine import MachineState
from trilens.model.xid import XIDS, Asks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from trilens.detect.scene import Scene
    from trilens.detect.watch import Changes
    from trilens.model.event import EventRecord
    from trilens.model.gpu import GpuInterval
    from trilens.model.incident import Incident, Symptom
    from trilens.model.machine import MachineInterval
    from trilens.model.workload import GpuUuid

_CODE: Final = "D009"  # the detector that found it when it happened
_REMEMBERED_MS: Final = 86_400_000  # as in the ledger: after a day it is mended, or lost by now
_MOST: Final = 2_000  # lines: one broken GPU may write thousands, and the latest tell as much
_BREAKS: Final = (Asks.GPU_RESET, Asks.NODE_OUT)


class FaultEvents(Protocol):
    def hardware_events(self, from_ms: int, to_ms: int, *, limit: int) -> Sequence[EventRecord]: ...


class GpuLives(Protocol):
    def gpus_named(self, uuids: Collection[str], until_ms: int) -> Sequence[GpuInterval]: ...


class MachineLives(Protocol):
    def unfinished(self) -> Sequence[MachineInterval]: ...


class StandingFaults:
    """`incidents` are those that are open."""

    def __init__(
        self,
        events: FaultEvents,
        gpus: GpuLives,
        machines: MachineLives,
        incidents: Callable[[], Sequence[Incident]],
    ) -> None:
        self._events = events
        self._gpus = gpus
        self._machines = machines
        self._incidents = incidents
        self._worked_ms: dict[GpuUuid, int] = {}  # when the last step of a program on it ended

    def take(self, scene: Scene, _changes: Changes) -> None:
        """A look of the detectors, in their thread."""
        places = scene.telemetry.places
        since_ms = scene.now_ms - _REMEMBERED_MS
        worked = {uuid: end_ms for uuid, end_ms in self._worked_ms.items() if end_ms > since_ms}
        for job in scene.jobs:
            for rank in job.ranks:
                if rank.row is not None and len(rank.steps):
                    worked[places[rank.row].uuid] = int(rank.steps.end_ms[-1])
        self._worked_ms = worked  # as a whole: another thread reads it

    def at(self, now_ms: int) -> Mapping[GpuUuid, Finding]:
        """The first that stands, of each GPU: what came after it followed. Raises TrilensError."""
        told = sorted(self._told(now_ms), key=lambda one: one.onset_ms)
        lasting = [*_by_lasting_alerts(self._incidents())]
        uuids = {one.subject.gpu for one in told if one.subject.gpu is not None}
        returns = self._returns(uuids, now_ms) if uuids else {}
        standing = [one for one in told if not _is_back(one, returns)]
        found: dict[GpuUuid, Finding] = {}
        for one in (*standing, *lasting):
            if one.subject.gpu is not None:
                found.setdefault(one.subject.gpu, one)
        return found

    def _told(self, now_ms: int) -> Iterator[Finding]:
        for event in self._events.hardware_events(now_ms - _REMEMBERED_MS, now_ms, limit=_MOST):
            if event.uuid is not None and event.code is not None:
                number = str(event.gpu) if event.gpu is not None else None
                subject = Subject(
                    cluster=event.cluster or None, node=event.node, gpu=event.uuid, gpu_number=number
                )
                yield _xid(event.code, subject, event.t_ms)
        for incident in self._incidents():  # where no agent reads kernels, a gauge has told it
            for symptom in incident.symptoms:
                code = _code_of(symptom)
                if code is not None:
                    yield _xid(code, _of_place(symptom.subject), symptom.onset_ms)

    def _returns(self, uuids: Collection[GpuUuid], now_ms: int) -> Mapping[GpuUuid, int]:
        """When each was last seen to be well: it reported anew, its node was ready anew, a program worked."""
        ready = {
            (one.machine.cluster, one.machine.node): one.from_ms
            for one in self._machines.unfinished()
            if one.machine.state is MachineState.READY
        }
        worked = self._worked_ms
        found = {uuid: worked.get(uuid, WORKS_MS) - WORKS_MS for uuid in uuids}
        for interval in self._gpus.gpus_named(uuids, now_ms):
            gpu = interval.gpu
            ready_ms = ready.get((gpu.cluster, gpu.node), 0)
            found[gpu.key.uuid] = max(found[gpu.key.uuid], interval.from_ms, ready_ms)
        return found


def _is_back(fault: Finding, returns: Mapping[GpuUuid, int]) -> bool:
    return fault.subject.gpu is not None and returns.get(fault.subject.gpu, 0) > fault.onset_ms


def _xid(code: int, subject: Subject, t_ms: int) -> Finding:
    meaning = XIDS[code]
    return _fault(f"xid-{code}", subject, t_ms, f"Xid {code}, {meaning.title}", meaning.now)


def _by_lasting_alerts(incidents: Sequence[Incident]) -> Iterator[Finding]:
    """They go by a counter that a reset takes back: nothing else has to show that it is mended."""
    for incident in incidents:
        for one in incident.symptoms:
            is_lasting = one.kind is SymptomKind.ALERT and one.ended_ms is None
            labels = dict(one.labels)
            if (
                is_lasting
                and one.severity is Severity.CRITICAL
                and not labels.get("finding")
                and trouble_of_alert(labels) is Trouble.GPU
            ):
                yield _fault(one.name, _of_place(one.subject), one.onset_ms, one.text, one.action)


def _code_of(symptom: Symptom) -> int | None:
    """Of a finding of an Xid that asks for a reset or more, whether it lasts or not."""
    if symptom.kind is not SymptomKind.FINDING or symptom.name != _CODE:
        return None
    cause = dict(symptom.labels).get("cause", "")
    name, _, written = cause.partition("-")
    code = int(written) if name == "xid" and written.isdecimal() else -1
    is_of_gpu = trouble_of_finding(FindingKind.GPU_FAULT, cause) is Trouble.GPU
    return code if is_of_gpu and code in XIDS and XIDS[code].asks in _BREAKS else None


def _of_place(subject: Subject) -> Subject:
    """Without who had it."""
    return Subject(cluster=subject.cluster, node=subject.node, gpu=subject.gpu, gpu_number=subject.gpu_number)


def _fault(cause: str, subject: Subject, onset_ms: int, what: str, action: str) -> Finding:
    where = f"GPU {subject.gpu_number or subject.gpu} of {subject.node or 'its node'}"
    text = f"{where} has a fault, and nothing shows that it is mended: {what}"
    return Finding(_CODE, FindingKind.GPU_FAULT, subject, Severity.CRITICAL, cause, onset_ms, text, action)
