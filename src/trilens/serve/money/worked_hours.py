"""What runs did in each hour, remembered as long as it stays as it is booked: steps are many to read."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.lives.work_done import WorkDone, is_plain, plain_work, work_done
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.source import FactSource
    from trilens.model.ledger_facts import Facts
    from trilens.model.ledger_sums import BookedHour
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunId

_PIECE_MS: Final = 10 * 60_000  # of the hour that is open: the next one who asks reads only what is new
_SETTLED_MS: Final = 2 * 60_000  # until then ranks tell of their steps, in the ordinary course
_AGAIN_MS: Final = 90_000  # the hour is booked every minute, and what is open of it read anew then
_PIECES: Final = 8 * 24 + 12
_AT_ONCE: Final = 12  # that are read with nobody waiting


class _Piece(NamedTuple):
    """A part of an hour, as it was booked. `revision` is None while the hour is open."""

    from_ms: int
    to_ms: int
    revision: int | None


class _Done(NamedTuple):
    """Ranks may tell more of it: it is read anew after `until_ms`, None where nothing is to come."""

    of: Mapping[RunId, WorkDone]
    until_ms: int | None


class WorkedHours:
    """Thread-safe. Work that a crash threw away is booked anew, and read anew then."""

    def __init__(self, facts: FactSource, now_ms: Callable[[], int]) -> None:
        self._facts = facts
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._at_work = threading.Lock()
        self._losses = KnownLosses(facts, now_ms())
        self._known: dict[_Piece, _Done] = {}

    def done(
        self,
        spans: Iterable[tuple[int, int]],
        booked: Sequence[BookedHour],
        guard: QueryGuard | None,
        *,
        anew: bool = False,
    ) -> dict[RunId, WorkDone]:
        """Within all of these spans, which lie in hours that are booked. With `anew`, all that ranks may have
        told more of is read once more."""
        pieces = [piece for span in spans for piece in _pieces(*span, booked)]
        with self._at_work:  # who comes meanwhile waits for the same
            known = self._known_now()
            lacking = [
                one for one in pieces if one not in known or (anew and known[one].until_ms is not None)
            ]
            known |= self._keep(dict(self._read(lacking, guard)))
        steps: defaultdict[RunId, int] = defaultdict(int)
        tokens: defaultdict[RunId, int | None] = defaultdict(lambda: None)
        samples: defaultdict[RunId, int | None] = defaultdict(lambda: None)
        for piece in pieces:
            for run, one in known[piece].of.items():
                steps[run] += one.steps
                tokens[run] = _added(tokens[run], one.tokens)
                samples[run] = _added(samples[run], one.samples)
        return {run: WorkDone(count, tokens[run], samples[run]) for run, count in steps.items()}

    def prepare(self, hours: Iterable[int], booked: Sequence[BookedHour], guard: QueryGuard) -> None:
        """A few of these whole hours that are not known yet, the latest first."""
        pieces = [piece for hour in hours for piece in _pieces(hour, hour + HOUR_MS, booked)]
        known = self._known_now()
        for piece in [one for one in pieces if one not in known][: -_AT_ONCE - 1 : -1]:
            with self._at_work:
                self._keep(dict(self._read([piece], guard)))

    def _read(
        self, lacking: Sequence[_Piece], guard: QueryGuard | None
    ) -> Iterator[tuple[_Piece, Mapping[RunId, WorkDone]]]:
        """Who lived and what was lost is asked once for those that follow each other."""
        for first, end in _stretches(lacking):
            told = self._facts.programs(lacking[first].from_ms, lacking[end - 1].to_ms, guard=guard)
            lost = self._losses.of(told, guard=guard)
            for piece in lacking[first:end]:
                yield piece, self._work(told, lost, piece, guard)

    def _work(
        self, told: Facts, lost: Sequence[LostSteps], piece: _Piece, guard: QueryGuard | None
    ) -> dict[RunId, WorkDone]:
        """By the minute only where lives have to be told apart, or steps that were lost."""
        from_ms, to_ms, _ = piece
        lives: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
        losses: defaultdict[RunId, list[LostSteps]] = defaultdict(list)
        for life in told.lives:
            lives[life.run].append(life)
        for one in lost:
            losses[one.run].append(one)
        by_rank: list[RankProcess] = []
        by_minute: list[RankProcess] = []
        for run, of_run in lives.items():
            (by_rank if is_plain(of_run, losses[run], from_ms, to_ms) else by_minute).extend(of_run)
        done = plain_work(self._facts.rank_steps(by_rank, from_ms, to_ms, guard=guard))
        if by_minute:
            minutes = self._facts.step_minutes(by_minute, from_ms, to_ms, guard=guard)
            done |= work_done(minutes, lost, from_ms, to_ms)
        return done

    def _known_now(self) -> dict[_Piece, _Done]:
        now_ms = self._now_ms()
        return {
            piece: done
            for piece, done in self._known.items()
            if done.until_ms is None or now_ms < done.until_ms
        }

    def _keep(self, read: Mapping[_Piece, Mapping[RunId, WorkDone]]) -> dict[_Piece, _Done]:
        now_ms = self._now_ms()
        news = {
            piece: _Done(done, None if piece.to_ms <= now_ms - _SETTLED_MS else now_ms + _AGAIN_MS)
            for piece, done in read.items()
        }
        with self._lock:
            known = self._known_now() | news
            self._known = dict(sorted(known.items(), key=lambda one: one[0].from_ms)[-_PIECES:])
        return news


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
