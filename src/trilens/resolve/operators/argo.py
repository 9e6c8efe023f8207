"""Argo Workflow (argoproj.io), and Kubeflow Pipelines, whose runs are Workflows.

Owners: Pod -> Workflow; also Pod -> PyTorchJob -> Workflow and the like, where a step makes an object of its
own and asks for the reference (`setOwnerReference`). A CronWorkflow or ScheduledWorkflow above it means many
runs.
Labels: `workflows.argoproj.io/workflow`; Kubeflow Pipelines adds `pipeline/runid` and
`pipelines.kubeflow.org/v2_component`. Annotation `workflows.argoproj.io/node-name` tells the step:
`run-x7k.train` in a DAG, `run-x7k[0].train` in steps. Version 2 of Kubeflow Pipelines makes of each task a
DAG of that name with one pod, `run-x7k.root.train.executor`, and beside it a pod that prepares it,
`train-driver`.
Role: the step. A run shows its steps, from `status.nodes`; where they are offloaded, none. A node does not
name its pod: that is the node's id, or, as the annotation `pod-name-format: v2` says,
`<workflow>-<template>-<hash>`.
Attempt: a retried step is another pod and another node of the same run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.model.workload import Step
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import mark, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

WORKFLOW = GroupKind("argoproj.io", "Workflow")
_PREFIX = "workflows.argoproj.io/"
_ENDS = {"Succeeded": Phase.SUCCEEDED, "Failed": Phase.FAILED, "Error": Phase.FAILED}
_POD_NAME_FORMAT = _PREFIX + "pod-name-format"
_LONGEST_PREFIX = 243  # of a pod's name, before its hash
_V2_COMPONENT = "pipelines.kubeflow.org/v2_component"
_V2_TEMPLATES = "system-"  # what Kubeflow Pipelines calls its own
_EXECUTOR = "executor"
_STRUCTURE = ("Steps", "StepGroup", "DAG", "TaskGroup", "Retry")  # nodes that only hold others


class Workflow(Operator):
    kinds = (WORKFLOW,)
    versions = frozenset({"v1alpha1"})
    is_service = True  # steps side by side do not wait for each other

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        above, found, step = (mark(pod, _PREFIX + "node-name") or "").rpartition(".")
        if mark(pod, _V2_COMPONENT) and step.startswith(_EXECUTOR):
            step = above.rpartition(".")[2]
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
        nodes = _Nodes(job)
        shown = [node for node in nodes.by_id.values() if _is_step(node)]
        names = Counter(nodes.name_of(node) for node in shown)
        found = [
            Step(
                nodes.name_of(node) if names[nodes.name_of(node)] == 1 else nodes.path_of(node),
                text(node, "phase") or "Pending",
                time_ms(node.get("startedAt")),
                time_ms(node.get("finishedAt")),
                nodes.pod_of(node) if text(node, "type") == "Pod" else None,
            )
            for node in shown
        ]
        return tuple(
            sorted(found, key=lambda step: (step.started_ms is None, step.started_ms or 0, step.name))
        )


class _Nodes:
    """The tree of a run, as its engine keeps it."""

    def __init__(self, job: KubeObject) -> None:
        written = section(job.body, "status", "nodes")
        self.by_id = {node_id: {"id": node_id, **section(written, node_id)} for node_id in written}
        self._run = job.name
        self._long_names = job.annotations.get(_POD_NAME_FORMAT) == "v2"

    def name_of(self, node: Mapping[str, Any]) -> str:
        """Unique within the template that holds it, not within the run."""
        return self.path_of(node).rpartition("/")[2]

    def path_of(self, node: Mapping[str, Any]) -> str:
        name = _name(node)
        above = self._above(node)
        if above is not None and _template(node).startswith(_V2_TEMPLATES) and name.startswith(_EXECUTOR):
            node, name = above, _name(above) + name.removeprefix(_EXECUTOR)
        names = [name]
        seen = {text(node, "id")}
        while (above := self._above(node)) is not None and text(above, "id") not in seen:
            seen.add(text(above, "id"))
            if text(above, "boundaryID"):  # or it is the run itself
                names.insert(0, _name(above))
            node = above
        return "/".join(names)

    def pod_of(self, node: Mapping[str, Any]) -> str:
        node_id = text(node, "id")
        if not self._long_names or node_id == self._run or not _template(node):
            return node_id
        prefix = f"{self._run}-{_template(node)}"[:_LONGEST_PREFIX]
        return f"{prefix}-{node_id.rpartition('-')[2]}"

    def _above(self, node: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.by_id.get(text(node, "boundaryID"))


def _is_step(node: Mapping[str, Any]) -> bool:
    """Not what only holds others, nor a driver of Kubeflow Pipelines, unless the run is stuck at it."""
    template = _template(node)
    is_driver = template.startswith(_V2_TEMPLATES) and template.endswith("-driver")
    return text(node, "type") not in _STRUCTURE and not (is_driver and text(node, "phase") == "Succeeded")


def _name(node: Mapping[str, Any]) -> str:
    return text(node, "displayName") or text(node, "name") or text(node, "id")


def _template(node: Mapping[str, Any]) -> str:
    return text(node, "templateName") or text(section(node, "templateRef"), "template")
