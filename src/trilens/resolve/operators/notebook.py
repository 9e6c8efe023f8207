"""Kubeflow Notebook (kubeflow.org).

Owners: Pod -> StatefulSet -> Notebook.
Labels: `notebook-name`, beside the StatefulSet's own.
A notebook that is stopped is scaled to zero and carries the annotation `kubeflow-resource-stopped`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.life import Phase
from trilens.resolve.operators.base import Claim, Operator, Said
from trilens.resolve.reading import mark, time_ms

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject

_NOTEBOOK = GroupKind("kubeflow.org", "Notebook")
_STOPPED = "kubeflow-resource-stopped"


class Notebook(Operator):
    kinds = (_NOTEBOOK,)
    versions = frozenset({"v1", "v1beta1", "v1alpha1"})
    is_outermost = True
    is_service = True

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "notebook-name")
        return Claim(_NOTEBOOK, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        stopped = job.annotations.get(_STOPPED)
        return None if stopped is None else Said(Phase.SUSPENDED, "stopped", time_ms(stopped))
