"""What the dumps of all ranks say together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from trilens.model.verdict import Missing


class Reason(StrEnum):
    MISMATCHED_COLLECTIVE = "mismatched-collective"  # another operation in the same place
    MISMATCHED_ORDER = "mismatched-order"  # the same ones, in another order
    MISMATCHED_SHAPE = "mismatched-shape"
    MISMATCHED_DTYPE = "mismatched-dtype"
    NEVER_ENTERED = "never-entered"
    GPU_BEHIND = "gpu-behind"  # entered it, but its GPU has not come to it, or not to its end
    DID_NOT_DUMP = "did-not-dump"
    ALL_SAME = "all-same"  # all are in it, and it does not end
    NOTHING_PENDING = "nothing-pending"
    UNKNOWN = "unknown"


class Doing(NamedTuple):
    """What a culprit does instead, and where that is known from."""

    rank: int
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Step:
    """One deed of a group, over all of its ranks: matched or not."""

    group: str
    seq: int
    record: int
    name: str  # with the backend, as the dump has it
    fits: bool
    absent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FlightVerdict:
    reason: Reason
    culprits: tuple[int, ...]
    text: str
    confidence: float
    collective: str = ""
    sequence: int | None = None
    group: str = ""
    group_ranks: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()  # in that one
    since_ms: int | None = None  # when the first of them came to it
    timeout_ms: int | None = None
    chain: tuple[str, ...] = ()  # from what most ranks wait in to the root, where that is another group
    doing: tuple[Doing, ...] = ()
    fix: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # what else is wrong
    missing: tuple[Missing, ...] = ()
    ranks: int = 0  # that dumped
    world: int = 0

    @property
    def can_tell(self) -> bool:
        return self.confidence >= TELL_FROM and self.reason is not Reason.UNKNOWN
