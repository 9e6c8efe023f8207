"""The life of a workload, and membership in it, as intervals: last week's page must still be right."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# What is in annotations here is read when a bundle is read.
from trilens.model.workload import Membership, WorkloadKey  # noqa: TC001


class Phase(StrEnum):
    QUEUED = "queued"  # waits for quota or its turn
    ADMITTED = "admitted"  # has quota, has no pods yet
    SCHEDULING = "scheduling"  # its pods look for nodes
    PULLING = "pulling"  # images are on their way
    STARTING = "starting"  # containers are made, or do not answer yet
    RUNNING = "running"
    RESTARTING = "restarting"  # fell over, is being put up again
    SUSPENDED = "suspended"  # stopped on purpose
    PREEMPTED = "preempted"  # gave way to something more important
    EVICTED = "evicted"  # was sent away by its node, a drain or its queue
    SPOT_RECLAIMED = "spot-reclaimed"  # the cloud took the machine back
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def is_interruption(self) -> bool:
        return self in (Phase.PREEMPTED, Phase.EVICTED, Phase.SPOT_RECLAIMED)


@dataclass(frozen=True, slots=True)
class PhaseInterval:
    """`to_ms` is None while it lasts. Told with another end or reason, it replaces what was told before."""

    workload: WorkloadKey
    attempt: int
    phase: Phase
    reason: str
    from_ms: int
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MembershipInterval:
    """One pod in one place of a workload. (pod, from_ms) names it: told again, it replaces what was told."""

    membership: Membership
    node: str  # "" until it has one
    from_ms: int
    to_ms: int | None = None
