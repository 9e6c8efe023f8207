"""KServe: InferenceService, InferenceGraph and LLMInferenceService (serving.kserve.io).

Owners: Pod -> ReplicaSet -> Deployment -> InferenceService. Serverless: Pod -> ReplicaSet -> Deployment ->
Revision -> Configuration -> Service (all serving.knative.dev) -> InferenceService. An LLMInferenceService
owns Deployments, or LeaderWorkerSets where a model needs several nodes, and a Deployment for its router's
scheduler.
Labels: `serving.kserve.io/inferenceservice` and `component` (`predictor`, `transformer`, `explainer`), which
has no prefix. LLMInferenceService: `app.kubernetes.io/name` with
`app.kubernetes.io/part-of=llminferenceservice`, `app.kubernetes.io/component`
(`llminferenceservice-workload`, `-workload-prefill`, `-workload-leader`, `-workload-worker`,
`-router-scheduler`), `llm-d.ai/role` (`decode`, `prefill`, `both`).
Trap: with several nodes, group and rank are the LeaderWorkerSet's, the role is the service's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Said, Seat
from trilens.resolve.reading import mark

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.objects import Link, Objects

INFERENCE_SERVICE = GroupKind("serving.kserve.io", "InferenceService")
LLM_INFERENCE_SERVICE = GroupKind("serving.kserve.io", "LLMInferenceService")
_INFERENCE_GRAPH = GroupKind("serving.kserve.io", "InferenceGraph")
_LLM = "llminferenceservice"


class _Service(Operator):
    versions = frozenset({"v1alpha1", "v1alpha2", "v1beta1"})
    is_service = True

    def said(self, job: KubeObject) -> Said | None:
        return None


class InferenceService(_Service):
    kinds = (INFERENCE_SERVICE, _INFERENCE_GRAPH)

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        role = mark(pod, "component")
        return replace(below, role=role or below.role)

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "serving.kserve.io/inferenceservice")
        return Claim(INFERENCE_SERVICE, name) if name else None


class LLMInferenceService(_Service):
    kinds = (LLM_INFERENCE_SERVICE,)

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        component = (mark(pod, "app.kubernetes.io/component") or "").removeprefix(_LLM + "-")
        if not component.startswith("workload"):
            return replace(below, role=component or below.role)
        role = mark(pod, "llm-d.ai/role")
        if role is None:  # workers behind a leader carry none
            role = "prefill" if component.endswith("prefill") else "decode"
        return replace(below, role=role)

    def claim(self, pod: KubeObject) -> Claim | None:
        if mark(pod, "app.kubernetes.io/part-of") != _LLM:
            return None
        name = mark(pod, "app.kubernetes.io/name")
        return Claim(LLM_INFERENCE_SERVICE, name) if name else None
