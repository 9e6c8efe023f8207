"""What runs did in each hour, remembered as long as it stays as it is booked: steps are many to read."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.lives.work_done import WorkDone, work_done
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trilens.ledger.source import FactSource
    from trilens.model.ledger_sums import BookedHour
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId

_PIECE_MS: Final = 10 * 60_000  # of the hour that is open: the next one who asks reads only what is new
_SETTLED_MS: Final = 2 * 60_000  # until then ranks tell of their steps, in the ordinary course
_HOURS: Final = 8 * 24
_AT_ONCE: Final = 4  # that are read with nobody waiting


class _Piece(NamedTuple):
    """A part of an hour, as it was booked. `revision` is None while the hour is open."""

    from_ms: int
    to_ms: int
    revision: int | None


class WorkedHours:
    """Thread-safe. Work that a crash threw away is booked anew, and read anew then."""

    def __init__(self, facts: FactSource, now_ms: Callable[[], int]) -> None:
        self._facts = facts
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._known: dict[_Piece, Mapping[RunId, WorkDone]] = {}

    def done(
        self, spans: Iterable[tuple[int, int]], booked: Sequence[BookedHour], guard: QueryGuard | None
    ) -> dict[RunId, WorkDone]:
        """Within all of these spans, which lie in hours that are booked."""
        pieces = [piece for span in spans for piece in _pieces(*span, booked)]
        lacking = [piece for piece in pieces if piece not in self._known]
        read = dict(self._read(lacking, guard))
        self._keep(read)
        steps: defaultdict[RunId, int] = defaultdict(int)
        tokens: defaultdict[RunId, int | None] = defaultdict(lambda: None)
        samples: defaultdict[RunId, int | None] = defaultdict(lambda: None)
        for piece in pieces:
            for run, one in (read[piece] if piece in read else self._known[piece]).items():
                steps[run] += one.steps
                tokens[run] = _added(tokens[run], one.tokens)
                samples[run] = _added(samples[run], one.samples)
        return {run: WorkDone(count, tokens[run], samples[run]) for run, count in steps.items()}

    def prepare(self, hours: Iterable[int], booked: Sequence[BookedHour], guard: QueryGuard) -> None:
        """A few of these whole hours that are not known yet, the latest first."""
        pieces = [piece for hour in hours for piece in _pieces(hour, hour + HOUR_MS, booked)]
        for piece in [one for one in pieces if one not in self._known][: -_AT_ONCE - 1 : -1]:
            self._keep(dict(self._read([piece], guard)))

    def _read(
        self, lacking: Sequence[_Piece], guard: QueryGuard | None
    ) -> Iterator[tuple[_Piece, Mapping[RunId, WorkDone]]]:
        """Those that follow each other at once."""
        losses = KnownLosses(self._facts, self._now_ms())
        for first, end in _stretches(lacking):
            facts = self._facts.facts(lacking[first].from_ms, lacking[end - 1].to_ms, guard=guard)
            lost = losses.of(facts, guard=guard)
            for piece in lacking[first:end]:
                yield piece, work_done(facts.minutes, lost, piece.from_ms, piece.to_ms)

    def _keep(self, read: Mapping[_Piece, Mapping[RunId, WorkDone]]) -> None:
        settled_ms = self._now_ms() - _SETTLED_MS
        with self._lock:
            known = {**self._known, **{one: done for one, done in read.items() if one.to_ms <= settled_ms}}
            self._known = dict(sorted(known.items(), key=lambda one: one[0].from_ms)[-_HOURS:])


def _pieces(from_ms: int, to_ms: int, booked: Sequence[BookedHour]) -> Iterator[_Piece]:
    revisions = {one.hour_ms: one.revision for one in sorted(booked, key=lambda one: one.revision)}
    while from_ms < to_ms:
        hour_ms = from_ms // HOUR_MS * HOUR_MS
        is_whole = to_ms >= hour_ms + HOUR_MS
        end_ms = hour_ms + HOUR_MS if is_whole else from_ms // _PIECE_MS * _PIECE_MS + _PIECE_MS
        yield _Piece(from_ms, min(end_ms, to_ms), revisions.get(hour_ms) if is_whole else None)
        from_ms = min(end_ms, to_ms)


def _stretches(pieces: Sequence[_Piece]) -> Iterator[tuple[int, int]]:
    """Places of the first, and behind the last, of pieces without a gap."""
    first = 0
    for at, piece in enumerate(pieces):
        if at + 1 == len(pieces) or pieces[at + 1].from_ms != piece.to_ms:
            yield first, at + 1
            first = at + 1


def _added(one: int | None, other: int | None) -> int | None:
    """None where neither is known."""
    return other if one is None else one + (other or 0)
