"""How far one pod has come, from its status and the events about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.model.life import Phase
from trilens.resolve.interruptions import interruption
from trilens.resolve.reading import conditions, items, section, text, time_ms, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.events import Noted

_PULL_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_TOPOLOGY_GATE = "kueue.x-k8s.io/topology"  # lifted after admission, once a place is chosen


class Stage(NamedTuple):
    phase: Phase
    reason: str
    since_ms: int | None
    is_up: bool = False  # its containers run, ready or not


class Milestones(NamedTuple):
    """When a pod reached what it has reached; None for not yet, or not told."""

    created_ms: int
    scheduled_ms: int | None
    pulling_ms: int | None
    pulled_ms: int | None
    running_ms: int | None


def stage_of(pod: KubeObject, events: Mapping[str, Noted], node_is_reclaimed: bool) -> Stage:
    status = section(pod.body, "status")
    if text(status, "phase") == "Succeeded":
        return Stage(Phase.SUCCEEDED, "Completed", finished_ms(pod))
    if (taken := interruption(pod, events, node_is_reclaimed)) is not None:
        return Stage(*taken)
    if text(status, "phase") == "Failed":
        return Stage(Phase.FAILED, _failure(pod), finished_ms(pod))
    if not text(section(pod.body, "spec"), "nodeName"):
        return _unscheduled(pod, events)
    return _on_its_node(pod, events)


def milestones_of(pod: KubeObject, events: Mapping[str, Noted]) -> Milestones:
    written = {found.type: found for found in conditions(pod)}
    scheduled = written.get("PodScheduled")
    ready = written.get("Ready")
    pulling, pulled = events.get("Pulling"), events.get("Pulled")
    if ready is not None and ready.holds:
        running_ms = ready.since_ms
    else:
        started = [at for container in _containers(pod) if (at := _ended_run_ms(container)) is not None]
        running_ms = max(started) if started else None
    return Milestones(
        pod.created_ms,
        scheduled.since_ms if scheduled is not None and scheduled.holds else None,
        pulling.at_ms if pulling is not None else None,
        pulled.at_ms if pulled is not None else None,
        running_ms,
    )


def is_over(pod: KubeObject) -> bool:
    return text(section(pod.body, "status"), "phase") in ("Succeeded", "Failed")


def started_ms(pod: KubeObject) -> int | None:
    """When the first of its containers did, as far back as their status reaches."""
    starts = [
        at
        for container in items(section(pod.body, "status"), "containerStatuses")
        for state in (
            section(container, "state", "running"),
            section(container, "state", "terminated"),
            section(container, "lastState", "terminated"),
        )
        if (at := time_ms(state.get("startedAt"))) is not None
    ]
    return min(starts, default=None)


def finished_ms(pod: KubeObject) -> int | None:
    """When the last of its containers ended; the node's clock says so."""
    ends = [
        at
        for container in _containers(pod)
        if (at := time_ms(section(container, "state", "terminated").get("finishedAt"))) is not None
    ]
    return max(ends) if ends else None


def clock_error_ms(pod: KubeObject, at_ms: int) -> int:
    """By how much the node's times lie before the pod was made, or after now: its clock is that wrong."""
    ready = next((found.since_ms for found in conditions(pod) if found.type == "Ready" and found.holds), None)
    times = [at for at in (ready, finished_ms(pod)) if at is not None]
    return max((max(pod.created_ms - at, at - at_ms) for at in times), default=0)


def _unscheduled(pod: KubeObject, events: Mapping[str, Noted]) -> Stage:
    gates = [text(gate, "name") for gate in items(section(pod.body, "spec"), "schedulingGates")]
    if any(gate != _TOPOLOGY_GATE for gate in gates):
        return Stage(Phase.QUEUED, f"held back by {', '.join(gates)}", pod.created_ms)
    if gates:
        return Stage(Phase.SCHEDULING, "waits for a place in the topology", pod.created_ms)
    for written in conditions(pod):
        if written.type == "PodScheduled" and not written.holds and (written.message or written.reason):
            return Stage(Phase.SCHEDULING, written.message or written.reason, pod.created_ms)
    failed = events.get("FailedScheduling")
    return Stage(Phase.SCHEDULING, failed.message if failed else "no node yet", pod.created_ms)


def _on_its_node(pod: KubeObject, events: Mapping[str, Noted]) -> Stage:
    containers = list(_containers(pod))
    for container in containers:
        if (restart := _restart(container)) is not None:
            return restart
    for container in containers:
        waiting = section(container, "state", "waiting")
        if (reason := text(waiting, "reason")) in _PULL_TROUBLE:
            return Stage(Phase.PULLING, f"{reason}: {text(waiting, 'message')}".rstrip(": "), None)
    ready = next((found for found in conditions(pod) if found.type == "Ready"), None)
    if ready is not None and ready.holds:
        return Stage(Phase.RUNNING, "", ready.since_ms, is_up=True)
    own = list(items(section(pod.body, "status"), "containerStatuses"))
    if own and all(section(container, "state", "running") for container in own):
        return Stage(Phase.STARTING, "not ready", None, is_up=True)
    scheduled_ms = milestones_of(pod, events).scheduled_ms
    pulling, pulled = events.get("Pulling"), events.get("Pulled")
    if pulling is not None and (pulled is None or pulled.at_ms < pulling.at_ms):
        return Stage(Phase.PULLING, pulling.message, pulling.at_ms)
    since_ms = pulled.at_ms if pulled is not None else scheduled_ms
    return Stage(Phase.STARTING, _waiting_reason(containers), since_ms)


def _restart(container: Mapping[str, Any]) -> Stage | None:
    """A container that waits after it had run."""
    waiting = section(container, "state", "waiting")
    last = section(container, "lastState", "terminated")
    if not waiting or not (last or text(waiting, "reason") == "CrashLoopBackOff"):
        return None
    why = [text(container, "name"), text(waiting, "reason"), _exit(last)]
    return Stage(Phase.RESTARTING, ", ".join(filter(None, why)), time_ms(last.get("finishedAt")))


def _failure(pod: KubeObject) -> str:
    status = section(pod.body, "status")
    for container in _containers(pod):
        ended = section(container, "state", "terminated")
        if ended and whole(ended.get("exitCode")) != 0:
            return ", ".join(filter(None, [text(container, "name"), _exit(ended)]))
    return text(status, "reason") or text(status, "message") or "Failed"


def _exit(ended: Mapping[str, Any]) -> str:
    reason = text(ended, "reason")
    code = whole(ended.get("exitCode"))
    return f"{reason} (exit code {code})" if reason and code is not None else reason


def _waiting_reason(containers: list[Mapping[str, Any]]) -> str:
    for container in containers:
        if reason := text(section(container, "state", "waiting"), "reason"):
            return reason
    return ""


def _ended_run_ms(container: Mapping[str, Any]) -> int | None:
    return time_ms(section(container, "state", "terminated").get("startedAt"))


def _containers(pod: KubeObject) -> Iterator[Mapping[str, Any]]:
    status = section(pod.body, "status")
    yield from items(status, "initContainerStatuses")
    yield from items(status, "containerStatuses")
