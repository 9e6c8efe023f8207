"""What was done to clusters, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.model.fix import Deed, FixState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.serve.cure.book import FixBook

_OUTCOMES: Final = (FixState.DONE, FixState.FAILED, FixState.DROPPED, FixState.WAITING)


def cure_metrics(book: FixBook) -> Iterator[Metric]:
    counts = book.counts
    fixes = CounterMetricFamily("trilens_fixes", "Fixes, by what came of them.", labels=["deed", "outcome"])
    for deed in Deed:
        for outcome in _OUTCOMES:
            fixes.add_metric([deed.value, outcome.value], counts.get((deed, outcome), 0))
    yield fixes
    yield GaugeMetricFamily("trilens_fixes_waiting", "Fixes that wait for approval.", book.waiting)
    if book.delay_s is not None:
        help_text = (
            "From the fault to the last cordon that the server did by itself; absent before the first."
        )
        yield GaugeMetricFamily("trilens_fix_delay_seconds", help_text, book.delay_s)
