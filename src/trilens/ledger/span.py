"""A stretch of one holder's time on a GPU, and how much of it went into which bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.allocation.amounts import parts_of

if TYPE_CHECKING:
    from trilens.model.ledger import Basis, Bucket


class Part(NamedTuple):
    bucket: Bucket
    cause: str
    ms: int


class Span(NamedTuple):
    """The parts add up to `to_ms - from_ms`, in whole milliseconds. Steps are too many to be told one by
    one: a span of a thousand of them has their data_wait, sync_wait and productive time as three parts."""

    from_ms: int
    to_ms: int
    parts: tuple[Part, ...]
    basis: Basis
    since_ms: int | None = None  # when what it shows began, maybe before this span
    step: int | None = None
    doubts: tuple[str, ...] = ()

    def within(self, from_ms: int, to_ms: int) -> Span:
        """The part of it that lies there, its parts in proportion."""
        if (from_ms, to_ms) == (self.from_ms, self.to_ms):
            return self
        ms = parts_of(to_ms - from_ms, [part.ms for part in self.parts])
        parts = tuple(part._replace(ms=own) for part, own in zip(self.parts, ms, strict=True) if own)
        return self._replace(from_ms=from_ms, to_ms=to_ms, parts=parts)
