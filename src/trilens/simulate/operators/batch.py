"""batch/v1 Job, JobSet, and Kubeflow Trainer's TrainJob, which is made of a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.operators.base import Operator, PodPlan, child, pod_of, pod_spec, set_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.objects import KubeDict

_INDEX = "batch.kubernetes.io/job-completion-index"


def _job_spec(job: SimJob, operator: Operator, backoff_limit: int) -> KubeDict:
    return {
        "parallelism": job.template.pods,
        "completions": job.template.pods,
        "completionMode": "Indexed",
        "backoffLimit": backoff_limit,
        "suspend": False,
        "template": {"metadata": {"labels": job.labels}, "spec": pod_spec(job, operator)},
    }


def _indexed_pods(
    api: Cluster, job: SimJob, operator: Operator, owner: KubeDict, more: dict[str, str]
) -> list[KubeDict]:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": name,
        "controller-uid": uid,
        **more,
    }
    spec = pod_spec(job, operator)
    made = []
    for index in range(job.template.pods):
        marks = {_INDEX: str(index)}
        pod_name = f"{name}-{index}-{api.suffix()}"
        made.append(api.create(pod_of(owner, pod_name, {**labels, **marks}, spec, job, {**more, **marks})))
    return made


def _job_ended(api: Cluster, obj: KubeDict, pods: int, *, succeeded: bool, message: str) -> None:
    if succeeded:
        set_condition(
            api, obj, "Complete", "CompletionsReached", succeeded=pods, active=0, completionTime=api.time
        )
    else:
        set_condition(api, obj, "Failed", "BackoffLimitExceeded", message, active=0)


class BatchJob(Operator):
    kind = "Job"
    api_version = "batch/v1"
    keeps_failed_pods = True
    container = "main"

    def spec(self, job: SimJob) -> KubeDict:
        return {**_job_spec(job, self, job.template.retries * job.template.pods), "suspend": bool(job.queue)}

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        pods = _indexed_pods(api, job, self, job.top, {})
        return [
            PodPlan(pod, node_rank=index, first_rank=index * job.template.gpus_per_pod)
            for index, pod in enumerate(pods)
        ]

    def running(self, api: Cluster, job: SimJob) -> None:
        status = {"active": job.template.pods, "ready": job.template.pods, "startTime": api.time}
        api.update(job.top, status={**job.current_top["status"], **status})

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        _job_ended(api, job.top, job.template.pods, succeeded=succeeded, message=message)


class JobSet(Operator):
    kind = "JobSet"
    api_version = "jobset.x-k8s.io/v1alpha2"
    replicated = "workers"
    role = "workers"
    template_labels: dict[str, str] = {}  # noqa: RUF012 - never changed
    keeps_children_when_held = True
    drops_in_foreground = True
    container = "trainer"

    def spec(self, job: SimJob) -> KubeDict:
        template = {"metadata": {"labels": self.template_labels}, "spec": _job_spec(job, self, 0)}
        return {
            "suspend": bool(job.queue),
            "failurePolicy": {"maxRestarts": job.template.retries},
            "network": {"enableDNSHostnames": True, "subdomain": job.name},
            "replicatedJobs": [{"name": self.replicated, "replicas": 1, "template": template}],
        }

    def jobset(self, job: SimJob) -> KubeDict:
        return job.top

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        jobset = self.jobset(job)
        marks = {
            "jobset.sigs.k8s.io/jobset-name": job.name,
            "jobset.sigs.k8s.io/jobset-uid": jobset["metadata"]["uid"],
            "jobset.sigs.k8s.io/replicatedjob-name": self.replicated,
            "jobset.sigs.k8s.io/replicatedjob-replicas": "1",
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/job-global-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": str(job.failures),
        }
        batch_job = next((one for one in job.children if one["kind"] == "Job"), None)
        if batch_job is None:
            batch_job = api.create(
                child(
                    jobset,
                    "batch/v1",
                    "Job",
                    f"{job.name}-{self.replicated}-0",
                    {**job.labels, **self.template_labels, **marks},
                    _job_spec(job, self, 0),
                    annotations=marks,
                )
            )
            job.children.append(batch_job)
        pods = _indexed_pods(api, job, self, batch_job, marks)
        return [
            PodPlan(pod, self.role, 0, index, job.failures, first_rank=index * job.template.gpus_per_pod)
            for index, pod in enumerate(pods)
        ]

    def hold(self, api: Cluster, job: SimJob, *, held: bool) -> None:
        super().hold(api, job, held=held)
        for one in (*job.lasting, *job.children):
            current = api.objects.current(one)
            if current is not None:
                api.update(one, spec={**current["spec"], "suspend": held})

    def running(self, api: Cluster, job: SimJob) -> None:
        ready = {"name": self.replicated, "ready": 1, "active": 1, "succeeded": 0, "failed": 0}
        jobset = self.jobset(job)
        current = api.objects.current(jobset) or jobset
        status = {"replicatedJobsStatus": [ready], "restarts": job.failures}
        api.update(jobset, status={**current["status"], **status})

    def restarting(self, api: Cluster, job: SimJob, message: str) -> None:
        jobset = self.jobset(job)
        current = api.objects.current(jobset) or jobset
        api.update(jobset, status={**current["status"], "restarts": job.failures})
        api.event(jobset, "JobSetRestart", message, "jobset", warning=True)

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        for one in job.children:
            if one["kind"] == "Job":
                _job_ended(api, one, job.template.pods, succeeded=succeeded, message=message)
        kind, reason = ("Completed", "AllJobsCompleted") if succeeded else ("Failed", "ReachedMaxRestarts")
        set_condition(api, self.jobset(job), kind, reason, message, restarts=job.failures, terminalState=kind)


class TrainJob(JobSet):
    kind = "TrainJob"
    api_version = "trainer.kubeflow.org/v1alpha1"
    replicated = "node"
    role = "trainer"
    template_labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}  # noqa: RUF012
    container = "node"

    def spec(self, job: SimJob) -> KubeDict:
        gpus = {job.gpu_resource: job.template.gpus_per_pod}
        return {
            "suspend": bool(job.queue),
            "runtimeRef": {
                "name": "torch-distributed",
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
            },
            "trainer": {
                "numNodes": job.template.pods,
                "numProcPerNode": job.template.gpus_per_pod,
                "image": job.template.image,
                "resourcesPerNode": {"limits": gpus, "requests": gpus},
            },
        }

    def jobset(self, job: SimJob) -> KubeDict:
        return next(one for one in job.lasting if one["kind"] == "JobSet")

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        if not job.lasting:
            spec = {**JobSet.spec(self, job), "suspend": False}
            made = child(job.top, JobSet.api_version, JobSet.kind, job.name, job.labels, spec)
            job.lasting.append(api.create(made))
        return super().begin(api, job)

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        super().end(api, job, succeeded=succeeded, message=message)
        kind, reason = ("Complete", "JobsCompleted") if succeeded else ("Failed", "JobsFailed")
        set_condition(api, job.top, kind, reason, message)
