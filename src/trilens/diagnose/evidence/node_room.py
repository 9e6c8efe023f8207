"""What the nodes have for a pod that none of them takes: room, taints, labels, resources by name."""

from __future__ import annotations

import difflib
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.scheduling.demand import Taint, demand_of
from trilens.diagnose.scheduling.messages import Blocker
from trilens.diagnose.scheduling.nodes import (
    GPU_LABELS,
    holders,
    names_of,
    nodes_of,
    open_to,
    room_facts,
    why_closed,
)
from trilens.diagnose.scheduling.waiting import first_waiting, scheduler_words
from trilens.diagnose.selectors import lacking
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.scheduling.demand import Amounts, Demand
    from trilens.diagnose.scheduling.nodes import NodeRoom
    from trilens.diagnose.selectors import Requirement
    from trilens.model.kubernetes import KubeObject

NODES_UNTOLD: Final = Missing("the nodes of the cluster", 'allow "list" on nodes: trilens kubernetes rbac')
PODS_UNTOLD: Final = Missing(
    "which pods are on those nodes", 'allow "list" on pods in all namespaces: trilens kubernetes rbac'
)
_FEW: Final = 6  # facts of one kind that are shown
# Labels that a cloud, the kubelet or a discovery writes: whoever changes them by hand makes them untrue.
_BY_MACHINES: Final = re.compile(
    r"^(nvidia\.com|feature\.node\.kubernetes\.io|cloud\.google\.com|(?!node-role)([\w.-]*\.)?kubernetes\.io|k8s\.amazonaws\.com"
    r"|kubernetes\.azure\.com|karpenter\.sh)/"
)


@evidence("yes", "no")
def room_behind_taint(case: Case) -> Answer:
    """Whether the pod would run if it tolerated what it does not; and what that is."""
    pod = first_waiting(case)
    rooms = nodes_of(case)
    if pod is None or not rooms:
        return Answer((UNKNOWN,), missing=(NODES_UNTOLD,), names=_taint_names(_said_taints(case, pod), ()))
    demand = demand_of(pod)
    behind = [room for room in rooms if not room.is_control_plane and room.untolerated(demand)]
    behind = [room for room in behind if room.is_wanted(demand) and room.is_ready and not room.is_cordoned]
    open_ones = [room for room in behind if room.has_room(demand)]
    taints = [taint for room in open_ones or behind for taint in room.untolerated(demand)]
    told = _taint_names(taints or _said_taints(case, pod), open_ones or behind)
    facts = tuple(
        Fact(
            f"{room.name} has the taint {', '.join(map(str, room.untolerated(demand)))}", f"Node {room.name}"
        )
        for room in behind[:_FEW]
    )
    facts += tuple(room_facts(open_ones or behind, demand))
    if any(room.taken is None for room in behind):
        return Answer((UNKNOWN,), facts, missing=(PODS_UNTOLD,), names=told)
    return Answer(("yes",) if open_ones else ("no",), facts, names=told)


@evidence("wrong-name", "mig-absent", "too-many", "unhealthy", "no-plugin", "none-there", "scattered", "full")
def gpus_on_nodes(case: Case) -> Answer:
    """Whether any node could ever have what one pod asks for, and who has it now."""
    pod = first_waiting(case)
    rooms = nodes_of(case)
    if pod is None or not rooms:
        asked = demand_of(pod).gpus if pod is not None else {}
        return Answer((UNKNOWN,), names=_asked_names(asked, ""), missing=(NODES_UNTOLD,))
    demand = demand_of(pod)
    for resource, amount in _short_first(case, pod, demand):
        offering = [room for room in rooms if room.capacity.get(resource)]
        told = _asked_names({resource: amount}, names_of(offering))
        if not offering:
            return _not_offered(resource, rooms, told)
        usual = open_to(offering, demand)
        most = max(room.allocatable.get(resource, Decimal(0)) for room in offering)
        largest = max(room.capacity[resource] for room in offering)
        told |= {"most": f"{largest:f}", "nodes": names_of(usual or offering)}
        facts = tuple(room_facts(usual or offering, demand))
        if amount > largest:
            return Answer(("too-many",), facts, names=told)
        lost = [
            room for room in usual if room.capacity[resource] > room.allocatable.get(resource, Decimal(0))
        ]
        if lost and (most < amount or _would_fit(lost, resource, amount)):
            told |= {"nodes": names_of(lost), "node": lost[0].name, "lost": str(_lost(lost, resource))}
            return Answer(("unhealthy",), facts, names=told)
        if most < amount:
            return Answer(("too-many",), facts, names=told)
        free = [room.free(resource) for room in usual]
        if not free or None in free:
            # The scheduler says that they are short, and it knows; how many are free is not known here.
            return Answer(("full",), facts, 0.9, told, (PODS_UNTOLD,))
        total = sum((max(one, Decimal(0)) for one in free if one is not None), Decimal(0))
        told |= {"free": f"{total:f}", "holders": holders(case, resource, usual)}
        if total >= amount:
            return Answer(("scattered",), facts, names=told)
        return Answer(("full",), facts, names=told)
    return Answer(
        (UNKNOWN,),
        names=_asked_names({}, ""),
        missing=(
            Missing("how many GPUs the pod asks for", "its annotations tell, where it asks for a share"),
        ),
    )


@evidence("absent", "elsewhere")
def node_labels_say(case: Case) -> Answer:
    """Whether any node has the labels that the pod wants."""
    pod = first_waiting(case)
    rooms = nodes_of(case)
    if pod is None or not rooms:
        wanted = demand_of(pod).nodes if pod is not None else ()
        told = {
            "label": "; or ".join(", ".join(map(str, one)) for one in wanted),
            "near": "",
            "correct": "Correct nodeSelector or affinity of its pod template.",
            "relabel": "Or label the nodes that are meant: kubectl label node NODE KEY=VALUE",
        }
        return Answer((UNKNOWN,), names=told, missing=(NODES_UNTOLD,))
    demand = demand_of(pod)
    matching = [room for room in rooms if room.is_wanted(demand)]
    if matching:
        closed = [f"{room.name} {why}" for room in matching if (why := why_closed(room, demand))]
        facts = tuple(Fact(one, "Nodes and their pods") for one in closed[:_FEW]) or (
            Fact(f"the labels that it wants are on {names_of(matching)}", "labels of the Nodes"),
        )
        told = {"label": _wanted(demand), "closed": ", ".join(closed[:3]) or names_of(matching)}
        return Answer(("elsewhere",), facts, names=told)
    term = min(demand.nodes, key=lambda one: min(len(lacking(one, room.labels)) for room in rooms))
    # The one that no node has; where each has some node, it is the combination that none has.
    absent = [one for one in term if not any(one.holds(room.labels) for room in rooms)] or list(term)
    told = {"label": ", ".join(map(str, absent)), **_label_changes(absent, rooms)}
    fact = Fact(f"none of {len(rooms)} nodes has {told['label']}", "labels of the Nodes")
    return Answer(("absent",), (fact,), names=told)


def _label_changes(absent: Sequence[Requirement], rooms: Sequence[NodeRoom]) -> dict[str, str]:
    """What to write instead; and which labels to give to nodes, where people give them."""
    there = {
        one.key: sorted({room.labels[one.key] for room in rooms if one.key in room.labels}) for one in absent
    }
    values = [value for near in there.values() for value in near]
    offered = "; ".join(f"{key}: {' or '.join(near[:_FEW])}" for key, near in there.items() if near)
    own = [one for one in absent if one.values and not _BY_MACHINES.search(one.key)]
    settings = " ".join(f"{one.key}={one.values[0]}" for one in own)
    return {
        "near": f" Nodes have {', '.join(values[:_FEW])} there." if values else " No node has that label.",
        "correct": "Correct nodeSelector or affinity of its pod template"
        + (f", to what nodes have ({offered})." if offered else "."),
        "relabel": f"Or label the nodes that are meant: kubectl label node NODE {settings}" if own else "",
    }


def _short_first(case: Case, pod: KubeObject, demand: Demand) -> list[tuple[str, Decimal]]:
    """Of which the scheduler says that they are short comes first. Shares that no node counts (HAMi's memory
    and cores) are left to whoever hands them out."""
    said = {word.blocked.detail for word in scheduler_words(case, pod)}
    return sorted(demand.gpus.items(), key=lambda one: one[0] not in said)


def _said_taints(case: Case, pod: KubeObject | None) -> list[Taint]:
    if pod is None:
        return []
    words = [word.blocked for word in scheduler_words(case, pod)]
    return [Taint.read(one.detail) for one in words if one.blocker is Blocker.TAINT and one.detail]


def _taint_names(taints: Sequence[Taint], rooms: Sequence[NodeRoom]) -> dict[str, str]:
    known = list(dict.fromkeys(taints))
    return {
        "taint": ", ".join(map(str, known)) or "a taint that the scheduler does not name",
        "toleration": ", ".join(taint.toleration for taint in known)
        or "what kubectl describe nodes shows as Taints",
        "nodes": names_of(rooms) or "nodes",
    }


def _asked_names(gpus: Amounts, nodes: str) -> dict[str, str]:
    resource, amount = next(iter(gpus.items()), ("nvidia.com/gpu", None))
    told = {"resource": resource, "asked": f"{amount:f}" if amount is not None else "some"}
    return {
        **told,
        "nodes": nodes or "the nodes",
        "holders": "who has them is not known here",
        "free": "too few",
        "most": "?",
    }


def _not_offered(resource: str, rooms: Sequence[NodeRoom], told: dict[str, str]) -> Answer:
    offered = sorted({name for room in rooms for name, amount in room.capacity.items() if amount})
    accelerators = [name for name in offered if is_accelerator(name)]
    with_gpu = [room for room in rooms if room.is_labelled_gpu]
    fact = Fact(f"no node has {resource}; they have {', '.join(accelerators) or 'no accelerators'}", "Nodes")
    if accelerators:
        near = difflib.get_close_matches(resource, accelerators, n=1, cutoff=0.6)
        told |= {"offered": ", ".join(accelerators), "near": near[0] if near else accelerators[0]}
        return Answer(("mig-absent" if "/mig-" in resource else "wrong-name",), (fact,), names=told)
    if with_gpu:
        labels = sorted({label for room in with_gpu for label in GPU_LABELS if label in room.labels})
        seen = Fact(f"{names_of(with_gpu)} have the label {', '.join(labels)}", "labels of the Nodes")
        return Answer(("no-plugin",), (fact, seen), names={**told, "nodes": names_of(with_gpu)})
    return Answer(("none-there",), (fact,), names=told)


def _would_fit(rooms: Sequence[NodeRoom], resource: str, amount: Decimal) -> bool:
    for room in rooms:
        free = room.free(resource)
        lost = room.capacity[resource] - room.allocatable.get(resource, Decimal(0))
        if free is not None and free < amount <= free + lost:
            return True
    return False


def _lost(rooms: Sequence[NodeRoom], resource: str) -> Decimal:
    return sum(
        (room.capacity[resource] - room.allocatable.get(resource, Decimal(0)) for room in rooms), Decimal(0)
    )


def _wanted(demand: Demand) -> str:
    return "; or ".join(", ".join(map(str, one)) for one in demand.nodes)
