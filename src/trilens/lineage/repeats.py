"""Samples that were seen more than once in one epoch, as after a restart whose data began anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.run import BatchRecord

_EXAMPLES = 5


class Repeated(NamedTuple):
    """`epoch` is None where none was told: then it may be that the data simply came round again."""

    dataset: str
    shard: str | None
    epoch: int | None
    samples: int  # that were seen more than once
    examples: list[int | str]


def samples_of(batch: BatchRecord) -> Sequence[int | str]:
    """Empty where they are unknown."""
    if batch.first is not None:
        count = batch.size or 0
        if not batch.stride:
            return [batch.first] * count
        return range(batch.first, batch.first + batch.stride * count, batch.stride)
    return batch.ids or batch.names


def repeats(batches: Iterable[BatchRecord]) -> list[Repeated]:
    seen: defaultdict[tuple[str, str | None, int | None], Counter[int | str]] = defaultdict(Counter)
    for batch in batches:
        seen[batch.dataset, batch.shard, batch.epoch].update(samples_of(batch))
    found = []
    for key, counts in seen.items():
        several = [sample for sample, count in counts.items() if count > 1]
        if several:
            found.append(Repeated(*key, len(several), several[:_EXAMPLES]))
    return found
