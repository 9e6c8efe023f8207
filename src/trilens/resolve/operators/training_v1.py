"""Kubeflow Training Operator v1: PyTorchJob, TFJob, JAXJob, XGBoostJob, PaddleJob, MXJob (kubeflow.org).

Owners: Pod -> the job. (MPIJob has a file of its own.)
Labels: `training.kubeflow.org/job-name`, `operator-name` (`pytorchjob-controller`, ...), `replica-type`
(`master`, `worker`, `ps`, `chief`, `evaluator`), `replica-index`, `job-role=master` on the one in charge.
Older operators had no prefix (`job-name`, `replica-type`, `replica-index`), and before that one per kind
(`pytorch-job-name`, `pytorch-replica-type`, `tf-job-name`, `tf-replica-type`, ...).
Rank: Master is 0 and the workers follow (PyTorch, XGBoost, Paddle); with no Master, worker 0 is rank 0. For
TFJob chief or master comes first, then the workers; parameter servers and evaluators have no rank.
Attempt: the operator replaces a failed pod under the same name and counts nothing: the pods that held the
seat are counted. With `restartPolicy: OnFailure` the kubelet restarts the container and the pod stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Seat
from trilens.resolve.reading import mark, numbered, section, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

PREFIX = "training.kubeflow.org/"
_NAMES = ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MXJob")
_REPLICA_SPECS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
_OLD_PREFIXES = {"PyTorchJob": "pytorch-", "TFJob": "tf-", "XGBoostJob": "xgboost-", "MXJob": "mxnet-"}
_FIRST = ("master", "chief")


class TrainingV1(Operator):
    kinds = tuple(GroupKind("kubeflow.org", name) for name in _NAMES)
    versions = frozenset({"v1", "v1beta1", "v1beta2", "v1alpha1"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        kind = owner.group_kind.kind
        role = (mark(pod, *_keys(kind, "replica-type")) or "").lower()
        index = numbered(pod, *_keys(kind, "replica-index"))
        rank: int | None = None
        if index is not None and role in _FIRST:
            rank = index
        elif index is not None and role in ("worker", "server"):
            ahead = _leaders(owner.found, kind) if owner.found is not None else None
            # Unread: a job of one kind of replica is as likely as one with a master, so say nothing.
            rank = None if ahead is None else ahead + index
        return replace(below, role=role, rank=rank)

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, PREFIX + "job-name")
        operator = mark(pod, PREFIX + "operator-name") or ""
        if name:
            for kind in self.kinds:
                if operator.lower().startswith(kind.kind.lower()):
                    return Claim(kind, name)
        for kind_name, prefix in _OLD_PREFIXES.items():
            if old := mark(pod, prefix + "job-name"):
                return Claim(GroupKind("kubeflow.org", kind_name), old)
        return None

    def needs(self, job: KubeObject) -> Mapping[str, int]:
        elastic = section(job.body, "spec", "elasticPolicy")
        needed = {}
        for name, count in replicas(job, _REPLICA_SPECS[job.kind]).items():
            if name in _FIRST:
                needed[name] = count
            elif name == "worker":
                needed[name] = (whole(elastic.get("minReplicas")) or 1) if elastic else count
        return needed


def replicas(job: KubeObject, specs: str) -> dict[str, int]:
    """By role, in lower case."""
    written = section(job.body, "spec", specs)
    counts = {name: whole(section(written, name).get("replicas")) for name in written}
    return {name.lower(): 1 if count is None else count for name, count in counts.items()}


def _keys(kind: str, what: str) -> Iterator[str]:
    """The label under its names, newest first."""
    yield PREFIX + what
    if prefix := _OLD_PREFIXES.get(kind):
        yield prefix + what
    yield what


def _leaders(job: KubeObject, kind: str) -> int | None:
    """How many pods stand before worker 0; None where the job's replicas were not kept."""
    counts = replicas(job, _REPLICA_SPECS[kind])
    return sum(counts.get(first, 0) for first in _FIRST) if counts else None
