"""Which kinds are asked of a cluster for a case: whole, since nobody knows beforehand what will tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trilens.collect.kubernetes.catalogue import ALL
from trilens.collect.kubernetes.mask import read_mask
from trilens.collect.kubernetes.watched_kind import WatchedKind, watched
from trilens.model.kubernetes import GroupKind

POD: Final = GroupKind("", "Pod")
NODE: Final = GroupKind("", "Node")
EVENT: Final = GroupKind("", "Event")
NAMESPACE: Final = GroupKind("", "Namespace")
DAEMON_SET: Final = GroupKind("apps", "DaemonSet")
SERVICE: Final = GroupKind("", "Service")
QUOTA: Final = GroupKind("", "ResourceQuota")
VOLUME_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
RESOURCE_CLAIM: Final = GroupKind("resource.k8s.io", "ResourceClaim")
RUNTIME_CLASS: Final = GroupKind("node.k8s.io", "RuntimeClass")
QUEUED: Final = GroupKind("kueue.x-k8s.io", "Workload")
LOCAL_QUEUE: Final = GroupKind("kueue.x-k8s.io", "LocalQueue")
CLUSTER_QUEUE: Final = GroupKind("kueue.x-k8s.io", "ClusterQueue")
MONITORS: Final = tuple(
    GroupKind("monitoring.coreos.com", kind) for kind in ("ServiceMonitor", "PodMonitor", "Prometheus")
)
POD_GROUPS: Final = tuple(
    GroupKind(group, "PodGroup")
    for group in ("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.run.ai")
)

_WHOLE: Final = "*"
_CUT: Final = (NODE,)  # most of a node are the images that it has


def _asked(kind: WatchedKind) -> WatchedKind:
    return kind if kind.group_kind in _CUT else replace(kind, mask=read_mask(_WHOLE), refine=None)


# Those that nobody follows unless told to: they are read when somebody asks.
ONLY_ASKED: Final = (
    watched("", "Service", "services", _WHOLE, version="v1"),
    watched("node.k8s.io", "RuntimeClass", "runtimeclasses", _WHOLE, namespaced=False),
    watched("scheduling.x-k8s.io", "PodGroup", "podgroups", _WHOLE, by_operator=True),
    watched("scheduling.run.ai", "PodGroup", "podgroups", _WHOLE, by_operator=True),
)
CASE_KINDS: Final = (*(_asked(kind) for kind in ALL if not kind.on_request), *ONLY_ASKED)
KNOWN: Final = frozenset(kind.group_kind for kind in CASE_KINDS)
