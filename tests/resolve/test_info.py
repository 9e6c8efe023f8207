"""The join metric of pods: one series per pod at every instant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from small_jobs import PYTORCHJOB

from kube_objects import MadeObjects, at_ms, resolver
from operators_at_work import put_to_work
from trilens.resolve.info import pod_info

if TYPE_CHECKING:
    from trilens.resolve.resolver import ClusterResolver


def _info(found: ClusterResolver) -> list[dict[str, str]]:
    series = list(pod_info(found.open_memberships, found.workloads()))
    keys = [(one["cluster"], one["namespace"], one["pod"]) for one in series]
    assert len(keys) == len(set(keys)), "unique per pod"
    return series


def test_labels_of_a_pod() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    for manifest in made.manifests:
        manifest["metadata"].setdefault("labels", {}).update(team="nlp", experiment="e1")
        if manifest["kind"] == "Pod":
            manifest["spec"]["nodeName"] = "gpu-1"
    found = resolver()
    for obj in made.objects():
        found.changed(obj)
    found.settle(at_ms(1))
    assert {
        "cluster": "test",
        "namespace": "default",
        "pod": "llm-worker-0",
        "node": "gpu-1",
        "workload": "llm",
        "kind": "PyTorchJob",
        "attempt": "0",
        "node_rank": "1",
        "experiment": "e1",
        "team": "nlp",
    } in _info(found)
    assert len(_info(found)) == 3


def test_unique_through_a_change_of_attempt() -> None:
    """The same pod name with a new uid: the old life goes, then or only later, and never are there two."""
    for tell_removal in (True, False):
        made = MadeObjects()
        put_to_work(PYTORCHJOB, made.create)
        found = resolver()
        for obj in made.objects():
            found.changed(obj)
        found.settle(at_ms(1))
        for number, old in enumerate(obj for obj in made.objects() if obj.kind == "Pod"):
            if tell_removal:
                found.removed(old)
                found.settle(at_ms(10 + number))
                assert len(_info(found)) == 2
            found.changed(replace(old, uid=f"{old.uid}-again", created_ms=at_ms(9)))
            found.settle(at_ms(20 + number))
            series = {one["pod"]: one["attempt"] for one in _info(found)}
            assert len(series) == 3
            assert series[old.name] == "1"


def test_a_pod_that_is_over_has_no_series() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    made.manifests[-1]["status"] = {"phase": "Succeeded"}
    found = resolver()
    for obj in made.objects():
        found.changed(obj)
    found.settle(at_ms(1))
    assert made.manifests[-1]["metadata"]["name"] not in {one["pod"] for one in _info(found)}
