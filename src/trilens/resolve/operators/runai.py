"""Run:ai (run.ai).

Owners: Pod -> RunaiJob -> TrainingWorkload or InteractiveWorkload; a DistributedWorkload owns a PyTorchJob or
MPIJob, an InferenceWorkload a Knative Service.
Labels: `workloadName` (`run.ai/workload-name` with `run.ai/workload-kind` on newer ones), `project`,
`runai/queue`. Its own objects are not watched: the labels tell what is above a RunaiJob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.objects import POD
from trilens.resolve.operators.base import Claim, Operator
from trilens.resolve.reading import mark

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject

_NAMES = (
    "TrainingWorkload",
    "InteractiveWorkload",
    "DistributedWorkload",
    "InferenceWorkload",
    "DistributedInferenceWorkload",
    "RunaiJob",
)
_RUNAI_JOB = GroupKind("run.ai", "RunaiJob")


class RunAi(Operator):
    kinds = tuple(GroupKind("run.ai", name) for name in _NAMES)
    is_outermost = True
    claims_above = frozenset({POD, _RUNAI_JOB})

    def claim(self, pod: KubeObject) -> Claim | None:
        if name := mark(pod, "run.ai/workload-name"):
            kind = mark(pod, "run.ai/workload-kind")
            return Claim(GroupKind("run.ai", kind if kind in _NAMES else _NAMES[0]), name)
        if (name := mark(pod, "workloadName")) and mark(pod, "runai/queue", "project"):
            return Claim(self.kinds[0], name)
        return None
