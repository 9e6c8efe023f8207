"""All operators, outermost first: where several claim a pod by its labels, the first is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.apps import Apps
from trilens.resolve.operators.argo import Workflow
from trilens.resolve.operators.bare_pod import BarePod
from trilens.resolve.operators.determined import DeterminedTask
from trilens.resolve.operators.job import BatchJob
from trilens.resolve.operators.jobset import JobSet
from trilens.resolve.operators.kai import KaiPodGroup
from trilens.resolve.operators.knative import Knative
from trilens.resolve.operators.kserve import InferenceService, LLMInferenceService
from trilens.resolve.operators.kueue import KueuePodGroup
from trilens.resolve.operators.leaderworkerset import LeaderWorkerSet
from trilens.resolve.operators.mpijob import MpiJob
from trilens.resolve.operators.notebook import Notebook
from trilens.resolve.operators.ray import RayCluster, RayJob, RayService
from trilens.resolve.operators.runai import RunAi
from trilens.resolve.operators.training_v1 import TrainingV1
from trilens.resolve.operators.trainjob import TrainJob
from trilens.resolve.operators.volcano import VolcanoJob

if TYPE_CHECKING:
    from trilens.resolve.operators.base import Operator

OPERATORS: tuple[Operator, ...] = (
    RunAi(),
    DeterminedTask(),
    Workflow(),
    InferenceService(),
    LLMInferenceService(),
    RayJob(),
    RayService(),
    RayCluster(),
    LeaderWorkerSet(),
    TrainJob(),
    TrainingV1(),
    MpiJob(),
    VolcanoJob(),
    JobSet(),
    BatchJob(),
    Notebook(),
    Knative(),
    KueuePodGroup(),
    KaiPodGroup(),
    Apps(),
    BarePod(),
)

BY_KIND: dict[GroupKind, Operator] = {kind: operator for operator in OPERATORS for kind in operator.kinds}

# Owners that stand for many jobs, or for no job: the workload is below them.
MEANS_MANY = frozenset(
    {
        GroupKind("batch", "CronJob"),
        GroupKind("batch.volcano.sh", "CronJob"),
        GroupKind("flow.volcano.sh", "JobFlow"),
        GroupKind("argoproj.io", "CronWorkflow"),
        GroupKind("kubeflow.org", "ScheduledWorkflow"),
        GroupKind("kubeflow.org", "Trial"),  # Katib: one Trial, one job; many Trials, one Experiment
        GroupKind("kubeflow.org", "Experiment"),
        GroupKind("kubeflow.org", "Suggestion"),
        GroupKind("ray.io", "RayCronJob"),
        GroupKind("workload.codeflare.dev", "AppWrapper"),  # holds any objects, one job or several
        GroupKind("", "Node"),  # static pods
        GroupKind("", "Namespace"),
    }
)
