"""batch/v1 Job.

Owners: Pod -> Job. A CronJob above it means many jobs, so the Job is the workload.
Labels: `batch.kubernetes.io/job-name` and `batch.kubernetes.io/controller-uid` (Kubernetes 1.27 and later;
before it, and still beside it, `job-name` and `controller-uid`, which Volcano and Kubeflow v1 use too: the
short ones alone prove nothing about the kind, so a claim needs the uid beside the name).
Rank: `batch.kubernetes.io/job-completion-index`, an annotation since 1.21 and a label too since 1.28; only an
Indexed Job has it. Where one pod runs at a time, that is rank 0.
Attempt: with `backoffLimitPerIndex`, `batch.kubernetes.io/job-index-failure-count` on the pod; else the pods
that held the same index are counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.reading import mark, numbered, section, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

JOB = GroupKind("batch", "Job")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class BatchJob(Operator):
    kinds = (JOB,)
    versions = frozenset({"v1"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        rank = numbered(pod, COMPLETION_INDEX)
        if rank is None and owner.found is not None and pods_at_once(section(owner.found.body, "spec")) == 1:
            rank = 0
        attempt = numbered(pod, "batch.kubernetes.io/job-index-failure-count")
        return replace(below, rank=rank, attempt=attempt)

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "batch.kubernetes.io/job-name", "job-name")
        uid = mark(pod, "batch.kubernetes.io/controller-uid", "controller-uid")
        return Claim(JOB, name, uid) if name and uid else None


def pods_at_once(spec: Mapping[str, Any]) -> int | None:
    """How many pods a Job's spec runs side by side; None where the spec was not kept."""
    if not spec:
        return None
    parallelism = whole(spec.get("parallelism"))
    completions = whole(spec.get("completions"))
    at_once = 1 if parallelism is None else parallelism
    return at_once if completions is None else min(at_once, completions)
