"""A cluster as it is at this moment, for whoever watches over its jobs: workloads, pods and nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.interruptions import asked_to_go_ms
from trilens.resolve.reading import conditions, items, section, text, time_ms, whole
from trilens.resolve.stages import finished_ms
from trilens.resolve.topology import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import PhaseInterval
    from trilens.model.workload import PodKey, Workload, WorkloadKey
    from trilens.resolve.local import LocalResolver
    from trilens.resolve.resolver import ClusterResolver
    from trilens.resolve.topology import Place


class PodState(NamedTuple):
    pod: PodKey
    node: str
    state: str  # Pending, Running, Succeeded, Failed, Unknown; Gone, unless it had failed before it went
    reason: str  # why it ended, or its container did the last time
    exit_code: int | None
    restarts: int
    changed_ms: int | None
    wants_gpu: bool
    created_ms: int | None = None
    asked_to_go_ms: int | None = None  # since when somebody wants it gone that ran: a drain, its queue, ...
    gone_ms: int | None = None


class NodeState(NamedTuple):
    cluster: str
    node: str
    is_ready: bool | None
    place: Place


class WorkloadState(NamedTuple):
    record: Workload
    phase: PhaseInterval | None
    pods: tuple[PodState, ...]
    departed: tuple[PodState, ...] = ()  # that were its pods some minutes ago


class ClusterState(NamedTuple):
    cluster: str
    workloads: tuple[WorkloadState, ...]
    nodes: tuple[NodeState, ...]


class Present:
    """Reads each state of a pod or node once. Not thread-safe."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[KubeObject, PodState]] = {}
        self._nodes: dict[str, tuple[KubeObject, NodeState]] = {}

    def of(self, resolver: ClusterResolver) -> ClusterState:
        seen: dict[str, tuple[KubeObject, PodState]] = {}
        workloads = tuple(
            WorkloadState(
                record,
                resolver.phase(key),
                tuple(self._pod(pod, member.pod, seen) for pod, member in resolver.members(key)),
                tuple(self._pod(one.pod, one.key, seen, one.at_ms) for one in resolver.departed(key)),
            )
            for key, record in resolver.workloads().items()
        )
        self._pods = seen
        nodes: dict[str, tuple[KubeObject, NodeState]] = {}
        for node in resolver.nodes():
            known = self._nodes.get(node.name)
            if known is None or known[0] is not node:
                place = place_of(node, resolver.topology)
                known = (node, NodeState(node.cluster, node.name, _is_ready(node), place))
            nodes[node.name] = known
        self._nodes = nodes
        return ClusterState(resolver.cluster, workloads, tuple(state for _, state in nodes.values()))

    def _pod(
        self,
        pod: KubeObject,
        key: PodKey,
        seen: dict[str, tuple[KubeObject, PodState]],
        gone_ms: int | None = None,
    ) -> PodState:
        known = self._pods.get(pod.uid)
        if known is None or known[0] is not pod or known[1].gone_ms != gone_ms:
            known = (pod, pod_state(pod, key, gone_ms))
        seen[pod.uid] = known
        return known[1]


def local_state(cluster: str, resolver: LocalResolver) -> ClusterState:
    """Of machines without Kubernetes: a process stands where a pod does, and runs while it is there."""
    pods: defaultdict[WorkloadKey, list[PodState]] = defaultdict(list)
    for key, interval in resolver.members().items():
        state = PodState(key, interval.node, "Running", "", None, 0, interval.from_ms, wants_gpu=True)
        pods[interval.membership.workload].append(state)
    return ClusterState(
        cluster,
        tuple(
            WorkloadState(record, resolver.phase(key), tuple(pods.get(key, ())))
            for key, record in resolver.workloads().items()
        ),
        (),
    )


def pod_state(pod: KubeObject, key: PodKey, gone_ms: int | None = None) -> PodState:
    """`gone_ms`: when it was gone, of one that is."""
    status = section(pod.body, "status")
    state = text(status, "phase") or "Unknown"
    own = list(items(status, "containerStatuses"))
    ended = _ended(own) or {}
    exit_code = whole(ended.get("exitCode"))
    ended_ms = finished_ms(pod) if state in ("Succeeded", "Failed") else None
    changed_ms = ended_ms if state in ("Succeeded", "Failed") else _since_ms(pod)
    asked_ms = asked_to_go_ms(pod, ended_ms, exit_code)
    if gone_ms is not None and not (state == "Failed" and asked_ms is None):
        # Nobody leaves who was not deleted; of one that was quick about it no more may be known.
        asked_ms = asked_ms if asked_ms is not None or state == "Succeeded" else gone_ms
        state, changed_ms = "Gone", gone_ms
    return PodState(
        key,
        text(section(pod.body, "spec"), "nodeName"),
        state,
        text(status, "reason") or text(ended, "reason"),
        exit_code,
        sum(whole(one.get("restartCount")) or 0 for one in own),
        changed_ms,
        wants_accelerator(pod),
        pod.created_ms,
        asked_ms,
        gone_ms,
    )


def _ended(containers: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """How the first container ended that did not end well; else how one ended before it was started again."""
    now = [section(one, "state", "terminated") for one in containers]
    before = [section(one, "lastState", "terminated") for one in containers]
    for told in (*_bad(now), *_bad(before), *(one for one in now if one)):
        return told
    return None


def _bad(told: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (one for one in told if one and whole(one.get("exitCode")) != 0)


def _since_ms(pod: KubeObject) -> int | None:
    ready = next((found.since_ms for found in conditions(pod) if found.type == "Ready"), None)
    return ready if ready is not None else time_ms(section(pod.body, "status").get("startTime"))


def _is_ready(node: KubeObject) -> bool | None:
    """None where nobody has said so yet."""
    return next((found.holds for found in conditions(node) if found.type == "Ready"), None)
