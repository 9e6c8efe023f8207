"""Processors, memory and places for pods: what a pod asks for of them, and what nodes have."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.evidence.node_room import NODES_UNTOLD, PODS_UNTOLD
from trilens.diagnose.scheduling.demand import PLACES, demand_of, written
from trilens.diagnose.scheduling.messages import Blocker
from trilens.diagnose.scheduling.nodes import holders, nodes_of, open_to
from trilens.diagnose.scheduling.waiting import first_waiting, scheduler_words
from trilens.model.verdict import Fact

if TYPE_CHECKING:
    from trilens.diagnose.case import Case
    from trilens.diagnose.scheduling.nodes import NodeRoom
    from trilens.model.kubernetes import KubeObject

_FEW: Final = 6  # nodes that are told of one by one


@evidence("never", "taken")
def other_resources(case: Case) -> Answer:
    """Whether any node that the pod could have is large enough, and who has what it asks for."""
    pod = first_waiting(case)
    short = _short(case, pod) if pod is not None else ""
    told = {
        "resource": short or "processors or memory",
        "asked": "what it needs",
        "holders": "those that run there",
    }
    if pod is None or not short:
        return Answer((UNKNOWN,), names=told)
    demand, rooms = demand_of(pod), nodes_of(case)
    asked = demand.resources.get(short)
    if asked is None or not rooms:
        return Answer((UNKNOWN,), names=told, missing=(NODES_UNTOLD,))
    could = open_to(rooms, demand)
    # Those without the GPUs that it asks for would not take it with all the memory in the world.
    with_gpus = [room for room in could if room.has_room(demand) is not False] or could
    most = max((room.allocatable.get(short, Decimal(0)) for room in with_gpus), default=Decimal(0))
    told |= {"asked": written(short, asked), "most": written(short, most)}
    facts = tuple(_fact(room, short) for room in with_gpus[:_FEW])
    if with_gpus and asked > most:
        return Answer(("never",), facts, names=told)
    if not with_gpus or any(room.taken is None for room in with_gpus):
        return Answer((UNKNOWN,), facts, names=told, missing=(PODS_UNTOLD,))
    return Answer(("taken",), facts, names={**told, "holders": holders(case, short, with_gpus)})


def _short(case: Case, pod: KubeObject) -> str:
    """Of which the scheduler says that there is too little."""
    for word in scheduler_words(case, pod):
        if word.blocked.blocker is Blocker.INSUFFICIENT_RESOURCE:
            return word.blocked.detail or PLACES
    return ""


def _fact(room: NodeRoom, resource: str) -> Fact:
    have, free = room.allocatable.get(resource, Decimal(0)), room.free(resource)
    left = f", {written(resource, free)} free" if free is not None else ""
    return Fact(f"{room.name}: {written(resource, have)} {resource}{left}", f"Node {room.name} and its pods")
