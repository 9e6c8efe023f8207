"""Where evidence holds back, or looks at the right one of several: one thing is changed in a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scenario_files import NOW_MS, read_object, scenarios

from trilens.diagnose.case import Case
from trilens.diagnose.case_file import LEFT_OUT, CaseSeries
from trilens.diagnose.evidence.gpu_access import (
    capacity_shows_gpu,
    device_plugin_on_node,
    gpu_in_limits,
)
from trilens.diagnose.evidence.gpu_faults import gpu_fault
from trilens.diagnose.evidence.gpu_inside import devices_visible
from trilens.diagnose.evidence.node_room import gpus_on_nodes, node_labels_say
from trilens.diagnose.evidence.scheduling import autoscaler_says
from trilens.diagnose.evidence.serving import cache_full
from trilens.diagnose.evidence.symptoms import what_shows
from trilens.diagnose.evidence.telemetry_path import gpus_heard, monitor_selected
from trilens.diagnose.trouble import node_gone
from trilens.diagnose.walk import why
from trilens.model.event import EventKind
from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.model.kubernetes import KubeObject

Body = dict[str, Any]


def _case(name: str) -> Case:
    [scenario] = [one for one in scenarios() if one.name == name]
    return scenario.case()


def _with(case: Case, *more: KubeObject) -> Case:
    return Case(replace(case.file, objects=(*case.file.objects, *more)))


def _changed(case: Case, kind: str, change: Callable[[Body], Body], name: str = "") -> Case:
    """`change` makes the body of each object of that kind anew, or of the one of that name."""
    objects = tuple(
        replace(one, body=change(dict(one.body))) if one.kind == kind and name in ("", one.name) else one
        for one in case.file.objects
    )
    return Case(replace(case.file, objects=objects))


def test_pods_that_are_over_hold_no_gpus() -> None:
    full = _case("gpus-all-taken")
    assert gpus_on_nodes(full).values == ("full",)
    over = _changed(full, "Pod", lambda body: {**body, "status": {**body["status"], "phase": "Succeeded"}})
    pending = _changed(over, "Pod", lambda body: {**body, "status": {"phase": "Pending"}}, "train-0")
    agent = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "agent"}]},
        "status": {"phase": "Running"},
    }
    freed = gpus_on_nodes(_with(pending, read_object(agent)))
    assert (freed.values, freed.names["holders"]) == (("scattered",), "")


def test_what_an_autoscaler_said_last_counts() -> None:
    at_limit = _case("autoscaler-at-limit")
    assert autoscaler_says(at_limit).values == ("at-limit",)
    later = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "later", "namespace": "ml", "uid": "event-later"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "train-0", "uid": "pod-train-0"},
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up: [{gpu-pool 1->2 (max: 4)}]",
        "lastTimestamp": "2026-11-03T09:59:30Z",
        "reportingComponent": "cluster-autoscaler",
    }
    assert autoscaler_says(_with(at_limit, read_object(later))).values == ("scaling",)


def test_a_node_that_offers_gpus_has_a_plugin_whatever_it_is_called() -> None:
    case = _case("device-plugin-not-on-node")
    assert device_plugin_on_node(case).values == ("missing",)
    offered = {"nvidia.com/gpu": "8"}
    offers = _changed(
        case, "Node", lambda body: {**body, "status": {**body["status"], "allocatable": offered}}
    )
    assert device_plugin_on_node(offers).values == ("running",)


def test_a_prometheus_without_a_selector_of_namespaces_looks_in_its_own_alone() -> None:
    case = _case("scrape-path-doubtful")
    assert monitor_selected(case).values == ("selected",)

    def without(body: Body) -> Body:
        kept = {name: value for name, value in body["spec"].items() if "NamespaceSelector" not in name}
        return {**body, "spec": kept}

    closed = monitor_selected(_changed(case, "Prometheus", without))
    assert closed.values == ("namespace",)
    assert closed.names["change"].startswith("Set serviceMonitorNamespaceSelector: {} in Prometheus ")


def test_one_monitor_that_is_taken_is_enough() -> None:
    case = _case("scrape-path-doubtful")
    [monitor] = case.of_kind("monitoring.coreos.com", "ServiceMonitor")
    stray = replace(monitor, name="dcgm-exporter-of-old", uid="stray", labels={"app": "dcgm-exporter"})
    assert monitor_selected(_with(case, stray)).values == ("selected",)


def test_a_sick_gpu_of_the_node_that_no_pod_needs_to_hold_is_less_sure() -> None:
    case = _case("gpu-of-node-unhealthy")
    assert capacity_shows_gpu(case).confidence == 1
    few = {
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "nodeName": "gpu-1",
    }
    answer = capacity_shows_gpu(_changed(case, "Pod", lambda body: {**body, "spec": few}, "train-0"))
    assert (answer.values, answer.confidence) == (("unhealthy",), 0.6)


def test_a_value_that_was_left_out_hides_nothing() -> None:
    case = _case("devices-hidden")
    assert devices_visible(case).values == ("hidden",)
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": LEFT_OUT}]

    def masked(body: Body) -> Body:
        containers = [{**one, "env": env} for one in body["spec"]["containers"]]
        return {**body, "spec": {**body["spec"], "containers": containers}}

    assert devices_visible(_changed(case, "Pod", masked)).values == ("shown",)


def test_a_program_that_may_be_meant_for_processors_is_less_surely_without_its_gpu() -> None:
    case = _case("gpu-not-asked-for")
    assert gpu_in_limits(case).confidence == 1
    plain = tuple(replace(one, versions={"torch": "2.9.0+cpu"}) for one in case.file.ranks)
    answer = gpu_in_limits(Case(replace(case.file, ranks=plain)))
    assert (answer.values, answer.confidence) == (("no",), 0.75)


def test_what_a_gauge_told_is_not_hidden_by_a_warning_about_a_pod() -> None:
    case = _case("dead-gpu-of-a-node")
    [fault] = case.file.events
    warning = replace(fault, kind=EventKind.WARNING, code=None, uuid=None, gpu=None)
    assert gpu_fault(Case(replace(case.file, events=(warning,)))).values == ("dead",)


def test_a_node_whose_kubelet_says_that_it_is_not_ready_is_not_gone() -> None:
    case = _case("node-lost-by-its-condition")
    [pod] = [one for one in case.pods if one.name == "train-1"]
    assert node_gone(case, pod) is not None
    said = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "runtime is down"}]
    lives = _changed(case, "Node", lambda body: {**body, "status": {"conditions": said}}, "gpu-2")
    assert node_gone(lives, pod) is None


def test_labels_that_machines_write_are_not_to_be_given_by_hand() -> None:
    case = _case("node-label-absent")
    assert node_labels_say(case).names["relabel"] == ""
    own = _changed(
        case, "Pod", lambda body: {**body, "spec": {**body["spec"], "nodeSelector": {"pool": "h100"}}}
    )
    assert node_labels_say(own).names["relabel"].endswith("kubectl label node NODE pool=h100")


def test_gpus_that_were_last_heard_minutes_ago_are_not_heard() -> None:
    case = _case("telemetry-fine")
    assert gpus_heard(case).values == ("yes",)
    later = gpus_heard(Case(replace(case.file, to_ms=NOW_MS + 300_000)))
    assert later.values == ("stopped",)
    assert later.since_ms is not None


def test_heartbeats_alone_do_not_tell_that_a_job_goes_on() -> None:
    """Whoever asks before detectors have looked: the ranks of a job that hangs are still heard."""
    case = _case("nothing-wrong")
    assert what_shows(case).confidence == 1.0
    stopped = tuple(
        replace(one, end_ms=tuple(end_ms - 300_000 for end_ms in one.end_ms)) for one in case.file.steps
    )
    shows = what_shows(Case(replace(case.file, steps=stopped)))
    assert (shows.values, [one.text for one in shows.facts]) == (
        ("nothing",),
        ["no step has ended for 310 s"],
    )
    assert shows.missing
    [verdict] = why(Case(replace(case.file, steps=stopped)))
    assert verdict.confidence < TELL_FROM
    long = tuple(replace(one, ms=tuple(150_000.0 for _ in one.ms)) for one in stopped)
    assert what_shows(Case(replace(case.file, steps=long))).confidence == 1.0


def test_a_gpu_of_another_node_is_not_this_ones_fault() -> None:
    """A job that fell elsewhere and has come here brings its findings along."""
    case = _case("dead-gpu-of-a-node")
    by_finding = replace(case.file, events=())
    assert gpu_fault(Case(by_finding)).values == ("dead",)
    here = case.file.subject._replace(name="gpu-9")
    assert gpu_fault(Case(replace(by_finding, subject=here))).values == ("no",)


def _cache(used: Sequence[float], preempted: Sequence[float]) -> Case:
    """Of a server on which requests wait, a reading every 30 s."""
    case = _case("kv-cache-full")
    told = case.file.series["inference-queue"][0]
    series = {
        "inference-cache": (CaseSeries(told.labels, told.t_ms, tuple(used)),),
        "inference-preemptions": (CaseSeries(told.labels, told.t_ms, tuple(preempted)),),
    }
    return Case(replace(case.file, series={**case.file.series, **series}))


def test_a_cache_with_room_is_not_called_full_because_requests_are_preempted() -> None:
    """The same screen would say that 64 % of it is used."""
    case = _cache([0.64] * 20, [0.2] * 20)
    room = cache_full(case)
    assert (room.values, [one.text for one in room.facts]) == (
        ("room",),
        ["64% of the KV cache is used, 0.2 preemptions a second for 10 min"],
    )
    [verdict] = why(case)
    assert verdict.cause != "kv-cache-full"


def test_a_cache_that_is_full_at_its_peaks_is_told_with_the_peak_and_since_when() -> None:
    case = _cache([*[0.5] * 15, 0.97, 0.8, 0.8, 0.8, 0.8], [*[0.0] * 14, *[0.2] * 6])
    [verdict] = why(case)
    assert verdict.text == (
        "30 requests wait because the KV cache is full again and again: "
        "80% of the KV cache is used, 97% at its peak, 0.2 preemptions a second for 3 min."
    )
