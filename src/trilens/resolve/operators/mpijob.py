"""MPIJob (kubeflow.org: v2beta1 of the MPI operator, v1 of the Training Operator).

Owners: workers Pod -> MPIJob; the launcher Pod -> Job -> MPIJob (v2beta1) or Pod -> MPIJob (v1). In v1alpha1
the workers came from a StatefulSet.
Labels: `training.kubeflow.org/job-name`, `operator-name=mpi-operator`, `job-role` (`launcher`, `worker`),
`replica-index`. Older: `mpi-job-name` and `mpi-job-role`, and `mpi_job_name` and `mpi_role_type` before that.
Rank: the launcher only starts the others and has none, unless `spec.runLauncherAsWorker`: then it is rank 0
and pod `x-worker-0` is rank 1. Newer operators write that into `replica-index` (launcher 0, `x-worker-0` 1),
older ones leave the label of `x-worker-0` at 0; the name's own number tells which.
Attempt: the launcher's Job makes a new launcher after a failure while the workers stay: seats are counted.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.operators.training_v1 import PREFIX, replicas
from trilens.resolve.reading import mark, numbered, section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

MPIJOB = GroupKind("kubeflow.org", "MPIJob")
_ROLES = (PREFIX + "job-role", PREFIX + "replica-type", "mpi-job-role", "mpi_role_type")
_WORKER = re.compile(r"-worker-(\d+)$")


class MpiJob(Operator):
    kinds = (MPIJOB,)
    versions = frozenset({"v1", "v1alpha1", "v1alpha2", "v2beta1"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        role = (mark(pod, *_ROLES) or "").lower()
        index = numbered(pod, PREFIX + "replica-index")
        works = section(owner.found.body, "spec").get("runLauncherAsWorker") is True if owner.found else None
        if role == "launcher":
            if works is None:  # unread: the operator gives a launcher an index only when it works
                works = index == 0
            return replace(below, role=role, rank=0 if works else None)
        ordinal = _WORKER.search(pod.name)
        if works and ordinal is not None:
            index = int(ordinal.group(1)) + 1
        return replace(below, role=role or "worker", rank=index)

    def needs(self, job: KubeObject) -> Mapping[str, int]:
        workers = replicas(job, "mpiReplicaSpecs").get("worker")
        return {} if workers is None else {"worker": workers}

    def claim(self, pod: KubeObject) -> Claim | None:
        if (mark(pod, PREFIX + "operator-name") or "").startswith(("mpi-operator", "mpijob")):
            name = mark(pod, PREFIX + "job-name")
        else:
            name = mark(pod, "mpi-job-name", "mpi_job_name")
        return Claim(MPIJOB, name) if name else None
