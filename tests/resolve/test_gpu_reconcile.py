"""Who holds which GPU: several sources, one answer, and a doubt where they disagree."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from gpu_story import H100, cluster, dcgm, holders, inventory, kubelet, pod_key, process, reconciled, the_one
from hypothesis import given
from hypothesis import strategies as st

from servers import require_corpus
from trilens.model.gpu import ClaimSource, GpuKey
from trilens.resolve.gpus.reports import UTILIZATION, read_report
from trilens.resolve.gpus.shares import instance_share


def codes(found: object) -> list[str]:
    return [doubt.code for doubt in found]  # type: ignore[attr-defined]


def test_sources_that_agree_are_one_binding_without_a_doubt() -> None:
    found = reconciled(
        [cluster("train-0")],
        dcgm("GPU-1", "train-0", container="main"),
        kubelet("GPU-1", "train-0", container="main"),
        process("GPU-1", "train-0", rank="9", local_rank="1"),
    )
    binding = the_one(found)
    assert binding.pod == pod_key("train-0")
    assert (binding.container, binding.rank, binding.local_rank) == ("main", 9, 1)
    assert binding.sources == (ClaimSource.PROCESS, ClaimSource.KUBELET, ClaimSource.DCGM)
    assert (binding.share, binding.doubts, found.doubts) == (Fraction(1), (), {})


@pytest.mark.parametrize(
    "labels",
    [
        {"UUID": "GPU-1", "Hostname": "node-a", "namespace": "ml", "pod": "train-0", "container": "main"},
        {"gpu_uuid": "GPU-1", "hostname": "node-a", "namespace": "ml", "pod": "train-0", "container": "main"},
        {
            "UUID": "GPU-1",
            "node": "node-a",
            "namespace": "monitoring",
            "pod": "nvidia-dcgm-exporter-x",
            "container": "exporter",
            "exported_namespace": "ml",
            "exported_pod": "train-0",
            "exported_container": "main",
        },
    ],
)
def test_every_spelling_of_the_labels(labels: dict[str, str]) -> None:
    report = read_report(UTILIZATION, labels)
    assert report is not None
    binding = the_one(reconciled([cluster("train-0")], report))
    assert (binding.gpu, binding.pod, binding.container) == (
        GpuKey("GPU-1"),  # type: ignore[arg-type]
        pod_key("train-0"),
        "main",
    )


def test_a_real_scrape() -> None:
    """Eight H100s, one of them with a holder."""
    text = require_corpus("dcgm", "h100x8_eks_aicr.prom").read_text(encoding="utf-8")
    reports = []
    for metric, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        report = read_report(metric, dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        if metric == UTILIZATION and report is not None:
            reports.append(report)
    pod = "dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5"
    views = [cluster(f"{pod}@gpu-node-1", nodes={"gpu-node-1": None})]
    gpus = inventory(views, *reports).values()
    assert sorted(gpu.index for gpu in gpus) == [str(number) for number in range(8)]
    assert {(gpu.cluster, gpu.node, gpu.model) for gpu in gpus} == {("lab", "gpu-node-1", H100)}
    binding = the_one(reconciled(views, *reports))
    assert (binding.pod, binding.container) == (pod_key(pod), "main")


def test_an_exporter_is_no_holder() -> None:
    found = reconciled([cluster("train-0")], dcgm("GPU-1", "monitoring/nvidia-dcgm-exporter-abc"))
    assert (found.bindings, found.doubts) == ([], {})
    # Nor is one by another name, which Kubernetes knows to be in no workload.
    found = reconciled([cluster(no_workload=("mon/gpu-metrics-x",))], dcgm("GPU-1", "mon/gpu-metrics-x"))
    assert (found.bindings, found.doubts) == ([], {})


def test_a_disagreement_is_shown_and_the_surer_source_believed() -> None:
    found = reconciled([cluster("old-0", "new-0")], kubelet("GPU-1", "new-0"), dcgm("GPU-1", "old-0"))
    binding = the_one(found)
    assert (binding.pod, binding.sources) == (pod_key("new-0"), (ClaimSource.KUBELET,))
    (doubt,) = binding.doubts
    assert doubt.code == "gpu-claims-disagree"
    assert "the kubelet says ml/new-0" in doubt.text
    assert "dcgm-exporter says ml/old-0" in doubt.text


def test_a_process_of_somebody_else_is_believed_over_the_kubelet() -> None:
    found = reconciled(
        [cluster("given-0", "real-0")], kubelet("GPU-1", "given-0"), process("GPU-1", "real-0")
    )
    assert the_one(found).pod == pod_key("real-0")
    assert codes(the_one(found).doubts) == ["gpu-claims-disagree"]


def test_who_shares_a_gpu_and_has_no_process_now_still_holds_it() -> None:
    found = reconciled(
        [cluster("a-0", "b-0")],
        kubelet("GPU-1", "a-0"),
        kubelet("GPU-1", "b-0"),
        process("GPU-1", "a-0", rank="0"),
        dcgm("GPU-1", "b-0"),  # it shows one of them
    )
    assert holders(found) == {"GPU-1": ["a-0", "b-0"]}
    assert [(one.share, one.rank, one.doubts) for one in found.bindings] == [
        (Fraction(1, 2), 0, ()),
        (Fraction(1, 2), None, ()),
    ]


def test_labels_that_linger_after_their_pod_hold_nothing() -> None:
    found = reconciled([cluster("other-0")], dcgm("GPU-1", "ended-0"))
    assert found.bindings == []
    (doubts,) = found.doubts.values()
    assert codes(doubts) == ["gpu-holder-unknown"]
    assert "ml/ended-0" in doubts[0].text
    # Its name came back on another node: it is not here.
    found = reconciled([cluster("train-0@node-b")], dcgm("GPU-1", "train-0"))
    assert found.bindings == []
    assert codes(*found.doubts.values()) == ["gpu-holder-elsewhere"]
    # Its name came back and has not been given a node: what is told is of the one before.
    found = reconciled([cluster("train-0@")], dcgm("GPU-1", "train-0"), kubelet("GPU-1", "train-0"))
    assert found.bindings == []
    assert set(codes(*found.doubts.values())) == {"gpu-holder-elsewhere"}
    # Its name came back here, and the label says whose it was.
    found = reconciled([cluster("train-0")], dcgm("GPU-1", "train-0", pod_uid="uid-before"))
    assert found.bindings == []
    assert codes(*found.doubts.values()) == ["gpu-holder-unknown"]


def test_of_several_processes_the_one_with_a_rank_tells_it() -> None:
    views = [cluster("train-0")]
    found = reconciled(
        views, process("GPU-1", "train-0"), process("GPU-1", "train-0", rank="3", local_rank="3")
    )
    assert (the_one(found).rank, the_one(found).doubts) == (3, ())
    found = reconciled(
        views, process("GPU-1", "train-0", rank="5"), process("GPU-1", "train-0", rank="4", local_rank="0")
    )
    assert (the_one(found).rank, the_one(found).local_rank) == (4, 0)
    assert codes(the_one(found).doubts) == ["gpu-several-ranks"]


def test_two_exporters_of_one_gpu_count_once() -> None:
    views = [cluster("train-0")]
    reports = (dcgm("GPU-1", "train-0", Hostname="exporter-host", gpu="3"), dcgm("GPU-1", "train-0", gpu="3"))
    for order in (reports, reports[::-1]):
        assert the_one(reconciled(views, *order)).share == 1
        (gpu,) = inventory(views, *order).values()
        assert (gpu.cluster, gpu.node, gpu.index, gpu.model) == ("lab", "node-a", "3", H100)


def test_whose_cluster_a_gpu_is_in() -> None:
    here = cluster("train-0", nodes={"node-a": None})
    there = cluster("train-0@node-b", "other-0@node-b", name="prod", nodes={"node-b": None})
    views = [here, there]
    assert the_one(reconciled(views, dcgm("GPU-1", "train-0"))).pod.cluster == "lab"
    assert the_one(reconciled(views, dcgm("GPU-1", "train-0", Hostname="node-b"))).pod.cluster == "prod"
    told = dcgm("GPU-1", "train-0", Hostname="who", cluster="prod")
    assert the_one(reconciled(views, told)).pod.cluster == "prod"
    # A pod's name alone is enough where one cluster has it.
    assert the_one(reconciled(views, dcgm("GPU-1", "other-0", Hostname="who"))).pod.cluster == "prod"
    assert reconciled(views, dcgm("GPU-1", "train-0", Hostname="who")).bindings == []
    assert reconciled(views, dcgm("GPU-1", "train-0", cluster="unwatched")).bindings == []


def test_mig_instances_are_parts_of_their_device() -> None:
    def instance(number: str, profile: str, pod: str) -> object:
        return dcgm("GPU-1", pod, GPU_I_ID=number, GPU_I_PROFILE=profile, container="main")

    found = reconciled(
        [cluster("a-0", "b-0", "c-0")],
        dcgm("GPU-1"),  # the device behind them, which the agent shows
        instance("1", "1g.10gb", "a-0"),  # type: ignore[arg-type]
        instance("2", "3g.40gb", "b-0"),  # type: ignore[arg-type]
        instance("3", "strange", "c-0"),  # type: ignore[arg-type]
    )
    shares = {binding.gpu.instance: binding.share for binding in found.bindings}
    assert shares == {"1": Fraction(1, 7), "2": Fraction(3, 7), "3": None}
    assert [codes(binding.doubts) for binding in found.bindings] == [[], [], ["gpu-share-unknown"]]
    assert {key.instance for key in inventory([cluster()], dcgm("GPU-1"), dcgm("GPU-1", GPU_I_ID="1"))} == {
        "1"
    }  # type: ignore[attr-defined]


def test_an_agent_that_knows_the_instance_needs_nobody_else_to_name_its_holder() -> None:
    part = {"GPU_I_ID": "5", "GPU_I_PROFILE": "1g.10gb", "mig_uuid": "MIG-5"}
    binding = the_one(
        reconciled([cluster("a-0")], dcgm("GPU-1", GPU_I_ID="5"), kubelet("GPU-1", "a-0", **part))
    )
    assert (binding.gpu.instance, binding.pod.name, binding.sources) == ("5", "a-0", (ClaimSource.KUBELET,))


def test_the_kubelets_name_of_a_mig_instance_is_matched_by_its_container() -> None:
    found = reconciled(
        [cluster("a-0")],
        dcgm("GPU-1", "a-0", container="main", GPU_I_ID="5", GPU_I_PROFILE="1g.10gb"),
        kubelet("MIG-x", "a-0", container="main", resource="nvidia.com/mig-1g.10gb"),
        kubelet("MIG-y", "a-0", container="main", resource="nvidia.com/mig-2g.20gb"),  # nobody else knows it
    )
    binding = the_one(found)
    assert (binding.gpu.instance, binding.sources) == ("5", (ClaimSource.KUBELET, ClaimSource.DCGM))


@pytest.mark.parametrize(
    ("profile", "model", "share"),
    [
        ("1g.10gb", H100, Fraction(1, 7)),
        ("1g.10gb+me", H100, Fraction(1, 7)),
        ("7g.80gb", "NVIDIA A100-SXM4-80GB", Fraction(1)),
        ("1c.3g.40gb", H100, Fraction(1, 7)),
        ("2g.12gb", "NVIDIA A30", Fraction(1, 2)),
        ("1g.24gb", "NVIDIA RTX PRO 6000 Blackwell Server Edition", Fraction(1, 4)),
        ("1g.18gb", "NVIDIA GH200 480GB", Fraction(1, 7)),
        ("8g.80gb", H100, None),
        ("1g.10gb", "NVIDIA Z9", None),
        ("", H100, None),
    ],
)
def test_what_an_instance_is_of_its_device(profile: str, model: str, share: Fraction | None) -> None:
    assert instance_share(profile, model) == share


_PODS = ("a-0", "b-0", "c-0")
_CLAIMS = st.lists(
    st.tuples(
        st.sampled_from((dcgm, kubelet, process)),
        st.sampled_from(("GPU-1", "GPU-2")),
        st.sampled_from(_PODS),
        st.sampled_from(("", "main", "side")),
        st.sampled_from(("", "1", "2", "3")),
        st.sampled_from(("1g.10gb", "3g.40gb", "4g.40gb", "7g.80gb", "odd")),
    ),
    max_size=14,
)


@given(_CLAIMS)
def test_the_shares_of_a_device_never_add_up_to_more_than_one(claims: list[tuple[object, ...]]) -> None:
    reports = [
        make(uuid, pod, container=container, GPU_I_ID=instance, GPU_I_PROFILE=profile if instance else "")  # type: ignore[operator]
        for make, uuid, pod, container, instance, profile in claims
    ]
    found = reconciled([cluster(*_PODS)], *reports)
    for uuid in ("GPU-1", "GPU-2"):
        shares = [one.share for one in found.bindings if one.gpu.uuid == uuid]
        assert sum(share for share in shares if share is not None) <= 1
    seats = [(one.gpu, one.pod, one.container) for one in found.bindings]
    assert len(seats) == len(set(seats))
