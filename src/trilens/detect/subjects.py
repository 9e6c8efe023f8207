"""Whom a finding is about, and what makes it doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.finding import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.detect.scene import JobView, Place, RankView, Scene
    from trilens.model.workload import Doubt, GpuUuid, WorkloadKey

DOUBTED: Final = 0.7  # of the confidence of what rests on telemetry that is not to be believed

JobKey = tuple[str, ...]


def job_key(job: JobView) -> JobKey:
    """What it is remembered by."""
    if job.run is not None:
        return (job.run.run,)
    return tuple(job.workload) if job.workload is not None else ("", job.name)


def subject_key(subject: Subject) -> JobKey:
    """The same, of what was found of a job."""
    if subject.run is not None:
        return (subject.run,)
    return tuple(subject.workload) if subject.workload is not None else ("", subject.job_name or "")


def attempt_of(job: JobView) -> int:
    """Which life of it this is."""
    for rank in job.ranks:
        if rank.process is not None:
            return rank.process.attempt
    return job.attempt


def of_job(job: JobView, scene: Scene, rank: RankView | None = None, *, node: str | None = None) -> Subject:
    """Of the job, or of one of its ranks, or of those on one node."""
    if rank is not None and rank.row is not None:
        return _at(job, scene.telemetry.places[rank.row], rank.rank)
    process = rank.process if rank is not None else None
    return Subject(
        workload=job.workload,
        team=job.team,
        run=job.run.run if job.run is not None else None,
        rank=rank.rank if rank is not None else None,
        cluster=job.workload.cluster if job.workload is not None else None,
        node=(process.node or None) if process is not None else node,
        job_name=job.name or None,
    )


def of_row(job: JobView | None, scene: Scene, row: int) -> Subject:
    """Of one GPU, and of the rank that has it."""
    place = scene.telemetry.places[row]
    if job is None:
        return Subject(
            workload=place.workload,
            rank=place.rank,
            pod=place.pod,
            cluster=place.cluster,
            node=place.node,
            gpu=place.uuid,
        )
    return _at(job, place, rank_at(job, scene, row))


def rank_at(job: JobView, scene: Scene, row: int) -> int | None:
    for rank in job.ranks:
        if rank.row == row:
            return rank.rank
    return scene.telemetry.places[row].rank


def _at(job: JobView, place: Place, rank: int | None) -> Subject:
    return Subject(
        workload=job.workload,
        team=job.team,
        run=job.run.run if job.run is not None else None,
        rank=rank,
        pod=place.pod,
        cluster=place.cluster,
        node=place.node,
        gpu=place.uuid,
        job_name=job.name or None,
    )


class Completion:
    """What follows from the rest of a subject, and a detector need not know. Not thread-safe."""

    def __init__(self) -> None:
        self._places: Sequence[Place] = ()
        self._jobs: Sequence[JobView] = ()
        self._by_uuid: dict[GpuUuid, Place] = {}
        self._teams: dict[WorkloadKey, str] = {}

    def look(self, scene: Scene) -> None:
        if scene.telemetry.places is not self._places:
            self._places = scene.telemetry.places
            self._by_uuid = {place.uuid: place for place in self._places}
        if scene.jobs is not self._jobs:
            self._jobs = scene.jobs
            self._teams = {job.workload: job.team for job in self._jobs if job.workload and job.team}

    def of(self, subject: Subject) -> Subject:
        place = self._by_uuid.get(subject.gpu) if subject.gpu is not None else None
        if place is not None:
            subject = subject._replace(
                cluster=subject.cluster or place.cluster or None,
                node=subject.node or place.node or None,
                gpu_number=place.number or None,
            )
        if subject.team is None and subject.workload is not None:
            subject = subject._replace(team=self._teams.get(subject.workload))
        return subject


def doubts_of(scene: Scene, rows: Iterable[int | None]) -> tuple[Doubt, ...]:
    """Why these GPUs' readings may be wrong."""
    found: dict[str, Doubt] = {}
    for row in rows:
        if row is not None:
            found.update((doubt.code, doubt) for doubt in scene.suspects.get(row, ()))
    return tuple(found.values())
