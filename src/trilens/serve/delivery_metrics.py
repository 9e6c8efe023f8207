"""How notifications fare, as metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.serve.delivery import DeliveryKeeper, OutletReport

_COUNTERS = {
    "sent": "Messages that were taken.",
    "failed": "Tries that failed; a message may take several.",
    "refused": "Messages that a receiver will not take.",
    "dropped": "Messages given up for want of room.",
}
_GAUGES = {
    "waiting": "Messages that are to be sent.",
    "oldest_seconds": "For how long the oldest of them has been waiting.",
}


def delivery_metrics(keeper: DeliveryKeeper, now_ms: int) -> Iterator[Metric]:
    try:
        reports = keeper.reports()
    except StoreError:  # the log says so, and a page of metrics must not fail
        return
    labels = ["receiver", "outlet"]
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
        **{name: CounterMetricFamily(_named(name), text, labels=labels) for name, text in _COUNTERS.items()},
        **{name: GaugeMetricFamily(_named(name), text, labels=labels) for name, text in _GAUGES.items()},
    }
    for report in reports:
        for name, value in _figures(report, now_ms).items():
            families[name].add_metric([report.outlet.receiver, report.outlet.where], value)
    yield from families.values()
    active = len(keeper.silences.active(now_ms))
    yield GaugeMetricFamily("trilens_silences_active", "Silences in force.", active)


def _named(name: str) -> str:
    return f"trilens_notifications_{name}"


def _figures(report: OutletReport, now_ms: int) -> dict[str, float]:
    state, backlog = report.state, report.backlog
    return {
        "sent": state.sent,
        "failed": state.failed,
        "refused": state.refused,
        "dropped": report.dropped,
        "waiting": backlog.count,
        "oldest_seconds": max(now_ms - backlog.oldest_ms, 0) / 1000 if backlog.count else 0.0,
    }
