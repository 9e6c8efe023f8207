"""What goes wrong in a simulated cluster, and when."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from trilens.simulate.faults import of_exporters, of_gpus, of_jobs, of_nodes
from trilens.simulate.scenario import FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.faults.scene import Scene
    from trilens.simulate.scenario import Fault

# Each returns whether it found a target.
_STRIKES: Final[dict[FaultKind, Callable[[Scene, Fault, Random], bool]]] = {
    FaultKind.XID: of_gpus.xid,
    FaultKind.GPU_LOST: of_gpus.gpu_lost,
    FaultKind.THERMAL: of_jobs.thermal,
    FaultKind.STRAGGLER: of_jobs.straggler,
    FaultKind.HANG: of_jobs.hang,
    FaultKind.SLOW_DATA: of_jobs.slow_data,
    FaultKind.NAN: of_jobs.nan,
    FaultKind.CHECKPOINT_FAILING: of_jobs.checkpoint_failing,
    FaultKind.OOM_KILLED: of_jobs.oom_killed,
    FaultKind.IMAGE_PULL: of_jobs.image_pull,
    FaultKind.PREEMPTION: of_jobs.preemption,
    FaultKind.NODE_NOT_READY: of_nodes.node_not_ready,
    FaultKind.EXPORTER_SILENT: of_nodes.exporter_silent,
    FaultKind.SPOT_RECLAIM: of_nodes.spot_reclaim,
    FaultKind.BAD_BATCH: of_jobs.bad_batch,
    FaultKind.STUCK_DATA: of_jobs.stuck_data,
    FaultKind.GIL_HELD: of_jobs.gil_held,
    FaultKind.PROCESS_DEAD: of_jobs.process_dead,
    FaultKind.EXCEPTION: of_jobs.exception,
    FaultKind.CPU_FALLBACK: of_jobs.cpu_fallback,
    FaultKind.DIVERGING: of_jobs.diverging,
    FaultKind.PLATEAU: of_jobs.plateau,
    FaultKind.PROF_STUCK: of_exporters.ails,
    FaultKind.READINGS_FROZEN: of_exporters.ails,
    FaultKind.READINGS_BLANK: of_exporters.ails,
    FaultKind.LABELS_LOST: of_exporters.ails,
}
_LOOK_AGAIN_S: Final = 60.0  # for a target, where there is none yet
_PATIENCE: Final = 240  # looks


def plan_faults(scene: Scene, seed: int) -> None:
    for number, fault in enumerate(scene.scenario.faults):
        chance = Random(f"fault {number} of {seed}")  # noqa: S311 - repeatable, not a secret
        if fault.at is not None:
            scene.timeline.after(fault.at, _strike_once, scene, fault, chance, _PATIENCE)
        else:
            scene.timeline.after(_next_s(fault, chance), _strike_often, scene, fault, chance)


def strike(scene: Scene, fault: Fault, chance: Random) -> bool:
    """Now. Whether it has found a target."""
    return _STRIKES[fault.kind](scene, fault, chance)


def _strike_once(scene: Scene, fault: Fault, chance: Random, looks_left: int) -> None:
    if not strike(scene, fault, chance) and looks_left:
        scene.timeline.after(_LOOK_AGAIN_S, _strike_once, scene, fault, chance, looks_left - 1)


def _strike_often(scene: Scene, fault: Fault, chance: Random) -> None:
    strike(scene, fault, chance)
    scene.timeline.after(_next_s(fault, chance), _strike_often, scene, fault, chance)


def _next_s(fault: Fault, chance: Random) -> float:
    return chance.expovariate(fault.per_hour) * 3600
