"""A pod that nobody owns: it is its own workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.resolve.objects import POD
from trilens.resolve.operators.base import Operator, Said

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject


class BarePod(Operator):
    kinds = (POD,)
    known_without_pods = False

    def said(self, job: KubeObject) -> Said | None:
        return None  # the pod tells, as every pod does
