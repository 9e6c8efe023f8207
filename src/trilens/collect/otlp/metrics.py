"""Metrics of an OTLP request as samples, and what of them cannot be taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
)

from trilens.collect.otlp.attributes import info_labels, point_labels, read_attributes, resource_labels
from trilens.collect.otlp.names import metric_name
from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.model.series import STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

_DELTA: Final = (
    "delta temporality is not taken: set OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative, "
    "or put a collector's deltatocumulative processor in between"
)
_EXPONENTIAL: Final = (
    "exponential histograms are not taken yet: set "
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=explicit_bucket_histogram"
)


class TakenSample(NamedTuple):
    labels: Labels
    t_ms: int
    value: float


class Described(NamedTuple):
    metric: str
    kind: str
    help: str
    unit: str


@dataclass(slots=True)
class Taken:
    samples: list[TakenSample] = field(default_factory=list)
    points: int = 0  # data points that became samples
    families: dict[str, Described] = field(default_factory=dict)
    refused: int = 0  # data points
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, points: int, reason: str) -> None:
        if points:
            self.refused += points
            self.reasons[reason] = self.reasons.get(reason, 0) + points


def read_metrics(request: ExportMetricsServiceRequest) -> Taken:
    taken = Taken()
    for resource in request.resource_metrics:
        attributes = read_attributes(resource.resource.attributes)
        own = resource_labels(attributes)
        newest_ms = 0
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                before = len(taken.samples)
                _read_metric(metric, own, taken)
                newest_ms = max([newest_ms, *(sample.t_ms for sample in taken.samples[before:])])
        info = info_labels(attributes)
        if info and newest_ms:
            taken.samples.append(
                TakenSample(make_labels({**info, METRIC_NAME: "target_info"}), newest_ms, 1.0)
            )
    return taken


def _read_metric(metric: Metric, own: Mapping[str, str], taken: Taken) -> None:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    points = data.data_points
    if kind == "exponential_histogram":
        taken.refuse(len(points), _EXPONENTIAL)
        return
    cumulative = kind in ("gauge", "summary") or (
        data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    if not cumulative:
        taken.refuse(len(points), _DELTA)
        return
    counts = kind == "sum" and data.is_monotonic
    gauge = kind == "gauge" or (kind == "sum" and not counts)
    name = metric_name(metric.name, metric.unit, counts=counts, gauge=kind == "gauge")
    if not name:
        taken.refuse(len(points), "a metric has no usable name")
        return
    shown = "counter" if counts else "gauge" if gauge else kind
    taken.families[name] = Described(name, shown, metric.description, "")
    read = {"gauge": _number, "sum": _number, "histogram": _histogram, "summary": _summary}[kind]
    for point in points:
        if not point.time_unix_nano:
            taken.refuse(1, "a data point has no time")
            continue
        ended = bool(point.flags & DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
        if kind in ("gauge", "sum") and not ended and point.WhichOneof("value") is None:
            taken.refuse(1, "a data point has no value")
            continue
        labels = point_labels(read_attributes(point.attributes), own)
        t_ms = point.time_unix_nano // 1_000_000
        for suffix, extra, value in read(point):
            whole = make_labels({**labels, **extra, METRIC_NAME: name + suffix})
            taken.samples.append(TakenSample(whole, t_ms, STALE_NAN if ended else value))
        taken.points += 1


def _number(point: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    yield "", {}, float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)


def _histogram(point: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    upto = 0
    for bound, count in zip(point.explicit_bounds, point.bucket_counts, strict=False):
        upto += count
        yield "_bucket", {"le": _bound(bound)}, float(upto)
    yield "_bucket", {"le": "+Inf"}, float(point.count)
    yield "_count", {}, float(point.count)
    if point.HasField("sum"):
        yield "_sum", {}, point.sum


def _summary(point: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    for quantile in point.quantile_values:
        yield "", {"quantile": _bound(quantile.quantile)}, quantile.value
    yield "_count", {}, float(point.count)
    yield "_sum", {}, point.sum


def _bound(value: float) -> str:
    """As a scrape writes it: 1.0, not 1."""
    return repr(float(value))
