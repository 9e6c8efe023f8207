"""What is done to a cluster to mend something: the record of one deed, from the intent to what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping  # noqa: TC003 - read when a record is read back from disk
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

SERVER: Final = "server policy"  # who, where nobody told it to


class Deed(StrEnum):
    CORDON = "cordon"
    UNCORDON = "uncordon"
    EVICT = "evict"  # as its PodDisruptionBudgets allow
    DELETE_POD = "delete-pod"
    RESTART = "restart"  # a workload, through its own operator
    ANNOTATE = "annotate"


NODE_DEEDS: Final = frozenset({Deed.CORDON, Deed.UNCORDON})
POD_DEEDS: Final = frozenset({Deed.EVICT, Deed.DELETE_POD})


class FixState(StrEnum):
    DRY_RUN = "dry-run"  # shown, never kept
    WAITING = "waiting"  # for somebody to approve it
    BEGUN = "begun"  # the intent is on disk; whether it was done is not known yet
    DONE = "done"
    FAILED = "failed"  # `result` says why
    DROPPED = "dropped"  # not wanted any more


class FixTarget(NamedTuple):
    cluster: str
    group: str  # "" for what Kubernetes itself has
    kind: str
    namespace: str  # "" for a node
    name: str
    uid: str = ""  # of the very object that is meant, where it is known: another may have its name by now

    def __str__(self) -> str:
        where = f" of {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{where} ({self.cluster})"


@dataclass(frozen=True, slots=True)
class Fix:
    """Told again under the same id, it replaces what was told."""

    id: str
    t_ms: int  # when it was wanted
    deed: Deed
    target: FixTarget
    by: str  # who wanted it, or SERVER
    why: str  # for people
    source: str  # of the reason, for machines: "event NODE/ID", "finding ID", "verdict CAUSE"; "" without one
    state: FixState
    value: Mapping[str, str] = field(default_factory=dict)  # the annotations that it sets
    held_back: str = ""  # why the server did not do it by itself
    approved_by: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)  # of what it changes
    after: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    ended_ms: int | None = None
    undo_of: str = ""  # the id of what this one takes back
    undone_by: str = ""
    fault: str = ""  # the class of the fault upon which the server does it: "xid-79"

    @property
    def is_servers_own(self) -> bool:
        """Nobody told it to, and nobody waits for it."""
        return self.by == SERVER and not self.approved_by


def fix_id(*parts: object) -> str:
    """Short, and the same for the same reason: what was answered once is not answered again."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=5).hexdigest()
