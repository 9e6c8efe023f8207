"""What happened at a moment, and to whom: faults of GPUs and their links, and what Kubernetes warns of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# What is in annotations here is read when a bundle is read.
from trilens.model.node import LocalJob  # noqa: TC001
from trilens.model.workload import GpuUuid  # noqa: TC001


class EventKind(StrEnum):
    XID = "xid"  # of a GPU
    SXID = "sxid"  # of an NVLink switch
    NVLINK = "nvlink"  # a complaint about a link, without a code
    WARNING = "warning"  # of Kubernetes, about a pod


class Victim(NamedTuple):
    """A pod, or a process that stands where one does. What the agent could not tell is empty."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A fault that the kernel of a machine reported, or a warning. (cluster, node, id) names it, however
    often it is told."""

    node: str  # "" where it was no node that told
    id: str  # of a fault, that of its line in the kernel's log: the same when an agent counts anew
    t_ms: int
    kind: EventKind
    code: int | None
    text: str
    title: str | None  # what the code means, or the reason that Kubernetes gives
    asks: str | None  # what it asks for at once
    uuid: GpuUuid | None
    gpu: int | None  # its number on the machine
    pci: str | None
    pid: int | None
    process: str | None
    rank: int | None
    victims: tuple[Victim, ...] = ()
    ledger: str = ""  # whose count `number` belongs to, for the reader to go on after it
    number: int = 0
    job: LocalJob | None = None  # of the process, where it is in no pod; not kept with the event
    cluster: str = ""  # of the node; "" where nobody told it, and its name has to do

    def may_be_in(self, cluster: str) -> bool:
        """ "" is a cluster that is not known."""
        return not self.cluster or not cluster or self.cluster == cluster
