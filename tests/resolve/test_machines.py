"""What a node is to those who pay for it: type, place, how it was bought, and since when it can be used."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects import NOON_MS, at, at_ms, to_object
from trilens.model.gpu import Gpu, GpuKey
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.node import Hardware
from trilens.model.workload import GpuUuid
from trilens.resolve.gpus.books import QUIET_MS
from trilens.resolve.machines import (
    MachineBook,
    SeenMachine,
    machine_of,
    machines_without_kubernetes,
    reported_gpus,
)
from trilens.settings.topology import TopologySettings

LOOK_MS = 15_000


def node(
    labels: dict[str, str] | None = None,
    capacity: dict[str, str] | None = None,
    *,
    ready: str = "True",
    ready_since: float = -3600,
    created: float = -7200,
    **spec: Any,
) -> Any:
    reason = {"True": "KubeletReady", "Unknown": "NodeStatusUnknown", "False": "KubeletNotReady"}[ready]
    return to_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "node-a",
                "uid": "n",
                "labels": labels or {},
                "creationTimestamp": at(created),
            },
            "spec": spec,
            "status": {
                "capacity": capacity or {"nvidia.com/gpu": "8"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False", "lastTransitionTime": at(-60)},
                    {
                        "type": "Ready",
                        "status": ready,
                        "reason": reason,
                        "lastTransitionTime": at(ready_since),
                    },
                ],
            },
        },
        "lab",
    )


def machine(found: Any) -> Machine:
    return machine_of(found, TopologySettings()).machine


# As the documentation of each cloud, of Karpenter and of NVIDIA's feature discovery shows them.
EKS = {
    "eks.amazonaws.com/capacityType": "ON_DEMAND",
    "eks.amazonaws.com/nodegroup": "p5",
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "topology.kubernetes.io/region": "us-east-1",
    "topology.kubernetes.io/zone": "us-east-1d",
    "topology.k8s.aws/zone-id": "use1-az6",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/mig.strategy": "single",
}
GKE = {
    "beta.kubernetes.io/instance-type": "a2-highgpu-1g",
    "node.kubernetes.io/instance-type": "a2-highgpu-1g",
    "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-provisioning": "spot",
    "failure-domain.beta.kubernetes.io/region": "us-central1",
    "topology.kubernetes.io/region": "us-central1",
    "topology.kubernetes.io/zone": "us-central1-c",
}
AKS = {
    "kubernetes.azure.com/scalesetpriority": "spot",
    "node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5",
    "topology.kubernetes.io/region": "eastus2",
    "topology.kubernetes.io/zone": "eastus2-1",
}


def test_a_node_of_eks_as_it_was_bought() -> None:
    capacity = {
        "cpu": "192",
        "memory": "2097112940Ki",
        "ephemeral-storage": "104845292Ki",
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "32",
    }
    assert machine(node(EKS, capacity, providerID="aws:///us-east-1d/i-0f3a7c1d2e4b5a697")) == Machine(
        "lab",
        "node-a",
        instance_type="p5.48xlarge",
        region="us-east-1",
        zone="us-east-1d",
        purchase="on-demand",
        provider="aws",
        gpu_model="NVIDIA H100 80GB HBM3",
        gpus=8,
        cpus=192.0,
        memory_bytes=2097112940 * 1024,
        storage_bytes=104845292 * 1024,
    )


@pytest.mark.parametrize(
    ("labels", "provider_id", "expected"),
    [
        pytest.param(
            GKE, "gce://prj/us-central1-c/gke-a", ("gcp", "spot", "a2-highgpu-1g", "us-central1"), id="gke"
        ),
        pytest.param(
            AKS,
            "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/x",
            ("azure", "spot", "Standard_ND96isr_H100_v5", "eastus2"),
            id="aks",
        ),
        pytest.param(
            {
                "oci.oraclecloud.com/oke-is-preemptible": "true",
                "node.kubernetes.io/instance-type": "BM.GPU.H100.8",
            },
            "ocid1.instance.oc1.iad.anuw",
            ("oci", "spot", "BM.GPU.H100.8", ""),
            id="oke",
        ),
        pytest.param({}, "", ("", "", "", ""), id="bare metal"),
    ],
)
def test_each_cloud_in_its_own_words(
    labels: dict[str, str], provider_id: str, expected: tuple[str, ...]
) -> None:
    found = machine(node(labels, providerID=provider_id))
    assert (found.provider, found.purchase, found.instance_type, found.region) == expected


@pytest.mark.parametrize(
    ("labels", "purchase"),
    [
        ({"eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved"),
        ({"karpenter.sh/capacity-type": "reserved"}, "reserved"),
        (
            {"karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/capacity-reservation-id": "cr-1"},
            "reserved",
        ),
        ({"cloud.google.com/gke-preemptible": "true"}, "spot"),
        ({"cloud.google.com/gke-provisioning": "standard"}, "on-demand"),
        (
            {"cloud.google.com/gke-provisioning": "standard", "cloud.google.com/reservation-name": "h100"},
            "reserved",
        ),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, "on-demand"),
        ({"purchase": "Owned", "karpenter.sh/capacity-type": "spot"}, "owned"),
        ({"purchase": "leased"}, ""),
        ({}, ""),
    ],
)
def test_how_it_is_paid(labels: dict[str, str], purchase: str) -> None:
    assert machine(node(labels)).purchase == purchase


def test_another_label_says_how_it_is_paid() -> None:
    settings = TopologySettings(purchase=("acme.example/paid",))
    assert machine_of(node({"acme.example/paid": "reserved"}), settings).machine.purchase == "reserved"


@pytest.mark.parametrize(
    ("capacity", "labels", "gpus", "model"),
    [
        (
            {"nvidia.com/gpu": "32"},
            {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED"},
            8,
            "NVIDIA L40S",
        ),
        (
            {"nvidia.com/mig-1g.10gb": "56"},
            {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            8,
            "NVIDIA H100 80GB HBM3",
        ),
        (  # of strategy "single" only the instances can be counted
            {"nvidia.com/gpu": "56"},
            {
                "nvidia.com/gpu.count": "56",
                "nvidia.com/mig.strategy": "single",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            },
            None,
            "NVIDIA H100 80GB HBM3",
        ),
        ({"cpu": "64"}, {}, None, ""),
    ],
)
def test_devices_are_counted_not_their_parts(
    capacity: dict[str, str], labels: dict[str, str], gpus: int | None, model: str
) -> None:
    found = machine(node(labels, capacity))
    assert (found.gpus, found.gpu_model) == (gpus, model)


def test_what_cannot_be_read_is_unknown() -> None:
    found = machine(node({}, {"cpu": "lots", "memory": "-3", "nvidia.com/gpu": "many"}))
    assert (found.cpus, found.memory_bytes, found.storage_bytes, found.gpus) == (None, None, None, None)


def test_state_and_since_when() -> None:
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": at(-60)}
    seen = [
        machine_of(found, TopologySettings())
        for found in (
            node(),
            node(ready="Unknown", ready_since=-40),
            node(unschedulable=True, taints=[cordoned]),
            node(unschedulable=True),
            node(ready="False", ready_since=-9, unschedulable=True, taints=[cordoned]),
        )
    ]
    assert [(one.machine.state.value, one.machine.reason, one.state_since_ms) for one in seen] == [
        ("ready", "", at_ms(-3600)),
        ("not-ready", "NodeStatusUnknown", at_ms(-40)),
        ("cordoned", "cordoned", at_ms(-60)),
        ("cordoned", "cordoned", None),
        ("not-ready", "KubeletNotReady", at_ms(-9)),
    ]


class Kept:
    """Stands for the store: the last word on each beginning."""

    def __init__(self) -> None:
        self.intervals: dict[tuple[str, str, int], MachineInterval] = {}
        self.told = 0

    def machine(self, interval: MachineInterval) -> None:
        self.told += 1
        key = (interval.machine.cluster, interval.machine.node, interval.from_ms)
        self.intervals[key] = interval

    def lines(self, *fields: str) -> list[tuple[Any, ...]]:
        return [
            (*(getattr(one.machine, field) for field in fields), one.from_ms - NOON_MS, _ago(one.to_ms))
            for one in self.intervals.values()
        ]

    def unfinished(self) -> list[MachineInterval]:
        return [one for one in self.intervals.values() if one.to_ms is None]


def _ago(at_ms: int | None) -> int | None:
    return at_ms - NOON_MS if at_ms is not None else None


class Story:
    """A book that is looked at every 15 seconds, beginning at noon."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept or Kept()
        self.now_ms = NOON_MS
        self.book = MachineBook(self.kept)
        self.gpus: list[Gpu] = []

    def look(self, *nodes: Any, after_s: float = 15, settled: bool = True) -> None:
        seen = [one if isinstance(one, SeenMachine) else machine_of(one, TopologySettings()) for one in nodes]
        known, unread = (("lab",), ()) if settled else ((), ("lab",))
        self.book.update(seen, reported_gpus(self.gpus), known, unread, self.now_ms)
        self.now_ms += round(after_s * 1000)


def test_a_node_is_there_from_its_making_until_it_is_gone() -> None:
    story = Story()
    story.look(node())  # when Trilens first looks: what was before is not its business
    story.look(node())
    story.look()
    assert story.kept.lines("state") == [("ready", 0, 2 * LOOK_MS)]
    story.look(node(created=40, ready_since=55))  # made between two looks
    story.look(node(created=40, ready_since=55))
    assert story.kept.lines("state")[1:] == [("ready", 40_000, None)]
    assert story.kept.told == 3


def test_a_node_made_anew_by_the_same_name() -> None:
    story = Story()
    story.look(node())
    story.look(node(created=10, capacity={"nvidia.com/gpu": "4"}))
    assert story.kept.lines("gpus") == [(8, 0, 10_000), (4, 10_000, None)]


def test_states_begin_when_kubernetes_says() -> None:
    story = Story()
    story.look(node())
    story.look(node(ready="Unknown", ready_since=4))
    story.look(node(ready="False", ready_since=4))  # another word for it
    story.look(node(ready_since=33, unschedulable=True))
    story.look(node(ready_since=33))  # uncordoned: nobody says when
    assert story.kept.lines("state", "reason") == [
        ("ready", "", 0, 4_000),
        ("not-ready", "KubeletNotReady", 4_000, 45_000),
        ("cordoned", "cordoned", 45_000, 60_000),
        ("ready", "", 60_000, None),
    ]


def test_what_is_learnt_later_was_true_before() -> None:
    story = Story()
    bare = node({}, {"cpu": "96"})
    story.look(bare)
    assert not story.kept.intervals  # no GPUs, as far as anybody knows
    labelled = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "8"}
    story.look(node(created=5, capacity={"cpu": "96", "nvidia.com/gpu": "6"}))
    story.look(node(labelled, created=5, capacity={"cpu": "96", "nvidia.com/gpu": "8"}))
    story.gpus = [gpu(f"GPU-{at}", model="NVIDIA A100-SXM4-80GB") for at in range(8)]
    story.look(node(labelled, created=5))
    story.gpus = []
    story.look(node({}, {"nvidia.com/gpu": "7"}, created=5))  # feature discovery restarts, and a GPU fell off
    assert story.kept.lines("gpus", "gpu_model", "cpus") == [(8, "NVIDIA A100-SXM4-80GB", 96.0, 5_000, None)]


def test_another_price_begins_another_interval() -> None:
    story = Story()
    story.look(node({"purchase": "on-demand"}))
    story.look(node({"purchase": "reserved"}))
    assert story.kept.lines("purchase") == [("on-demand", 0, 15_000), ("reserved", 15_000, None)]


def test_a_restart_of_trilens_goes_on_where_it_was() -> None:
    story = Story()
    story.look(node())
    told = story.kept.told
    again = Story(story.kept)
    again.now_ms = story.now_ms + 60_000
    again.book.restore(story.kept.unfinished(), again.now_ms)
    again.look(settled=False, after_s=2 * QUIET_MS / 1000)  # the cluster was not read through yet
    again.look(settled=False)
    again.look(node())
    assert story.kept.told == told
    again.look()
    assert story.kept.lines("state") == [("ready", 0, 2 * QUIET_MS + 105_000)]


def gpu(
    uuid: str, node: str = "node-a", cluster: str = "lab", model: str = "H100", instance: str = ""
) -> Gpu:
    return Gpu(GpuKey(GpuUuid(uuid), instance), cluster, node, model=model)


def test_a_node_whose_gpus_only_report() -> None:
    """Its capacity counts instances, or its device plugin is not there."""
    story = Story()
    story.gpus = [gpu("GPU-1", instance="7"), gpu("GPU-1", instance="8"), gpu("GPU-2")]
    story.look(node({}, {"cpu": "8"}))
    assert story.kept.lines("gpus", "gpu_model") == [(2, "H100", 0, None)]


def test_a_machine_without_kubernetes_lasts_as_long_as_its_gpus_report() -> None:
    story = Story()
    story.gpus = [gpu("GPU-1", "box", ""), gpu("GPU-9", "stranger", ""), gpu("GPU-2", "node-a")]
    reported = reported_gpus(story.gpus)
    hardware = {"box": Hardware(16, 64 << 30), "node-a": Hardware(1, 1)}
    found = machines_without_kubernetes(reported, hardware, [("lab", "node-a")])
    story.look(*found, node())
    story.look(*found, node())
    kept = {one.machine.node: one for one in story.kept.intervals.values()}
    assert kept.keys() == {"box", "node-a"}  # of whom nobody tells but its GPUs, the ledger works out itself
    box = kept["box"].machine
    assert (box.gpus, box.cpus, box.memory_bytes, box.purchase) == (1, 16, 64 << 30, "")
    story.gpus = []
    story.look(node(), after_s=QUIET_MS / 1000 - 15)
    story.look(node())
    assert story.kept.intervals["", "box", NOON_MS].to_ms is None  # it was silent, not longer than that
    story.look(node())
    assert story.kept.intervals["", "box", NOON_MS].to_ms == NOON_MS + LOOK_MS


def test_a_state_that_is_told_of_the_future_begins_now() -> None:
    story = Story()
    story.look(node())
    story.look(node(ready="False", ready_since=999))
    assert story.kept.lines("state")[1] == (MachineState.NOT_READY, 15_000, None)
