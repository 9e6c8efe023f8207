"""Minutes of a life that lie side by side and are booked alike, added up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trilens.ledger.lives.lost_minutes import LostMinutes
    from trilens.ledger.lives.minute_parts import MinuteParts
    from trilens.ledger.lives.pauses import Pauses
    from trilens.ledger.lives.told_lives import ToldLives


class StepGroup(NamedTuple):
    """`lost` is which loss it belongs to, -1 for none, and `lost_steps` of `steps` how much of it;
    `lost_first` whether these come first."""

    life: int
    row: int  # its first
    from_ms: int
    to_ms: int
    data_ms: int
    sync_ms: int
    checkpoint_ms: int
    lost: int
    lost_steps: int
    steps: int
    lost_first: bool


def with_steps_in_progress(
    told: ToldLives, parts: MinuteParts, goes_on: NDArray[np.bool_], saving: Pauses, pausing: Pauses
) -> MinuteParts:
    """What comes after the last step that is known, of lives that go on: divided as the minute before it, but
    for pauses. Only between steps is a checkpoint surely waited for."""
    lives = np.flatnonzero(goes_on & (told.end_row > told.first_row))
    rows = told.end_row[lives] - 1
    begin, end = parts.to_us[rows], np.maximum(told.to_us[lives], parts.to_us[rows])
    until = np.where(told.after[lives] >= 0, np.clip(told.after_start[lives], begin, end), end)
    checkpoint = saving.inside(told.run[lives], begin, until)
    ms = (end - begin - pausing.inside(told.run[lives], begin, until)) // 1000
    whole_ms = np.maximum((begin - parts.from_us[rows]) // 1000, 1)

    def more(column: NDArray[np.int64], by: NDArray[np.int64]) -> NDArray[np.int64]:
        column = column.copy()
        column[rows] += by
        return column

    return replace(
        parts,
        to_us=more(parts.to_us, end - begin),
        data=more(parts.data, parts.data[rows] // 1000 * ms // whole_ms * 1000),
        sync=more(parts.sync, parts.sync[rows] // 1000 * ms // whole_ms * 1000),
        checkpoint=more(parts.checkpoint, checkpoint),
    )


def step_groups(
    told: ToldLives, parts: MinuteParts, is_cut: NDArray[np.bool_], lost: LostMinutes
) -> Iterator[StepGroup]:
    """In the order of the rows. A minute that was lost in part is a group of its own."""
    life, steps = told.life, told.minutes.steps
    if not len(life):
        return
    is_partly = (lost.steps > 0) & (lost.steps < steps)
    starts = is_cut | is_partly
    starts[0] = True
    starts[1:] |= (life[1:] != life[:-1]) | (lost.loss[1:] != lost.loss[:-1]) | is_partly[:-1]
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(life)) - 1
    # Rounded down where they lie one after the other: so the parts add up to the whole.
    edges_us = [parts.from_us[first]]
    for column in (parts.data, parts.sync, parts.checkpoint):
        edges_us.append(edges_us[-1] + np.add.reduceat(column, first))
    edges = [edge // 1000 for edge in edges_us]
    yield from map(
        StepGroup._make,
        zip(
            life[first].tolist(),
            first.tolist(),
            edges[0].tolist(),
            (parts.to_us[last] // 1000).tolist(),
            *((end - begin).tolist() for begin, end in pairwise(edges)),
            lost.loss[first].tolist(),
            lost.steps[first].tolist(),
            steps[first].tolist(),
            lost.is_front[first].tolist(),
            strict=True,
        ),
    )


def lost_apart(group: StepGroup, first_us: int, last_us: int, paused_us: int) -> tuple[StepGroup, StepGroup]:
    """What was lost of a minute, its first steps or its last ones, and what was not. `first_us` and `last_us`
    are when its first and its last step ended: all between are taken to be alike, but for pauses. Checkpoints
    are of what was kept."""
    others_us = max(last_us - first_us - paused_us, 0)
    if group.lost_first:
        edge_us = first_us + others_us * (group.lost_steps - 1) // (group.steps - 1)
    else:
        edge_us = last_us - others_us * group.lost_steps // (group.steps - 1)
    edge_ms = min(max(edge_us // 1000, group.from_ms), group.to_ms)
    early, late = (group.from_ms, edge_ms), (edge_ms, group.to_ms)
    lost, kept = (early, late) if group.lost_first else (late, early)
    room_ms = kept[1] - kept[0]
    checkpoint_ms = min(group.checkpoint_ms, room_ms)
    kept_steps = group.steps - group.lost_steps
    data_ms = min(group.data_ms * kept_steps // group.steps, room_ms - checkpoint_ms)
    sync_ms = min(group.sync_ms * kept_steps // group.steps, room_ms - checkpoint_ms - data_ms)
    return (
        group._replace(from_ms=lost[0], to_ms=lost[1], data_ms=0, sync_ms=0, checkpoint_ms=0),
        group._replace(
            from_ms=kept[0], to_ms=kept[1], data_ms=data_ms, sync_ms=sync_ms, checkpoint_ms=checkpoint_ms
        ),
    )
