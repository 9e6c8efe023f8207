"""KubeRay's RayJob: a RayCluster with a head and workers, and a Job that submits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.operators.base import Operator, PodPlan, child, pod_of, pod_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.objects import KubeDict

_GROUP = "gpu-group"


class RayJob(Operator):
    kind = "RayJob"
    api_version = "ray.io/v1"
    drops_at_end = frozenset({"RayCluster"})
    container = "ray-worker"

    def spec(self, job: SimJob) -> KubeDict:
        return {
            "suspend": bool(job.queue),
            "entrypoint": "python train.py",
            "backoffLimit": job.template.retries,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": self._cluster_spec(job),
        }

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        origin = {
            "ray.io/originated-from-cr-name": job.name,
            "ray.io/originated-from-crd": self.kind,
        }
        return [*self._put_up_cluster(api, job, origin), self._submit_to_it(api, job, origin)]

    def _put_up_cluster(self, api: Cluster, job: SimJob, origin: dict[str, str]) -> list[PodPlan]:
        name = f"{job.name}-{api.suffix()}"
        labels = {**job.labels, **origin}
        ray_cluster = api.create(
            child(job.top, "ray.io/v1", "RayCluster", name, labels, self._cluster_spec(job))
        )
        job.children.append(ray_cluster)
        life = job.begun  # each RayCluster is one

        def marks(node_type: str, group: str) -> dict[str, str]:
            return {
                "ray.io/cluster": name,
                "ray.io/is-ray-node": "yes",
                **origin,
                "ray.io/node-type": node_type,
                "ray.io/group": group,
                "ray.io/identifier": f"{name}-{node_type}",
            }

        head = pod_of(
            ray_cluster,
            f"{name}-head-{api.suffix()}",
            marks("head", "headgroup"),
            pod_spec(job, self, works=False),
            job,
            serves=False,
        )
        plans = [PodPlan(api.create(head), "head", node_rank=0, attempt=life, works=False)]
        own, spec = marks("worker", _GROUP), pod_spec(job, self)
        for index in range(job.template.pods):
            pod = api.create(pod_of(ray_cluster, f"{name}-{_GROUP}-worker-{api.suffix()}", own, spec, job))
            first_rank = index * job.template.gpus_per_pod
            plans.append(PodPlan(pod, "worker", attempt=life, first_rank=first_rank))
        return plans

    def _submit_to_it(self, api: Cluster, job: SimJob, origin: dict[str, str]) -> PodPlan:
        """A Job of its own runs `ray job submit`."""
        spec = pod_spec(job, self, works=False)
        name = job.name if not job.begun else f"{job.name}-{api.suffix()}"
        of_job = {"parallelism": 1, "completions": 1, "backoffLimit": 2, "template": {"spec": spec}}
        submitter = api.create(child(job.top, "batch/v1", "Job", name, origin, of_job))
        job.children.append(submitter)
        own = {
            **origin,
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/controller-uid": submitter["metadata"]["uid"],
        }
        pod = pod_of(submitter, f"{name}-{api.suffix()}", own, spec, job, serves=False)
        return PodPlan(api.create(pod), "submitter", attempt=0, works=False)

    def stays_at_end(self, plan: PodPlan) -> bool:
        return plan.role == "submitter"

    def running(self, api: Cluster, job: SimJob) -> None:
        self._say(api, job, "Running", jobStatus="RUNNING", startTime=api.time)

    def restarting(self, api: Cluster, job: SimJob, message: str) -> None:
        self._say(api, job, "Retrying", jobStatus="FAILED", failed=job.failures, message=message)

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        if succeeded:
            self._say(api, job, "Complete", jobStatus="SUCCEEDED", endTime=api.time)
        else:
            self._say(
                api, job, "Failed", jobStatus="FAILED", endTime=api.time, reason="AppFailed", message=message
            )

    def _say(self, api: Cluster, job: SimJob, deployment: str, **status: object) -> None:
        before = job.current_top["status"]
        api.update(job.top, status={**before, "jobDeploymentStatus": deployment, **status})

    def _cluster_spec(self, job: SimJob) -> KubeDict:
        return {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"template": {"spec": pod_spec(job, self, works=False)}},
            "workerGroupSpecs": [
                {
                    "groupName": _GROUP,
                    "replicas": job.template.pods,
                    "template": {"spec": pod_spec(job, self)},
                }
            ],
        }
