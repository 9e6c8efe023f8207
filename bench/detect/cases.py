"""A case of a watched world, as a server would gather it: what the detectors say, ranks, steps, faults, GPUs,
objects. The series of GPUs are what the scene has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import orjson

from bench.detect.scoring import START_MS, jobs_hit
from bench.detect.watched import WatchedWorld
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.detect.scene import Figure
from trilens.diagnose.case_file import (
    CaseFile,
    CaseSeries,
    CaseSubject,
    GpuSeat,
    LogKind,
    LogText,
    RankSteps,
    SubjectKind,
)
from trilens.model.kubernetes import GroupKind
from trilens.model.workload import Workload
from trilens.serve.cases.kinds import CASE_KINDS
from trilens.simulate.objects import resource_of
from trilens.simulate.world import Silent, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bench.detect.episodes import Episode
    from trilens.detect.scene import PodView, RankView, Scene, Telemetry
    from trilens.model.kubernetes import KubeObject
    from trilens.simulate.truth import FaultTruth

_SINCE_MS: Final = 60 * 60_000
_FIGURES: Final[Mapping[str, Figure]] = {
    "gpu-utilization": Figure.UTILIZATION,
    "gpu-power": Figure.POWER,
    "gpu-temperature": Figure.TEMPERATURE,
    "sm-clock": Figure.SM_CLOCK,
}
_KINDS: Final = {kind.group_kind: kind for kind in CASE_KINDS}


class Lived(NamedTuple):
    """An episode, some time after its fault: the cases of the jobs that it hit, and what was wrong."""

    cases: tuple[CaseFile, ...]
    truth: FaultTruth


def live_through(episode: Episode, after_s: float) -> Lived:
    [lived] = looks(episode, [after_s])
    return lived


def looks(episode: Episode, after_s: Sequence[float]) -> Iterator[Lived]:
    """An episode with a fault, looked at so many seconds after it began, in this order."""
    watched = _watched(episode)
    world = watched.world
    scene = watched.go_on()
    while not world.truth.faults:
        assert world.now_ms < START_MS + 1000 * episode.seconds, f"{episode.key}: the fault found no target"
        scene = watched.go_on()
    truth = world.truth.faults[0]
    for seconds in after_s:
        while world.now_ms < truth.from_ms + 1000 * seconds:
            scene = watched.go_on()
        known = {one.workload.uid for one in scene.jobs if one.workload is not None}
        hit = sorted(jobs_hit(truth, world.truth.gpus) & known)
        yield Lived(tuple(case_of(watched, scene, uid) for uid in hit), truth)


def calm_looks(episode: Episode, at_s: Sequence[float]) -> Iterator[Sequence[CaseFile]]:
    """An episode in which nothing goes wrong: all its jobs, so many seconds after its beginning."""
    watched = _watched(episode)
    scene = watched.go_on()
    for seconds in at_s:
        while watched.world.now_ms < START_MS + 1000 * seconds:
            scene = watched.go_on()
        yield [case_of(watched, scene, one.workload.uid) for one in scene.jobs if one.workload is not None]


def _watched(episode: Episode) -> WatchedWorld:
    telling = 128 if episode.told_by == "records" else 0
    world = World(episode.scenario, start_ms=START_MS, seed=episode.seed, telling_ranks=telling)
    return WatchedWorld(world, episode.seed, slow=False, programs_seen=episode.told_by == "metrics")


def case_of(watched: WatchedWorld, scene: Scene, job_uid: str) -> CaseFile:
    """Of the job that the scene knows by this uid."""
    [job] = [one for one in scene.jobs if one.workload is not None and one.workload.uid == job_uid]
    key = job.workload
    assert key is not None
    kept, telemetry, rows = watched.kept, scene.telemetry, job.rows
    nodes = {telemetry.places[row].node for row in rows} | {pod.node for pod in job.pods}
    run = job.run.run if job.run is not None else None
    processes = [one.process for one in job.ranks if one.process is not None]
    events = tuple(one for one in scene.events if one.node in nodes)
    return CaseFile(
        CaseSubject(SubjectKind.WORKLOAD, key.cluster, key.namespace, key.name),
        scene.now_ms - _SINCE_MS,
        scene.now_ms,
        workloads=(Workload(key),),
        members=tuple(one for one in kept.lives.values() if one.membership.workload == key),
        phases=tuple(one for one in kept.phases.values() if one.workload == key),
        objects=tuple(_objects(watched, key.cluster, key.namespace, nodes)),
        events=events,
        findings=tuple(
            one
            for one in (*watched.fast.watch.open, *watched.fast.ended)
            if one.finding.subject.workload == key
            or (run is not None and one.finding.subject.run == run)
            or (one.finding.subject.workload is None and one.finding.subject.node in nodes)
        ),
        gpus=tuple(_seats(telemetry, rows)),
        series={name: tuple(_series(telemetry, rows, figure)) for name, figure in _FIGURES.items()},
        runs=(job.run,) if job.run is not None else (),
        ranks=tuple(processes),
        steps=tuple(_steps(rank) for rank in job.ranks if len(rank.steps)),
        notes=tuple(note for rank in job.ranks for note in rank.notes),
        artifacts=tuple(one for one in watched.artifacts if one.run == run),
        logs=tuple(_logs(watched, job.pods)),
        targets=tuple(one for one in watched.scraper.targets.values() if one.instance in nodes),
    )


def _objects(watched: WatchedWorld, cluster: str, namespace: str, nodes: set[str]) -> Iterator[KubeObject]:
    reader = ObjectReader(cluster)
    for body in watched.world.objects:
        resource = resource_of(body)
        kind = _KINDS.get(GroupKind(resource.group, resource.kind))
        metadata = body["metadata"]
        is_near = metadata.get("namespace") == namespace or metadata["name"] in nodes
        is_neighbour = resource.kind == "Pod" and body["spec"].get("nodeName") in nodes
        if kind is not None and (is_near or is_neighbour):
            yield reader.read(kind, resource.version, orjson.dumps(body))


def _logs(watched: WatchedWorld, pods: Sequence[PodView]) -> Iterator[LogText]:
    """As agents send them: the last life of a container, and the one before it."""
    keys = {pod.pod.uid: pod.pod for pod in pods}
    for node in sorted({pod.node for pod in pods if pod.node}):
        try:
            told = watched.world.output(node)
        except (Silent, KeyError):
            continue
        for one in told:
            for life, lines in sorted(one.runs.items()) if one.pod_uid in keys else ():
                name = one.container if life == max(one.runs) else f"{one.container} (run {life})"
                yield LogText(LogKind.CONTAINER, name, tuple(lines), node, keys[one.pod_uid], is_cut=True)


def _seats(telemetry: Telemetry, rows: Sequence[int]) -> Iterator[GpuSeat]:
    for row in rows:
        place = telemetry.places[row]
        yield GpuSeat(place.uuid, place.node, place.number, place.model, place.pod, place.rank)


def _series(telemetry: Telemetry, rows: Sequence[int], figure: Figure) -> Iterator[CaseSeries]:
    values = telemetry.figures.get(figure)
    for row in rows if values is not None else ():
        told = np.flatnonzero(~np.isnan(values[row]))  # type: ignore[index]
        place = telemetry.places[row]
        yield CaseSeries(
            {"UUID": place.uuid, "Hostname": place.node, "gpu": place.number},
            tuple(telemetry.times_ms[told].tolist()),
            tuple(values[row][told].tolist()),  # type: ignore[index]
        )


def _steps(rank: RankView) -> RankSteps:
    steps = rank.steps
    return RankSteps(
        rank.rank,
        rank.process.attempt if rank.process is not None else 0,
        tuple(steps.step.tolist()),
        tuple(steps.end_ms.tolist()),
        tuple(steps.ms.tolist()),
        _told(steps.data_ms),
        _told(steps.sync_ms),
        _told(steps.loss),
        _told(steps.grad_norm),
    )


def _told(column: NDArray[np.float64]) -> tuple[float | None, ...]:
    """NaN stands for what was not told as well as for what is no number; a finding knows which."""
    return tuple(None if np.isnan(value) else float(value) for value in column)
