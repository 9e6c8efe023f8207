"""What serves: Deployment, KServe's InferenceService, LeaderWorkerSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.operators.base import Operator, PodPlan, child, pod_of, pod_spec, set_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.objects import KubeDict

_HASH = "6d4b9c7f5"


class _Service(Operator):
    restarts_containers = True
    pod_restart_policy = "Always"
    container = "vllm"

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        """A service does not end by itself."""


class Deployment(_Service):
    kind = "Deployment"
    api_version = "apps/v1"
    replaces_single_pods = True
    role = ""

    def spec(self, job: SimJob) -> KubeDict:
        return self._deployment_spec(job, {"app": job.name})

    def marks(self, job: SimJob) -> dict[str, str]:
        return {"app": job.name}

    def deployment(self, api: Cluster, job: SimJob) -> KubeDict:
        return job.top

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        deployment = self.deployment(api, job)
        name = deployment["metadata"]["name"]
        labels = {**self.marks(job), "pod-template-hash": _HASH}
        replica_set = next((one for one in job.lasting if one["kind"] == "ReplicaSet"), None)
        if replica_set is None:
            spec = {"replicas": job.template.pods, "template": deployment["spec"]["template"]}
            replica_set = api.create(
                child(deployment, "apps/v1", "ReplicaSet", f"{name}-{_HASH}", labels, spec)
            )
            job.lasting.append(replica_set)
        spec = pod_spec(job, self)
        plans = []
        for _ in range(job.missing_pods):
            pod = pod_of(replica_set, f"{name}-{_HASH}-{api.suffix()}", labels, spec, job)
            plans.append(PodPlan(api.create(pod), self.role))
        return plans

    def running(self, api: Cluster, job: SimJob) -> None:
        count = job.template.pods
        set_condition(
            api,
            self.deployment(api, job),
            "Available",
            "MinimumReplicasAvailable",
            replicas=count,
            readyReplicas=count,
            availableReplicas=count,
        )

    def _deployment_spec(self, job: SimJob, labels: dict[str, str]) -> KubeDict:
        return {
            "replicas": job.template.pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**job.labels, **labels}}, "spec": pod_spec(job, self)},
        }


class InferenceService(Deployment):
    kind = "InferenceService"
    api_version = "serving.kserve.io/v1beta1"
    role = "predictor"
    container = "kserve-container"

    def spec(self, job: SimJob) -> KubeDict:
        gpus = {job.gpu_resource: str(job.template.gpus_per_pod)}
        model = {
            "modelFormat": {"name": "huggingface"},
            "storageUri": f"hf://{job.template.serving.model_name}",
            "resources": {"limits": gpus, "requests": gpus},
        }
        return {"predictor": {"minReplicas": job.template.pods, "model": model}}

    def marks(self, job: SimJob) -> dict[str, str]:
        return {
            "app": f"isvc.{job.name}-predictor",
            "component": "predictor",
            "serving.kserve.io/inferenceservice": job.name,
        }

    def deployment(self, api: Cluster, job: SimJob) -> KubeDict:
        found = next((one for one in job.lasting if one["kind"] == "Deployment"), None)
        if found is None:
            marks = self.marks(job)
            spec = self._deployment_spec(job, marks)
            name = f"{job.name}-predictor"
            found = api.create(child(job.top, "apps/v1", "Deployment", name, marks, spec))
            job.lasting.append(found)
        return found

    def running(self, api: Cluster, job: SimJob) -> None:
        super().running(api, job)
        set_condition(
            api, job.top, "Ready", "", url=f"http://{job.name}.{job.template.namespace}.example.com"
        )


class LeaderWorkerSet(_Service):
    """A group is put up again as a whole (RecreateGroupOnPodRestart), here with all the others."""

    kind = "LeaderWorkerSet"
    api_version = "leaderworkerset.x-k8s.io/v1"
    restarts_containers = False

    _PREFIX = "leaderworkerset.sigs.k8s.io/"

    def spec(self, job: SimJob) -> KubeDict:
        template = {"metadata": {"labels": job.labels}, "spec": pod_spec(job, self)}
        return {
            "replicas": job.template.groups,
            "leaderWorkerTemplate": {
                "size": job.template.pods,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": template,
                "workerTemplate": template,
            },
        }

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        prefix = self._PREFIX
        spec = pod_spec(job, self)
        if not job.lasting:
            own = {prefix + "name": job.name}
            leaders = child(
                job.top, "apps/v1", "StatefulSet", job.name, own, {"replicas": job.template.groups}
            )
            job.lasting.append(api.create(leaders))
        plans = []
        for group in range(job.template.groups):
            leader_name = f"{job.name}-{group}"
            labels = {prefix + "name": job.name, prefix + "group-index": str(group)}
            marks = {**labels, prefix + "worker-index": "0"}
            leader = api.create(pod_of(job.lasting[0], leader_name, marks, spec, job))
            plans.append(PodPlan(leader, "leader", group, 0))
            size = {"replicas": job.template.pods - 1}
            workers = api.create(child(leader, "apps/v1", "StatefulSet", leader_name, labels, size))
            job.children.append(workers)
            for index in range(1, job.template.pods):
                marks = {**labels, prefix + "worker-index": str(index)}
                annotations = {prefix + "leader-name": leader_name}
                pod = api.create(
                    pod_of(workers, f"{leader_name}-{index}", marks, spec, job, annotations, serves=False)
                )
                plans.append(PodPlan(pod, "worker", group, index))
        return plans

    def running(self, api: Cluster, job: SimJob) -> None:
        set_condition(api, job.top, "Available", "AllGroupsReady", readyReplicas=job.template.groups)
