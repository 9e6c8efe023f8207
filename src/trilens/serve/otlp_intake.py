"""Where OTLP goes: metrics into the store, spans of training into the intake of runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from trilens.collect.otlp.stats import OtlpMetricsStats, OtlpTraceStats
from trilens.serve.state_metrics import otlp_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from trilens.collect.otlp.body import Encoding
    from trilens.collect.runs.intake import RunIntake
    from trilens.collect.runs.sink import RunSink
    from trilens.collect.sink import SampleSink
    from trilens.serve.otlp import OtlpReceiver


class OtlpIntake:
    """A receiver is None where this server does not keep such things."""

    def __init__(self, store: SampleSink | None, runs: RunIntake | None, records: RunSink | None) -> None:
        self._points: OtlpMetricsStats | None = None
        self._spans: OtlpTraceStats | None = None
        self.metrics: OtlpReceiver | None = None
        self.traces: OtlpReceiver | None = None
        if store is not None:
            self._points = OtlpMetricsStats()
            self.metrics = _into_store(store, self._points)
        if runs is not None and records is not None:
            self._spans = OtlpTraceStats()
            self.traces = _into_runs(runs, records, self._spans)

    def own_metrics(self) -> Iterator[Metric]:
        return otlp_metrics(self._points, self._spans)


class _FromFirstUse:
    """Made when something comes: the messages of OpenTelemetry take a while to load, and few send them."""

    def __init__(self, make: Callable[[], OtlpReceiver]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._receiver: OtlpReceiver | None = None

    def receive(
        self, body: bytes, encoding: Encoding, content_encoding: str, clusters: frozenset[str] | None
    ) -> bytes:
        with self._lock:
            if self._receiver is None:
                self._receiver = self._make()
        return self._receiver.receive(body, encoding, content_encoding, clusters)


def _into_store(store: SampleSink, stats: OtlpMetricsStats) -> OtlpReceiver:
    def make() -> OtlpReceiver:
        from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver

        return OtlpMetricsReceiver(store, stats)

    return _FromFirstUse(make)


def _into_runs(runs: RunIntake, records: RunSink, stats: OtlpTraceStats) -> OtlpReceiver:
    def make() -> OtlpReceiver:
        from trilens.collect.otlp.trace_receiver import OtlpTraceReceiver

        return OtlpTraceReceiver(runs, records, stats)

    return _FromFirstUse(make)
