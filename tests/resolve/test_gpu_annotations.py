"""What schedulers and device plugins write on pods about the GPUs that they gave them."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_story import cluster, dcgm, holders, kubelet, reconciled, the_one

from kube_objects import resolver, to_object
from trilens.model.gpu import ClaimSource
from trilens.resolve.gpus.annotations import Assigned, GpuGroups, assigned
from trilens.resolve.gpus.cluster_view import view_of

U0, U1 = "GPU-00000000-0000-0000-0000-000000000000", "GPU-11111111-1111-1111-1111-111111111111"


def pod(name: str = "a-0", annotations: dict[str, str] | None = None, **metadata: Any) -> Any:
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}, {"name": "side"}]
    meta = {
        "name": name,
        "namespace": "ml",
        "uid": f"uid-{name}",
        "annotations": annotations or {},
        **metadata,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": "node-a", "containers": containers},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("key", "written", "found"),
    [
        ("hami.io/vgpu-devices-allocated", f"{U0},NVIDIA,3000,30:;", [Assigned(U0, "", "main")]),
        (
            "hami.io/vgpu-devices-allocated",
            f"{U0},NVIDIA,3000,0:{U1},NVIDIA,3000,0:;{U1},NVIDIA,100,0:;",
            [Assigned(U0, "", "main"), Assigned(U1, "", "main"), Assigned(U1, "", "side")],
        ),
        ("volcano.sh/vgpu-ids-new", f"{U0},NVIDIA,1126,0:", [Assigned(U0, "", "main")]),
        ("volcano.sh/gpu-index", "0,2", [Assigned("", "0", ""), Assigned("", "2", "")]),
        ("ALIYUN_COM_GPU_MEM_IDX", "1", [Assigned("", "1", "")]),
        ("ALIYUN_COM_GPU_MEM_IDX", "-1", []),
        ("tencent.com/predicate-gpu-idx-1", "3", [Assigned("", "3", "side")]),
        ("tencent.com/predicate-gpu-idx-9", "3", [Assigned("", "3", "")]),
        ("hami.io/vgpu-devices-allocated", "nonsense;;:,", []),
        ("volcano.sh/gpu-index", "first", []),
    ],
)
def test_what_is_written(key: str, written: str, found: list[Assigned]) -> None:
    assert list(assigned(to_object(pod(annotations={key: written})), GpuGroups([]))) == found


def test_a_number_means_the_gpu_that_the_pods_node_reports_by_it() -> None:
    view = cluster("a-0", assigned={"a-0": (Assigned("", "1", ""), Assigned("", "7", ""))})
    elsewhere = dcgm("GPU-x", gpu="1", Hostname="node-b")
    found = reconciled([view], dcgm(U0, gpu="0"), dcgm(U1, gpu="1"), elsewhere)
    assert holders(found) == {U1: ["a-0"]}
    assert the_one(found).sources == (ClaimSource.ANNOTATION,)


def test_an_annotation_is_believed_last() -> None:
    view = cluster("a-0", "b-0", assigned={"a-0": (Assigned(U0, "", ""),)})
    binding = the_one(reconciled([view], dcgm(U0, "b-0")))
    assert binding.pod.name == "b-0"
    assert [doubt.code for doubt in binding.doubts] == ["gpu-claims-disagree"]
    assert "an annotation says ml/a-0" in binding.doubts[0].text


def test_pods_that_share_a_gpu_by_group_hold_it_and_the_reservation_does_not() -> None:
    made = resolver()
    group = {"runai-gpu-group": "g1"}
    reservation = pod("gpu-reservation-x", {"run.ai/reserve_for_gpu_index": U0}, labels=group)
    reservation["metadata"]["namespace"] = "kai-resource-reservation"
    reservation["metadata"]["labels"] = {**group, "app": "kai-resource-reservation"}
    for manifest in (
        reservation,
        pod("a-0", {"gpu-fraction": "0.5"}, labels=group),
        pod("b-0", {"gpu-fraction": "0.5"}, labels={"runai-gpu-group/g1": "g1"}),
        pod("c-0", {"gpu-fraction": "0.5"}, labels={"runai-gpu-group": "g2"}),
    ):
        made.changed(to_object(manifest))
    made.settle(1)
    view = view_of(made, is_settled=True)
    found = reconciled([view], dcgm(U0), kubelet(U0, "kai-resource-reservation/gpu-reservation-x"))
    assert holders(found) == {U0: ["a-0", "b-0"]}
    assert found.doubts == {}
