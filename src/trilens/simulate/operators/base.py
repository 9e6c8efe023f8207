"""What every simulated operator does with a job: make its objects and pods, hold it back, and say its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from trilens.simulate.cluster import condition, owned_by, with_condition
from trilens.simulate.pod_life import created

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.objects import KubeDict


_RECORDER: Final = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


class PodPlan(NamedTuple):
    """A pod that an operator makes, and where in its job that is."""

    pod: KubeDict  # as it was created
    role: str = ""
    group: int | None = None
    node_rank: int | None = None
    attempt: int | None = None  # where the operator numbers its lives; else the seat's holders are counted
    works: bool = True  # holds GPUs
    first_rank: int | None = None  # of the ranks that run in it


class Operator(ABC):
    """The defaults are what most operators do."""

    kind: ClassVar[str]
    api_version: ClassVar[str]
    # After a failure: containers start again in their pods, or the pods are made anew, or the job has failed.
    restarts_containers: ClassVar[bool] = False
    can_retry: ClassVar[bool] = True
    keeps_failed_pods: ClassVar[bool] = False
    keeps_children_when_held: ClassVar[bool] = False  # they are suspended with the job
    drops_at_end: ClassVar[frozenset[str]] = frozenset()  # kinds of children
    drops_in_foreground: ClassVar[bool] = False  # children go after their pods: it asks for that
    replaces_single_pods: ClassVar[bool] = False  # else, one lost means all are made anew
    pod_restart_policy: ClassVar[str] = "Never"
    container: ClassVar[str] = "pytorch"

    def submit(self, api: Cluster, job: SimJob) -> KubeDict:
        return api.create(
            {
                "apiVersion": self.api_version,
                "kind": self.kind,
                "metadata": {
                    "name": job.name,
                    "namespace": job.template.namespace,
                    "labels": {**job.labels, **job.queue_labels},
                },
                "spec": self.spec(job),
                "status": {},
            }
        )

    @abstractmethod
    def spec(self, job: SimJob) -> KubeDict: ...

    @abstractmethod
    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        """The objects and pods of one attempt; what stands between job and pods goes into `job.children`."""

    def hold(self, api: Cluster, job: SimJob, *, held: bool) -> None:
        """Suspend, or go on, as a queue asks for."""
        api.update(job.top, spec={**job.current_top["spec"], "suspend": held})

    def running(self, api: Cluster, job: SimJob) -> None:
        """All its pods run."""
        set_condition(api, job.current_top, "Running", f"{self.kind}Running")

    @abstractmethod
    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None: ...

    def stays_at_end(self, plan: PodPlan) -> bool:
        """Whether a pod of a job that is done lies about."""
        return True

    def restarting(self, api: Cluster, job: SimJob, message: str) -> None:  # noqa: B027 - most say nothing
        """It has failed, and is about to be put up again."""


def pod_spec(job: SimJob, operator: Operator, *, works: bool = True) -> KubeDict:
    """The same for all pods of a job that do the same."""
    resources: KubeDict = {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}}
    if works:
        gpus = {job.gpu_resource: str(job.template.gpus_per_pod)}
        resources = {"requests": {**resources["requests"], **gpus}, "limits": {**resources["limits"], **gpus}}
    container = {
        "name": operator.container,
        "image": job.template.image,
        "resources": resources,
        "ports": [{"name": "metrics", "containerPort": job.metrics_port, "protocol": "TCP"}],
    }
    if works and job.template.training.flight_recorder:
        container["env"] = [{"name": name, "value": value} for name, value in _RECORDER.items()]
    spec: KubeDict = {
        "restartPolicy": operator.pod_restart_policy,
        "schedulerName": "default-scheduler",
        "priority": job.template.priority,
        "containers": [container],
    }
    if job.template.tolerates_gpu_nodes:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    if works:
        spec["nodeSelector"] = {"trilens.sim/pool": job.template.pool}
    return spec


def child(
    owner: KubeDict, api_version: str, kind: str, name: str, labels: dict[str, str], spec: Any, **meta: Any
) -> KubeDict:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": owned_by(owner),
            **meta,
        },
        "spec": spec,
        "status": {},
    }


def pod_of(
    owner: KubeDict,
    name: str,
    labels: dict[str, str],
    spec: KubeDict,
    job: SimJob,
    annotations: dict[str, str] | None = None,
    *,
    serves: bool = True,
) -> KubeDict:
    """`serves`: there are metrics to be had from it."""
    asks = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(job.metrics_port),
        "prometheus.io/path": "/metrics",
    }
    written = {**(asks if serves else {}), **(annotations or {})}
    made = child(owner, "v1", "Pod", name, {**job.labels, **labels}, spec, annotations=written)
    return {**made, "status": created()}


def set_condition(
    api: Cluster,
    obj: KubeDict,
    kind: str,
    reason: str,
    message: str = "",
    *,
    holds: bool = True,
    **status: Any,
) -> None:
    current = api.objects.current(obj)
    if current is None:
        return
    before = current.get("status", {})
    new = condition(kind, reason, api.time, message, holds=holds)
    api.update(obj, status={**before, **status, "conditions": with_condition(before, new)})
