"""The two join metrics: each is 1, and unique per pod, or per GPU of a pod's container, at any instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trilens.model.gpu import GpuBinding
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import PodKey, Workload, WorkloadKey

POD_INFO = "trilens_workload_pod_info"
GPU_INFO = "trilens_workload_gpu_info"

Labels = dict[str, str]


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
    """A binding whose pod is in no workload is left out. Of two pods with one name, one of them about to go,
    the one that came later holds it."""
    found: dict[tuple[str, ...], tuple[int, Labels]] = {}
    for binding in bindings:
        interval = members.get(binding.pod)
        if interval is None:
            continue
        key = (*binding.pod[:3], binding.container, *binding.gpu)
        known = found.get(key)
        if known is not None and known[0] > interval.from_ms:
            continue
        found[key] = (
            interval.from_ms,
            {
                "cluster": binding.pod.cluster,
                "namespace": binding.pod.namespace,
                "pod": binding.pod.name,
                "container": binding.container,
                "UUID": binding.gpu.uuid,
                "GPU_I_ID": binding.gpu.instance,
                "workload": interval.membership.workload.name,
                "attempt": str(interval.membership.attempt),
                "rank": _number(binding.rank),
                "local_rank": _number(binding.local_rank),
            },
        )
    for _, labels in found.values():
        yield labels


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
