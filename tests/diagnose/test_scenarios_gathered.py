"""What evidence looks at is what a live case asks for: the cluster of each scenario, gathered as a live one
is, has the same verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scenario_files import CLUSTER, Scenario, scenarios

from trilens.collect.kubernetes.asked import Answered
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import SubjectKind
from trilens.diagnose.walk import why
from trilens.model.workload import PodKey
from trilens.serve.cases.about import About
from trilens.serve.cases.kinds import KNOWN, POD
from trilens.serve.cases.objects import CaseObjects, gather_objects
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trilens.collect.kubernetes.asked import Wanted
    from trilens.diagnose.case_file import CaseFile
    from trilens.model.kubernetes import KubeObject

GATHERED = [one for one in scenarios() if (one.folder / "objects.yaml").exists()]


class ScenarioCluster:
    """Answers from the objects of a scenario, and has nothing else."""

    def __init__(self, objects: Sequence[KubeObject]) -> None:
        self.objects = objects

    async def ask(self, wanted: Sequence[Wanted], _until: float | None = None) -> list[Answered]:
        return [
            Answered(one, tuple(filter(one.keep, filter(_is_in(one), self.objects))))
            for one in wanted
            if one.kind in KNOWN
        ]

    def pods_of(
        self, _cluster: str, keep: Callable[[KubeObject], bool], _within_s: float
    ) -> Sequence[KubeObject]:
        return [one for one in self.objects if one.group_kind == POD and keep(one)]


def _is_in(wanted: Wanted) -> Callable[[KubeObject], bool]:
    scope = wanted.scope
    field, _, value = scope.fields.partition("=")

    def at(one: KubeObject) -> object:
        section, _, name = field.partition(".")
        return one.body.get(section, {}).get(name)

    return lambda one: (
        one.group_kind == wanted.kind
        and scope.namespace in ("", one.namespace)
        and scope.name in ("", one.name)
        and (not field or at(one) == value)
    )


def _about(case: CaseFile) -> About:
    subject = case.subject
    pods = [one.membership.pod for one in case.members]
    if subject.kind is SubjectKind.POD:
        own = [
            one
            for one in case.objects
            if (one.group_kind, one.namespace, one.name) == (POD, subject.namespace, subject.name)
        ]
        pods = [PodKey(CLUSTER, one.namespace, one.name, one.uid) for one in own]
    nodes = {one.node for one in case.members} - {""}
    node = subject.name if subject.kind is SubjectKind.NODE else None
    return About(
        CLUSTER, [one.key for one in case.workloads], pods, nodes if node is None else {*nodes, node}, node
    )


@pytest.mark.parametrize("scenario", GATHERED, ids=lambda one: one.name)
async def test_the_verdict_rests_on_what_is_gathered(scenario: Scenario, tmp_path: Path) -> None:
    told = scenario.case().file
    cluster, about = ScenarioCluster(told.objects), _about(told)
    asked = await gather_objects(cluster, about, [""], math.inf)
    settings = KubernetesSettings(clusters={CLUSTER: ClusterSettings(in_cluster=True)})
    others = CaseObjects(settings, tmp_path, cluster).neighbours(about, asked.objects)
    kinds = {*told.kinds, *others.kinds}
    gathered = replace(told, objects=(*asked.objects, *others.objects), kinds=tuple(sorted(kinds)))
    found, expected = why(Case(gathered)), why(Case(told))
    assert [(one.cause, one.text) for one in found] == [(one.cause, one.text) for one in expected]
