"""Nodes that a pod could have and that take no pods now: cordoned, silent, or short of memory or disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.evidence.node_room import NODES_UNTOLD, PODS_UNTOLD
from trilens.diagnose.scheduling.demand import demand_of
from trilens.diagnose.scheduling.nodes import names_of, nodes_of, room_facts
from trilens.diagnose.scheduling.waiting import first_waiting
from trilens.model.verdict import Fact
from trilens.resolve.reading import conditions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.scheduling.demand import Demand
    from trilens.diagnose.scheduling.nodes import NodeRoom

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
_FEW: Final = 6  # nodes that are told of one by one


@evidence("yes", "no")
def room_when_uncordoned(case: Case) -> Answer:
    """Whether the pod would find room on nodes that are cordoned."""
    demand, wanted = _wanted(case)
    closed = [room for room in wanted if room.is_cordoned]
    if demand is None or not closed:
        told = {"cordoned": "which ones is not known", "names": "NODE"}
        return Answer((UNKNOWN,), names=told, missing=(NODES_UNTOLD,))
    roomy = [room for room in closed if room.has_room(demand)]
    named = roomy or closed
    told = {"cordoned": names_of(named), "names": " ".join(room.name for room in named[:_FEW])}
    facts = (
        *(Fact(f"{room.name} is cordoned", f"spec of Node {room.name}") for room in named[:_FEW]),
        *room_facts(named, demand),
    )
    if any(room.taken is None for room in closed):
        return Answer((UNKNOWN,), facts, names=told, missing=(PODS_UNTOLD,))
    return Answer(("yes" if roomy else "no",), facts, names=told)


@evidence("silent", "pressure")
def nodes_not_well(case: Case) -> Answer:
    """What is wrong with the nodes that the scheduler passes over."""
    _, wanted = _wanted(case)
    silent = [room for room in wanted if not room.is_ready]
    pressed = [room for room in wanted if list(_pressures(room))]
    if not silent and not pressed:
        return Answer((UNKNOWN,), names={"ill": "which ones is not known"}, missing=(NODES_UNTOLD,))
    if silent:
        facts = tuple(fact for room in silent[:_FEW] for fact in _not_ready(room))
        return Answer(("silent",), facts, names={"ill": names_of(silent)})
    facts = tuple(fact for room in pressed[:_FEW] for fact in _pressures(room))
    return Answer(("pressure",), facts, names={"ill": names_of(pressed), "short": facts[0].text})


def _wanted(case: Case) -> tuple[Demand | None, Sequence[NodeRoom]]:
    """What the pod asks for, and the nodes that it could have by its labels."""
    pod = first_waiting(case)
    if pod is None:
        return None, ()
    demand = demand_of(pod)
    return demand, [room for room in nodes_of(case) if room.is_wanted(demand) and not room.is_control_plane]


def _not_ready(room: NodeRoom) -> Iterator[Fact]:
    for one in conditions(room.node):
        if one.type == "Ready" and not one.holds:
            said = one.message or one.reason or "it is not ready"
            yield Fact(f"{room.name}: {said}", f"condition of Node {room.name}", one.since_ms)


def _pressures(room: NodeRoom) -> Iterator[Fact]:
    for one in conditions(room.node):
        if one.type in _PRESSURES and one.holds:
            said = f"{room.name} has {one.type}" + (f": {one.message}" if one.message else "")
            yield Fact(said, f"condition of Node {room.name}", one.since_ms)
