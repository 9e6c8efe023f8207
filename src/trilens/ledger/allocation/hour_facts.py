"""The facts of one hour out of those of a longer time: it comes out the same, whatever it was read with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.ledger_facts import LastStep, LifeKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import Signals
    from trilens.model.ledger_facts import Facts, StepMinutes
    from trilens.model.run import RankProcess

BEFORE_MS: Final = 3_600_000
SOON_MS: Final = 3_600_000  # what starts for longer than this is not starting, but idle


class _Lasting(Protocol):
    @property
    def from_ms(self) -> int: ...

    @property
    def to_ms(self) -> int | None: ...


_Interval = TypeVar("_Interval", bound=_Lasting)


def facts_of(facts: Facts, from_ms: int, to_ms: int) -> Facts:
    """What overlaps [from_ms, to_ms), the lives of it only."""
    if (facts.from_ms, facts.to_ms) == (from_ms, to_ms):
        return replace(facts, lives=_alive(facts.lives, from_ms, to_ms))
    minutes, earlier, later = _minutes_of(facts, from_ms, to_ms)

    def lasts(begin_ms: int, us: int | None) -> bool:
        return begin_ms < to_ms and begin_ms + (us or 0) // 1000 >= from_ms

    return replace(
        facts,
        from_ms=from_ms,
        to_ms=to_ms,
        machines=overlapping(facts.machines, from_ms, to_ms),
        gpus=overlapping(facts.gpus, from_ms, to_ms),
        bindings=overlapping(facts.bindings, from_ms, to_ms),
        members=overlapping(facts.members, from_ms, to_ms),
        phases=overlapping(facts.phases, from_ms, to_ms),
        lives=_alive(facts.lives, from_ms, to_ms),
        minutes=minutes,
        earlier=earlier,
        later=later,
        checkpoints=[one for one in facts.checkpoints if lasts(one.start_ms, one.duration_us)],
        validations=[one for one in facts.validations if lasts(one.t_ms, one.duration_us)],
    )


def signals_of(signals: Signals, from_ms: int, to_ms: int) -> Signals:
    """Of the hour, and of the one before it, which tells since when something is so."""
    gpus, serving = signals.gpus, signals.serving
    first = max((from_ms - BEFORE_MS - gpus.from_ms) // MINUTE_MS, 0)
    there = slice(first, max(-(-(to_ms - gpus.from_ms) // MINUTE_MS), first))
    gpus = replace(
        gpus,
        from_ms=gpus.from_ms + first * MINUTE_MS,
        active=gpus.active[:, there],
        busy=gpus.busy[:, there],
        watts=gpus.watts[:, there],
        throttled=gpus.throttled[:, there],
    )
    first = max((from_ms - BEFORE_MS - serving.from_ms) // MINUTE_MS, 0)
    there = slice(first, max(-(-(to_ms - serving.from_ms) // MINUTE_MS), first))
    serving = replace(
        serving,
        from_ms=serving.from_ms + first * MINUTE_MS,
        running=serving.running[:, there],
        requests=serving.requests[:, there],
        tokens=serving.tokens[:, there],
    )
    return replace(signals, gpus=gpus, serving=serving)


def overlapping(intervals: Sequence[_Interval], from_ms: int, to_ms: int) -> list[_Interval]:
    return [one for one in intervals if one.from_ms < to_ms and (one.to_ms is None or one.to_ms > from_ms)]


def lives_around(lives: Sequence[RankProcess], from_ms: int, to_ms: int) -> list[RankProcess]:
    """Those of the hour; and of pods, which may have held a GPU for them, those before it too, and those that
    begin in the hour after it."""
    here = set(map(id, _alive(lives, from_ms, to_ms)))
    return [one for one in lives if (one.pod_uid and one.started_ms < to_ms + SOON_MS) or id(one) in here]


def _alive(lives: Sequence[RankProcess], from_ms: int, to_ms: int) -> list[RankProcess]:
    return [
        one for one in lives if one.started_ms < to_ms and (one.ended_ms is None or one.ended_ms > from_ms)
    ]


def _minutes_of(
    facts: Facts, from_ms: int, to_ms: int
) -> tuple[StepMinutes, dict[LifeKey, LastStep], dict[LifeKey, LastStep]]:
    """A minute is in an hour or not, so steps are cut where minutes are."""
    table = facts.minutes
    first, end = from_ms // MINUTE_MS, -(-to_ms // MINUTE_MS)
    before, after = table.minute < first, table.minute >= end
    starts = table.begins_life
    ends = np.roll(starts, -1)
    # In the order of minutes those before come first, then those of the hour, then those after it.
    last_before = before & (ends | ~np.roll(before, -1))
    first_after = after & (starts | ~np.roll(after, 1))
    earlier = dict(facts.earlier) | {
        _life(table, i): _last_step(table, i) for i in np.flatnonzero(last_before).tolist()
    }
    later = dict(facts.later) | {
        _life(table, i): _first_step(table, i) for i in np.flatnonzero(first_after).tolist()
    }
    return table.picked(~before & ~after), earlier, later


def _life(table: StepMinutes, i: int) -> LifeKey:
    return LifeKey(table.runs[table.run[i]], int(table.rank[i]), int(table.attempt[i]))


def _last_step(table: StepMinutes, i: int) -> LastStep:
    end_us, steps = int(table.last_end_us[i]), int(table.steps[i])
    start_us = int(table.first_start_us[i]) if steps == 1 else end_us - int(table.step_us[i]) // steps
    return LastStep(int(table.last_step[i]), start_us, end_us, _pace_us(table, i))


def _first_step(table: StepMinutes, i: int) -> LastStep:
    return LastStep(
        int(table.first_step[i]),
        int(table.first_start_us[i]),
        int(table.first_end_us[i]),
        _pace_us(table, i),
    )


def _pace_us(table: StepMinutes, i: int) -> int | None:
    steps = int(table.steps[i])
    return int(table.last_end_us[i] - table.first_end_us[i]) // (steps - 1) if steps > 1 else None
