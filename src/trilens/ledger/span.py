"""A stretch of one holder's time on a GPU, and how much of it went into which bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.model.ledger import Basis, Bucket


class Part(NamedTuple):
    bucket: Bucket
    cause: str
    ms: int


@dataclass(frozen=True, slots=True)
class Span:
    """The parts add up to `to_ms - from_ms`, in whole milliseconds. Steps are too many to be told one by
    one: a span of a thousand of them has their data_wait, sync_wait and productive time as three parts."""

    from_ms: int
    to_ms: int
    parts: tuple[Part, ...]
    basis: Basis
    since_ms: int | None = None  # when what it shows began, maybe before this span
    step: int | None = None
    doubts: tuple[str, ...] = ()
