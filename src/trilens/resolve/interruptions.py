"""Why a pod was taken away: preempted, evicted, or with its spot machine; and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.life import Phase
from trilens.resolve.reading import condition, conditions, items, section, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.events import Noted

# Set on a node when its cloud announces that it takes the machine back.
_SPOT_TAINTS = ("aws-node-termination-handler/spot-itn", "cloud.google.com/impending-node-termination")
_SPOT_CONDITIONS = ("PreemptScheduled",)  # AKS
_SPOT_EVENTS = ("SpotInterruption", "SpotInterrupted", "PreemptScheduled")  # AWS, Karpenter, AKS

_STATUS_REASONS = {
    "Evicted": Phase.EVICTED,
    "Preempting": Phase.PREEMPTED,
    "NodeShutdown": Phase.EVICTED,
    "Shutdown": Phase.EVICTED,
    "Terminated": Phase.EVICTED,  # graceful node shutdown
    "NodeLost": Phase.EVICTED,
}
_EVENT_REASONS = {
    "Preempted": Phase.PREEMPTED,
    "Evicted": Phase.EVICTED,
    "Evict": Phase.EVICTED,  # Volcano
    "TaintManagerEviction": Phase.EVICTED,
}


# Why a kubelet ends pods of its own accord though nothing is wrong with them or with it.
_SHUTDOWNS = frozenset({"NodeShutdown", "Shutdown", "Terminated", "Preempting"})
_BY_ITS_NODE = frozenset({"TerminationByKubelet", "DeletionByPodGC"})  # which wants for something, or is gone
_TOLD_TO_END = 143  # SIGTERM


def is_reclaimed(node: KubeObject, events: Mapping[str, Noted]) -> bool:
    """Whether the cloud has announced that it takes this node back."""
    taints = {text(taint, "key") for taint in items(section(node.body, "spec"), "taints")}
    return (
        not taints.isdisjoint(_SPOT_TAINTS)
        or any(found.holds and found.type in _SPOT_CONDITIONS for found in conditions(node))
        or any(reason in events for reason in _SPOT_EVENTS)
    )


def interruption(
    pod: KubeObject, events: Mapping[str, Noted], node_is_reclaimed: bool
) -> tuple[Phase, str, int | None] | None:
    """The phase, the reason and since when; None for a pod that nobody took away."""
    leaving = pod.deleted_ms is not None or text(section(pod.body, "status"), "phase") == "Failed"
    found: tuple[Phase, str, int | None] | None = None
    target = condition(pod, "DisruptionTarget")
    status_reason = text(section(pod.body, "status"), "reason")
    if target is not None:
        phase = Phase.PREEMPTED if target.reason == "PreemptionByScheduler" else Phase.EVICTED
        found = (phase, target.message or target.reason, target.since_ms)
    elif leaving and status_reason in _STATUS_REASONS:
        found = (_STATUS_REASONS[status_reason], status_reason, pod.deleted_ms)
    elif leaving:
        for reason, phase in _EVENT_REASONS.items():
            noted = events.get(reason)
            if noted is not None and not noted.message.startswith("Cancelling"):
                found = (phase, noted.message or reason, noted.at_ms)
                break
    if node_is_reclaimed and leaving and (found is None or found[0] is Phase.EVICTED):
        since_ms = found[2] if found is not None else pod.deleted_ms
        return Phase.SPOT_RECLAIMED, "the cloud took the node back", since_ms
    return found


def asked_to_go_ms(pod: KubeObject, ended_ms: int | None, exit_code: int | None) -> int | None:
    """Since when somebody wants a pod gone that ran: a drain, the scheduler, its queue, its controller, a
    person. None for one that nobody wants gone, that its node gave up, or that had ended by itself before."""
    target = condition(pod, "DisruptionTarget")
    status_reason = text(section(pod.body, "status"), "reason")
    if target is not None and target.reason in _BY_ITS_NODE and status_reason not in _SHUTDOWNS:
        return None
    told = (target.since_ms if target is not None else None, pod.deleted_ms)
    asked_ms = min((at for at in told if at is not None), default=None)
    if asked_ms is None or exit_code == _TOLD_TO_END:  # that says more than the clocks of two machines
        return asked_ms
    return asked_ms if ended_ms is None or asked_ms <= ended_ms else None
