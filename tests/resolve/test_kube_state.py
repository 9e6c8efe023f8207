"""Objects are told as kube-state-metrics tells them."""

from __future__ import annotations

import csv
from decimal import Decimal

import pytest
from state_objects import (
    condition,
    ended_pod,
    every_object,
    job,
    made,
    node,
    others,
    running_pod,
    told,
    waiting_pod,
)

from kube_objects import NOON_MS
from servers import require_corpus
from trilens.resolve.kube_state.families import FAMILIES
from trilens.resolve.kube_state.kinds import state_samples
from trilens.resolve.kube_state.quantity import quantity

NOON_S = NOON_MS // 1000
KINDS = {family.metric: family.kind for family in FAMILIES}

# Where the index misreads the documentation: names of resources are no labels, and of a taint it lost two.
NO_LABELS = {"cpu", "memory", "ephemeral_storage", "pods"}
TAINT = "kube_node_spec_taint"


def only(lines: list[str], *metrics: str) -> list[str]:
    return [line for line in lines if line.partition("{")[0] in metrics]


def test_every_metric_is_one_of_kube_state_metrics() -> None:
    index = require_corpus("kube-state-metrics", "metrics_index.csv")
    with index.open(encoding="utf-8") as lines:
        documented = {row["metric"]: row for row in csv.DictReader(lines)}
    shown: dict[str, set[str]] = {}
    for obj in every_object():
        for metric, _, labels in state_samples(obj):
            shown.setdefault(metric, set()).update(labels)
    assert shown.keys() == KINDS.keys(), "an object that says it is missing, or a family"
    for metric, kind in KINDS.items():
        assert documented[metric]["type"].lower() == kind, metric
        expected = set(documented[metric]["labels"].split()) - NO_LABELS
        expected |= {"value", "effect"} if metric == TAINT else set()
        assert shown[metric] == expected | {"cluster"}, metric


def test_every_family_is_there_once_and_says_something() -> None:
    assert len(KINDS) == len(FAMILIES)
    assert all(family.help.endswith(".") for family in FAMILIES)


def test_a_pod_that_runs() -> None:
    lines = told(running_pod())
    assert only(lines, "kube_pod_info", "kube_pod_owner", "kube_pod_created", "kube_pod_start_time") == [
        "kube_pod_info{host_ip=10.1.0.1,pod_ip=10.2.0.1,node=node-a,created_by_kind=PyTorchJob,"
        "created_by_name=train,priority_class=high,host_network=true} 1",
        f"kube_pod_created{{}} {NOON_S:g}",
        f"kube_pod_start_time{{}} {NOON_S + 3:g}",
        "kube_pod_owner{owner_kind=PyTorchJob,owner_name=train,owner_is_controller=true} 1",
    ]
    assert only(lines, "kube_pod_status_phase", "kube_pod_status_ready", "kube_pod_status_reason") == [
        "kube_pod_status_phase{phase=Pending} 0",
        "kube_pod_status_phase{phase=Succeeded} 0",
        "kube_pod_status_phase{phase=Failed} 0",
        "kube_pod_status_phase{phase=Unknown} 0",
        "kube_pod_status_phase{phase=Running} 1",
        "kube_pod_status_ready{condition=true} 0",
        "kube_pod_status_ready{condition=false} 1",
        "kube_pod_status_ready{condition=unknown} 0",
    ]
    assert [line for line in lines if line.startswith("kube_pod_container_status")] == [
        "kube_pod_container_status_ready{container=main} 1",
        "kube_pod_container_status_restarts_total{container=main} 3",
        "kube_pod_container_status_waiting{container=main} 0",
        "kube_pod_container_status_running{container=main} 1",
        "kube_pod_container_status_terminated{container=main} 0",
        "kube_pod_container_status_last_terminated_reason{container=main,reason=OOMKilled} 1",
        "kube_pod_container_status_last_terminated_exitcode{container=main} 137",
        f"kube_pod_container_status_last_terminated_timestamp{{container=main}} {NOON_S + 8:g}",
    ]
    assert "kube_pod_status_unschedulable{} 1" not in lines


def test_what_a_container_asks_for_has_its_unit() -> None:
    lines = told(running_pod())
    whose = "container=main,node=node-a"
    assert only(lines, "kube_pod_container_resource_requests", "kube_pod_container_resource_limits") == [
        f"kube_pod_container_resource_requests{{{whose},resource=cpu,unit=core}} 1.5",
        f"kube_pod_container_resource_requests{{{whose},resource=memory,unit=byte}} {16 * 1024**3:g}",
        f"kube_pod_container_resource_requests{{{whose},resource=nvidia_com_gpu,unit=integer}} 8",
        f"kube_pod_container_resource_requests{{{whose},resource=hugepages_2Mi,unit=byte}} {4 * 1024**2:g}",
        f"kube_pod_container_resource_limits{{{whose},resource=cpu,unit=core}} 2",
        f"kube_pod_container_resource_limits{{{whose},resource=memory,unit=byte}} 1000",
    ]


def test_a_pod_that_waits() -> None:
    lines = told(waiting_pod())
    assert "kube_pod_status_unschedulable{} 1" in lines
    assert "kube_pod_status_reason{reason=Evicted} 1" in lines
    assert "kube_pod_owner{} 1" in lines
    assert "kube_pod_container_status_waiting_reason{container=main,reason=ImagePullBackOff} 1" in lines
    assert (
        "kube_pod_init_container_status_waiting_reason{container=prepare,reason=ImagePullBackOff} 1" in lines
    )
    assert not only(lines, "kube_pod_start_time", "kube_pod_status_ready", "kube_pod_status_scheduled_time")


def test_a_pod_that_has_ended() -> None:
    lines = told(ended_pod())
    assert f"kube_pod_completion_time{{}} {NOON_S + 11:g}" in lines
    assert "kube_pod_status_reason{reason=Other} 1" in lines
    assert "kube_pod_container_status_terminated_reason{container=side,reason=OOMKilled} 1" in lines


def test_a_node() -> None:
    lines = told(node())
    assert lines[0] == (
        "kube_node_info{kernel_version=6.1,os_image=Debian,container_runtime_version=containerd://2,"
        "kubelet_version=v1.33,kubeproxy_version=v1.33,provider_id=aws:///i-1,pod_cidr=10.2.0.0/24,"
        "system_uuid=s-1,internal_ip=10.1.0.1} 1"
    )
    assert only(lines, "kube_node_role", "kube_node_spec_unschedulable", "kube_node_spec_taint") == [
        "kube_node_spec_unschedulable{} 1",
        "kube_node_role{role=gpu} 1",
        "kube_node_spec_taint{key=nvidia.com/gpu,value=present,effect=NoSchedule} 1",
    ]
    assert "kube_node_status_condition{condition=Ready,status=true} 1" in lines
    assert "kube_node_status_condition{condition=DiskPressure,status=unknown} 1" in lines
    assert "kube_node_status_condition{condition=DiskPressure,status=true} 0" in lines
    assert "kube_node_status_capacity{resource=pods,unit=integer} 110" in lines
    assert "kube_node_status_capacity{resource=memory,unit=byte} 1024" in lines
    assert "kube_node_status_allocatable{resource=cpu,unit=core} 127.5" in lines
    assert "kube_node_status_allocatable{resource=ephemeral_storage,unit=byte} 1.5" in lines


def test_a_job_and_how_it_failed() -> None:
    lines = told(job())
    assert only(lines, "kube_job_owner", "kube_job_spec_completions", "kube_job_status_active") == [
        "kube_job_owner{owner_kind=PyTorchJob,owner_name=train,owner_is_controller=false} 1",
        "kube_job_spec_completions{} 4",
        "kube_job_status_active{} 1",
    ]
    # Kubernetes leaves out a 0, and that is what it means.
    assert only(lines, "kube_job_status_failed", "kube_job_status_succeeded") == [
        "kube_job_status_succeeded{} 0",
        "kube_job_status_failed{} 0",
    ]
    assert "kube_job_complete{condition=true} 1" in lines
    assert "kube_job_status_suspended{} 0" in lines
    for reason, expected in (
        (
            "DeadlineExceeded",
            ["{reason=BackoffLimitExceeded} 0", "{reason=DeadlineExceeded} 1", "{reason=Evicted} 0"],
        ),
        (
            "Novel",
            ["{reason=BackoffLimitExceeded} 0", "{reason=DeadlineExceeded} 0", "{reason=Evicted} 0", "{} 5"],
        ),
    ):
        failed = told(job(failed=5, conditions=[condition("Failed", reason=reason)]))
        assert only(failed, "kube_job_status_failed") == [
            f"kube_job_status_failed{line}" for line in expected
        ]
    assert only(told(job(failed=5)), "kube_job_status_failed") == ["kube_job_status_failed{} 5"]


def test_controllers_quotas_and_claims() -> None:
    lines = [line for manifest in others() for line in told(manifest)]
    for line in (
        "kube_deployment_spec_replicas{} 3",
        "kube_deployment_status_replicas_unavailable{} 1",
        "kube_deployment_status_condition{reason=NewReplicaSetAvailable,condition=Progressing,status=true} 1",
        "kube_deployment_status_condition{reason=unknown,condition=Available,status=false} 1",
        "kube_statefulset_replicas{} 3",
        "kube_statefulset_status_replicas_ready{} 2",
        "kube_statefulset_status_update_revision{revision=db-2} 1",
        "kube_replicaset_owner{} 1",
        "kube_replicaset_status_ready_replicas{} 2",
        "kube_daemonset_status_desired_number_scheduled{} 8",
        "kube_daemonset_status_number_unavailable{} 0",
        "kube_namespace_status_phase{phase=Active} 1",
        "kube_namespace_status_phase{phase=Terminating} 0",
        "kube_resourcequota{resource=requests.nvidia.com/gpu,type=hard} 64",
        "kube_resourcequota{resource=limits.cpu,type=used} 1.5",
        "kube_persistentvolumeclaim_info{storageclass=fast,volumename=pv-1,volumemode=Filesystem} 1",
        "kube_persistentvolumeclaim_status_phase{phase=Bound} 1",
        f"kube_persistentvolumeclaim_resource_requests_storage_bytes{{}} {1024**4:g}",
    ):
        assert line in lines


@pytest.mark.parametrize(
    "manifest",
    [
        made("v1", "Pod", "a"),
        made("v1", "Pod", "a", spec=None, status="?"),
        made("v1", "Pod", "a", spec={"containers": "?"}, status={"containerStatuses": [7, {"name": 1}]}),
        made("v1", "Node", "a", status={"capacity": {"cpu": None}, "conditions": {}}),
        made("batch/v1", "Job", "a", status={"failed": "many", "active": True, "startTime": "noon"}),
        made("apps/v1", "Deployment", "a", spec={"replicas": "3"}),
        made("v1", "ResourceQuota", "a", status={"hard": {"cpu": "lots"}}),
        made("v1", "PersistentVolumeClaim", "a", spec={"resources": {"requests": {"storage": {}}}}),
    ],
)
def test_what_is_not_as_expected_is_left_out(manifest: dict[str, object]) -> None:
    assert all("nan" not in line for line in told(manifest))
    job_lines = [
        line for line in told(manifest) if line.startswith(("kube_job_status", "kube_resourcequota{"))
    ]
    assert [line for line in job_lines if "active" in line or "failed" in line or "cpu" in line] == []


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("0", "0"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("+3", "3"),
        ("-1", "-1"),
        ("100m", "0.1"),
        ("5u", "0.000005"),
        ("7n", "0.000000007"),
        ("2k", "2000"),
        ("1M", "1000000"),
        ("1Ki", "1024"),
        ("1.5Gi", str(3 * 2**29)),
        ("1Ei", str(2**60)),
        ("3E", "3000000000000000000"),
        ("12e6", "12000000"),
        ("12E-3", "0.012"),
    ],
)
def test_quantities(written: str, amount: str) -> None:
    assert quantity(written) == Decimal(amount)


@pytest.mark.parametrize("written", ["", "m", "1x", "1 Gi", "1KI", "..", "1e", "1" * 100, "None"])
def test_what_is_no_quantity(written: str) -> None:
    assert quantity(written) is None
