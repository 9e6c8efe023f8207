"""A small fleet for tests of GPUs: clusters, their pods, and what is reported about their GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.resolve.gpus.cluster_view import ClusterView, NodeView
from trilens.resolve.gpus.gather import annotated, claims_of, gpus_of
from trilens.resolve.gpus.places import Places, Pods
from trilens.resolve.gpus.reconcile import reconcile
from trilens.resolve.gpus.reports import DEVICE_INFO, PROCESS_MEMORY, UTILIZATION, read_report

if TYPE_CHECKING:
    from trilens.model.gpu import Gpu, GpuBinding
    from trilens.resolve.accelerators import GpuCapacity
    from trilens.resolve.gpus.annotations import Assigned
    from trilens.resolve.gpus.reconcile import Reconciled
    from trilens.resolve.gpus.reports import Report

H100 = "NVIDIA H100 80GB HBM3"


def pod_key(name: str, cluster: str = "lab", uid: str = "") -> PodKey:
    namespace, _, pod = name.rpartition("/")
    return PodKey(cluster, namespace or "ml", pod, uid or f"uid-{pod}")


def member(key: PodKey, node: str = "node-a", from_ms: int = 0, attempt: int = 0) -> MembershipInterval:
    workload = WorkloadKey(key.cluster, key.namespace, "batch", "Job", key.name.rsplit("-", 1)[0], "w")
    return MembershipInterval(Membership(key, workload, attempt), node, from_ms)


def cluster(
    *pods: str,
    name: str = "lab",
    nodes: dict[str, GpuCapacity | None] | None = None,
    no_workload: tuple[str, ...] = (),
    assigned: dict[str, tuple[Assigned, ...]] | None = None,
    is_settled: bool = True,
) -> ClusterView:
    """`pods` are NAME or NAMESPACE/NAME, with @NODE where it is not node-a, and @ where there is none yet."""
    members = {}
    for written in pods:
        pod, at, node = written.partition("@")
        key = pod_key(pod, name)
        members[key] = member(key, node if at else "node-a")
    return ClusterView(
        name,
        members,
        frozenset(pod_key(pod, name) for pod in no_workload),
        tuple(
            NodeView(node, frozenset(), capacity) for node, capacity in (nodes or {"node-a": None}).items()
        ),
        {pod_key(pod, name): found for pod, found in (assigned or {}).items()},
        is_settled,
    )


def told(metric: str, uuid: str, pod: str = "", **labels: str) -> Report:
    namespace, _, name = pod.rpartition("/")
    holder = {"namespace": namespace or "ml", "pod": name} if pod else {}
    report = read_report(metric, {"UUID": uuid, "Hostname": "node-a", "modelName": H100, **holder, **labels})
    assert report is not None
    return report


def dcgm(uuid: str, pod: str = "", **labels: str) -> Report:
    return told(UTILIZATION, uuid, pod, **labels)


def kubelet(uuid: str, pod: str, **labels: str) -> Report:
    return told(DEVICE_INFO, uuid, pod, **labels)


def process(uuid: str, pod: str, **labels: str) -> Report:
    return told(PROCESS_MEMORY, uuid, pod, **labels)


def inventory(views: list[ClusterView], *reports: Report) -> dict[object, Gpu]:
    return dict(gpus_of(reports, Places(views)))


def reconciled(views: list[ClusterView], *reports: Report) -> Reconciled:
    places = Places(views)
    gpus = gpus_of(reports, places)
    return reconcile([*claims_of(reports, places, gpus), *annotated(views, gpus)], gpus, Pods(views))


def holders(found: Reconciled) -> dict[str, list[str]]:
    by_gpu: dict[str, list[str]] = {}
    for binding in found.bindings:
        by_gpu.setdefault("/".join(filter(None, binding.gpu)), []).append(binding.pod.name)
    return by_gpu


def the_one(found: Reconciled) -> GpuBinding:
    (binding,) = found.bindings
    return binding
