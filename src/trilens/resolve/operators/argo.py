"""Argo Workflow (argoproj.io), and Kubeflow Pipelines, whose runs are Workflows.

Owners: Pod -> Workflow; also Pod -> PyTorchJob -> Workflow and the like, where a step makes an object of its
own and asks for the reference (`setOwnerReference`). A CronWorkflow or ScheduledWorkflow above it means many
runs.
Labels: `workflows.argoproj.io/workflow`; Kubeflow Pipelines adds `pipeline/runid` and
`pipelines.kubeflow.org/v2_component`. Annotation `workflows.argoproj.io/node-name` tells the step:
`run-x7k.train` in a DAG, `run-x7k[0].train` in steps.
Role: the step. A run shows its steps, from `status.nodes`; where they are compressed or offloaded, none.
Attempt: a retried step is another pod and another node of the same run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.model.workload import Step
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import mark, section, text, time_ms

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

WORKFLOW = GroupKind("argoproj.io", "Workflow")
_PREFIX = "workflows.argoproj.io/"
_ENDS = {"Succeeded": Phase.SUCCEEDED, "Failed": Phase.FAILED, "Error": Phase.FAILED}
_STRUCTURE = ("Steps", "StepGroup", "DAG", "TaskGroup", "Retry")  # nodes that only hold others


class Workflow(Operator):
    kinds = (WORKFLOW,)
    versions = frozenset({"v1alpha1"})
    is_service = True  # steps side by side do not wait for each other

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        node_name = mark(pod, _PREFIX + "node-name") or ""
        _, found, step = node_name.rpartition(".")
        return replace(below, role=step if found else below.role)

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, _PREFIX + "workflow")
        return Claim(WORKFLOW, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        status = section(job.body, "status")
        ended = _ENDS.get(text(status, "phase"))
        if ended is not None:
            reason = text(status, "message") or text(status, "phase")
            return Said(ended, reason, time_ms(status.get("finishedAt")))
        if section(job.body, "spec").get("suspend") is True:
            return Said(Phase.SUSPENDED, "suspended", None)
        return None

    def steps(self, job: KubeObject) -> tuple[Step, ...]:
        found = []
        for node_id in section(job.body, "status", "nodes"):
            node = section(job.body, "status", "nodes", node_id)
            if text(node, "type") in _STRUCTURE:
                continue
            found.append(
                Step(
                    text(node, "displayName") or text(node, "name") or node_id,
                    text(node, "phase") or "Pending",
                    time_ms(node.get("startedAt")),
                    time_ms(node.get("finishedAt")),
                    node_id if text(node, "type") == "Pod" else None,
                )
            )
        return tuple(
            sorted(found, key=lambda step: (step.started_ms is None, step.started_ms or 0, step.name))
        )
