"""The last look at the fleet, for pages: what will be written over a moment later is copied out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.figures import COLUMN_MS
from trilens.detect.scene import Figure, Scene, Telemetry
from trilens.model.life import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.detect.scene import JobView, NodeView, Place, Steps
    from trilens.detect.watch import Changes
    from trilens.model.run import RunId
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.serve.access.sight import Sight

    Values = NDArray[np.float64]

FIGURES: Final = (Figure.UTILIZATION, Figure.TEMPERATURE, Figure.POWER, Figure.MEMORY_USED)
_LATELY: Final = 120_000 // COLUMN_MS  # columns; what is older is not now
_PACE_STEPS: Final = 64
_LEAST_STEPS: Final = 3  # between fewer ends of steps nobody can tell a pace
_SILENT_STEPS: Final = 10  # a job that has made none for so long does not get nearer to its end
_SILENT_MS: Final = 60_000


class JobNow(NamedTuple):
    """A job as it stands. `workload` is None for a run, or a program, of which nobody knows the workload."""

    workload: WorkloadKey | None
    name: str
    team: str | None
    phase: Phase | None
    since_ms: int | None
    reporting: int  # of its GPUs
    pods: Sequence[PodKey]
    run: RunId | None
    run_name: str | None
    step: int | None
    total_steps: int | None
    seconds_left: float | None


@dataclass(frozen=True, slots=True, eq=False)
class FleetScene:
    """`readings` are what each place said last, within two minutes; NaN where it said nothing. `priced` has
    the same places and jobs, for whoever works out what they cost."""

    now_ms: int
    places: Sequence[Place]
    readings: Mapping[Figure, Values]
    jobs: Sequence[JobNow]
    nodes: Sequence[NodeView]
    priced: Scene


class KeptScene:
    """Written by the detection's thread, read by any other."""

    def __init__(self) -> None:
        self.now: FleetScene | None = None

    def take(self, scene: Scene, _changes: Changes) -> None:
        telemetry = scene.telemetry
        self.now = FleetScene(
            scene.now_ms,
            telemetry.places,
            {
                figure: _last_said(telemetry.figures[figure])
                for figure in FIGURES
                if figure in telemetry.figures
            },
            _jobs(scene),
            scene.nodes,
            Scene(
                scene.now_ms, Telemetry(telemetry.places, telemetry.times_ms[:0], {}), scene.jobs, scene.nodes
            ),
        )


def seen_jobs(scene: FleetScene | None, sight: Sight) -> FleetScene | None:
    """With the jobs that are seen: whose one is that is in no workload, nobody knows."""
    if scene is None or sight.is_whole:
        return scene
    own = [
        one for one in scene.jobs if one.workload is not None and sight.shows(one.workload.cluster, one.team)
    ]
    return replace(scene, jobs=own)


def _last_said(values: NDArray[np.float32]) -> Values:
    tail = values[:, -_LATELY:]
    back = ~np.isnan(tail[:, ::-1])
    last = tail.shape[1] - 1 - back.argmax(axis=1)
    said: Values = tail[np.arange(len(tail)), last].astype(np.float64)
    return said


def _jobs(scene: Scene) -> list[JobNow]:
    """Of several runs in one workload the one that was heard last, which comes first."""
    found: dict[object, JobNow] = {}
    for job in scene.jobs:
        key = job.workload or (job.run.run if job.run is not None else job.name)
        if key not in found:
            found[key] = _job(job, scene.now_ms)
    return list(found.values())


def _job(job: JobView, now_ms: int) -> JobNow:
    run = job.run
    steps = next((rank.steps for rank in job.ranks if len(rank.steps)), None)
    total = run.total_steps if run is not None else None
    name = job.workload.name if job.workload is not None else (run.name or run.run if run else job.name)
    return JobNow(
        job.workload,
        name,
        job.team,
        job.phase,
        job.phase_since_ms,
        len(job.rows),
        [pod.pod for pod in job.pods if pod.gone_ms is None],
        run.run if run is not None else None,
        run.name if run is not None else None,
        int(steps.step[-1]) if steps is not None else None,
        total,
        _seconds_left(job, steps, total, now_ms) if steps is not None and total is not None else None,
    )


def _seconds_left(job: JobView, steps: Steps, total: int, now_ms: int) -> float | None:
    """If it goes on as its last steps did; None where it does not go on."""
    if job.phase not in (None, Phase.RUNNING):
        return None
    at, ends_ms = steps.step[-_PACE_STEPS:], steps.end_ms[-_PACE_STEPS:]
    made = int(at[-1] - at[0])
    if made < _LEAST_STEPS:
        return None
    step_ms = float(ends_ms[-1] - ends_ms[0]) / made
    if step_ms <= 0 or now_ms - int(ends_ms[-1]) > max(_SILENT_MS, _SILENT_STEPS * step_ms):
        return None
    return max(total - int(at[-1]), 0) * step_ms / 1000
