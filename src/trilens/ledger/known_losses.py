"""Lost work of the runs that a span of time tells of.

A run is asked about anew only when something of it changed: a life that began or ended, a way back, a
checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.due_hours import hour_of
from trilens.ledger.lives.lost_work import lost_steps
from trilens.model.ledger import HOUR_MS
from trilens.model.run import Ending

if TYPE_CHECKING:
    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.source import FactSource
    from trilens.model.ledger_facts import Facts, RunHistory
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId

_MOST_RUNS: Final = 20_000
_TO_A_STEP_MS: Final = HOUR_MS  # what a life takes to its first step: only that tells what was lost


class _Known(NamedTuple):
    seen: tuple[object, ...]  # what would differ if something had changed
    lost: tuple[LostSteps, ...]


class KnownLosses:
    """Not thread-safe."""

    def __init__(self, source: FactSource, since_ms: int) -> None:
        """What was lost before `since_ms` is booked already."""
        self._source = source
        self._since_ms = since_ms
        self._known: dict[RunId, _Known] = {}
        self._news: set[int] = set()

    def of(self, facts: Facts, *, guard: QueryGuard | None = None) -> list[LostSteps]:
        lives: defaultdict[RunId, list[tuple[object, ...]]] = defaultdict(list)
        crashed: set[RunId] = set()
        for life in facts.lives:
            lives[life.run].append((life.rank, life.attempt, life.ended_ms))
            if life.ending not in (None, Ending.FINISHED):
                crashed.add(life.run)
        ways = self._source.repeating(list(lives), guard=guard) if lives else {}
        saved = _checkpoints(facts)
        seen: dict[RunId, tuple[object, ...]] = {
            run: (ways.get(run), saved.get(run), tuple(sorted(lives[run], key=repr)))
            for run in sorted(crashed | ways.keys())
        }
        known = {run: self._known[run] for run in seen if run in self._known}
        changed = [run for run in seen if run not in known or known[run].seen != seen[run]]
        histories = self._source.histories(changed, guard=guard) if changed else {}
        for run in changed:
            known[run] = self._learn(run, seen[run], histories[run])
        return [one for run in seen for one in known[run].lost]

    def news(self) -> set[int]:
        """Hours whose steps have been found lost since this was last asked."""
        news, self._news = self._news, set()
        return news

    def _learn(self, run: RunId, seen: tuple[object, ...], history: RunHistory) -> _Known:
        lost, before = tuple(lost_steps(history)), self._known.get(run)
        if before is not None:
            changed = set(lost) ^ set(before.lost)
        elif any(life.started_ms >= self._since_ms - _TO_A_STEP_MS for life in history.processes):
            changed = set(lost)  # a life that goes back further makes more of what was before it lost
        else:
            changed = {one for one in lost if one.lost_ms >= self._since_ms}
        for one in changed:
            self._news.update(_hours_of(one))
        while len(self._known) >= _MOST_RUNS:
            del self._known[next(iter(self._known))]
        known = self._known[run] = _Known(seen, lost)
        return known


def _checkpoints(facts: Facts) -> dict[RunId, int]:
    counts: defaultdict[RunId, int] = defaultdict(int)
    for one in facts.checkpoints:
        counts[one.run] += 1
    return counts


def _hours_of(lost: LostSteps) -> range:
    since_ms = lost.since_ms if lost.since_ms is not None else lost.lost_ms
    return range(hour_of(since_ms), lost.lost_ms + 1, HOUR_MS)
