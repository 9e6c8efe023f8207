"""Kueue in a simulated cluster: quotas, and the Workload that stands for each job in a queue."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from trilens.simulate.cluster import owned_by
from trilens.simulate.operators.base import set_condition

if TYPE_CHECKING:
    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.scenario import Scenario

_API: Final = "kueue.x-k8s.io/v1beta1"
_SOURCE: Final = "kueue-admission"
_SAYS_WHY_EVERY_MS: Final = 300_000


class Queues:
    def __init__(self, scenario: Scenario, api: Cluster, resources: dict[str, str]) -> None:
        """`resources`: what a GPU is called, by pool."""
        self._api = api
        self._free = {queue.name: queue.gpus for queue in scenario.queues}
        self._pool = {queue.name: queue.pool for queue in scenario.queues}
        self._waiting: list[SimJob] = []
        for pool in {queue.pool: None for queue in scenario.queues}:
            labels = {"nodeLabels": {"trilens.sim/pool": pool}}
            api.create(
                {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": pool}, "spec": labels}
            )
        for queue in scenario.queues:
            quota = {"name": resources[queue.pool], "nominalQuota": str(queue.gpus)}
            flavors = [{"name": queue.pool, "resources": [quota]}]
            group = {"coveredResources": [resources[queue.pool]], "flavors": flavors}
            api.create(
                {
                    "apiVersion": _API,
                    "kind": "ClusterQueue",
                    "metadata": {"name": queue.name},
                    "spec": {"queueingStrategy": "BestEffortFIFO", "resourceGroups": [group]},
                    "status": {},
                }
            )
            for namespace in sorted({job.namespace for job in scenario.jobs if job.queue == queue.name}):
                meta = {"name": queue.name, "namespace": namespace}
                spec = {"clusterQueue": queue.name}
                api.create({"apiVersion": _API, "kind": "LocalQueue", "metadata": meta, "spec": spec})

    def enter(self, job: SimJob) -> None:
        kind = job.template.kind.value.lower()
        digest = hashlib.sha256(job.top["metadata"]["uid"].encode()).hexdigest()[:5]
        gpus = {job.gpu_resource: str(job.template.gpus_per_pod)}
        container = {
            "name": job.operator.container,
            "image": job.template.image,
            "resources": {"requests": gpus},
        }
        count = job.template.pods * job.template.groups
        pod_sets = [{"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}]
        job.workload = self._api.create(
            {
                "apiVersion": _API,
                "kind": "Workload",
                "metadata": {
                    "name": f"{kind}-{job.name}-{digest}",
                    "namespace": job.template.namespace,
                    "ownerReferences": owned_by(job.top),
                },
                "spec": {
                    "queueName": job.queue,
                    "priority": job.template.priority,
                    "active": True,
                    "podSets": pod_sets,
                },
                "status": {},
            }
        )
        self._wait(job)

    def admit_next(self) -> list[SimJob]:
        """The jobs that have their quota now, in their order; a small one may pass a large one."""
        admitted = []
        for job in list(self._waiting):
            free = self._free[job.queue]
            if job.template.gpus > free:
                self._say_why(job, job.template.gpus - free)
                continue
            self._waiting.remove(job)
            self._free[job.queue] = free - job.template.gpus
            self._admit(job)
            admitted.append(job)
        return admitted

    def leave(self, job: SimJob, *, succeeded: bool) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
        else:
            self._free[job.queue] += job.template.gpus
        assert job.workload is not None
        reason = "Succeeded" if succeeded else "Failed"
        set_condition(self._api, job.workload, "Finished", reason, f"Job {reason.lower()}")

    def evict(self, job: SimJob) -> None:
        """It gives its quota to something more important."""
        assert job.workload is not None
        self._free[job.queue] += job.template.gpus
        message = "Preempted to accommodate a workload due to prioritization in the ClusterQueue"
        set_condition(self._api, job.workload, "Evicted", "Preempted", message)
        set_condition(self._api, job.workload, "Preempted", "InClusterQueue", message)
        set_condition(self._api, job.workload, "QuotaReserved", "Pending", message, holds=False)
        set_condition(self._api, job.workload, "Admitted", "NoReservation", message, holds=False)
        self._api.event(job.workload, "EvictedDueToPreempted", message, _SOURCE)
        self._api.event(job.workload, "Preempted", message, _SOURCE)

    def enter_again(self, job: SimJob) -> None:
        self._wait(job)

    def _wait(self, job: SimJob) -> None:
        self._waiting.append(job)
        self._waiting.sort(key=lambda one: -one.template.priority)  # stable: else who came first

    def _admit(self, job: SimJob) -> None:
        assert job.workload is not None
        api = self._api
        for kind in ("Evicted", "Preempted"):
            current = api.objects.current(job.workload)
            found = (current or {}).get("status", {}).get("conditions", ())
            if any(one["type"] == kind for one in found):
                set_condition(api, job.workload, kind, "QuotaReserved", holds=False)
        message = f"Quota reserved in ClusterQueue {job.queue}"
        set_condition(api, job.workload, "QuotaReserved", "QuotaReserved", message)
        message = "The workload is admitted"
        admission = {"clusterQueue": job.queue}
        set_condition(api, job.workload, "Admitted", "Admitted", message, admission=admission)
        api.event(job.workload, "Admitted", f"Admitted by ClusterQueue {job.queue}", _SOURCE)

    def _say_why(self, job: SimJob, missing: int) -> None:
        if self._api.now_ms < job.says_why_from_ms:
            return
        job.says_why_from_ms = self._api.now_ms + _SAYS_WHY_EVERY_MS
        assert job.workload is not None
        message = (
            f"couldn't assign flavors to pod set main: insufficient unused quota for {job.gpu_resource} "
            f"in flavor {self._pool[job.queue]}, {missing} more needed"
        )
        set_condition(self._api, job.workload, "QuotaReserved", "Pending", message, holds=False)
        self._api.event(job.workload, "Pending", message, _SOURCE, warning=True)
