"""Every metric that is told, with its type and what it says."""

from __future__ import annotations

from typing import Final, NamedTuple


class StateFamily(NamedTuple):
    metric: str
    help: str
    kind: str = "gauge"


def _of_containers(prefix: str, what: str) -> tuple[StateFamily, ...]:
    return (
        StateFamily(f"{prefix}_info", f"1 for each {what}, with its image and id."),
        StateFamily(f"{prefix}_resource_requests", f"What a {what} asks for, by resource."),
        StateFamily(f"{prefix}_resource_limits", f"What a {what} may use at most, by resource."),
        StateFamily(f"{prefix}_state_started", f"When a {what} started, in seconds since the epoch."),
        StateFamily(f"{prefix}_status_ready", f"Whether a {what} is ready."),
        StateFamily(f"{prefix}_status_restarts_total", f"How often a {what} was restarted.", "counter"),
        StateFamily(f"{prefix}_status_waiting", f"Whether a {what} waits to run."),
        StateFamily(f"{prefix}_status_waiting_reason", f"1 for why a {what} waits, while it does."),
        StateFamily(f"{prefix}_status_running", f"Whether a {what} runs."),
        StateFamily(f"{prefix}_status_terminated", f"Whether a {what} has ended."),
        StateFamily(
            f"{prefix}_status_terminated_reason", f"1 for why a {what} ended, while it is not run anew."
        ),
        StateFamily(f"{prefix}_status_last_terminated_reason", f"1 for why a {what} ended the last time."),
        StateFamily(
            f"{prefix}_status_last_terminated_exitcode", f"With what code a {what} ended the last time."
        ),
        StateFamily(
            f"{prefix}_status_last_terminated_timestamp",
            f"When a {what} ended the last time, in seconds since the epoch.",
        ),
    )


FAMILIES: Final = (
    StateFamily("kube_pod_info", "1 for each pod, with its node, addresses and maker."),
    StateFamily("kube_pod_created", "When a pod was made, in seconds since the epoch."),
    StateFamily("kube_pod_start_time", "When the kubelet took a pod on, in seconds since the epoch."),
    StateFamily(
        "kube_pod_completion_time", "When the last container of a pod ended, in seconds since the epoch."
    ),
    StateFamily("kube_pod_owner", "1 for each owner of a pod."),
    StateFamily("kube_pod_status_phase", "1 for the phase that a pod is in, 0 for the others."),
    StateFamily("kube_pod_status_reason", "1 for why a pod is as it is, where its status says so."),
    StateFamily("kube_pod_status_ready", "1 for whether a pod is ready: true, false or unknown."),
    StateFamily("kube_pod_status_scheduled", "1 for whether a pod has a node: true, false or unknown."),
    StateFamily("kube_pod_status_scheduled_time", "When a pod got its node, in seconds since the epoch."),
    StateFamily("kube_pod_status_unschedulable", "1 for each pod that no node could be found for."),
    *_of_containers("kube_pod_container", "container"),
    *_of_containers("kube_pod_init_container", "init container"),
    StateFamily("kube_node_info", "1 for each node, with its versions and addresses."),
    StateFamily("kube_node_created", "When a node joined, in seconds since the epoch."),
    StateFamily("kube_node_role", "1 for each role of a node."),
    StateFamily("kube_node_spec_unschedulable", "Whether a node takes no new pods."),
    StateFamily("kube_node_spec_taint", "1 for each taint of a node."),
    StateFamily(
        "kube_node_status_condition", "1 for whether a condition of a node holds: true, false or unknown."
    ),
    StateFamily("kube_node_status_capacity", "What a node has, by resource."),
    StateFamily("kube_node_status_allocatable", "What of a node pods may use, by resource."),
    StateFamily("kube_namespace_created", "When a namespace was made, in seconds since the epoch."),
    StateFamily("kube_namespace_status_phase", "1 for the phase that a namespace is in, 0 for the other."),
    StateFamily(
        "kube_resourcequota", "What a quota allows (hard) and what is taken of it (used), by resource."
    ),
    StateFamily("kube_resourcequota_created", "When a quota was made, in seconds since the epoch."),
    StateFamily("kube_persistentvolumeclaim_info", "1 for each volume claim, with its class and volume."),
    StateFamily(
        "kube_persistentvolumeclaim_status_phase", "1 for the phase that a claim is in, 0 for the others."
    ),
    StateFamily(
        "kube_persistentvolumeclaim_resource_requests_storage_bytes", "How large a volume a claim asks for."
    ),
    StateFamily("kube_job_info", "1 for each Job."),
    StateFamily("kube_job_created", "When a Job was made, in seconds since the epoch."),
    StateFamily("kube_job_owner", "1 for each owner of a Job."),
    StateFamily("kube_job_spec_parallelism", "How many pods a Job runs at a time at most."),
    StateFamily("kube_job_spec_completions", "How many pods of a Job are to succeed."),
    StateFamily("kube_job_spec_active_deadline_seconds", "How long a Job may take."),
    StateFamily("kube_job_status_active", "Pods of a Job that have not ended."),
    StateFamily("kube_job_status_ready", "Pods of a Job that are ready."),
    StateFamily("kube_job_status_succeeded", "Pods of a Job that succeeded."),
    StateFamily("kube_job_status_failed", "Pods of a Job that failed; or 1 for why the Job as a whole did."),
    StateFamily("kube_job_status_start_time", "When a Job was begun, in seconds since the epoch."),
    StateFamily("kube_job_status_completion_time", "When a Job was complete, in seconds since the epoch."),
    StateFamily("kube_job_status_suspended", "Whether a Job is suspended."),
    StateFamily("kube_job_complete", "1 for whether a Job is complete: true, false or unknown."),
    StateFamily("kube_job_failed", "1 for whether a Job has failed: true, false or unknown."),
    StateFamily("kube_deployment_created", "When a Deployment was made, in seconds since the epoch."),
    StateFamily("kube_deployment_spec_replicas", "Pods that a Deployment is to have."),
    StateFamily("kube_deployment_spec_paused", "Whether a Deployment is paused."),
    StateFamily("kube_deployment_status_replicas", "Pods that a Deployment has."),
    StateFamily("kube_deployment_status_replicas_ready", "Pods of a Deployment that are ready."),
    StateFamily("kube_deployment_status_replicas_available", "Pods of a Deployment that are available."),
    StateFamily(
        "kube_deployment_status_replicas_unavailable", "Pods that a Deployment lacks to be available."
    ),
    StateFamily(
        "kube_deployment_status_replicas_updated", "Pods of a Deployment that are of its newest template."
    ),
    StateFamily(
        "kube_deployment_status_condition",
        "1 for whether a condition of a Deployment holds: true, false or unknown.",
    ),
    StateFamily("kube_statefulset_created", "When a StatefulSet was made, in seconds since the epoch."),
    StateFamily("kube_statefulset_replicas", "Pods that a StatefulSet is to have."),
    StateFamily("kube_statefulset_status_replicas", "Pods that a StatefulSet has."),
    StateFamily("kube_statefulset_status_replicas_ready", "Pods of a StatefulSet that are ready."),
    StateFamily("kube_statefulset_status_replicas_available", "Pods of a StatefulSet that are available."),
    StateFamily(
        "kube_statefulset_status_replicas_current", "Pods of a StatefulSet that are of its current revision."
    ),
    StateFamily(
        "kube_statefulset_status_replicas_updated", "Pods of a StatefulSet that are of its newest revision."
    ),
    StateFamily("kube_statefulset_status_current_revision", "1 for the current revision of a StatefulSet."),
    StateFamily("kube_statefulset_status_update_revision", "1 for the newest revision of a StatefulSet."),
    StateFamily("kube_replicaset_created", "When a ReplicaSet was made, in seconds since the epoch."),
    StateFamily("kube_replicaset_owner", "1 for each owner of a ReplicaSet."),
    StateFamily("kube_replicaset_spec_replicas", "Pods that a ReplicaSet is to have."),
    StateFamily("kube_replicaset_status_replicas", "Pods that a ReplicaSet has."),
    StateFamily("kube_replicaset_status_ready_replicas", "Pods of a ReplicaSet that are ready."),
    StateFamily("kube_daemonset_created", "When a DaemonSet was made, in seconds since the epoch."),
    StateFamily(
        "kube_daemonset_status_current_number_scheduled", "Nodes that run a pod of a DaemonSet and should."
    ),
    StateFamily(
        "kube_daemonset_status_desired_number_scheduled", "Nodes that should run a pod of a DaemonSet."
    ),
    StateFamily("kube_daemonset_status_updated_number_scheduled", "Nodes that run its newest pod."),
    StateFamily("kube_daemonset_status_number_available", "Nodes where a pod of a DaemonSet is available."),
    StateFamily(
        "kube_daemonset_status_number_misscheduled", "Nodes that run a pod of a DaemonSet and should not."
    ),
    StateFamily("kube_daemonset_status_number_ready", "Nodes where a pod of a DaemonSet is ready."),
    StateFamily(
        "kube_daemonset_status_number_unavailable", "Nodes that lack an available pod of a DaemonSet."
    ),
)

# What makes up two fifths of the series, being told of every pod, and what no rule or page of ours reads.
SELDOM_READ: Final = frozenset(
    {
        "kube_pod_created",
        "kube_pod_owner",
        "kube_pod_start_time",
        "kube_pod_status_scheduled",
        "kube_pod_status_scheduled_time",
        *(
            f"{prefix}_{what}"
            for prefix in ("kube_pod_container", "kube_pod_init_container")
            for what in (
                "info",
                "state_started",
                "status_ready",
                "status_running",
                "status_terminated",
                "status_waiting",
            )
        ),
    }
)
