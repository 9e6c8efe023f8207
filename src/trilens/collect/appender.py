"""Batches into the sink, and the count of what became of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from trilens.collect.ingest import Batch, stale_batch
from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from trilens.collect.sink import SampleSink
    from trilens.model.series import Handles


@dataclass(slots=True)
class ScrapeStats:
    """Counted since start, over all targets; written by the scraping thread only."""

    scrapes: int = 0
    failures: int = 0
    samples_scraped: int = 0
    samples_appended: int = 0
    samples_repeated: int = 0
    samples_duplicate: int = 0
    samples_out_of_order: int = 0
    samples_too_old: int = 0
    samples_too_far_ahead: int = 0
    samples_refused: int = 0  # the store takes no writes
    stale_markers: int = 0
    body_bytes: int = 0
    missed_ticks: int = 0  # scrapes left out because the one before took too long

    def copy(self) -> ScrapeStats:
        return ScrapeStats(*(getattr(self, field.name) for field in fields(self)))


class Appender:
    def __init__(self, sink: SampleSink, stats: ScrapeStats) -> None:
        self.sink = sink
        self.stats = stats

    def append(self, batch: Batch) -> StoreError | None:
        """The error is returned: a store that takes no writes for a while must not end the scraping."""
        stats = self.stats
        try:
            outcome = self.sink.append(batch.refs, batch.t_ms, batch.values)
        except StoreError as e:
            stats.samples_refused += len(batch.refs)
            return e
        stats.samples_appended += outcome.accepted
        stats.samples_repeated += outcome.repeated
        stats.samples_duplicate += outcome.duplicate
        stats.samples_out_of_order += outcome.out_of_order
        stats.samples_too_old += outcome.too_old
        return None

    def stale(self, refs: Handles, t_ms: int) -> Batch:
        """Markers that end these series; one that was forgotten has ended long ago."""
        refs = refs[self.sink.held(refs)]
        self.stats.stale_markers += len(refs)
        return stale_batch(refs, t_ms)
