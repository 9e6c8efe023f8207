"""Deployments, StatefulSets, ReplicaSets and DaemonSets: how many pods they want, and have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.sample import (
    StateSample,
    condition_statuses,
    conditions_of,
    count,
    created,
    given,
    owners,
)
from trilens.resolve.reading import section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

_DEPLOYMENT_REASONS: Final = frozenset(
    (
        "",
        "ReplicaSetUpdated",
        "ReplicaSetCreateError",
        "NewReplicaSetCreated",
        "FoundNewReplicaSet",
        "NewReplicaSetAvailable",
        "ProgressDeadlineExceeded",
        "DeploymentPaused",
        "DeploymentResumed",
        "MinimumReplicasAvailable",
        "MinimumReplicasUnavailable",
    )
)


def deployment_labels(deployment: KubeObject) -> dict[str, str]:
    return {"namespace": deployment.namespace, "deployment": deployment.name}


def deployment_samples(deployment: KubeObject) -> Iterator[StateSample]:
    spec, status = section(deployment.body, "spec"), section(deployment.body, "status")
    yield from created("kube_deployment_created", deployment)
    yield from given("kube_deployment_spec_replicas", spec, "replicas")
    yield StateSample("kube_deployment_spec_paused", float(spec.get("paused") is True))
    yield from count("kube_deployment_status_replicas", status, "replicas")
    yield from count("kube_deployment_status_replicas_ready", status, "readyReplicas")
    yield from count("kube_deployment_status_replicas_available", status, "availableReplicas")
    yield from count("kube_deployment_status_replicas_unavailable", status, "unavailableReplicas")
    yield from count("kube_deployment_status_replicas_updated", status, "updatedReplicas")
    for condition in conditions_of(deployment):
        reason = text(condition, "reason")
        labels = {
            "reason": reason if reason in _DEPLOYMENT_REASONS else "unknown",
            "condition": text(condition, "type"),
        }
        yield from condition_statuses(
            "kube_deployment_status_condition", text(condition, "status"), "status", labels
        )


def stateful_set_labels(stateful_set: KubeObject) -> dict[str, str]:
    return {"namespace": stateful_set.namespace, "statefulset": stateful_set.name}


def stateful_set_samples(stateful_set: KubeObject) -> Iterator[StateSample]:
    spec, status = section(stateful_set.body, "spec"), section(stateful_set.body, "status")
    yield from created("kube_statefulset_created", stateful_set)
    yield from given("kube_statefulset_replicas", spec, "replicas")
    yield from count("kube_statefulset_status_replicas", status, "replicas")
    yield from count("kube_statefulset_status_replicas_ready", status, "readyReplicas")
    yield from count("kube_statefulset_status_replicas_available", status, "availableReplicas")
    yield from count("kube_statefulset_status_replicas_current", status, "currentReplicas")
    yield from count("kube_statefulset_status_replicas_updated", status, "updatedReplicas")
    for which in ("current", "update"):
        revision = text(status, f"{which}Revision")
        yield StateSample(f"kube_statefulset_status_{which}_revision", 1, {"revision": revision})


def replica_set_labels(replica_set: KubeObject) -> dict[str, str]:
    return {"namespace": replica_set.namespace, "replicaset": replica_set.name}


def replica_set_samples(replica_set: KubeObject) -> Iterator[StateSample]:
    spec, status = section(replica_set.body, "spec"), section(replica_set.body, "status")
    yield from created("kube_replicaset_created", replica_set)
    yield from owners("kube_replicaset_owner", replica_set)
    yield from given("kube_replicaset_spec_replicas", spec, "replicas")
    yield from count("kube_replicaset_status_replicas", status, "replicas")
    yield from count("kube_replicaset_status_ready_replicas", status, "readyReplicas")


def daemon_set_labels(daemon_set: KubeObject) -> dict[str, str]:
    return {"namespace": daemon_set.namespace, "daemonset": daemon_set.name}


def daemon_set_samples(daemon_set: KubeObject) -> Iterator[StateSample]:
    status = section(daemon_set.body, "status")
    yield from created("kube_daemonset_created", daemon_set)
    for metric, key in (
        ("kube_daemonset_status_current_number_scheduled", "currentNumberScheduled"),
        ("kube_daemonset_status_desired_number_scheduled", "desiredNumberScheduled"),
        ("kube_daemonset_status_updated_number_scheduled", "updatedNumberScheduled"),
        ("kube_daemonset_status_number_available", "numberAvailable"),
        ("kube_daemonset_status_number_misscheduled", "numberMisscheduled"),
        ("kube_daemonset_status_number_ready", "numberReady"),
        ("kube_daemonset_status_number_unavailable", "numberUnavailable"),
    ):
        yield from count(metric, status, key)
