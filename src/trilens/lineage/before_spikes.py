"""The batches before a spike, and what several spikes have in common."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.lineage.batches import batches_of
from trilens.lineage.repeats import samples_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.lineage.history import History, Part
    from trilens.lineage.spikes import Spike
    from trilens.model.run import BatchRecord

    _Record = tuple[int, int, int, int]  # rank, attempt, n, i: a batch that was read

_MOST_RANKS = 64  # of which all batches are read: a thousand ranks have thousands before each spike
_MOST_COMMON = 100


class Before(NamedTuple):
    """The batches of a spike's first step and of the steps before it: of all ranks, the worst first, or of a
    job with many ranks of the worst alone."""

    spike: Spike
    first_step: int
    batches: list[BatchRecord]
    is_of_all_ranks: bool


class Common(NamedTuple):
    """A batch (`digest`) or a sample that was there before several spikes, each time anew; `spikes` are their
    places in the list."""

    dataset: str
    shard: str | None
    digest: str | None
    sample: int | str | None
    spikes: list[int]


def before(history: History, spike: Spike, steps: int) -> Before:
    first = spike.step - steps
    parts = [
        part._replace(first_step=max(part.first_step, first))
        for part in _leading_to(history, spike)
        if part.run == history.run and part.last_step >= first
    ]
    worst = spike.peak.worst_rank
    few = all(len(history.stretches[part.stretch].ranks) <= _MOST_RANKS for part in parts)
    found = sorted(
        batches_of(history, parts, None if few else worst),
        key=lambda one: (one.rank != worst, -one.step, one.rank, one.i),
    )
    begin = min((part.first_step for part in parts), default=spike.step)
    return Before(spike, begin, found, few)


def _leading_to(history: History, spike: Spike) -> Sequence[Part]:
    rank = spike.peak.worst_rank
    stretch = next(
        (
            stretch.index
            for stretch in reversed(history.stretches)
            for span in stretch.spans
            if (span.rank, span.attempt) == (rank, spike.attempt)
            and span.first_step <= spike.step <= span.last_step
        ),
        None,
    )
    return history.until(stretch, spike.step) if stretch is not None else ()


def common(found: Iterable[Before]) -> list[Common]:
    """Spikes close to each other share steps: what counts is that a sample came again. Of whole batches that
    came again, the samples are not named one by one."""
    batches: defaultdict[tuple[str, str | None, str], dict[_Record, set[int]]] = defaultdict(dict)
    samples: defaultdict[tuple[str, str | None, int | str], dict[_Record, set[int]]] = defaultdict(dict)
    for number, one in enumerate(found):
        for batch in one.batches:
            record = (batch.rank, batch.attempt, batch.n, batch.i)
            if batch.digest is not None:
                batches[batch.dataset, batch.shard, batch.digest].setdefault(record, set()).add(number)
            for sample in samples_of(batch):
                samples[batch.dataset, batch.shard, sample].setdefault(record, set()).add(number)
    whole = [
        Common(dataset, shard, digest, None, spikes)
        for (dataset, shard, digest), records in batches.items()
        if (spikes := _several(records))
    ]
    told = {record for records in batches.values() if _several(records) for record in records}
    single = [
        Common(dataset, shard, None, sample, spikes)
        for (dataset, shard, sample), records in samples.items()
        if (spikes := _several(records)) and not told.issuperset(records)
    ]
    return [*whole, *single[:_MOST_COMMON]]


def _several(records: dict[_Record, set[int]]) -> list[int]:
    spikes = set().union(*records.values())
    return sorted(spikes) if len(records) > 1 and len(spikes) > 1 else []
