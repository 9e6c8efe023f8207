"""Objects of a cluster, a line of JSON each, as a watch tells them: read, resolved, made metrics of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from hypothesis import strategies as st

from bench.torture.fuzz.corpora import shared
from bench.torture.fuzz.json_values import bent
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.collect.kubernetes.catalogue import ALL
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.wire import Unreadable, decode
from trilens.model.kubernetes import GroupKind
from trilens.resolve.gpus.cluster_view import view_of
from trilens.resolve.kube_state.kinds import TELLERS, state_samples
from trilens.resolve.machines import machine_of
from trilens.resolve.operators import BY_KIND
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.workload import Workload

_KINDS: Final = {kind.group_kind: kind for kind in ALL}
_NODE: Final = GroupKind("", "Node")
_NOON: Final = "2026-01-14T12:00:00Z"
_NOON_MS: Final = 1_768_392_000_000
_MOST: Final = 20  # objects of an input

_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "namespace": "ml",
        "uid": "u-pod",
        "resourceVersion": "1",
        "creationTimestamp": _NOON,
        "labels": {"job-name": "train", "batch.kubernetes.io/job-completion-index": "0"},
        "annotations": {"kai.scheduler/gpu-group": "g", "volcano.sh/gpu-index": "0,1"},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-job", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "1Gi"}}}
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": _NOON,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _NOON}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 1,
                "state": {"running": {"startedAt": _NOON}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": _NOON}},
            }
        ],
    },
}
_JOB: Final[dict[str, Any]] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "ml",
        "uid": "u-job",
        "resourceVersion": "1",
        "creationTimestamp": _NOON,
    },
    "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 3},
    "status": {"active": 1, "startTime": _NOON},
}
_NODE_OBJECT: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "uid": "u-node",
        "resourceVersion": "1",
        "creationTimestamp": _NOON,
        "labels": {"nvidia.com/gpu.product": "H100", "karpenter.sh/capacity-type": "spot"},
    },
    "spec": {"providerID": "aws:///x/i-1", "taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _NOON}],
    },
}
_EVENT: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {
        "name": "e",
        "namespace": "ml",
        "uid": "u-event",
        "resourceVersion": "1",
        "creationTimestamp": _NOON,
    },
    "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "train-0", "uid": "u-pod"},
    "reason": "FailedScheduling",
    "message": "0/1 nodes are available",
    "type": "Warning",
    "count": 2,
    "lastTimestamp": _NOON,
}
_OBJECTS: Final = (_POD, _JOB, _NODE_OBJECT, _EVENT)


class _Nowhere:
    """An IntervalSink that keeps nothing."""

    def membership(self, interval: MembershipInterval) -> None:
        pass

    def phase(self, interval: PhaseInterval) -> None:
        pass

    def workload(self, record: Workload) -> None:
        pass


def _take(data: bytes) -> None:
    reader = ObjectReader("fuzz")
    topology = TopologySettings()
    resolver = ClusterResolver("fuzz", OwnershipSettings(), topology, _Nowhere())
    for kind in BY_KIND:
        resolver.synced(kind)
    refusal: Unreadable | None = None
    objects: list[KubeObject] = []
    for line in data.split(b"\n")[:_MOST]:
        try:
            told = decode(line, _Typed)
            group, _, version = told.api_version.rpartition("/")
            watched = _KINDS.get(GroupKind(group, told.kind))
            if watched is not None:
                objects.append(reader.read(watched, version, line))
        except Unreadable as e:  # one that cannot be read does not stop the others
            refusal = e
    for one in objects:
        resolver.changed(one)
        if one.group_kind in TELLERS:
            for _ in state_samples(one):
                pass
        if one.group_kind == _NODE:
            machine_of(one, topology)
    resolver.settle(_NOON_MS)
    resolver.settle(_NOON_MS + 100_000)
    view_of(resolver, is_settled=True)
    for one in objects:
        resolver.removed(one)
    resolver.settle(_NOON_MS + 200_000)
    if refusal is not None and not objects:
        raise refusal


class _Typed(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str


def _seeds() -> Iterator[bytes]:
    yield _lines(_OBJECTS)
    for text in shared("manifests/*/*.yaml"):
        documents = [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
        for at, one in enumerate(documents):
            known = {"uid": f"u-{at}", "resourceVersion": "1", "creationTimestamp": _NOON, "name": f"o-{at}"}
            one["metadata"] = {**known, **(one.get("metadata") or {})}
        yield _lines([*documents, _POD])


def _lines(objects: Any) -> bytes:
    return b"\n".join(json.dumps(one, default=str).encode() for one in objects)


def _large() -> Iterator[bytes]:
    spec, container = _POD["spec"], _POD["spec"]["containers"][0]
    meta = _POD["metadata"]
    named = [{**container, "name": f"c{number}"} for number in range(MANY // 5)]
    yield _lines([{**_POD, "spec": {**spec, "containers": named}}])
    yield _lines([{**_POD, "spec": {**spec, "containers": [container] * (MANY // 5)}}])
    labels = {f"l{number}": "v" for number in range(MANY)}
    yield _lines([{**_POD, "metadata": {**meta, "labels": labels, "annotations": labels}}])
    yield _lines([{**_POD, "metadata": {**meta, "ownerReferences": meta["ownerReferences"] * (MANY // 5)}}])
    digits = {"volcano.sh/gpu-index": "0," * MANY, "kai.scheduler/gpu-group": "9" * LARGE}
    yield _lines([{**_POD, "metadata": {**meta, "annotations": digits}}, _NODE_OBJECT])
    yield b"[" * LARGE


def _shaped() -> SearchStrategy[bytes]:
    return st.tuples(*(bent(one) for one in _OBJECTS)).map(_lines)


KUBERNETES: Final = Target(
    "kubernetes",
    "objects of a cluster: read, resolved, as metrics",
    _take,
    _seeds,
    _shaped,
    _large,
    (Unreadable,),
)
