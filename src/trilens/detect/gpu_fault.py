"""D009 GPU fault: the hardware of a GPU, its link or its node is broken, or a program has done it harm.

What it finds: Xids and SXids by what NVIDIA's catalogue says that they ask for (of NVLink's, by the sub-code
in their line), a program's faults apart from the hardware's; a GPU that is gone while others of its node
report; memory rows that wait for a reset; GPUs and nodes that fail again and again.
Why it costs: a job with a broken GPU hangs or crashes, and so does the next one that is put there.
Example: Xid 79 on GPU 3 of gpu-17: it has fallen off the bus, and takes its node with it.
What to do: the finding says it, by class: nothing, fix the program, reset the GPU, take the node out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.reporting import Nodes, Reporting
from trilens.detect.scene import Figure
from trilens.detect.wording import workload_name
from trilens.model.event import EventKind
from trilens.model.fault_lines import fatal_in
from trilens.model.finding import Evidence, Finding, FindingKind, Severity, Subject
from trilens.model.gpu_fault import UNKNOWN_XID, xid_meaning
from trilens.model.workload import GpuUuid
from trilens.model.xid import FOLLOWERS, GRAVEST_FIRST, XIDS, Asks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.detect.scene import Place, Scene
    from trilens.model.event import EventRecord
    from trilens.model.xid import XidMeaning

CODE: Final = "D009"

_LASTS_MS: Final = 10 * 60_000  # a fault is shown for so long after it was last told
_SAME_MS: Final = 120_000  # DCGM's gauge and the kernel's log tell of one fault
_LOST_LEAST_MS: Final = 12_000
_REMEMBERED_MS: Final = 24 * 3_600_000  # a GPU that is lost
_REPEATED: Final = 3  # faults of hardware within 30 days

_SEVERITY: Final[Mapping[Asks, Severity]] = {
    Asks.NODE_OUT: Severity.CRITICAL,
    Asks.GPU_RESET: Severity.CRITICAL,
    Asks.LOOK: Severity.WARNING,
    Asks.APPLICATION: Severity.WARNING,
    Asks.NOTHING: Severity.INFO,
}
_ACTIONS: Final[Mapping[Asks, str]] = {
    Asks.NODE_OUT: "Cordon and drain {node}, reboot it, and have the GPU checked if it comes again.",
    Asks.GPU_RESET: "Move the job off {gpu} of {node} and reset it: `nvidia-smi --gpu-reset -i {index}`.",
    Asks.LOOK: "Look at what came with it, `trilens events --node {node}`, and at `nvidia-smi nvlink -e`.",
    Asks.APPLICATION: "Fix or restart the program: the GPU is fine, so do not cordon {node}.",
    Asks.NOTHING: "Nothing now; reset the GPU when it is free.",
}


class _Told(NamedTuple):
    """One fault of a GPU, by whoever told of it."""

    code: int
    meaning: XidMeaning
    t_ms: int
    text: str
    by_dcgm: bool = False
    rank: int | None = None


class _Where(NamedTuple):
    cluster: str  # "" where nobody told it
    node: str
    uuid: GpuUuid | None


def _where(event: EventRecord, places: Mapping[GpuUuid, Place]) -> _Where:
    place = places.get(event.uuid) if event.uuid is not None else None
    return _Where(place.cluster if place is not None else event.cluster, event.node, event.uuid)


@dataclass
class _Lost:
    place: Place
    since_ms: int


class GpuFault:
    code = CODE

    def __init__(self) -> None:
        self._nodes = Nodes()
        self._lost: dict[GpuUuid, _Lost] = {}
        self._places: Sequence[Place] = ()
        self._holders: dict[GpuUuid, tuple[Place, int]] = {}  # the last that was known, and when

    def look(self, scene: Scene) -> Iterator[Finding]:
        places = self._with_holders(scene)
        yield from self._xids(scene, places)
        yield from _links(scene, places)
        yield from self._gone(scene)
        yield from _waiting_for_reset(scene)
        yield from _offenders(scene, places)

    def _with_holders(self, scene: Scene) -> dict[GpuUuid, Place]:
        """By their UUID; with who had it until now where nobody has it any more: a fault ends its pod, often
        before it is told."""
        now_ms, places = scene.now_ms, scene.telemetry.places
        if places is not self._places:
            held = {place.uuid: (place, now_ms) for place in self._places if place.workload is not None}
            self._holders = {
                uuid: one for uuid, one in {**self._holders, **held}.items() if now_ms - one[1] <= _LASTS_MS
            }
            self._places = places
        found = {uuid: place for uuid, (place, _) in self._holders.items()}
        found.update({one.uuid: one for one in places if one.workload is not None or one.uuid not in found})
        return found

    def _xids(self, scene: Scene, places: Mapping[GpuUuid, Place]) -> Iterator[Finding]:
        told: defaultdict[_Where, list[_Told]] = defaultdict(list)
        for event in scene.events:
            if event.kind is not EventKind.XID or event.code is None:
                continue
            if scene.now_ms - event.t_ms <= _LASTS_MS:
                meaning = xid_meaning(event.code, event.text)
                one = _Told(event.code, meaning, event.t_ms, event.text, rank=event.rank)
                told[_where(event, places)].append(one)
        for place, one in _changed_gauges(scene):
            where = _Where(place.cluster, place.node, place.uuid)
            known = told.get(where, ())
            if not any(other.code == one.code and abs(other.t_ms - one.t_ms) <= _SAME_MS for other in known):
                told[where].append(one)
        for where, faults in told.items():
            worst = _worst(faults)
            if worst is not None:
                holds = places.get(where.uuid) if where.uuid is not None else None
                yield _xid_finding(worst, faults, where, holds)

    def _gone(self, scene: Scene) -> Iterator[Finding]:
        """Silent, while others of its node speak."""
        telemetry = scene.telemetry
        if telemetry.places:
            self._nodes.look(telemetry.places)
            reporting = Reporting(telemetry, scene.now_ms)
            heard = self._nodes.count(reporting.is_heard) > 0
            quiet = reporting.is_silent & heard[self._nodes.of_row]
            speaking = {telemetry.places[row].uuid for row in np.flatnonzero(reporting.is_heard).tolist()}
            for row in np.flatnonzero(quiet).tolist():
                place = telemetry.places[row]
                if place.uuid not in speaking:  # an instance of a GPU that is divided anew is not lost
                    last_ms = int(reporting.last_ms[row])
                    known = self._lost.setdefault(place.uuid, _Lost(self._held(place, last_ms), last_ms))
                    known.place = place if place.workload is not None else known.place
            for uuid in speaking & self._lost.keys():
                del self._lost[uuid]
            self._forget(
                scene, {telemetry.places[row].node for row in np.flatnonzero(reporting.is_heard).tolist()}
            )
        for uuid, lost in self._lost.items():
            silent_ms = scene.now_ms - lost.since_ms
            if silent_ms > _LOST_LEAST_MS:
                yield _lost_finding(GpuUuid(uuid), lost, silent_ms)

    def _held(self, place: Place, last_ms: int) -> Place:
        """With who had it when it went: its pod may be gone before it is known to be lost."""
        before, until_ms = self._holders.get(place.uuid, (place, 0))
        return before if place.workload is None and until_ms >= last_ms else place

    def _forget(self, scene: Scene, speaking_nodes: set[str]) -> None:
        """A node that is silent as a whole, or gone, has not lost a GPU."""
        self._lost = {
            uuid: lost
            for uuid, lost in self._lost.items()
            if lost.place.node in speaking_nodes and scene.now_ms - lost.since_ms <= _REMEMBERED_MS
        }


def what_to_do(asks: Asks, node: str, gpu: str, index: str) -> str:
    """`index` is what nvidia-smi knows the GPU by."""
    return _ACTIONS[asks].format(node=node, gpu=gpu, index=index)


def _worst(faults: Sequence[_Told]) -> _Told | None:
    """The gravest, and of these the first; None where nothing but followers was told."""
    own = [one for one in faults if one.code not in FOLLOWERS]
    return min(own, key=lambda one: (GRAVEST_FIRST.index(one.meaning.asks), one.t_ms), default=None)


def _changed_gauges(scene: Scene) -> Iterator[tuple[Place, _Told]]:
    """DCGM's gauge holds the last code: only that it has changed says that something happened."""
    values = scene.telemetry.figures.get(Figure.XID)
    if values is None:
        return
    last = np.fmax.reduce(values, axis=1)
    for row in np.flatnonzero(last > 0).tolist():
        told = np.flatnonzero(~np.isnan(values[row]))
        codes = values[row][told]
        changes = np.flatnonzero((codes[1:] != codes[:-1]) & (codes[1:] > 0))
        for at in changes.tolist():
            t_ms = int(scene.telemetry.times_ms[told[at + 1]])
            if scene.now_ms - t_ms <= _LASTS_MS:
                code = int(codes[at + 1])
                meaning = XIDS.get(code, UNKNOWN_XID)
                yield (
                    scene.telemetry.places[row],
                    _Told(code, meaning, t_ms, "DCGM's gauge changed", by_dcgm=True),
                )


def _xid_finding(worst: _Told, faults: Sequence[_Told], where: _Where, place: Place | None) -> Finding:
    node, uuid = where.node, where.uuid
    same = [one for one in faults if one.code == worst.code]
    number = place.number if place is not None else ""
    gpu = f"GPU {number}" if number else uuid or "a GPU"
    rank = worst.rank if worst.rank is not None else place.rank if place is not None else None
    others = sorted({one.code for one in faults} - {worst.code})
    evidence = [Evidence(f"Xid {worst.code}, {len(same)} times: {worst.text}", _xid_query(uuid))]
    if others:
        evidence.append(Evidence(f"with it: Xid {', '.join(map(str, others))}"))
    if worst.by_dcgm:
        evidence.append(Evidence("seen in DCGM's gauge alone: no agent reads the kernel's log there"))
    whose = "a program's fault" if worst.meaning.asks is Asks.APPLICATION else "a fault of the hardware"
    if worst.meaning.asks in (Asks.LOOK, Asks.NOTHING):
        whose = "a warning"
    return Finding(
        CODE,
        FindingKind.GPU_FAULT,
        _subject(where, place, rank),
        _SEVERITY[worst.meaning.asks],
        f"xid-{worst.code}",
        min(one.t_ms for one in same),
        f"Xid {worst.code} on {gpu} of {node}: {worst.meaning.title} ({whose}){_of(place)}",
        what_to_do(worst.meaning.asks, node, gpu, number or uuid or "INDEX"),
        0.8 if worst.by_dcgm else 0.98,
        tuple(evidence),
        figures={"xid": worst.code, "times": len(same)},
    )


def _links(scene: Scene, places: Mapping[GpuUuid, Place]) -> Iterator[Finding]:
    """Of switches, and complaints about links that have no code."""
    told: defaultdict[tuple[_Where, str], list[EventRecord]] = defaultdict(list)
    for event in scene.events:
        if scene.now_ms - event.t_ms <= _LASTS_MS and event.kind in (EventKind.SXID, EventKind.NVLINK):
            cause = f"sxid-{event.code}" if event.kind is EventKind.SXID else "nvlink"
            told[_where(event, places), cause].append(event)
    for (where, cause), events in told.items():
        node, uuid = where.node, where.uuid
        place = places.get(uuid) if uuid is not None else None
        first = min(events, key=lambda one: one.t_ms)
        is_fatal = any(fatal_in(one.text) for one in events)
        what = "an NVLink switch" if cause != "nvlink" else "an NVLink"
        yield Finding(
            CODE,
            FindingKind.GPU_FAULT,
            _subject(where, place, place.rank if place is not None else None),
            Severity.CRITICAL if is_fatal else Severity.WARNING,
            cause,
            first.t_ms,
            f"{what} of {node} reports {cause.replace('-', ' ')}: {first.text}{_of(place)}",
            f"Look at `nvidia-smi nvlink -e` and the fabric manager's log on {node}; "
            + ("drain the node and reset its GPUs." if is_fatal else "drain the node if it goes on."),
            0.95,
            (Evidence(f"told {len(events)} times"),),
            figures={"times": len(events)},
        )


def _lost_finding(uuid: GpuUuid, lost: _Lost, silent_ms: int) -> Finding:
    place = lost.place
    return Finding(
        CODE,
        FindingKind.GPU_FAULT,
        _subject(_Where(place.cluster, place.node, uuid), place, place.rank),
        Severity.CRITICAL,
        "lost",
        lost.since_ms,
        f"GPU {place.number} of {place.node} is lost: it says nothing, and the others of its node "
        f"go on{_of(place)}",
        f"Look for it in `nvidia-smi -L` and for Xid 79 in the kernel's log of {place.node}; "
        "cordon, drain and reboot the node.",
        0.9,
        (Evidence("when it was last heard", f'DCGM_FI_DEV_GPU_TEMP{{UUID="{uuid}"}}'),),
        figures={"silent_seconds": silent_ms / 1000},
    )


def _waiting_for_reset(scene: Scene) -> Iterator[Finding]:
    values = scene.telemetry.figures.get(Figure.ROW_REMAP_PENDING)
    if values is None:
        return
    times = scene.telemetry.times_ms
    for row in np.flatnonzero(np.fmax.reduce(values, axis=1) > 0).tolist():
        told = np.flatnonzero(~np.isnan(values[row]))
        if not values[row][told[-1]] > 0:
            continue
        place = scene.telemetry.places[row]
        waits = np.flatnonzero(values[row][told] > 0)
        yield Finding(
            CODE,
            FindingKind.GPU_FAULT,
            _subject(_Where(place.cluster, place.node, place.uuid), place, place.rank),
            Severity.WARNING,
            "row-remap-pending",
            int(times[told[waits[0]]]),
            f"GPU {place.number} of {place.node} has memory rows to replace, which needs a reset{_of(place)}",
            f"When its job ends, reset it: `nvidia-smi --gpu-reset -i {place.number}` on {place.node}.",
            0.98,
            (
                Evidence(
                    "rows that wait for a reset", f'DCGM_FI_DEV_ROW_REMAP_PENDING{{UUID="{place.uuid}"}}'
                ),
            ),
        )


def _offenders(scene: Scene, places: Mapping[GpuUuid, Place]) -> Iterator[Finding]:
    for one in scene.offenders:
        if one.faults < _REPEATED:
            continue
        place = places.get(one.uuid) if one.uuid is not None else None
        what = (
            f"GPU {place.number if place is not None else one.uuid} of {one.node}" if one.uuid else one.node
        )
        yield Finding(
            CODE,
            FindingKind.GPU_FAULT,
            _subject(_Where(place.cluster if place else one.cluster, one.node, one.uuid), None, None),
            Severity.WARNING,
            "repeat-offender",
            one.last_ms,
            f"{what} has had {one.faults} faults of its hardware in 30 days",
            f"Take {one.node} out and have {'the GPU' if one.uuid else 'it'} tested or replaced.",
            0.95,
            (Evidence("its faults", _xid_query(one.uuid) if one.uuid else None),),
            figures={"faults": one.faults},
        )


def _subject(where: _Where, place: Place | None, rank: int | None) -> Subject:
    if place is None:
        return Subject(rank=rank, cluster=where.cluster or None, node=where.node or None, gpu=where.uuid)
    return Subject(
        workload=place.workload,
        rank=rank,
        pod=place.pod,
        cluster=place.cluster or None,
        node=place.node or where.node,
        gpu=where.uuid,
    )


def _of(place: Place | None) -> str:
    if place is None or place.workload is None:
        return ""
    rank = f", rank {place.rank}" if place.rank is not None else ""
    return f"; {workload_name(place.workload)}{rank} has it"


def _xid_query(uuid: GpuUuid | None) -> str | None:
    return f'trilens_gpu_xid_total{{UUID="{uuid}"}}' if uuid is not None else None
