"""The data that a run saw where its loss jumped, as far as batches were recorded, by what lineage tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.case_file import SuspectBatch
from trilens.lineage.before_spikes import before, common
from trilens.lineage.history import History
from trilens.lineage.spikes import spikes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.lineage.before_spikes import Before, Common
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import BatchRecord, RunId

_STEPS: Final = 2_000  # the last ones: what jumped long ago is not what somebody asks about
_SPIKES: Final = 8  # the strongest
_BEFORE: Final = 3  # steps
_COMMON: Final = 8
_IDS: Final = 5  # of samples that are named


def suspect_batches(
    source: RunSource, run: RunId, last_step: int, names: tuple[str, ...], guard: QueryGuard | None
) -> Iterator[SuspectBatch]:
    """What came before several jumps first. `names` are what a loss may be called; the first that is told
    counts."""
    first_step = max(last_step - _STEPS, 0)
    for name in names:
        curve = source.curve(run, name, first_step, last_step, guard=guard)
        if len(curve):
            break
    else:
        return
    strongest = sorted(spikes(curve), key=lambda one: (one.is_finite, -(one.spreads or 0.0)))[:_SPIKES]
    if not strongest:
        return
    history = History(source, run, guard)
    told = [before(history, one, _BEFORE) for one in sorted(strongest, key=lambda one: one.step)]
    for one in sorted(common(told), key=lambda one: -len(one.spikes))[:_COMMON]:
        at = told[one.spikes[0]].spike
        yield SuspectBatch(
            run, at.step, at.peak.worst_rank, name, _common_text(one), len(one.spikes), at.peak.t_us // 1000
        )
    for spike in told:
        if (batch := _of_worst(spike)) is not None:
            at = spike.spike
            text = _batch_text(batch)
            yield SuspectBatch(run, at.step, batch.rank, name, text, t_ms=at.peak.t_us // 1000)


def _of_worst(spike: Before) -> BatchRecord | None:
    """Of the rank on which it was worst: its batch in the very step, or the last before."""
    known = [one for one in spike.batches if one.unknown is None and one.rank == spike.spike.peak.worst_rank]
    return max(known, key=lambda one: one.step, default=None)


def _batch_text(batch: BatchRecord) -> str:
    where = _where(batch.dataset, batch.shard)
    if batch.first is not None and batch.size:
        last = batch.first + (batch.size - 1) * batch.stride
        return f"{where}samples {batch.first} to {last}" + (
            f", each {batch.stride}th" if batch.stride > 1 else ""
        )
    samples = [str(one) for one in (batch.names or batch.ids)]
    if samples:
        more = f" and {len(samples) - _IDS} more" if len(samples) > _IDS else ""
        return f"{where}samples {', '.join(samples[:_IDS])}{more}"
    return f"{where}batch {batch.digest or batch.i}"


def _common_text(one: Common) -> str:
    what = f"batch {one.digest}" if one.digest is not None else f"sample {one.sample}"
    return f"{_where(one.dataset, one.shard)}{what}"


def _where(dataset: str, shard: str | None) -> str:
    told = [f"dataset {dataset}"] if dataset else []
    told += [f"shard {shard}"] if shard else []
    return f"{', '.join(told)}, " if told else ""
