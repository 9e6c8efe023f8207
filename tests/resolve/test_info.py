"""The join metrics: one series per pod, one per GPU of a container, at every instant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from small_jobs import PYTORCHJOB

from kube_objects import MadeObjects, at_ms, resolver
from operators_at_work import put_to_work
from trilens.model.workload import GpuUuid, PodKey
from trilens.resolve.info import GpuBinding, gpu_info, pod_info

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


def test_labels_of_a_gpu() -> None:
    made = MadeObjects()
    put_to_work(PYTORCHJOB, made.create)
    found = resolver()
    for obj in made.objects():
        found.changed(obj)
    found.settle(at_ms(1))
    pod = next(key for key in found.open_memberships if key.name == "llm-worker-1")
    elsewhere = PodKey("test", "default", "stranger", "?")
    uuid = GpuUuid("GPU-1")
    bindings = [
        GpuBinding(pod, "main", uuid),
        GpuBinding(pod, "main", uuid, rank=17, local_rank=1),  # the SDK knows more than the kubelet
        GpuBinding(pod, "main", uuid),
        GpuBinding(pod, "main", GpuUuid("GPU-2"), instance="3"),
        GpuBinding(elsewhere, "main", uuid),
    ]
    series = list(gpu_info(found.open_memberships, bindings))
    common = {
        "cluster": "test",
        "namespace": "default",
        "pod": "llm-worker-1",
        "container": "main",
        "workload": "llm",
        "attempt": "0",
    }
    assert series == [
        {**common, "UUID": "GPU-1", "GPU_I_ID": "", "rank": "17", "local_rank": "1"},
        {**common, "UUID": "GPU-2", "GPU_I_ID": "3", "rank": "", "local_rank": ""},
    ]
