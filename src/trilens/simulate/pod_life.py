"""What the scheduler and the kubelet write into a pod's status, from Pending to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.simulate.cluster import condition, with_condition

if TYPE_CHECKING:
    from trilens.simulate.objects import KubeDict


def created() -> KubeDict:
    return {"phase": "Pending", "qosClass": "Burstable"}


def unschedulable(status: KubeDict, at: str, message: str) -> KubeDict:
    found = condition("PodScheduled", "Unschedulable", at, message, holds=False)
    return {**status, "conditions": with_condition(status, found)}


def scheduled(at: str, container: str, image: str) -> KubeDict:
    conditions = [
        condition("PodScheduled", "", at),
        condition("Initialized", "", at),
        condition("ContainersReady", "ContainersNotReady", at, holds=False),
        condition("Ready", "ContainersNotReady", at, holds=False),
    ]
    status = {"phase": "Pending", "qosClass": "Burstable", "conditions": conditions, "startTime": at}
    return waiting(status, container, image, "ContainerCreating")


def waiting(status: KubeDict, container: str, image: str, reason: str, message: str = "") -> KubeDict:
    state: KubeDict = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {**status, "containerStatuses": [_container(status, container, image, state)]}


def running(status: KubeDict, at: str, container: str, image: str, ip: str) -> KubeDict:
    ready = {**status, "conditions": with_condition(status, condition("ContainersReady", "", at))}
    conditions = with_condition(ready, condition("Ready", "", at))
    entry = _container(status, container, image, {"running": {"startedAt": at}}, ready=True)
    return {
        **status,
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": conditions,
        "containerStatuses": [entry],
    }


def ended(status: KubeDict, at: str, reason: str, exit_code: int) -> KubeDict:
    """All containers have ended, and none starts again."""
    phase = "Succeeded" if exit_code == 0 else "Failed"
    why = "PodCompleted" if exit_code == 0 else "PodFailed"
    entry = _terminated(status, at, reason, exit_code)
    not_ready = {
        **status,
        "conditions": with_condition(status, condition("ContainersReady", why, at, holds=False)),
    }
    conditions = with_condition(not_ready, condition("Ready", why, at, holds=False))
    return {**status, "phase": phase, "conditions": conditions, "containerStatuses": [entry] if entry else []}


def crashed(status: KubeDict, at: str, reason: str, exit_code: int) -> KubeDict:
    """The container has ended and waits to be started again."""
    entry = _terminated(status, at, reason, exit_code)
    name = entry["name"]
    message = f"back-off 10s restarting failed container={name}"
    entry = {
        **entry,
        "restartCount": entry["restartCount"] + 1,
        "lastState": entry["state"],
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
    }
    why = condition(
        "Ready", "ContainersNotReady", at, f"containers with unready status: [{name}]", holds=False
    )
    return {**status, "conditions": with_condition(status, why), "containerStatuses": [entry]}


def readiness(status: KubeDict, at: str, *, ready: bool) -> KubeDict:
    found = condition("Ready", "" if ready else "NodeNotReady", at, holds=ready)
    return {**status, "conditions": with_condition(status, found)}


def disrupted(status: KubeDict, at: str, reason: str, message: str) -> KubeDict:
    found = condition("DisruptionTarget", reason, at, message)
    return {**status, "conditions": with_condition(status, found)}


def _terminated(status: KubeDict, at: str, reason: str, exit_code: int) -> KubeDict:
    statuses = status.get("containerStatuses")
    if not statuses:
        return {}
    entry = statuses[0]
    started = entry["state"].get("running", {}).get("startedAt", at)
    told = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": at}
    return {**entry, "ready": False, "started": False, "state": {"terminated": told}}


def _container(status: KubeDict, name: str, image: str, state: KubeDict, *, ready: bool = False) -> KubeDict:
    before: KubeDict = next(iter(status.get("containerStatuses", ())), {})
    return {
        "name": name,
        "image": image,
        "imageID": f"{image}@sha256:0" if ready else "",
        "ready": ready,
        "started": ready,
        "restartCount": before.get("restartCount", 0),
        "state": state,
        "lastState": before.get("lastState", {}),
    }
