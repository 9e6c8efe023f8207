"""Kubeflow's Training Operator (PyTorchJob), MPI operator (MPIJob) and notebook controller (Notebook)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.operators.base import Operator, PodPlan, child, pod_of, pod_spec, set_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.objects import KubeDict

_PREFIX = "training.kubeflow.org/"


class _WithRunPolicy(Operator):
    def hold(self, api: Cluster, job: SimJob, *, held: bool) -> None:
        spec = job.current_top["spec"]
        api.update(job.top, spec={**spec, "runPolicy": {**spec["runPolicy"], "suspend": held}})
        if held:
            set_condition(api, job.top, "Running", f"{self.kind}Suspended", holds=False)
        set_condition(
            api, job.top, "Suspended", f"{self.kind}{'Suspended' if held else 'Resumed'}", holds=held
        )

    def running(self, api: Cluster, job: SimJob) -> None:
        if job.failures:
            set_condition(api, job.top, "Restarting", f"{self.kind}Restarting", holds=False)
        set_condition(
            api, job.top, "Running", f"{self.kind}Running", f"{self.kind} {job.name} is running.",
            startTime=api.time,
        )  # fmt: skip

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        kind = "Succeeded" if succeeded else "Failed"
        set_condition(api, job.top, "Running", f"{self.kind}{kind}", holds=False)
        said = message or f"{self.kind} {job.name} successfully completed."
        set_condition(api, job.top, kind, f"{self.kind}{kind}", said, completionTime=api.time)


class PyTorchJob(_WithRunPolicy):
    kind = "PyTorchJob"
    api_version = "kubeflow.org/v1"

    def spec(self, job: SimJob) -> KubeDict:
        template = {"metadata": {"labels": job.labels}, "spec": pod_spec(job, self)}
        replicas = {"Master": {"replicas": 1, "restartPolicy": "ExitCode", "template": template}}
        if job.template.pods > 1:
            workers = {"replicas": job.template.pods - 1, "restartPolicy": "ExitCode", "template": template}
            replicas["Worker"] = workers
        return {
            "runPolicy": {
                "backoffLimit": job.template.retries,
                "cleanPodPolicy": "None",
                "suspend": bool(job.queue),
            },
            "nprocPerNode": str(job.template.gpus_per_pod),
            "pytorchReplicaSpecs": replicas,
        }

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        spec = pod_spec(job, self)
        plans = []
        for rank in range(job.template.pods):
            role, index = ("worker", rank - 1) if rank else ("master", 0)
            labels = {
                _PREFIX + "job-name": job.name,
                _PREFIX + "operator-name": "pytorchjob-controller",
                _PREFIX + "replica-type": role,
                _PREFIX + "replica-index": str(index),
            }
            if role == "master":
                labels[_PREFIX + "job-role"] = "master"
            pod = api.create(pod_of(job.top, f"{job.name}-{role}-{index}", labels, spec, job))
            first_rank = rank * job.template.gpus_per_pod
            plans.append(PodPlan(pod, role, node_rank=rank, first_rank=first_rank))
        return plans

    def restarting(self, api: Cluster, job: SimJob, message: str) -> None:
        set_condition(api, job.top, "Running", "PyTorchJobRestarting", holds=False)
        said = f"PyTorchJob {job.name} is restarting because {message}"
        set_condition(api, job.top, "Restarting", "PyTorchJobRestarting", said)


class MPIJob(_WithRunPolicy):
    kind = "MPIJob"
    api_version = "kubeflow.org/v2beta1"
    can_retry = False
    container = "mpi"

    def spec(self, job: SimJob) -> KubeDict:
        template = {"metadata": {"labels": job.labels}, "spec": pod_spec(job, self)}
        launcher = {"metadata": {"labels": job.labels}, "spec": pod_spec(job, self, works=False)}
        return {
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, "suspend": bool(job.queue)},
            "slotsPerWorker": job.template.gpus_per_pod,
            "runLauncherAsWorker": False,
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                "Worker": {"replicas": job.template.pods, "restartPolicy": "Never", "template": template},
            },
        }

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        labels = {_PREFIX + "job-name": job.name, _PREFIX + "operator-name": "mpi-operator"}
        spec = pod_spec(job, self)
        plans = []
        for index in range(job.template.pods):
            marks = {_PREFIX + "job-role": "worker", _PREFIX + "replica-index": str(index)}
            pod = api.create(pod_of(job.top, f"{job.name}-worker-{index}", {**labels, **marks}, spec, job))
            first_rank = index * job.template.gpus_per_pod
            plans.append(PodPlan(pod, "worker", node_rank=index, first_rank=first_rank))
        marks = {**labels, _PREFIX + "job-role": "launcher"}
        launcher_spec = pod_spec(job, self, works=False)
        batch_job = api.create(
            child(
                job.top,
                "batch/v1",
                "Job",
                f"{job.name}-launcher",
                {"app": job.name},
                {"backoffLimit": 0, "template": {"metadata": {"labels": marks}, "spec": launcher_spec}},
            )
        )
        job.children.append(batch_job)
        own = {
            **marks,
            "batch.kubernetes.io/job-name": f"{job.name}-launcher",
            "batch.kubernetes.io/controller-uid": batch_job["metadata"]["uid"],
        }
        pod = api.create(
            pod_of(batch_job, f"{job.name}-launcher-{api.suffix()}", own, launcher_spec, job, serves=False)
        )
        plans.append(PodPlan(pod, "launcher", works=False))
        return plans

    def stays_at_end(self, plan: PodPlan) -> bool:
        return not plan.works  # cleanPodPolicy: the workers still run when the launcher is done


class Notebook(Operator):
    kind = "Notebook"
    api_version = "kubeflow.org/v1"
    restarts_containers = True
    pod_restart_policy = "Always"
    container = "notebook"

    def spec(self, job: SimJob) -> KubeDict:
        return {"template": {"spec": pod_spec(job, self)}}

    def begin(self, api: Cluster, job: SimJob) -> Sequence[PodPlan]:
        labels = {"statefulset": job.name, "notebook-name": job.name}
        if not job.lasting:
            spec = {"replicas": 1, "template": {"metadata": {"labels": labels}, "spec": pod_spec(job, self)}}
            job.lasting.append(api.create(child(job.top, "apps/v1", "StatefulSet", job.name, labels, spec)))
        owner = job.lasting[0]
        own = {**labels, "apps.kubernetes.io/pod-index": "0"}
        pod = api.create(pod_of(owner, f"{job.name}-0", own, pod_spec(job, self), job, serves=False))
        return [PodPlan(pod, node_rank=0)]

    def stays_at_end(self, plan: PodPlan) -> bool:
        return False

    def running(self, api: Cluster, job: SimJob) -> None:
        api.update(job.top, status={**job.current_top["status"], "readyReplicas": 1})

    def end(self, api: Cluster, job: SimJob, *, succeeded: bool, message: str) -> None:
        """Somebody has stopped it: no pods, and the mark of the culling controller."""
        annotations = {"kubeflow-resource-stopped": api.time}
        api.update_meta(job.top, annotations=annotations)
        for one in job.lasting:
            api.update(one, spec={**one["spec"], "replicas": 0})
