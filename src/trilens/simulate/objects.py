"""The objects of a simulated cluster, as a Kubernetes API server holds them: lists, and what changed since.

Objects are plain JSON, and never changed in place: a change is a new dict, so that a list or a watch may keep
what it was given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KubeDict = dict[str, Any]


class Resource(NamedTuple):
    """A kind of object, and the path under which an API server serves it."""

    group: str  # "" for the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


RESOURCES: Final[tuple[Resource, ...]] = (
    Resource("", "v1", "nodes", "Node", namespaced=False),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "endpoints", "Endpoints"),
    Resource("", "v1", "events", "Event"),
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    ),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
    Resource("kubeflow.org", "v1", "notebooks", "Notebook"),
    Resource("ray.io", "v1", "rayclusters", "RayCluster"),
    Resource("ray.io", "v1", "rayjobs", "RayJob"),
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService"),
    Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
    Resource("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue"),
    Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta1", "resourceflavors", "ResourceFlavor", namespaced=False),
)
_BY_KIND: Final = {(one.api_version, one.kind): one for one in RESOURCES}
_BY_PATH: Final = {(one.group, one.plural): one for one in RESOURCES}


class Expired(Exception):
    """The log does not reach back that far: the API server's 410 Gone. List again."""


class Change(NamedTuple):
    resource_version: int
    type: str  # ADDED, MODIFIED, DELETED
    object: KubeDict  # of a deletion, the object as it last was, with the version of its deletion
    previous: KubeDict | None  # what it was before; who watches a selection must see it leave


@dataclass(slots=True)
class _Kept:
    """All objects of one resource, and their latest changes in order."""

    objects: dict[tuple[str, str], KubeDict] = field(default_factory=dict)  # by namespace and name
    log: list[Change] = field(default_factory=list)
    reaches_back_to: int = 0  # every change after this version is in the log


class ObjectTable:
    def __init__(self, log_limit: int = 10_000) -> None:
        """`log_limit`: how many changes of each resource are remembered, at least."""
        self._log_limit = log_limit
        self._kept: defaultdict[Resource, _Kept] = defaultdict(_Kept)
        self.resource_version = 1

    def put(self, obj: KubeDict) -> KubeDict:
        """Create or replace; returns the object as it is stored, with its resourceVersion."""
        resource = resource_of(obj)
        kept = self._kept[resource]
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        self.resource_version += 1
        stored = {**obj, "metadata": {**meta, "resourceVersion": str(self.resource_version)}}
        previous = kept.objects.get(key)
        self._note(kept, "ADDED" if previous is None else "MODIFIED", stored, previous)
        kept.objects[key] = stored
        return stored

    def delete(self, obj: KubeDict) -> None:
        """Does nothing where no such object is."""
        kept = self._kept[resource_of(obj)]
        gone = kept.objects.pop((obj["metadata"].get("namespace", ""), obj["metadata"]["name"]), None)
        if gone is None:
            return
        self.resource_version += 1
        meta = {**gone["metadata"], "resourceVersion": str(self.resource_version)}
        self._note(kept, "DELETED", {**gone, "metadata": meta}, gone)

    def get(self, group: str, plural: str, namespace: str, name: str) -> KubeDict | None:
        return self._kept[resource_named(group, plural)].objects.get((namespace, name))

    def current(self, obj: KubeDict) -> KubeDict | None:
        """The same object as it is now; None where it is gone, or another has taken its name."""
        meta = obj["metadata"]
        found = self._kept[resource_of(obj)].objects.get((meta.get("namespace", ""), meta["name"]))
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    def list(self, group: str, version: str, plural: str, namespace: str | None = None) -> Sequence[KubeDict]:
        """Raises KeyError for a resource that this cluster does not serve."""
        resource = resource_named(group, plural)
        if resource.version != version:
            raise KeyError((group, version, plural))
        objects = self._kept[resource].objects
        if namespace is None:
            return [*objects.values()]
        return [obj for (own, _), obj in objects.items() if own == namespace]

    def changes_since(self, resource_version: int, group: str, plural: str) -> Sequence[Change]:
        """What happened to this resource after that version, oldest first; raises Expired."""
        kept = self._kept[resource_named(group, plural)]
        if resource_version < kept.reaches_back_to:
            raise Expired(f"too old resource version: {resource_version} ({kept.reaches_back_to})")
        first = bisect_right(kept.log, resource_version, key=lambda change: change.resource_version)
        return kept.log[first:]

    def __iter__(self) -> Iterator[KubeDict]:
        for resource in RESOURCES:
            yield from self._kept[resource].objects.values()

    def _note(self, kept: _Kept, kind: str, obj: KubeDict, previous: KubeDict | None) -> None:
        kept.log.append(Change(self.resource_version, kind, obj, previous))
        if len(kept.log) > 2 * self._log_limit:
            forgotten = len(kept.log) - self._log_limit
            kept.reaches_back_to = kept.log[forgotten - 1].resource_version
            del kept.log[:forgotten]


def resource_of(obj: KubeDict) -> Resource:
    return _BY_KIND[obj["apiVersion"], obj["kind"]]


def resource_named(group: str, plural: str) -> Resource:
    return _BY_PATH[group, plural]
