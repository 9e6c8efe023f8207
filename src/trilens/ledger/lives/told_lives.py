"""The lives of ranks with what they told of their steps, as columns: what is not possible is left out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.ledger_facts import LifeKey, StepMinutes
from trilens.model.run import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.model.ledger_facts import Facts, LastStep
    from trilens.model.run import RankProcess, RunId

NEVER: Final = -1  # in place of a time in microseconds
_FOREVER_US: Final = 1 << 62
_NO_STEP: Final = (NEVER, NEVER, NEVER, NEVER)
_SLACK_US: Final = 60_000_000  # clocks of two machines may differ so much without having jumped


@dataclass(frozen=True, slots=True)
class ToldLives:
    """Times are microseconds. Rows of `minutes` are those of `life`, which rises; a life has them from
    `first_row` to before `end_row`.

    `before` is the end of the last step before the span of time, `after_start` and `after` begin and end of
    the first step that ended after it; NEVER where there is none. `from_us` to `to_us` is the life inside the
    span of time, `end_us` when it ended, which may be after that, or now where it has not (`is_over`).
    """

    keys: Sequence[LifeKey]
    processes: Sequence[RankProcess]
    runs: Mapping[RunId, int]
    run: NDArray[np.int64]
    started_us: NDArray[np.int64]
    from_us: NDArray[np.int64]
    to_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    is_over: NDArray[np.bool_]
    before: NDArray[np.int64]
    before_step: NDArray[np.int64]
    before_pace: NDArray[np.int64]
    after_start: NDArray[np.int64]
    after: NDArray[np.int64]
    after_pace: NDArray[np.int64]
    jumped: NDArray[np.bool_]
    minutes: StepMinutes
    life: NDArray[np.int64]
    row_run: NDArray[np.int64]
    first_row: NDArray[np.int64]
    end_row: NDArray[np.int64]
    begin_us: NDArray[np.int64]  # of each row: the end of the step before its first one, or its first's start

    @property
    def last_end(self) -> NDArray[np.int64]:
        """Of each life: when its last step ended that is known inside the span or before it."""
        return _last_end(self.minutes, self.first_row, self.end_row, self.before)


def told_lives(facts: Facts, now_ms: int) -> ToldLives:
    minutes, blocks = facts.minutes, np.flatnonzero(facts.minutes.begins_life)
    told = _keys(minutes, blocks)
    processes = {LifeKey(one.run, one.rank, one.attempt): one for one in facts.lives}
    # Those with steps first, in the order of their rows: so the number of a row's life rises.
    keys = [*(key for key in told if key in processes), *sorted(processes.keys() - set(told))]
    number = {key: at for at, key in enumerate(keys)}
    lengths = np.diff(np.append(blocks, len(minutes)))
    life = np.repeat(np.array([number.get(key, NEVER) for key in told], np.int64), lengths)
    of_life = [processes[key] for key in keys]
    started_us = _column(one.started_ms * 1000 for one in of_life)
    now_us = now_ms * 1000

    minutes, life, jumped = _possible(minutes, life, started_us, now_us)
    places = np.arange(len(keys))
    first_row, end_row = np.searchsorted(life, places), np.searchsorted(life, places, side="right")
    before = _steps_at(facts.earlier, keys, started_us, now_us)
    after = _steps_at(facts.later, keys, started_us, now_us)
    jumped[before.impossible + after.impossible] = True
    last_end = _last_end(minutes, first_row, end_row, before.end)
    end_us = _ends(keys, of_life, started_us, last_end, after.end)
    runs = {run: at for at, run in enumerate(dict.fromkeys([*minutes.runs, *(key.run for key in keys)]))}
    return ToldLives(
        keys=keys,
        processes=of_life,
        runs=runs,
        run=_column(runs[key.run] for key in keys),
        started_us=started_us,
        from_us=np.maximum(started_us, facts.from_ms * 1000),
        to_us=np.minimum(end_us, min(facts.to_ms * 1000, now_us)),
        end_us=np.minimum(end_us, now_us),
        is_over=end_us <= now_us,
        before=before.end,
        before_step=before.step,
        before_pace=before.pace,
        after_start=after.start,
        after=np.where(after.end > end_us, NEVER, after.end),
        after_pace=after.pace,
        jumped=jumped,
        minutes=minutes,
        life=life,
        row_run=minutes.run.astype(np.int64),  # which `runs` numbers alike
        first_row=first_row,
        end_row=end_row,
        begin_us=_begins(minutes, life, before.end, started_us),
    )


def _keys(minutes: StepMinutes, rows: NDArray[np.int64]) -> list[LifeKey]:
    columns = (column[rows].tolist() for column in (minutes.run, minutes.rank, minutes.attempt))
    return [LifeKey(minutes.runs[run], rank, attempt) for run, rank, attempt in zip(*columns, strict=True)]


def _column(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, np.int64)


def _possible(
    minutes: StepMinutes, life: NDArray[np.int64], started_us: NDArray[np.int64], now_us: int
) -> tuple[StepMinutes, NDArray[np.int64], NDArray[np.bool_]]:
    """Without steps of nobody, in the future, before their process, or that end before they begin. Which
    lives told any of these comes with it."""
    jumped = np.zeros(len(started_us), np.bool_)
    if not len(minutes) or not len(started_us):
        return minutes.picked(np.zeros(len(minutes), np.bool_)), life[:0], jumped
    is_off = (
        (minutes.first_end_us > now_us + _SLACK_US)
        | (minutes.last_end_us < started_us[life] - _SLACK_US)
        | (minutes.first_start_us > minutes.first_end_us)
        | (minutes.first_end_us > minutes.last_end_us)
    )
    is_known = life >= 0
    jumped[life[is_off & is_known]] = True
    counts = is_known & ~is_off
    return (minutes, life, jumped) if counts.all() else (minutes.picked(counts), life[counts], jumped)


@dataclass(frozen=True, slots=True)
class _Steps:
    step: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    pace: NDArray[np.int64]
    impossible: list[int]  # lives of which it is left out


def _steps_at(
    known: Mapping[LifeKey, LastStep], keys: Sequence[LifeKey], started_us: NDArray[np.int64], now_us: int
) -> _Steps:
    rows, impossible = [], []
    for at, (key, start_us) in enumerate(zip(keys, started_us.tolist(), strict=True)):
        one = known.get(key)
        if one is None:
            rows.append(_NO_STEP)
        elif start_us - _SLACK_US <= one.end_us <= now_us + _SLACK_US:
            pace_us = one.pace_us if one.pace_us is not None else max(one.end_us - one.start_us, 0)
            rows.append((one.step, min(one.start_us, one.end_us), one.end_us, pace_us))
        else:
            rows.append(_NO_STEP)
            impossible.append(at)
    step, start, end, pace = np.array(rows, np.int64).reshape(-1, 4).T
    return _Steps(step, start, end, pace, impossible)


def _last_end(
    minutes: StepMinutes, first: NDArray[np.int64], end: NDArray[np.int64], before: NDArray[np.int64]
) -> NDArray[np.int64]:
    last = before.copy()
    has_rows = end > first
    last[has_rows] = minutes.last_end_us[end[has_rows] - 1]
    return last


def _ends(
    keys: Sequence[LifeKey],
    processes: Sequence[RankProcess],
    started_us: NDArray[np.int64],
    last_end: NDArray[np.int64],
    after: NDArray[np.int64],
) -> NDArray[np.int64]:
    """When each life ended. One that fell silent has lived at least until its last step ended; one of which
    nobody says so is over when another life of its rank begins, unless it tells of steps after that."""
    last_us = np.maximum(last_end, after)
    told_us = _column(NEVER if one.ended_ms is None else one.ended_ms * 1000 for one in processes)
    is_lost = np.fromiter((one.ending is Ending.LOST for one in processes), np.bool_)
    ends = np.where(is_lost, np.maximum(told_us, last_us), told_us)
    ends[told_us < 0] = _FOREVER_US
    of_rank: dict[tuple[RunId, int], list[int]] = {}
    for at, key in enumerate(keys):
        of_rank.setdefault((key.run, key.rank), []).append(at)
    for lives in of_rank.values():
        in_order = sorted(lives, key=lambda at: keys[at].attempt) if len(lives) > 1 else ()
        for at, follower in pairwise(in_order):
            if told_us[at] < 0:
                ends[at] = max(int(started_us[follower]), int(last_us[at]))
    return ends


def _begins(
    minutes: StepMinutes,
    life: NDArray[np.int64],
    before: NDArray[np.int64],
    started_us: NDArray[np.int64],
) -> NDArray[np.int64]:
    if not len(life):
        return np.zeros(0, np.int64)
    begin = np.empty(len(life), np.int64)
    begin[1:] = minutes.last_end_us[:-1]
    is_first = np.ones(len(life), np.bool_)
    is_first[1:] = life[1:] != life[:-1]
    of_first = life[is_first]
    begin[is_first] = np.where(
        before[of_first] >= 0,
        before[of_first],
        np.maximum(minutes.first_start_us[is_first], started_us[of_first]),
    )
    return np.minimum(begin, minutes.first_end_us)
