"""What happens in a simulated cluster that looks like trouble, and is none."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from trilens.simulate.machines import show_health
from trilens.simulate.scenario import CalmKind, Fault, FaultKind
from trilens.simulate.training import BadBatch, Flat
from trilens.simulate.truth import FaultTruth

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.faults.scene import Scene
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.scenario import Calm

_LOOK_AGAIN_S: Final = 10.0
_PATIENCE: Final = 60  # looks
_DOES: Final = {CalmKind.VALIDATION: "validation", CalmKind.COMPILATION: "compile", CalmKind.HICCUP: "data"}


def plan_calm(scene: Scene, seed: int) -> None:
    for number, calm in enumerate(scene.scenario.calm):
        chance = Random(f"calm {number} of {seed}")  # noqa: S311 - repeatable, not a secret
        scene.timeline.after(calm.at, _happen, scene, calm, chance, _PATIENCE)


def _happen(scene: Scene, calm: Calm, chance: Random, looks_left: int) -> None:
    if not _HAPPENS[calm.kind](scene, calm, chance) and looks_left:
        scene.timeline.after(_LOOK_AGAIN_S, _happen, scene, calm, chance, looks_left - 1)


def _tell(scene: Scene, calm: Calm, job: SimJob | None = None, node: str = "") -> FaultTruth:
    told = FaultTruth(calm.kind.value, scene.api.now_ms, node=node)
    if job is not None:
        told.job_uid = job.top["metadata"]["uid"]
    scene.truth.calm.append(told)
    return told


def _training(scene: Scene, calm: Calm, chance: Random) -> SimJob | None:
    return scene.training(Fault(kind=FaultKind.HANG, at=0.0, job=calm.job), chance)


def _pause(scene: Scene, calm: Calm, chance: Random) -> bool:
    """All ranks do something else than steps, and say so; a hiccup is a wait for data."""
    job = _training(scene, calm, chance)
    if job is None or job.run is None or job.run.trouble.pause is not None:
        return False
    run, told = job.run, _tell(scene, calm, job)

    def change(pause: str | None) -> None:
        run.trouble.pause = pause
        run.change(scene.work.t_s)
        scene.work.refresh(job)

    def go_on() -> None:
        if job.run is run:
            change(None)
        scene.over(told)

    change(_DOES[calm.kind])
    scene.timeline.after(calm.lasts, go_on)
    return True


def _flat_loss(scene: Scene, calm: Calm, chance: Random) -> bool:
    """The learning rate is too high to learn more, until its schedule lowers it."""
    job = _training(scene, calm, chance)
    if job is None or job.run is None or job.run.trouble.flat is not None:
        return False
    run, told = job.run, _tell(scene, calm, job)
    step = int(run.step_at(scene.work.t_s)) + 1
    run.trouble.flat = Flat(step, None)

    def learn_again() -> None:
        run.trouble.flat = Flat(step, int(run.step_at(scene.work.t_s)))
        scene.over(told)

    scene.timeline.after(calm.lasts, learn_again)
    return True


def _loss_spike(scene: Scene, calm: Calm, chance: Random) -> bool:
    """Of one step, from which the run comes back."""
    job = _training(scene, calm, chance)
    if job is None or job.run is None:
        return False
    step = int(job.run.step_at(scene.work.t_s)) + 1
    job.bad_batches[step] = BadBatch(chance.randrange(job.ranks), calm.factor)
    scene.over(_tell(scene, calm, job))
    return True


def _drain(scene: Scene, calm: Calm, chance: Random) -> bool:
    """Somebody empties a node, as for an update; what ran there begins again elsewhere, or later."""
    fault = Fault(kind=FaultKind.NODE_NOT_READY, at=0.0, node=calm.node)
    machine = scene.machine(fault, chance)
    if machine is None:
        return False
    told = _tell(scene, calm, node=machine.name)
    machine.is_cordoned = True
    show_health(scene.api, machine)
    message = "the node is drained: Eviction API was called"
    scene.work.lose(machine, "EvictionByEvictionAPI", message, calm.kind.value)

    def open_again() -> None:
        machine.is_cordoned = False
        show_health(scene.api, machine)
        scene.over(told)
        scene.work.machines_changed()

    scene.timeline.after(calm.lasts, open_again)
    return True


def _scaling(scene: Scene, calm: Calm, chance: Random) -> bool:
    """A service gets one pod more, and loses it again."""
    asked = Fault(kind=FaultKind.HANG, at=0.0, job=calm.job)
    services = [job for job in scene.running_jobs(asked) if job.operator.replaces_single_pods]
    if not services:
        return False
    job = chance.choice(services)
    told = _tell(scene, calm, job)
    scene.work.scale(job, 1)

    def shrink() -> None:
        scene.work.scale(job, -1)
        scene.over(told)

    scene.timeline.after(calm.lasts, shrink)
    return True


def _old_xid(scene: Scene, calm: Calm, chance: Random) -> bool:
    """DCGM shows the code of a fault that was long ago, and will until the driver is loaded anew."""
    machine = scene.machine(Fault(kind=FaultKind.NODE_NOT_READY, at=0.0, node=calm.node), chance)
    if machine is None:
        return False
    gpu = chance.randrange(machine.gpu_count)
    scene.bank.xid[machine.span.gpus.start + gpu] = 31
    _tell(scene, calm, node=machine.name)
    return True


_HAPPENS: Final[dict[CalmKind, Callable[[Scene, Calm, Random], bool]]] = {
    CalmKind.VALIDATION: _pause,
    CalmKind.COMPILATION: _pause,
    CalmKind.HICCUP: _pause,
    CalmKind.FLAT_LOSS: _flat_loss,
    CalmKind.LOSS_SPIKE: _loss_spike,
    CalmKind.DRAIN: _drain,
    CalmKind.SCALING: _scaling,
    CalmKind.OLD_XID: _old_xid,
}
