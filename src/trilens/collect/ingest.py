"""One target's scrapes as batches for the sink: samples, staleness markers, and `up` and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.collect.exposition import DROPPED, NO_TIMESTAMP, ExpositionParser, check_openmetrics
from trilens.collect.scraped_series import SeriesResolver
from trilens.model.errors import ScrapeLimitExceeded
from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.model.series import MAX_AHEAD_MS, STALE_NAN

if TYPE_CHECKING:
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.exposition import FamilyMetadata, ParsedScrape
    from trilens.collect.sink import SampleSink
    from trilens.model.series import Floats, Handles, Times

REPORT_METRICS: Final = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
)
_CONFIRM_MS: Final = 60_000  # the sink holds what it confirmed for some minutes
_NO_REFS: Final = np.zeros(0, dtype=np.int64)


class Batch(NamedTuple):
    refs: Handles
    t_ms: Times
    values: Floats


class ScrapedSamples(NamedTuple):
    """A scrape that parsed. `stale` are series that the scrape before had and this one has not."""

    batch: Batch
    stale: Handles
    scraped: int
    kept: int
    added: int
    too_far_ahead: int
    families: tuple[FamilyMetadata, ...]


class TargetIngest:
    """Remembers, between scrapes, the parser's layout and which series are alive."""

    def __init__(self, config: ScrapeConfig, target_labels: Labels, sink: SampleSink) -> None:
        self._config = config
        self._resolver = SeriesResolver(config, target_labels, sink)
        self._parser = ExpositionParser(self._resolver)
        self._kept_at: np.ndarray[tuple[int], np.dtype[np.intp]] | None = None  # None: all are kept
        self._kept_refs: Handles = _NO_REFS
        self._alive: Handles = _NO_REFS
        # Made on the first report, so that a target that is never scraped leaves no series.
        self._report_refs: Handles = _NO_REFS
        self._report_labels = [
            make_labels({**dict(target_labels), METRIC_NAME: name}) for name in REPORT_METRICS
        ]
        self._sink = sink
        self._confirmed_ms = 0

    def read(self, body: bytes, *, openmetrics: bool, t_ms: int) -> ScrapedSamples:
        """Parse a body; raises ExpositionError or ScrapeLimitExceeded, and then `fail` is to be called."""
        if openmetrics and self._config.strict_openmetrics:
            check_openmetrics(body)
        self._resolver.added = 0
        self._confirm(t_ms)
        parsed = self._parser.parse(body, openmetrics=openmetrics)
        if not parsed.same_layout:
            self._note_kept(parsed.refs)
        kept = len(self._kept_refs)
        if self._config.sample_limit and kept > self._config.sample_limit:
            raise ScrapeLimitExceeded("sample_limit", self._config.sample_limit, f"{kept} samples")
        batch, tracked, too_far_ahead = self._stamp(parsed, t_ms)
        stale = self._replace_alive(tracked)
        return ScrapedSamples(
            batch, stale, len(parsed.refs), kept, self._resolver.added, too_far_ahead, parsed.families
        )

    def fail(self) -> Handles:
        """A scrape failed: all series that were alive end here."""
        return self._replace_alive(_NO_REFS)

    def report(self, t_ms: int, values: tuple[float, ...]) -> Batch:
        """The `up` and `scrape_*` samples, in the order of REPORT_METRICS."""
        self._confirm(t_ms)
        if not len(self._report_refs):
            refs = [self._sink.series(labels) for labels in self._report_labels]
            self._report_refs = np.array(refs, dtype=np.int64)
        return Batch(self._report_refs, np.full(len(values), t_ms, np.int64), np.array(values))

    def living(self) -> Handles:
        """What the target has said and not taken back, its `up` included."""
        return np.concatenate([self._alive, self._report_refs])

    def _confirm(self, t_ms: int) -> None:
        """Begin anew where the sink has forgotten a series, as it may after a long silence."""
        if abs(t_ms - self._confirmed_ms) < _CONFIRM_MS:
            return
        self._confirmed_ms = t_ms
        if not self._sink.held(np.concatenate([self._kept_refs, self._report_refs])).all():
            self._parser = ExpositionParser(self._resolver)
            self._kept_refs = self._report_refs = _NO_REFS

    def _note_kept(self, refs: Handles) -> None:
        kept_at = np.flatnonzero(refs != DROPPED)
        self._kept_at = None if len(kept_at) == len(refs) else kept_at
        self._kept_refs = refs if self._kept_at is None else refs[kept_at]

    def _stamp(self, parsed: ParsedScrape, t_ms: int) -> tuple[Batch, Handles, int]:
        """(samples with their times, series whose end we watch for, samples left out)."""
        refs, kept_at = self._kept_refs, self._kept_at
        values = parsed.values if kept_at is None else parsed.values[kept_at]
        if parsed.t_ms is None or not self._config.honor_timestamps:
            return Batch(refs, np.full(len(refs), t_ms, np.int64), values), refs, 0
        explicit = parsed.t_ms if kept_at is None else parsed.t_ms[kept_at]
        unstamped = explicit == NO_TIMESTAMP
        # An exporter that stamps its samples says itself when they end; we only watch the others.
        tracked = refs if self._config.track_timestamps_staleness else refs[unstamped]
        times = np.where(unstamped, t_ms, explicit)
        near = times <= t_ms + MAX_AHEAD_MS
        return Batch(refs[near], times[near], values[near]), tracked, int(len(near) - near.sum())

    def _replace_alive(self, now: Handles) -> Handles:
        before, self._alive = self._alive, now
        if before is now or not len(before):
            return _NO_REFS
        return np.setdiff1d(before, now)


def stale_batch(refs: Handles, t_ms: int) -> Batch:
    return Batch(refs, np.full(len(refs), t_ms, np.int64), np.full(len(refs), STALE_NAN))


def join(batches: list[Batch]) -> Batch:
    return Batch(
        np.concatenate([batch.refs for batch in batches]),
        np.concatenate([batch.t_ms for batch in batches]),
        np.concatenate([batch.values for batch in batches]),
    )
