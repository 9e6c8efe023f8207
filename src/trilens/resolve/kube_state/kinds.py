"""Which kinds are told, and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.kubernetes import GroupKind
from trilens.resolve.kube_state.controllers import (
    daemon_set_labels,
    daemon_set_samples,
    deployment_labels,
    deployment_samples,
    replica_set_labels,
    replica_set_samples,
    stateful_set_labels,
    stateful_set_samples,
)
from trilens.resolve.kube_state.jobs import job_labels, job_samples
from trilens.resolve.kube_state.namespaces import (
    claim_labels,
    claim_samples,
    namespace_labels,
    namespace_samples,
    quota_labels,
    quota_samples,
)
from trilens.resolve.kube_state.nodes import node_labels, node_samples
from trilens.resolve.kube_state.pods import pod_labels, pod_samples
from trilens.resolve.kube_state.sample import StateSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.model.kubernetes import KubeObject


class Teller(NamedTuple):
    labels: Callable[[KubeObject], dict[str, str]]
    """Those that name the object, on each of its series."""
    samples: Callable[[KubeObject], Iterator[StateSample]]


TELLERS: Final = {
    GroupKind("", "Pod"): Teller(pod_labels, pod_samples),
    GroupKind("", "Node"): Teller(node_labels, node_samples),
    GroupKind("", "Namespace"): Teller(namespace_labels, namespace_samples),
    GroupKind("", "ResourceQuota"): Teller(quota_labels, quota_samples),
    GroupKind("", "PersistentVolumeClaim"): Teller(claim_labels, claim_samples),
    GroupKind("batch", "Job"): Teller(job_labels, job_samples),
    GroupKind("apps", "Deployment"): Teller(deployment_labels, deployment_samples),
    GroupKind("apps", "StatefulSet"): Teller(stateful_set_labels, stateful_set_samples),
    GroupKind("apps", "ReplicaSet"): Teller(replica_set_labels, replica_set_samples),
    GroupKind("apps", "DaemonSet"): Teller(daemon_set_labels, daemon_set_samples),
}


def state_samples(obj: KubeObject) -> Iterator[StateSample]:
    """All that is told of an object of such a kind, each with all of its labels."""
    teller = TELLERS[obj.group_kind]
    named = {"cluster": obj.cluster, **teller.labels(obj)}
    for sample in teller.samples(obj):
        yield StateSample(sample.metric, sample.value, {**named, **sample.labels})
