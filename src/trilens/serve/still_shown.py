"""Series that a query still finds though nobody tells them any more: told before a restart, and not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest, stale_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.labels import Labels
    from trilens.promql.source import SeriesSource

LOOKBACK_MS: Final = 5 * 60_000  # for so long PromQL shows the last sample of a series that was not ended


def series_still_shown(
    source: SeriesSource, metrics: Iterable[str], cluster: str, at_ms: int
) -> Iterator[Labels]:
    """The series of a cluster that a query at this moment finds by a sample from before it.

    Only those of our own making: what is scraped, from another Trilens too, has a job.
    """
    return _shown(source, metrics, (Matcher("cluster", "=", cluster), Matcher("job", "=", "")), at_ms)


def series_shown_by_us(source: SeriesSource, metrics: Iterable[str], at_ms: int) -> Iterator[Labels]:
    """The same of all clusters, and of none."""
    return _shown(source, metrics, (Matcher("job", "=", ""),), at_ms)


def _shown(
    source: SeriesSource, metrics: Iterable[str], among: tuple[Matcher, ...], at_ms: int
) -> Iterator[Labels]:
    for metric in metrics:
        matchers = (Matcher(METRIC_NAME, "=", metric), *among)
        found = source.select(SelectRequest(matchers, at_ms - LOOKBACK_MS, at_ms), QueryGuard())
        samples = found.samples
        (told,) = np.diff(samples.offsets).nonzero()
        last = samples.offsets[1:][told] - 1
        shown = (samples.t[last] < at_ms) & ~stale_mask(samples.v[last])
        for row in told[shown].tolist():
            yield make_labels(found.labels.labels(row))
