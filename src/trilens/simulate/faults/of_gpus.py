"""What goes wrong with a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.faults.of_jobs import hang_now
from trilens.simulate.faults.scene import KernelLine
from trilens.simulate.faults.xids import LOST, UNKNOWN, XIDS
from trilens.simulate.holders import holders_on
from trilens.simulate.machines import show_health
from trilens.simulate.program_output import cuda_failure

if TYPE_CHECKING:
    from random import Random

    from trilens.simulate.faults.scene import Scene, Target
    from trilens.simulate.faults.xids import Xid
    from trilens.simulate.scenario import Fault
    from trilens.simulate.truth import FaultTruth


def xid(scene: Scene, fault: Fault, chance: Random) -> bool:
    target = scene.gpu(fault, chance)
    if target is None:
        return False
    told = scene.tell(fault.kind, target=target, detail=str(fault.code))
    known = XIDS.get(fault.code, UNKNOWN)
    for code in (fault.code, *known.follows):
        _log_xid(scene, target, code)
    bank_gpu = target.machine.span.gpus.start + target.gpu
    scene.bank.rows_remapped[bank_gpu] += fault.code == 63
    scene.bank.double_bit[bank_gpu] += fault.code in (48, 95)
    if known.breaks:
        _break(scene, target, told, fault.lasts, lost=known.loses)
    else:
        scene.over(told)
    _hurt(scene, target, told, known)
    return True


def _hurt(scene: Scene, target: Target, told: FaultTruth, known: Xid) -> None:
    if target.pod is None:
        return
    job = target.pod.job
    if known.kills:
        on_it = [
            pod for pod in target.machine.pods.values() if target.gpu in {place.gpu for place in pod.places}
        ]
        for pod in on_it if known.breaks else [target.pod]:
            rank = target.rank if pod is target.pod else None
            scene.work.fail(pod, "Error", 134, told.kind, cuda_failure(rank, known.error))
    elif known.hangs and target.rank is not None and job.run is not None and job.run.trouble.hung_by is None:
        told.to_ms = None
        hang_now(scene, job, target.rank, told)


def gpu_lost(scene: Scene, fault: Fault, chance: Random) -> bool:
    """Nobody sees it any more, and nothing is logged."""
    target = scene.gpu(fault, chance)
    if target is None:
        return False
    told = scene.tell(fault.kind, target=target)
    _break(scene, target, told, fault.lasts, lost=True)
    _hurt(scene, target, told, LOST)
    return True


def _break(scene: Scene, target: Target, told: FaultTruth, lasts_s: float, *, lost: bool) -> None:
    machine, gpu, node = target.machine, target.gpu, target.machine.name
    told.takes_out = True
    machine.broken.add(gpu)
    if lost:
        machine.lost.add(gpu)
    machine.looks_different()
    show_health(scene.api, machine)

    def mend() -> None:
        scene.over(told)
        if machine.name != node:
            return  # another machine stands there by now
        machine.broken.discard(gpu)
        machine.lost.discard(gpu)
        scene.bank.xid[machine.span.gpus.start + gpu] = 0
        machine.looks_different()
        show_health(scene.api, machine)
        scene.work.machines_changed()

    scene.lasts(told, lasts_s, mend)


def _log_xid(scene: Scene, target: Target, code: int) -> None:
    machine = target.machine
    holder = None
    whose = "pid='<unknown>', name=<unknown>"
    if target.pod is not None:
        uid = target.pod.uid
        holder = next(
            one
            for one in holders_on(machine, scene.bank)
            if (one.gpu.number, one.pod_uid) == (target.gpu, uid)
        )
        if holder.pid is not None:
            whose = f"pid={holder.pid}, name=python3"
    place = f"PCI:0000:{machine.pci(target.gpu).lower()}:00"
    known = XIDS.get(code, UNKNOWN)
    text = f"NVRM: Xid ({place}): {code}, {whose}, {known.text}"
    scene.kernel[machine.name].append(KernelLine(scene.api.now_ms, text, holder))
    scene.bank.xid[machine.span.gpus.start + target.gpu] = code
