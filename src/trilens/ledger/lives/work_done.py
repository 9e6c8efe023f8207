"""How much a run got done in a span of time: what its cost is divided by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.ledger.lives.lost_minutes import lost_minutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.model.ledger_facts import RankSteps, StepMinutes
    from trilens.model.run import RankProcess, RunId

_MINUTE_MS: Final = 60_000


class WorkDone(NamedTuple):
    """Without steps that were lost. `steps` are the run's, counted once and not for each rank; tokens and
    samples are of all ranks, None where no rank told any."""

    steps: int
    tokens: int | None
    samples: int | None


def work_done(
    minutes: StepMinutes, lost: Sequence[LostSteps], from_ms: int, to_ms: int
) -> dict[RunId, WorkDone]:
    """Of the steps that ended in the minutes from `from_ms` to `to_ms`: of each run those of its lowest rank,
    and of two programs that tell of one rank those of the first. Of a minute that was lost in part, tokens
    and samples count by the share of its steps."""
    is_asked = (minutes.minute >= from_ms // _MINUTE_MS) & (minutes.minute < -(-to_ms // _MINUTE_MS))
    counts = is_asked & ~_told_again(minutes)
    kept = minutes.steps - lost_minutes(minutes, lost).steps
    found: dict[RunId, WorkDone] = {}
    for number in np.unique(minutes.run[counts]).tolist():
        rows = _rows(minutes, number)
        rows = rows[counts[rows]]
        lowest = rows[minutes.rank[rows] == minutes.rank[rows].min()]
        found[minutes.runs[number]] = WorkDone(
            int(kept[lowest].sum()),
            _kept(minutes.tokens, minutes, kept, rows),
            _kept(minutes.samples, minutes, kept, rows),
        )
    return found


def plain_work(ranks: RankSteps) -> dict[RunId, WorkDone]:
    """The same of runs of which nothing was lost, and no rank was told of by two programs."""
    found: dict[RunId, WorkDone] = {}
    for number in np.unique(ranks.run).tolist():
        own = ranks.run == number
        lowest = own & (ranks.rank == ranks.rank[own].min())
        tokens, samples = (int(column[own].sum()) or None for column in (ranks.tokens, ranks.samples))
        found[ranks.runs[number]] = WorkDone(int(ranks.steps[lowest].sum()), tokens, samples)
    return found


def is_plain(lives: Iterable[RankProcess], lost: Iterable[LostSteps], from_ms: int, to_ms: int) -> bool:
    """Of the lives of one run, and what it lost."""
    ranks = [life.rank for life in lives if _is_within(life, from_ms, to_ms)]
    return len({*ranks}) == len(ranks) and not any(
        (one.since_ms or 0) < to_ms and one.lost_ms >= from_ms for one in lost
    )


def _is_within(life: RankProcess, from_ms: int, to_ms: int) -> bool:
    return life.started_ms < to_ms and (life.ended_ms is None or life.ended_ms > from_ms)


def _rows(minutes: StepMinutes, run: int) -> NDArray[np.int64]:
    """Rows are in the order of runs."""
    return np.arange(np.searchsorted(minutes.run, run), np.searchsorted(minutes.run, run, side="right"))


def _kept(
    column: NDArray[np.int64], minutes: StepMinutes, kept: NDArray[np.int64], rows: NDArray[np.int64]
) -> int | None:
    if not column[rows].any():
        return None
    steps = np.maximum(minutes.steps[rows], 1)
    whole, rest = column[rows] // steps, column[rows] % steps
    return int((whole * kept[rows] + rest * kept[rows] // steps).sum())


def _told_again(minutes: StepMinutes) -> NDArray[np.bool_]:
    """Minutes of a life in which an earlier one of the same rank had steps too, or before and after."""
    again = np.zeros(len(minutes), np.bool_)
    if not len(minutes):
        return again
    is_new_rank = np.ones(len(minutes), np.bool_)
    is_new_rank[1:] = (minutes.run[1:] != minutes.run[:-1]) | (minutes.rank[1:] != minutes.rank[:-1])
    is_new_life = is_new_rank.copy()
    is_new_life[1:] |= minutes.attempt[1:] != minutes.attempt[:-1]
    starts = np.flatnonzero(is_new_life)
    ends = np.append(starts[1:], len(minutes))
    told: list[tuple[int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if is_new_rank[start]:
            told = []
        own = minutes.minute[start:end]
        for first, last in told:
            again[start:end] |= (own > first) & (own < last)
        told.append((int(own[0]), int(own[-1])))
    return again
