"""The steps of one hour out of those of a longer time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS

if TYPE_CHECKING:
    from trilens.model.ledger_facts import Facts, LastStep, LifeKey, StepMinutes


class HourSteps(NamedTuple):
    minutes: StepMinutes
    earlier: dict[LifeKey, LastStep]
    later: dict[LifeKey, LastStep]


def steps_of(facts: Facts, from_ms: int, to_ms: int) -> HourSteps:
    """A minute is in an hour or not, so steps are cut where minutes are."""
    table = facts.minutes
    before, after = table.minute < from_ms // MINUTE_MS, table.minute >= -(-to_ms // MINUTE_MS)
    starts = table.begins_life
    ends = np.roll(starts, -1)
    # In the order of minutes those before come first, then those of the hour, then those after it.
    last_before = np.flatnonzero(before & (ends | ~np.roll(before, -1)))
    first_after = np.flatnonzero(after & (starts | ~np.roll(after, 1)))
    return HourSteps(
        table.picked(np.flatnonzero(~before & ~after)),
        {**facts.earlier, **table.nearest(last_before, is_last=True)},
        {**facts.later, **table.nearest(first_after, is_last=False)},
    )
