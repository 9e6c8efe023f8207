"""A GPU, or an instance of one: who says that a pod has it, and what follows from all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

# What is in annotations here is read when a bundle is read.
from trilens.model.workload import Doubt, GpuUuid, PodKey  # noqa: TC001

if TYPE_CHECKING:
    from fractions import Fraction

HELD_BEFORE_SEEN: Final = "held-before-seen"  # a doubt: that a pod had a GPU so early is a guess


class GpuKey(NamedTuple):
    uuid: GpuUuid
    instance: str = ""  # GPU_I_ID, where MIG divides it


class ClaimSource(StrEnum):
    """Who says that a pod has a GPU, the one that is believed first at the top."""

    PROCESS = "process"  # a process that holds memory on it, by NVML
    KUBELET = "kubelet"  # the device that the kubelet gave to a container, by its pod-resources socket
    DCGM = "dcgm"  # the labels that dcgm-exporter puts on its readings
    ANNOTATION = "annotation"  # what a scheduler or device plugin wrote on the pod


class Claim(NamedTuple):
    """One source's word. A process outside of Kubernetes stands where a pod does, under its member's name."""

    gpu: GpuKey
    source: ClaimSource
    cluster: str  # "" where the source does not know
    namespace: str
    pod: str
    container: str = ""  # "" where the source does not know
    rank: int | None = None
    local_rank: int | None = None
    pod_uid: str = ""  # "" where the source does not know


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or an instance of one, that reports. What nobody told is empty."""

    key: GpuKey
    cluster: str  # "" where its node is in no cluster that is watched
    node: str
    index: str = ""  # its number on the node
    model: str = ""
    profile: str = ""  # of a MIG instance: 1g.10gb


class GpuInterval(NamedTuple):
    gpu: Gpu
    from_ms: int
    to_ms: int | None  # when it last reported; None while it does


@dataclass(frozen=True, slots=True)
class GpuBinding:
    """A pod's container has a GPU, or a part of one."""

    gpu: GpuKey
    pod: PodKey
    container: str
    share: Fraction | None  # of the whole device, None where nobody knows; never more than 1 together
    sources: tuple[ClaimSource, ...]
    rank: int | None = None
    local_rank: int | None = None
    doubts: tuple[Doubt, ...] = ()


class BindingInterval(NamedTuple):
    binding: GpuBinding
    from_ms: int
    to_ms: int | None  # None while it lasts
