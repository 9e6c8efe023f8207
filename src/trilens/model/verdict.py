"""Why something is wrong: the cause, how sure that is, the way to it, and what would make it surer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from trilens.model.finding import Subject

SURE_FROM: Final = 0.8  # from here on an answer is given as one
TELL_FROM: Final = 0.5  # below it, it is not: "cannot tell", with what would


NOBODY: Final = Subject()


class Layer(StrEnum):
    """Whose fault it is, and so who mends it."""

    PROGRAM = "program"  # the job's own code, settings or image
    DATA = "data"
    GPU = "gpu"
    FABRIC = "fabric"  # NVLink, InfiniBand, the network between ranks
    NODE = "node"
    PLATFORM = "platform"  # scheduler, queue, quota, device plugin, storage classes
    STORAGE = "storage"
    TELEMETRY = "telemetry"  # nothing is wrong but what is seen of it
    UNKNOWN = "unknown"


class Fact(NamedTuple):
    """One thing that was seen, and where: "event of pod train-0", "rank 3's log, line 812"."""

    text: str
    source: str
    t_ms: int | None = None  # None where it has no time


class Missing(NamedTuple):
    """What nobody told, and the change that would bring it."""

    what: str
    remedy: str


class Asked(NamedTuple):
    """One step of the way: a question, its answer, and what it rests on."""

    tree: str
    question: str  # its name in the tree
    text: str
    answer: str
    facts: tuple[Fact, ...] = ()
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    cause: str  # short and stable, for machines: "untolerated-taint"; "" where nothing was found
    layer: Layer
    text: str  # a sentence: what is the cause, where
    confidence: float
    fix: tuple[str, ...] = ()  # what to do, in this order
    subject: Subject = NOBODY  # whom it blames
    since_ms: int | None = None
    way: tuple[Asked, ...] = ()  # from the first question on
    missing: tuple[Missing, ...] = ()

    @property
    def is_sure(self) -> bool:
        return self.confidence >= SURE_FROM
