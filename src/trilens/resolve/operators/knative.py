"""Knative Serving (serving.knative.dev).

Owners: Pod -> ReplicaSet -> Deployment -> Revision -> Configuration -> Service.
Labels: `serving.knative.dev/service`, `configuration`, `revision`.
The Service is the workload where nothing, such as KServe, owns it; scaled to zero it has no pods at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.resolve.operators.base import Claim, Operator, Said
from trilens.resolve.reading import mark

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject

_GROUP = "serving.knative.dev"
_SERVICE = GroupKind(_GROUP, "Service")


class Knative(Operator):
    kinds = (_SERVICE, GroupKind(_GROUP, "Configuration"), GroupKind(_GROUP, "Revision"))
    is_service = True
    known_without_pods = False

    def claim(self, pod: KubeObject) -> Claim | None:
        name = mark(pod, "serving.knative.dev/service")
        return Claim(_SERVICE, name) if name else None

    def said(self, job: KubeObject) -> Said | None:
        return None
