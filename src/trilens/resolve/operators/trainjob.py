"""Kubeflow Trainer v2: TrainJob (trainer.kubeflow.org).

Owners: Pod -> Job -> JobSet -> TrainJob; the JobSet has the TrainJob's name.
Labels: the JobSet's, on the pod. `trainer.kubeflow.org/trainjob-ancestor-step` (`dataset-initializer`,
`model-initializer`, `trainer`) stands in the runtime's Job template, so on the **Job**, not on its pods.
Role: that step where there is one, else the replicated job's name (`launcher`, `node`).
Rank: among the pods that train. Initialisers have none. An MPI runtime has `launcher` and `node` jobs; the
launcher is rank 0, and the nodes begin at 1, when it works too (`runLauncherAsNode`), which shows in its
asking for a GPU: the flag itself stands in the runtime, which is not watched.
Attempt: the JobSet's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.accelerators import template_wants_accelerator, wants_accelerator
from trilens.resolve.operators.base import Operator, Seat
from trilens.resolve.operators.job import COMPLETION_INDEX, JOB
from trilens.resolve.operators.jobset import JOBSET, REPLICATED_JOB
from trilens.resolve.reading import items, mark, numbered, section, text

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

TRAINJOB = GroupKind("trainer.kubeflow.org", "TrainJob")
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_INITIALISERS = ("dataset-initializer", "model-initializer")


class TrainJob(Operator):
    kinds = (TRAINJOB,)
    versions = frozenset({"v1alpha1"})

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        replicated = mark(pod, REPLICATED_JOB) or ""
        above = {link.group_kind: link.found for link in objects.chain(pod).links}
        job, jobset = above.get(JOB), above.get(JOBSET)
        step = (mark(job, _STEP) if job is not None else None) or mark(pod, _STEP) or ""
        if step in _INITIALISERS or replicated in _INITIALISERS:
            return replace(below, role=step or replicated, rank=None)
        if replicated == "launcher":
            return replace(below, role="launcher", rank=0 if wants_accelerator(pod) else None)
        rank = numbered(pod, COMPLETION_INDEX)
        if rank is not None and jobset is not None and _launcher_works(jobset):
            rank += 1
        return replace(below, role=step or replicated, rank=rank)


def _launcher_works(jobset: KubeObject) -> bool:
    for replicated in items(section(jobset.body, "spec"), "replicatedJobs"):
        if text(replicated, "name") == "launcher":
            return template_wants_accelerator(section(replicated, "template", "spec", "template", "spec"))
    return False
