"""Takes OTLP metrics in: on disk when it returns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from trilens.collect.cluster_bound import ClusterBound
from trilens.collect.left_out import left_out
from trilens.collect.otlp.body import read_message, unpacked, write_message
from trilens.collect.otlp.metrics import read_metrics

if TYPE_CHECKING:
    from trilens.collect.otlp.body import Encoding
    from trilens.collect.otlp.metrics import Taken
    from trilens.collect.otlp.stats import OtlpMetricsStats
    from trilens.collect.sink import SampleSink
    from trilens.model.series import AppendOutcome


class OtlpMetricsReceiver:
    """Thread-safe."""

    def __init__(self, sink: SampleSink, stats: OtlpMetricsStats) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self.stats = stats

    def receive(
        self,
        body: bytes,
        encoding: Encoding,
        content_encoding: str,
        clusters: frozenset[str] | None = None,
    ) -> bytes:
        """The answer's body. OtlpError (400) means that nothing was taken; so does StoreReadOnly (503), after
        which the sender tries again. `clusters` are those that the sender may tell of, None all of them."""
        request = read_message(ExportMetricsServiceRequest, unpacked(body, content_encoding), encoding)
        taken = read_metrics(request)
        sink = self._sink if clusters is None else ClusterBound(self._sink, clusters)
        with self._lock:
            handles = np.array([sink.series(sample.labels) for sample in taken.samples], np.int64)
            for family in taken.families.values():  # once it is known that all of it is taken
                self._sink.describe(*family)
            outcome = self._sink.append(
                handles,
                np.array([sample.t_ms for sample in taken.samples], np.int64),
                np.array([sample.value for sample in taken.samples], np.float64),
            )
            self._count(taken, outcome)
        self._sink.durable().result()
        return write_message(_answer(taken, outcome), encoding)

    def _count(self, taken: Taken, outcome: AppendOutcome) -> None:
        self.stats.requests += 1
        self.stats.points += taken.points
        self.stats.points_refused += taken.refused
        self.stats.samples_left_out += _left_out(taken, outcome)


def _left_out(taken: Taken, outcome: AppendOutcome) -> int:
    return len(taken.samples) - outcome.accepted - outcome.repeated


def _answer(taken: Taken, outcome: AppendOutcome) -> ExportMetricsServiceResponse:
    answer = ExportMetricsServiceResponse()
    reasons = [f"{points} data points: {reason}" for reason, points in taken.reasons.items()]
    reasons += left_out(outcome)
    if reasons:
        # A histogram is many samples: how many points the store left out is known only so far.
        answer.partial_success.rejected_data_points = taken.refused + min(
            taken.points, _left_out(taken, outcome)
        )
        answer.partial_success.error_message = "; ".join(reasons)
    return answer
