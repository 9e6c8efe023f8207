"""Which steps saw a sample, and which checkpoints have it in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.lineage.contents import checkpoints
from trilens.lineage.history import History, holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.lineage.contents import Checkpoint
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.model.run_sums import Sighting


class Seen(NamedTuple):
    """`kept` tells whether the step counts in how the run stands; `checkpoints` are the steps of those that
    were written well and have it in them."""

    sighting: Sighting
    kept: bool
    checkpoints: list[int]


def seen(source: RunSource, sightings: Iterable[Sighting], guard: QueryGuard | None = None) -> list[Seen]:
    runs: dict[RunId, tuple[History, list[Checkpoint]]] = {}
    found = []
    for one in sightings:
        if one.run not in runs:
            history = History(source, one.run, guard)
            runs[one.run] = history, [checkpoint for checkpoint in checkpoints(history) if checkpoint.ok]
        found.append(_seen(*runs[one.run], one))
    return found


def _seen(history: History, written: Sequence[Checkpoint], one: Sighting) -> Seen:
    stretch = history.where(one.rank, one.attempt, one.n)
    if stretch is None:  # its step is not finished: the batch was told before it
        return Seen(one, kept=True, checkpoints=[])
    with_it = {
        checkpoint.step for checkpoint in written if history.contains(checkpoint.record, stretch, one.step)
    }
    return Seen(one, holds(history.now(), history.run, stretch, one.step), sorted(with_it))
