"""What goes wrong with a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.simulate.jobs import PodState
from trilens.simulate.machines import replace_machine, show_health

if TYPE_CHECKING:
    from random import Random

    from trilens.simulate.faults.scene import Scene
    from trilens.simulate.scenario import Fault

_NOTICED_AFTER_S: Final = 40.0  # that a kubelet is silent
_TOLERATED_S: Final = 300.0  # before pods are sent away from a silent node
_RECLAIM_NOTICE_S: Final = 120.0


def exporter_silent(scene: Scene, fault: Fault, chance: Random) -> bool:
    machine = scene.machine(fault, chance)
    if machine is None:
        return False
    told = scene.tell(fault.kind, machine=machine)
    machine.exporter_silences += 1

    def mend() -> None:
        machine.exporter_silences -= 1
        scene.over(told)

    scene.lasts(told, fault.lasts, mend)
    return True


def node_not_ready(scene: Scene, fault: Fault, chance: Random) -> bool:
    machine = scene.machine(fault, chance)
    if machine is None:
        return False
    told = scene.tell(fault.kind, machine=machine)
    told.takes_out = True
    machine.is_alive = False
    stuck = []
    for job in {pod.job: None for pod in machine.pods.values() if pod.state is PodState.RUNNING}:
        if job.run is not None and job.run.trouble.hung_by is None:
            missing = next((pod for pod in job.working if pod.machine is machine), None)
            if missing is None:
                continue
            job.run.trouble.hung_by = missing.ranks[0]
            job.run.change(scene.work.t_s)
            scene.work.refresh(job)
            stuck.append((job, job.run))

    def notice() -> None:
        if machine.is_alive:
            return  # it was mended before anybody saw
        machine.is_ready = False
        show_health(scene.api, machine)
        scene.work.show_ready(machine, ready=False)
        message = f"Node {machine.name} status is now: NodeNotReady"
        scene.api.event(machine.node, "NodeNotReady", message, "node-controller", warning=True)

    def send_away() -> None:
        if not machine.is_ready:
            message = "Taint manager: deleting due to NoExecute taint"
            scene.work.lose(machine, "DeletionByTaintManager", message, fault.kind.value)

    def mend() -> None:
        machine.is_alive = machine.is_ready = True
        show_health(scene.api, machine)
        scene.work.show_ready(machine, ready=True)
        scene.api.event(machine.node, "NodeReady", f"Node {machine.name} status is now: NodeReady", "kubelet")
        for job, run in stuck:
            if job.run is run:
                run.trouble.hung_by = None
                run.change(scene.work.t_s)
                scene.work.refresh(job)
        scene.over(told)
        scene.work.machines_changed()

    lasts_s = max(fault.lasts, _NOTICED_AFTER_S + 10)
    scene.timeline.after(_NOTICED_AFTER_S, notice)
    if lasts_s > _NOTICED_AFTER_S + _TOLERATED_S:
        scene.timeline.after(_NOTICED_AFTER_S + _TOLERATED_S, send_away)
    scene.lasts(told, lasts_s, mend)
    return True


def spot_reclaim(scene: Scene, fault: Fault, chance: Random) -> bool:
    machine = scene.machine(fault, chance, spot=True)
    if machine is None or not machine.pool.spot:
        return False
    told = scene.tell(fault.kind, machine=machine)
    machine.is_leaving = True
    show_health(scene.api, machine)
    message = "Spot interruption notice was received: the instance will be terminated in two minutes"
    scene.api.event(machine.node, "SpotInterruption", message, "aws-node-termination-handler", warning=True)

    def take() -> None:
        message = "the node is drained: its spot instance is taken back"
        scene.work.lose(machine, "EvictionByEvictionAPI", message, fault.kind.value)
        scene.timeline.after(10, gone)

    def gone() -> None:
        machine.is_there = False
        scene.api.delete(machine.node)
        scene.went(machine)

    def come_back() -> None:
        scene.bank.renew(machine.span, scene.work.t_s)
        replace_machine(scene.api, machine)
        scene.came(machine)
        scene.over(told)
        scene.work.machines_changed()

    scene.timeline.after(_RECLAIM_NOTICE_S, take)
    scene.timeline.after(_RECLAIM_NOTICE_S + 20 + fault.lasts, come_back)
    return True
