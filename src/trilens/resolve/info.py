"""The two join metrics: each is 1, and unique per pod, or per GPU of a pod's container, at any instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trilens.model.life import MembershipInterval
    from trilens.model.workload import GpuUuid, PodKey, Workload, WorkloadKey

POD_INFO = "trilens_workload_pod_info"
GPU_INFO = "trilens_workload_gpu_info"

Labels = dict[str, str]


class GpuBinding(NamedTuple):
    """A GPU, or an instance of one, in a container's hands. Ranks are a process's: None where nobody told."""

    pod: PodKey
    container: str
    uuid: GpuUuid
    instance: str = ""  # GPU_I_ID, with MIG
    rank: int | None = None
    local_rank: int | None = None


def pod_info(
    members: Mapping[PodKey, MembershipInterval], workloads: Mapping[WorkloadKey, Workload]
) -> Iterator[Labels]:
    """`members`: the open intervals. A pod's name is unique among them, as it is in its cluster."""
    for interval in members.values():
        member = interval.membership
        record = workloads.get(member.workload)
        yield {
            "cluster": member.pod.cluster,
            "namespace": member.pod.namespace,
            "pod": member.pod.name,
            "node": interval.node,
            "workload": member.workload.name,
            "kind": member.workload.kind,
            "attempt": str(member.attempt),
            "node_rank": _number(member.node_rank),
            "experiment": (record.experiment if record is not None else None) or "",
            "team": (record.team if record is not None else None) or "",
        }


def gpu_info(
    members: Mapping[PodKey, MembershipInterval], bindings: Iterable[GpuBinding]
) -> Iterator[Labels]:
    """A binding that is told twice counts once, the one that knows the rank first; one whose pod is in no
    workload is left out."""
    best: dict[tuple[PodKey, str, str, str], GpuBinding] = {}
    for binding in bindings:
        key = (binding.pod, binding.container, binding.uuid, binding.instance)
        known = best.get(key)
        if known is None or _knows_more(binding, known):
            best[key] = binding
    for binding in best.values():
        interval = members.get(binding.pod)
        if interval is None:
            continue
        yield {
            "cluster": binding.pod.cluster,
            "namespace": binding.pod.namespace,
            "pod": binding.pod.name,
            "container": binding.container,
            "UUID": binding.uuid,
            "GPU_I_ID": binding.instance,
            "workload": interval.membership.workload.name,
            "attempt": str(interval.membership.attempt),
            "rank": _number(binding.rank),
            "local_rank": _number(binding.local_rank),
        }


def _knows_more(one: GpuBinding, other: GpuBinding) -> bool:
    return (one.rank is not None, one.local_rank is not None) > (
        other.rank is not None,
        other.local_rank is not None,
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
