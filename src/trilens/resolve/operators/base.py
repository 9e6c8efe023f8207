"""What every operator's file says: which objects are its jobs, where a pod sits in one, how it is going."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trilens.model.life import Phase
from trilens.resolve.reading import condition, section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.workload import Doubt, Step
    from trilens.resolve.objects import Link, Objects


@dataclass(frozen=True, slots=True)
class Seat:
    """A pod's place in its job. Owners fill it in from the pod upward: the outer one has the last word."""

    role: str = ""
    group: int | None = None
    rank: int | None = None
    attempt: int | None = None  # where the operator numbers its lives itself
    life: str = ""  # else: what all pods of one life have in common, such as a RayCluster's uid
    doubts: tuple[Doubt, ...] = ()


class Claim(NamedTuple):
    """What a pod's labels say it belongs to: for when the owner cannot be read, or there is none."""

    group_kind: GroupKind
    name: str
    uid: str = ""  # where the labels say that too


class Said(NamedTuple):
    """How the job is going, in its own object's words."""

    phase: Phase
    reason: str
    since_ms: int | None


class Operator:
    """The defaults are what most operators do."""

    kinds: ClassVar[tuple[GroupKind, ...]] = ()
    versions: ClassVar[frozenset[str]] = frozenset()  # the API versions that this was written for; empty: any
    # Nothing owns such an object, so that it cannot be read leaves no doubt about what is above it.
    is_outermost: ClassVar[bool] = False
    # A job is known before its first pod: it may wait in a queue for days.
    known_without_pods: ClassVar[bool] = True
    # A service runs while one of its pods does; a job only when all do.
    is_service: ClassVar[bool] = False
    # Where nothing owns an object of these kinds, the claim of its pods' labels counts as its owner. Other
    # claims only stand in for an owner that cannot be read.
    claims_above: ClassVar[frozenset[GroupKind]] = frozenset()

    def seat(self, pod: KubeObject, owner: Link, below: Seat, objects: Objects) -> Seat:
        return below

    def claim(self, pod: KubeObject) -> Claim | None:
        return None

    def said(self, job: KubeObject) -> Said | None:
        """The end, a suspension or a restart; None where only the pods can tell."""
        return said_by_conditions(job)

    def needs(self, job: KubeObject) -> Mapping[str, int]:
        """How many pods of a role the job cannot run without; roles that nobody can count are left out."""
        return {}

    def steps(self, job: KubeObject) -> tuple[Step, ...]:
        return ()


def said_by_conditions(job: KubeObject) -> Said | None:
    """Conditions as batch, JobSet and Kubeflow write them."""
    if (ended := condition(job, "Complete", "Completed", "Succeeded", "SuccessCriteriaMet")) is not None:
        return Said(Phase.SUCCEEDED, ended.reason or ended.type, ended.since_ms)
    if (ended := condition(job, "Failed", "FailureTarget")) is not None:
        return Said(Phase.FAILED, ended.reason or ended.type, ended.since_ms)
    if is_suspended(job):
        held = condition(job, "Suspended")
        return Said(Phase.SUSPENDED, held.reason if held else "suspended", held.since_ms if held else None)
    if (again := condition(job, "Restarting")) is not None:
        return Said(Phase.RESTARTING, again.reason or again.type, again.since_ms)
    return None


def is_suspended(job: KubeObject) -> bool:
    spec = section(job.body, "spec")
    return spec.get("suspend") is True or section(spec, "runPolicy").get("suspend") is True
