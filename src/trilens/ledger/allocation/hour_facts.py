"""The facts of one hour out of those of a longer time: it comes out the same, whatever it was read with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trilens.ledger.allocation.hour_steps import steps_of
from trilens.ledger.telemetry.minutes import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import Signals
    from trilens.model.ledger_facts import Facts
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
    steps = steps_of(facts, from_ms, to_ms)
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
        minutes=steps.minutes,
        earlier=steps.earlier,
        later=steps.later,
        checkpoints=[
            one
            for one in facts.checkpoints
            if one.start_ms < to_ms and one.start_ms + (one.duration_us or 0) // 1000 >= from_ms
        ],
        validations=[
            one
            for one in facts.validations
            if one.t_ms < to_ms and one.t_ms + (one.duration_us or 0) // 1000 >= from_ms
        ],
        stalls=overlapping(facts.stalls, from_ms, to_ms),
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
