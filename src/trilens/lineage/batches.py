"""The batches of parts of runs, page by page: a checkpoint may hold millions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.lineage.history import History, Part
    from trilens.model.run import BatchRecord

_PAGE = 10_000


class Place(NamedTuple):
    """Where to go on: a part, and a step in it."""

    part: int
    step: int


class Page(NamedTuple):
    batches: list[BatchRecord]
    after: Place | None  # None at the end


def batch_page(
    history: History, parts: Sequence[Part], at: Place, limit: int, rank: int | None = None
) -> Page:
    """Whole steps, so more than `limit` where one step has more; of all ranks, or of one."""
    if at.part >= len(parts):
        return Page([], None)
    part = parts[at.part]
    there = history.of_run(part.run)
    attempts = there.stretches[part.stretch].attempts
    first = max(at.step, part.first_step)
    found = history.source.batches(
        part.run,
        first,
        part.last_step,
        rank=rank,
        attempt=attempts[0] if len(attempts) == 1 else None,
        limit=limit + 1,
        guard=history.guard,
    )
    end = Place(at.part + 1, 0) if at.part + 1 < len(parts) else None
    if len(found) > limit:
        cut = found[-1].step  # of which some may be missing
        if cut == first:
            return batch_page(history, parts, at, limit * 2, rank)
        found = [one for one in found if one.step < cut]
        end = Place(at.part, cut)
    return Page([one for one in found if there.where(one.rank, one.attempt, one.n) == part.stretch], end)


def batches_of(history: History, parts: Sequence[Part], rank: int | None = None) -> Iterator[BatchRecord]:
    place: Place | None = Place(0, 0)
    while place is not None:
        page = batch_page(history, parts, place, _PAGE, rank)
        yield from page.batches
        place = page.after
