"""What a node should have of GPUs, what is lost, and where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpu_story import cluster, dcgm, inventory, kubelet

from kube_objects import at, at_ms, resolver, to_object
from trilens.model.gpu import Gpu
from trilens.resolve.accelerators import GpuCapacity, gpu_capacity
from trilens.resolve.gpus.books import SilentGpu
from trilens.resolve.gpus.cluster_view import view_of
from trilens.resolve.gpus.missing import NodeGpus, compare


def node(capacity: dict[str, str], **labels: str) -> Any:
    marks = {f"nvidia.com/{name.replace('_', '.')}": value for name, value in labels.items()}
    return to_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-a", "uid": "n", "labels": marks},
            "status": {"capacity": {f"nvidia.com/{name}": count for name, count in capacity.items()}},
        }
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (node({}), None),
        (node({"gpu": "8"}), GpuCapacity(8, False)),
        (node({"gpu": "32"}, gpu_replicas="4"), GpuCapacity(8, False)),
        (node({"gpu.shared": "32"}, gpu_replicas="4"), GpuCapacity(8, False)),
        (node({"gpu": "7"}, gpu_count="8"), GpuCapacity(8, False)),
        (node({"mig-1g.10gb": "7", "mig-3g.40gb": "2", "gpu": "6"}), GpuCapacity(15, True)),
        (node({"mig-1g.10gb": "7", "gpu": "7"}, gpu_count="8"), GpuCapacity(8, False)),
        (
            node({"gpu": "56"}, gpu_count="56", mig_strategy="single", gpu_product="H100-MIG-1g.10gb"),
            GpuCapacity(56, True),
        ),
        (node({"gpu": "8"}, gpu_count="8", mig_strategy="single", gpu_product="H100"), GpuCapacity(8, False)),
        (node({"gpu": "many"}), None),
    ],
)
def test_capacity_in_devices_or_instances(found: Any, expected: GpuCapacity | None) -> None:
    assert gpu_capacity(found) == expected


def compared(
    expected: int, *reports: Any, silent: tuple[SilentGpu, ...] = (), instances: bool = False
) -> NodeGpus:
    views = [cluster(nodes={"node-a": GpuCapacity(expected, instances), "cpu": None})]
    (found,) = compare(views, inventory(views, *reports).values(), silent)
    return found


def gone(uuid: str, seen_ms: int, instance: str = "", where: str = "node-a") -> SilentGpu:
    (gpu,) = inventory([cluster(nodes={where: None})], dcgm(uuid, GPU_I_ID=instance, Hostname=where)).values()
    assert isinstance(gpu, Gpu)
    return SilentGpu(gpu, seen_ms)


def test_a_lost_gpu_that_reported_before_is_named() -> None:
    found = compared(2, dcgm("GPU-1"), silent=(gone("GPU-2", 500), gone("GPU-0", 100)))
    assert (found.expected, found.reporting, found.lost) == (2, 1, 1)
    assert [(one.gpu.key.uuid, one.seen_ms) for one in found.named] == [("GPU-2", 500)]


def test_all_that_should_be_there_report() -> None:
    found = compared(2, dcgm("GPU-1"), dcgm("GPU-1", pod="a-0"), dcgm("GPU-2"), silent=(gone("GPU-0", 1),))
    assert (found.reporting, found.lost, found.named) == (2, 0, ())


def test_a_node_of_which_nothing_reports_is_blind_and_has_lost_none() -> None:
    found = compared(8, silent=(gone("GPU-1", 500),))
    assert (found.is_blind, found.lost, found.named) == (True, None, ())
    # What the kubelet gave out is no sign of life.
    assert compared(8, kubelet("GPU-1", "a-0")).is_blind


def test_a_lost_device_is_one_however_it_was_divided() -> None:
    silent = (gone("GPU-2", 500, "1"), gone("GPU-2", 500, "2"), gone("GPU-1", 400, "7"))
    found = compared(3, dcgm("GPU-1", GPU_I_ID="1"), silent=silent)
    assert (found.reporting, found.lost) == (1, 2)
    assert [one.gpu.key.uuid for one in found.named] == ["GPU-2"]  # GPU-1 is there, divided anew
    found = compared(3, dcgm("GPU-1", GPU_I_ID="1"), silent=silent, instances=True)
    assert (found.reporting, found.lost, len(found.named)) == (1, 2, 2)


def test_a_gpu_of_another_node_is_not_this_ones_loss() -> None:
    found = compared(2, dcgm("GPU-1"), silent=(gone("GPU-9", 500, where="node-b"),))
    assert (found.lost, found.named) == (1, ())


@pytest.mark.parametrize("host", ["gpu-1.lab.example", "gpu-1", "10.0.0.7", "metal-7"])
def test_a_node_is_known_by_any_of_its_names(host: str) -> None:
    made = resolver()
    made.changed(
        to_object(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": "gpu-1.lab.example",
                    "uid": "n",
                    "labels": {"kubernetes.io/hostname": "metal-7"},
                },
                "status": {
                    "capacity": {"nvidia.com/gpu": "1"},
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
                },
            }
        )
    )
    view = view_of(made, is_settled=True)
    (gpu,) = inventory([view], dcgm("GPU-1", Hostname=host)).values()
    assert (gpu.cluster, gpu.node) == ("test", "gpu-1.lab.example")
    assert [node.lost for node in compare([view], [gpu], ())] == [0]


def test_a_view_tells_since_when_the_containers_of_pods_run() -> None:
    """The first of them, over its restarts; a node's clock that is behind puts none before its making."""
    made = resolver()
    again = {"state": {"running": {"startedAt": at(50)}}, "lastState": {"terminated": {"startedAt": at(20)}}}
    states = {
        "runs-0": [
            {"state": {"running": {"startedAt": at(30)}}},
            {"state": {"running": {"startedAt": at(25)}}},
        ],
        "again-0": [again],
        "waits-0": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
        "behind-0": [{"state": {"running": {"startedAt": at(-90)}}}],
    }
    for name, containers in states.items():
        made.changed(
            to_object(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": at(1)},
                    "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
                    "status": {"phase": "Running", "containerStatuses": containers},
                }
            )
        )
    made.settle(1)
    started = {key.name: since for key, since in view_of(made, is_settled=True).started.items()}
    assert started == {
        "runs-0": at_ms(25),
        "again-0": at_ms(20),
        "behind-0": at_ms(1),
    }


def test_a_name_that_two_nodes_have_means_neither() -> None:
    views = [cluster(nodes={"a.x": None, "a.y": None})]
    views = [
        replace(views[0], nodes=tuple(one._replace(aliases=frozenset(("a",))) for one in views[0].nodes))
    ]
    (gpu,) = inventory(views, dcgm("GPU-1", Hostname="a")).values()
    assert (gpu.cluster, gpu.node) == ("", "a")
