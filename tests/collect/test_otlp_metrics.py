"""OTLP metrics as samples: names and labels as Prometheus gives them, and what is refused."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
)
from recording_sink import STALE, RecordingSink

from trilens.collect.otlp.body import MAX_BODY_BYTES, Encoding, write_status
from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver
from trilens.collect.otlp.names import label_name, metric_name
from trilens.collect.otlp.stats import OtlpMetricsStats
from trilens.model.errors import OtlpError, OtlpUnsupported

T_NS = 1_700_000_000_123_456_789
T_MS = 1_700_000_000_123


# As prometheus/otlptranslator documents its default, UnderscoreEscapingWithSuffixes.
@pytest.mark.parametrize(
    ("name", "unit", "counts", "gauge", "expected"),
    [
        ("http.server.duration", "ms", False, False, "http_server_duration_milliseconds"),
        ("gen_ai.server.time_to_first_token", "s", False, False, "gen_ai_server_time_to_first_token_seconds"),
        ("system.io", "By", True, False, "system_io_bytes_total"),
        ("requests.total", "{request}", True, False, "requests_total"),
        ("total.requests", "1", True, False, "requests_total"),
        ("cpu.utilization", "1", False, True, "cpu_utilization_ratio"),
        ("items", "1", False, False, "items"),
        ("disk.speed", "By/s", False, True, "disk_speed_bytes_per_second"),
        ("storage.filesystem.utilization", "%", False, True, "storage_filesystem_utilization_percent"),
        ("duration_seconds", "s", False, True, "duration_seconds"),
        ("rate", "{step}/min", False, True, "rate_per_min"),
        ("3d.models", "", False, True, "_3d_models"),
        ("a..b--c", "custom unit", False, True, "a_b_c_custom_unit"),
        ("...", "s", False, True, ""),
    ],
)
def test_metric_names(name: str, unit: str, counts: bool, gauge: bool, expected: str) -> None:
    assert metric_name(name, unit, counts=counts, gauge=gauge) == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("http.method", "http_method"),
        ("9lives", "key_9lives"),
        ("_private", "key_private"),
        ("__meta", "__meta"),
        ("größe", "gr__e"),
        ("...", ""),
    ],
)
def test_label_names(attribute: str, expected: str) -> None:
    assert label_name(attribute) == expected


def attributes(**values: object) -> list[KeyValue]:
    def value(one: object) -> AnyValue:
        if isinstance(one, bool):
            return AnyValue(bool_value=one)
        return AnyValue(int_value=one) if isinstance(one, int) else AnyValue(string_value=str(one))

    return [KeyValue(key=key.replace("__", "."), value=value(one)) for key, one in values.items()]


def request(**resource: object) -> tuple[ExportMetricsServiceRequest, Any]:
    message = ExportMetricsServiceRequest()
    one = message.resource_metrics.add()
    one.resource.attributes.extend(attributes(**resource))
    return message, one.scope_metrics.add().metrics


def taken(message: ExportMetricsServiceRequest) -> tuple[RecordingSink, ExportMetricsServiceResponse]:
    sink = RecordingSink()
    answer = OtlpMetricsReceiver(sink, OtlpMetricsStats()).receive(
        message.SerializeToString(), Encoding.PROTOBUF, ""
    )
    return sink, ExportMetricsServiceResponse.FromString(answer)


def shown(sink: RecordingSink) -> dict[str, tuple[int, float | str]]:
    """By the series as people write it."""
    found = {}
    for labels, t_ms, value in sink.samples:
        named = dict(labels)
        name = named.pop("__name__")
        found[name + "{" + ",".join(f"{k}={v}" for k, v in sorted(named.items())) + "}"] = (t_ms, value)
    return found


def test_gauges_sums_and_the_resource_they_are_of() -> None:
    message, metrics = request(
        service__name="train",
        service__namespace="ml",
        service__instance__id="i-1",
        k8s__namespace__name="team-a",
        k8s__pod__name="train-0",
        k8s__node__name="n1",
        telemetry__sdk__language="python",
    )
    metrics.add(name="loss").gauge.data_points.add(
        time_unix_nano=T_NS, as_double=0.5, attributes=attributes(rank=3, pod="odd", final=True)
    )
    steps = metrics.add(name="steps", unit="{step}", description="Steps done.").sum
    steps.aggregation_temporality, steps.is_monotonic = AGGREGATION_TEMPORALITY_CUMULATIVE, True
    steps.data_points.add(time_unix_nano=T_NS, as_int=7)
    sink, answer = taken(message)
    own = "instance=i-1,job=ml/train,namespace=team-a,node=n1,pod=train-0"
    of_point = f"exported_pod=odd,final=true,{own},rank=3"
    info = (
        "instance=i-1,job=ml/train,k8s_namespace_name=team-a,k8s_node_name=n1,k8s_pod_name=train-0,"
        "namespace=team-a,node=n1,pod=train-0,telemetry_sdk_language=python"
    )
    assert shown(sink) == {
        f"loss{{{of_point}}}": (T_MS, 0.5),
        f"steps_total{{{own}}}": (T_MS, 7.0),
        f"target_info{{{info}}}": (T_MS, 1.0),
    }
    assert sink.metadata["steps_total"][:2] == ("counter", "Steps done.")
    assert not answer.HasField("partial_success")


def test_histograms_and_summaries() -> None:
    message, metrics = request()
    latency = metrics.add(name="latency", unit="s").histogram
    latency.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    point = latency.data_points.add(time_unix_nano=T_NS, count=6, sum=9.5)
    point.explicit_bounds.extend([0.5, 10])
    point.bucket_counts.extend([1, 3, 2])
    point.exemplars.add(time_unix_nano=T_NS, as_double=0.1)
    old = metrics.add(name="old").summary.data_points.add(time_unix_nano=T_NS, count=2, sum=3.0)
    old.quantile_values.add(quantile=0.5, value=1.5)
    sink, _ = taken(message)
    assert {name: value for name, (_, value) in shown(sink).items()} == {
        "latency_seconds_bucket{le=0.5}": 1.0,
        "latency_seconds_bucket{le=10.0}": 4.0,
        "latency_seconds_bucket{le=+Inf}": 6.0,
        "latency_seconds_count{}": 6.0,
        "latency_seconds_sum{}": 9.5,
        "old{quantile=0.5}": 1.5,
        "old_count{}": 2.0,
        "old_sum{}": 3.0,
    }


def test_a_series_that_has_ended_ends() -> None:
    message, metrics = request()
    metrics.add(name="loss").gauge.data_points.add(
        time_unix_nano=T_NS, flags=DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    )
    sink, _ = taken(message)
    assert sink.values("loss") == [STALE]


def test_what_cannot_be_taken_is_said_and_the_rest_is_taken() -> None:
    message, metrics = request()
    delta = metrics.add(name="delta").sum
    delta.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    delta.data_points.add(time_unix_nano=T_NS, as_int=1)
    delta.data_points.add(time_unix_nano=T_NS, as_int=2)
    metrics.add(name="exponential").exponential_histogram.data_points.add(time_unix_nano=T_NS)
    metrics.add(name="timeless").gauge.data_points.add(as_double=1)
    metrics.add(name="???").gauge.data_points.add(time_unix_nano=T_NS, as_double=1)
    metrics.add(name="empty").gauge.data_points.add(time_unix_nano=T_NS)
    metrics.add(name="good").gauge.data_points.add(time_unix_nano=T_NS, as_double=1)
    sink, answer = taken(message)
    assert list(shown(sink)) == ["good{}"]
    assert answer.partial_success.rejected_data_points == 6
    said = answer.partial_success.error_message
    assert "2 data points: delta temporality is not taken" in said
    assert "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative" in said
    assert "1 data points: exponential histograms are not taken yet" in said
    assert "a data point has no time" in said
    assert "a data point has no value" in said
    assert "a metric has no usable name" in said


JSON = {
    "resourceMetrics": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "x"}}]},
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": "loss",
                            "unknownField": 1,
                            "gauge": {"dataPoints": [{"timeUnixNano": str(T_NS), "asDouble": 0.25}]},
                        }
                    ]
                }
            ],
        }
    ]
}


def test_json_and_gzip() -> None:
    sink = RecordingSink()
    body = gzip.compress(json.dumps(JSON).encode())
    answer = OtlpMetricsReceiver(sink, OtlpMetricsStats()).receive(body, Encoding.JSON, "gzip")
    assert json.loads(answer) == {}
    assert shown(sink) == {"loss{job=x}": (T_MS, 0.25)}


@pytest.mark.parametrize(
    ("body", "encoding", "compression", "said"),
    [
        (b"\xff\xff\xff", Encoding.PROTOBUF, "", "not an ExportMetricsServiceRequest"),
        (b"{", Encoding.JSON, "", "not an ExportMetricsServiceRequest"),
        (b'{"resourceMetrics": 7}', Encoding.JSON, "", "not an ExportMetricsServiceRequest"),
        (b"plain", Encoding.PROTOBUF, "gzip", "not gzip"),
        (gzip.compress(b"abc" * 100)[:-9], Encoding.PROTOBUF, "gzip", "ends too early"),
        (gzip.compress(bytes(MAX_BODY_BYTES + 1), 1), Encoding.PROTOBUF, "gzip", "more than"),
        (2 * gzip.compress(b""), Encoding.PROTOBUF, "gzip", "goes on behind"),
    ],
    ids=["protobuf", "json", "shape", "gzip", "cut", "bomb", "two"],
)
def test_bodies_that_do_not_decode(body: bytes, encoding: Encoding, compression: str, said: str) -> None:
    with pytest.raises(OtlpError, match=said):
        OtlpMetricsReceiver(RecordingSink(), OtlpMetricsStats()).receive(body, encoding, compression)


def test_a_compression_nobody_speaks() -> None:
    with pytest.raises(OtlpUnsupported, match="known is gzip"):
        OtlpMetricsReceiver(RecordingSink(), OtlpMetricsStats()).receive(b"", Encoding.PROTOBUF, "zstd")


def test_what_is_wrong_is_said_as_a_status_message() -> None:
    """Field 2 of google.rpc.Status, as any protobuf library reads it."""
    text = "é" * 200
    written = write_status(text, Encoding.PROTOBUF)
    assert KeyValue.FromString(b"\x0a" + written[1:]).key == text  # a message with a text in field 1
    assert json.loads(write_status(text, Encoding.JSON)) == {"message": text}
