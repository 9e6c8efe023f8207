"""Pods: where they are, in what phase, and why not further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.containers import container_samples
from trilens.resolve.kube_state.sample import (
    StateSample,
    condition_statuses,
    conditions_of,
    created,
    moment,
    one_of,
    owners,
)
from trilens.resolve.reading import items, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

_PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_REASONS: Final = frozenset(
    (
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "PreemptionByScheduler",
        "SchedulingGated",
        "Shutdown",
        "TerminationByKubelet",
        "UnexpectedAdmissionError",
    )
)


def pod_labels(pod: KubeObject) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}


def pod_samples(pod: KubeObject) -> Iterator[StateSample]:
    status = section(pod.body, "status")
    yield _info(pod)
    yield from created("kube_pod_created", pod)
    yield from moment("kube_pod_start_time", status.get("startTime"))
    yield from _completion(pod)
    yield from owners("kube_pod_owner", pod)
    if phase := text(status, "phase"):
        yield from one_of("kube_pod_status_phase", "phase", _PHASES, phase)
    if reason := text(status, "reason"):
        known = reason if reason in _REASONS else "Other"
        yield StateSample("kube_pod_status_reason", 1, {"reason": known})
    for condition in conditions_of(pod, "Ready"):
        yield from condition_statuses("kube_pod_status_ready", text(condition, "status"), "condition")
    for condition in conditions_of(pod, "PodScheduled"):
        scheduled = text(condition, "status")
        yield from condition_statuses("kube_pod_status_scheduled", scheduled, "condition")
        if scheduled == "True":
            yield from moment("kube_pod_status_scheduled_time", condition.get("lastTransitionTime"))
        elif scheduled == "False":
            yield StateSample("kube_pod_status_unschedulable", 1)
    yield from container_samples(pod)


def _info(pod: KubeObject) -> StateSample:
    spec, status = section(pod.body, "spec"), section(pod.body, "status")
    creator = next((owner for owner in pod.owners if owner.controller), None)
    return StateSample(
        "kube_pod_info",
        1,
        {
            "host_ip": text(status, "hostIP"),
            "pod_ip": text(status, "podIP"),
            "node": text(spec, "nodeName"),
            "created_by_kind": creator.kind if creator is not None else "",
            "created_by_name": creator.name if creator is not None else "",
            "priority_class": text(spec, "priorityClassName"),
            "host_network": "true" if spec.get("hostNetwork") is True else "false",
        },
    )


def _completion(pod: KubeObject) -> Iterator[StateSample]:
    """When the last of its containers ended, of those that have."""
    ends = [
        at_ms
        for found in items(section(pod.body, "status"), "containerStatuses")
        if (at_ms := time_ms(section(found, "state", "terminated").get("finishedAt"))) is not None
    ]
    if ends and max(ends) > 0:
        yield StateSample("kube_pod_completion_time", max(ends) // 1000)
