"""The fleet as columns: nodes and GPUs, what they read, who holds them, and what is wrong with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.scene import Figure
from trilens.model.gpu import GpuKey
from trilens.serve.access.sight import WHOLE
from trilens.serve.pages.fleet_answers import FleetAnswer, FleetFinding, FleetGpus, FleetNodes, FleetWorkload
from trilens.serve.pages.fleet_health import GpuFindings, WorkloadHealth, is_of_job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.model.finding import Finding, FindingInterval
    from trilens.model.gpu import GpuBinding
    from trilens.model.incident import Incident
    from trilens.model.machine import Machine
    from trilens.model.workload import GpuUuid, WorkloadKey
    from trilens.serve.access.sight import Sight
    from trilens.serve.gpu_bindings import GpusNow
    from trilens.serve.pages.fleet_scene import FleetScene

_NodeKey = tuple[str, str]  # cluster and name

REPORTING, SILENT, LOST, BLIND = "reporting", "silent", "lost", "blind"
_HEALTH_OF_STATE: Final = {SILENT: "warning", LOST: "critical", BLIND: "unknown"}
_GRAVITY: Final = {"critical": 0, "warning": 1, "unknown": 2, "info": 3, "ok": 4}
_DIGITS: Final = {
    Figure.UTILIZATION: 3,
    Figure.TEMPERATURE: 0,
    Figure.POWER: 0,
    Figure.MEMORY_USED: 3,
}


class Seen(NamedTuple):
    """All that the map is made of. `scene` is None before the first look."""

    scene: FleetScene | None
    gpus: GpusNow
    held: Sequence[GpuBinding]
    machines: Sequence[Machine]
    findings: Sequence[FindingInterval]
    faults: Mapping[GpuUuid, Finding]
    incidents: Sequence[Incident]
    sight: Sight = WHOLE  # of rows and nodes: all else is cut already


class _Row(NamedTuple):
    node: _NodeKey
    number: str
    uuid: str | None
    instance: str
    model: str
    state: str
    place: int | None  # in the scene
    workload: WorkloadKey | None
    holders: int


def fleet_answer(seen: Seen) -> FleetAnswer:
    rows = _in_order(_own(seen, _rows(seen)))
    machines = {(one.cluster, one.node): one for one in seen.machines}
    empty = {key for key, one in machines.items() if one.gpus and _is_whole(key[0], seen.sight)}
    nodes = sorted({row.node for row in rows} | empty)
    node_places = {key: place for place, key in enumerate(nodes)}
    models = sorted({row.model for row in rows if row.model})
    model_places = {model: place for place, model in enumerate(models)}
    here = {row.uuid for row in rows}
    faults = {uuid: one for uuid, one in seen.faults.items() if uuid in here}
    wrong = GpuFindings(seen.findings, faults)
    holders = list(dict.fromkeys(row.workload for row in rows if row.workload is not None))
    holder_places = {key: place for place, key in enumerate(holders)}
    findings = [wrong.of(*row.node, row.uuid) for row in rows]
    readings = {figure: _column(seen.scene, figure, rows) for figure in _DIGITS}
    return FleetAnswer(
        seen.scene.now_ms if seen.scene is not None else None,
        _nodes(seen, nodes, rows, machines, wrong),
        FleetGpus(
            [node_places[row.node] for row in rows],
            [row.number or None for row in rows],
            [row.uuid for row in rows],
            [row.instance or None for row in rows],
            [model_places.get(row.model) for row in rows],
            [row.state for row in rows],
            [_health(row.state, wrong, at) for row, at in zip(rows, findings, strict=True)],
            findings,
            readings[Figure.UTILIZATION],
            readings[Figure.TEMPERATURE],
            readings[Figure.POWER],
            readings[Figure.MEMORY_USED],
            [holder_places[row.workload] if row.workload is not None else None for row in rows],
            [row.holders for row in rows],
        ),
        models,
        _workloads(seen, holders),
        [_finding(one) for one in wrong.shown],
    )


def _rows(seen: Seen) -> list[_Row]:
    counts = Counter(binding.gpu for binding in seen.held)
    lost = {gone.gpu.key: gone.gpu for node in seen.gpus.nodes for gone in node.named}
    rows: list[_Row] = []
    known: set[GpuKey] = set()
    for at, place in enumerate(seen.scene.places if seen.scene is not None else ()):
        key = GpuKey(place.uuid, place.instance)
        if key in lost:
            continue
        known.add(key)
        held = counts[key]
        is_silent = key not in seen.gpus.gpus
        if is_silent and not (held and place.node):
            continue  # it reported minutes ago, and nothing says that it should be there
        state = SILENT if is_silent else REPORTING
        row = _Row(
            (place.cluster, place.node), place.number, place.uuid, place.instance, place.model, state, at,
            place.workload, held,
        )  # fmt: skip
        rows.append(row)
    for key, gpu in seen.gpus.gpus.items():  # before the first look
        if key not in known and key not in lost:
            rows.append(
                _Row((gpu.cluster, gpu.node), gpu.index, key.uuid, key.instance, gpu.model, REPORTING, None,
                     None, counts[key])
            )  # fmt: skip
    for key, gpu in lost.items():
        rows.append(
            _Row((gpu.cluster, gpu.node), gpu.index, key.uuid, key.instance, gpu.model, LOST, None, None,
                 counts[key])
        )  # fmt: skip
    for node in seen.gpus.nodes:
        state, count = (BLIND, node.expected) if node.lost is None else (LOST, node.lost - len(node.named))
        rows += [_Row((node.cluster, node.node), "", None, "", "", state, None, None, 0)] * max(count, 0)
    return rows


def _own(seen: Seen, rows: list[_Row]) -> list[_Row]:
    """Of clusters that are seen whole all, of others what own workloads hold."""
    if seen.sight.is_whole:
        return rows
    own = {job.workload for job in seen.scene.jobs} if seen.scene is not None else set()
    return [row for row in rows if _is_whole(row.node[0], seen.sight) or row.workload in own]


def _is_whole(cluster: str, sight: Sight) -> bool:
    return sight.teams is None and sight.shows_cluster(cluster)


def _in_order(rows: Sequence[_Row]) -> list[_Row]:
    """By node, which are few, then by number."""
    by_node: defaultdict[_NodeKey, list[_Row]] = defaultdict(list)
    for row in rows:
        by_node[row.node].append(row)
    return [row for key in sorted(by_node) for row in sorted(by_node[key], key=_place)]


def _place(row: _Row) -> tuple[int, str, str]:
    number = int(row.number) if row.number.isdecimal() else 1 << 20
    return number, row.instance, row.uuid or ""


def _column(scene: FleetScene | None, figure: Figure, rows: Sequence[_Row]) -> list[float | None]:
    if scene is None or figure not in scene.readings:
        return [None] * len(rows)
    values = np.append(scene.readings[figure], np.nan)  # for those that are in no place
    at = np.array([-1 if row.place is None else row.place for row in rows], np.intp)
    column: list[float | None] = np.round(values[at], _DIGITS[figure]).tolist()
    return column  # NaN becomes null


def _health(state: str, wrong: GpuFindings, finding: int | None) -> str:
    if state == REPORTING and finding is None:
        return "ok"
    told = wrong.shown[finding].finding.severity.value if finding is not None else "ok"
    return min(told, _HEALTH_OF_STATE.get(state, "ok"), key=_GRAVITY.__getitem__)


def _nodes(
    seen: Seen,
    nodes: Sequence[_NodeKey],
    rows: Sequence[_Row],
    machines: dict[_NodeKey, Machine],
    wrong: GpuFindings,
) -> FleetNodes:
    racks = {(one.cluster, one.node): one.rack for one in seen.scene.nodes} if seen.scene is not None else {}
    expected = {(one.cluster, one.node): one.expected for one in seen.gpus.nodes}
    models = {row.node: row.model for row in rows if row.model}
    here = [machines.get(key) for key in nodes]
    return FleetNodes(
        [cluster for cluster, _ in nodes],
        [name for _, name in nodes],
        [
            models.get(key) or (one.gpu_model if one else "") or None
            for key, one in zip(nodes, here, strict=True)
        ],
        [(one.instance_type or None) if one is not None else None for one in here],
        [(one.zone or None) if one is not None else None for one in here],
        [racks.get(key) or None for key in nodes],
        [
            expected.get(key, one.gpus if one is not None else None)
            for key, one in zip(nodes, here, strict=True)
        ],
        [one.state.value if one is not None else None for one in here],
        [(one.reason or None) if one is not None else None for one in here],
        [wrong.on(*key) for key in nodes],
    )


def _workloads(seen: Seen, holders: Sequence[WorkloadKey]) -> list[FleetWorkload]:
    jobs = seen.scene.jobs if seen.scene is not None else ()
    teams = {job.workload: job.team for job in jobs if job.workload is not None}
    health = WorkloadHealth(seen.findings, seen.incidents)
    found = []
    for key in holders:
        ill = health.of(key)
        found.append(
            FleetWorkload(
                key.cluster,
                key.namespace,
                key.kind,
                key.name,
                teams.get(key),
                ill.severity.value if ill is not None else "ok",
                ill.text if ill is not None else None,
            )
        )
    return found


def _finding(interval: FindingInterval) -> FleetFinding:
    finding = interval.finding
    return FleetFinding(
        interval.key.id,
        finding.code,
        finding.severity.value,
        finding.text,
        finding.action,
        finding.onset_ms,
        finding.subject.node,
        finding.subject.gpu,
        is_of_job(finding),
    )
