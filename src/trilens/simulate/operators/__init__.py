"""What each operator makes of a job: its objects and pods, with the labels and owners that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.operators.batch import BatchJob, JobSet, TrainJob
from trilens.simulate.operators.kubeflow import MPIJob, Notebook, PyTorchJob
from trilens.simulate.operators.ray import RayJob
from trilens.simulate.operators.serving import Deployment, InferenceService, LeaderWorkerSet
from trilens.simulate.scenario import JobKind

if TYPE_CHECKING:
    from trilens.simulate.operators.base import Operator

OPERATORS: dict[JobKind, Operator] = {
    JobKind.JOB: BatchJob(),
    JobKind.JOBSET: JobSet(),
    JobKind.TRAINJOB: TrainJob(),
    JobKind.PYTORCHJOB: PyTorchJob(),
    JobKind.MPIJOB: MPIJob(),
    JobKind.RAYJOB: RayJob(),
    JobKind.DEPLOYMENT: Deployment(),
    JobKind.INFERENCE_SERVICE: InferenceService(),
    JobKind.LEADERWORKERSET: LeaderWorkerSet(),
    JobKind.NOTEBOOK: Notebook(),
}
