"""What goes wrong with an exporter: it answers, and what it says is not so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from trilens.simulate.faults.scene import Scene
    from trilens.simulate.scenario import Fault


def ails(scene: Scene, fault: Fault, chance: Random) -> bool:
    """All GPUs of a node, one sort at a time."""
    machine = scene.machine(fault, chance)
    if machine is None or fault.kind in machine.exporter_ails:
        return False
    told = scene.tell(fault.kind, machine=machine)
    machine.exporter_ails.add(fault.kind)
    machine.looks_different()

    def mend() -> None:
        machine.exporter_ails.discard(fault.kind)
        machine.looks_different()
        scene.over(told)

    scene.lasts(told, fault.lasts, mend)
    return True
