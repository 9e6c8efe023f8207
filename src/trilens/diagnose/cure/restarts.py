"""How a workload is restarted through its own operator, by a table. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trilens.diagnose.cure.change import FIX, Change, Json, at, read_at, section
from trilens.model.errors import RequestError
from trilens.model.fix import Deed
from trilens.model.packaged_yaml import packaged_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.fix import Fix, FixTarget

_TOUCHED: Final = "kubectl.kubernetes.io/restartedAt"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_SUSPENDED: Final = ("Suspended", "RayClusterSuspended")  # conditions
_ENDED: Final = ("Complete", "Completed", "Succeeded", "Failed")
_ENDED_PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")  # of a job of Volcano
_MOST_RETRIES: Final = 3  # Volcano's own, where the job names none
_RESTARTS: Final[Mapping[str, Mapping[str, Any]]] = packaged_yaml("trilens.diagnose.cure", "restarts.yml")


def restartable(kind: str) -> bool:
    """`Job.batch`: whether there is a way."""
    return not {"touch", "suspend", "command"}.isdisjoint(_RESTARTS.get(kind, ()))


def restart(fix: Fix, now: Json) -> Change:
    """`now` is the workload as it is. Raises RequestError where it cannot be done."""
    target = fix.target
    way = _RESTARTS.get(_kind(target), {"none": "Trilens does not know how its operator restarts it"})
    noted: Json = {"metadata": {"annotations": {FIX: fix.id}}}
    if "touch" in way:
        path = (*way["touch"], "metadata", "annotations", _TOUCHED)
        stamp = datetime.fromtimestamp(fix.t_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = {"restarted_at": read_at(now, path)}
        return Change({**noted, **at(path, stamp)}, before, {"restarted_at": stamp})
    if "none" in way:
        raise RequestError(f"{target} cannot be restarted through its operator", hint=way["none"])
    if _has_ended(now):
        raise RequestError(f"{target} has ended: there is nothing to restart", hint="submit it anew")
    if "command" in way:
        return Change(noted, {"retries": _retries(fix.target, now)}, {}, command=_command(fix, now, way))
    _check_suspendable(target, way, now)
    path = tuple(way["suspend"])
    suspended = {**noted, **at(path, True)}
    running = {"suspended": False}
    return Change(suspended, running, running, then=at(path, False), watched=path)


def resume_of(fix: Fix) -> tuple[tuple[str, ...], Json] | None:
    """Of a restart by suspension: the field, and the patch that lets it run again."""
    path = tuple(_RESTARTS.get(_kind(fix.target), {}).get("suspend", ()))
    return (path, at(path, False)) if fix.deed is Deed.RESTART and path else None


def says_suspended(now: Json) -> bool:
    """Whether its operator has noted it: nothing of it runs any more."""
    status = section(now, "status")
    if status.get("jobDeploymentStatus") == "Suspended" or status.get("state") == "suspended":
        return True
    return _has_condition(status, _SUSPENDED)


def _has_ended(now: Json) -> bool:
    status = section(now, "status")
    if status.get("jobDeploymentStatus") in _ENDED or section(status, "state").get("phase") in _ENDED_PHASES:
        return True
    return _has_condition(status, _ENDED)


def _has_condition(status: Json, kinds: tuple[str, ...]) -> bool:
    conditions = status.get("conditions")
    return any(
        isinstance(one, dict) and one.get("status") == "True" and one.get("type") in kinds
        for one in (conditions if isinstance(conditions, list) else ())
    )


def _check_suspendable(target: FixTarget, way: Mapping[str, Any], now: Json) -> None:
    if queue := section(section(now, "metadata"), "labels").get(_QUEUE):
        raise RequestError(
            f"{target} is in the queue {queue}: Kueue alone may suspend and resume it",
            hint="set spec.active of its Workload to false, and to true again",
        )
    if read_at(now, way["suspend"]):
        raise RequestError(f"{target} is suspended already: it does not run")
    for wanted in way.get("wants", ()):
        if bool(read_at(now, wanted["field"])) is not wanted["set"]:
            raise RequestError(f"{target} cannot be suspended: {wanted['why']}", hint="submit it anew")


def _retries(job: FixTarget, now: Json) -> int:
    """So many a job of Volcano has had. One more than it may have would not restart but end it."""
    had = section(now, "status").get("retryCount") or 0
    most = section(now, "spec").get("maxRetry") or _MOST_RETRIES
    if had + 1 >= most:
        raise RequestError(
            f"{job} has had {had} of {most} retries: Volcano would end it", hint="submit it anew"
        )
    return int(had)


def _command(fix: Fix, now: Json, way: Mapping[str, Any]) -> Json:
    """As `vcctl` makes them: of the job, and gone when it was carried out."""
    target, metadata = fix.target, section(now, "metadata")
    job = {
        "apiVersion": now.get("apiVersion") or f"{target.group}/v1alpha1",
        "kind": target.kind,
        "name": target.name,
        "uid": metadata.get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    named = {
        "name": f"{target.name}-{fix.id}",
        "namespace": target.namespace,
        "annotations": {FIX: fix.id},
        "ownerReferences": [job],
    }
    return {"kind": "Command", "metadata": named, "action": way["command"], "target": job}


def _kind(target: FixTarget) -> str:
    return f"{target.kind}.{target.group}" if target.group else target.kind
