"""What nodes have for a pod: allocatable less what others asked for, their taints and labels."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from trilens.diagnose.scheduling.demand import amounts_of, requested, taints_of, written
from trilens.diagnose.scheduling.waiting import node_of
from trilens.diagnose.selectors import lacking
from trilens.model.verdict import Fact
from trilens.resolve.reading import conditions, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.scheduling.demand import Amounts, Demand, Taint
    from trilens.model.kubernetes import KubeObject

GPU_LABELS: Final = (
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.count",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)
_FEW: Final = 6  # nodes that are told of one by one
_OVER: Final = ("Succeeded", "Failed")  # such a pod holds nothing
CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_CORDON: Final = "node.kubernetes.io/unschedulable"
_OF_KUBERNETES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


# A case does not change, and many questions are about its nodes: of a large cluster they are counted once.
_COUNTED: Final[WeakKeyDictionary[Case, tuple[NodeRoom, ...]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class NodeRoom:
    node: KubeObject
    capacity: Amounts
    allocatable: Amounts
    taken: Amounts | None  # None where nobody told which pods are there
    taints: tuple[Taint, ...]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels

    @property
    def is_cordoned(self) -> bool:
        return section(self.node.body, "spec").get("unschedulable") is True

    @property
    def is_ready(self) -> bool:
        return all(one.holds for one in conditions(self.node) if one.type == "Ready")

    @property
    def is_well(self) -> bool:
        """Ready, and Kubernetes itself does not keep pods away: while disk or memory are short it does."""
        return self.is_ready and not any(
            taint.key.startswith(_OF_KUBERNETES) and taint.key != _CORDON for taint in self.taints
        )

    @property
    def is_labelled_gpu(self) -> bool:
        return any(label in self.labels for label in GPU_LABELS)

    @property
    def is_control_plane(self) -> bool:
        return any(taint.key in CONTROL_PLANE for taint in self.taints)

    def free(self, resource: str) -> Decimal | None:
        if self.taken is None:
            return None
        return self.allocatable.get(resource, Decimal(0)) - self.taken.get(resource, Decimal(0))

    def has_room(self, demand: Demand) -> bool | None:
        """For the accelerators that are asked for; None where nobody knows what is taken."""
        if self.taken is None:
            return None
        return all((self.free(name) or Decimal(0)) >= amount for name, amount in demand.gpus.items())

    def untolerated(self, demand: Demand) -> list[Taint]:
        """Without those that Kubernetes itself sets while something is wrong with the node."""
        return [
            taint
            for taint in self.taints
            if not taint.key.startswith(_OF_KUBERNETES) and not demand.tolerates(taint)
        ]

    def is_wanted(self, demand: Demand) -> bool:
        """By its labels."""
        return not demand.nodes or any(not lacking(one, self.labels) for one in demand.nodes)


def nodes_of(case: Case) -> Sequence[NodeRoom]:
    """All that the case knows, by name."""
    if case not in _COUNTED:
        _COUNTED[case] = _counted(case)
    return _COUNTED[case]


def _counted(case: Case) -> tuple[NodeRoom, ...]:
    on_node: dict[str, list[KubeObject]] = {}
    for pod in _at_work(case):
        on_node.setdefault(node_of(pod), []).append(pod)
    # Something runs on every node that works: where no other pod is known of any, nobody gathered them.
    own = {pod.uid for pod in case.pods}
    is_told = case.knows_all("", "Pod") or any(
        pod.uid not in own for pods in on_node.values() for pod in pods
    )
    found = []
    for node in sorted(case.of_kind("", "Node"), key=lambda one: one.name):
        taken = _sum(on_node.get(node.name, ())) if is_told else None
        status = section(node.body, "status")
        found.append(
            NodeRoom(
                node,
                amounts_of(section(status, "capacity")),
                amounts_of(section(status, "allocatable")),
                taken,
                taints_of(node),
            )
        )
    return tuple(found)


def open_to(rooms: Sequence[NodeRoom], demand: Demand) -> list[NodeRoom]:
    """Those that would take the pod if they had room."""
    return [
        room
        for room in rooms
        if room.is_wanted(demand) and room.is_ready and not room.is_cordoned and not room.untolerated(demand)
    ]


def why_closed(room: NodeRoom, demand: Demand) -> str:
    """What keeps a pod from a node that it wants; "" where nothing does that is known."""
    if room.is_cordoned:
        return "is cordoned"
    if not room.is_ready:
        return "is not ready"
    if taints := room.untolerated(demand):
        return f"has the taint {', '.join(map(str, taints))}"
    return "has too few GPUs free" if demand.gpus and room.has_room(demand) is False else ""


def places_for(rooms: Sequence[NodeRoom], demand: Demand) -> int | None:
    """How many pods that ask for so many GPUs would find a place; None where nobody can tell."""
    if not demand.gpus or not rooms or any(room.taken is None for room in rooms):
        return None
    return sum(
        max(0, min(int((room.free(name) or Decimal(0)) // amount) for name, amount in demand.gpus.items()))
        for room in open_to(rooms, demand)
    )


def names_of(rooms: Sequence[NodeRoom]) -> str:
    """At most three of them; the rest as a number."""
    names = [room.name for room in rooms]
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def holders(case: Case, resource: str, rooms: Sequence[NodeRoom]) -> str:
    """Who has most of it there: those are asked first."""
    where = {room.name for room in rooms}
    held: Amounts = {}
    for pod in _at_work(case):
        if node_of(pod) in where and (amount := requested(pod).get(resource)):
            owner = pod.controller
            name = f"{pod.namespace}/{owner.name if owner is not None else pod.name}"
            held[name] = held.get(name, Decimal(0)) + amount
    most = sorted(held.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{name} has {written(resource, amount)}" for name, amount in most)


def room_facts(rooms: Sequence[NodeRoom], demand: Demand) -> Iterator[Fact]:
    for room in rooms[:_FEW]:
        for resource in demand.gpus:
            if not room.capacity.get(resource):
                continue
            have, can = room.capacity[resource], room.allocatable.get(resource, Decimal(0))
            free = room.free(resource)
            left = f"{free:f} free" if free is not None else "how many are free is not known"
            broken = f", {have - can:f} not healthy" if can < have else ""
            yield Fact(f"{room.name}: {have:f} {resource}{broken}, {left}", f"Node {room.name} and its pods")


def _at_work(case: Case) -> Iterator[KubeObject]:
    """Pods that hold something of a node."""
    for pod in case.of_kind("", "Pod"):
        if node_of(pod) and text(section(pod.body, "status"), "phase") not in _OVER:
            yield pod


def _sum(pods: Sequence[KubeObject]) -> Amounts:
    found: Amounts = {}
    for pod in pods:
        for name, amount in requested(pod).items():
            found[name] = found.get(name, Decimal(0)) + amount
    return found
