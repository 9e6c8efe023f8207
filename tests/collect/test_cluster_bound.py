"""Senders that may tell of some clusters alone: remote write and OTLP."""

from __future__ import annotations

from typing import Any

import cramjam
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from recording_sink import RecordingSink
from test_otlp_metrics import attributes, request
from test_remote_write import BOTH, NOW, body_v2

from trilens.collect.cluster_bound import ClusterBound
from trilens.collect.otlp.body import Encoding
from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver
from trilens.collect.otlp.stats import OtlpMetricsStats, OtlpTraceStats
from trilens.collect.otlp.trace_receiver import OtlpTraceReceiver
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.collect.remote_write.messages import WriteRequest
from trilens.model.errors import Forbidden
from trilens.model.labels import LabelFrame, Symbols

PROD = frozenset({"prod"})
TWO = frozenset({"prod", "lab"})


def described(build: Any, rows: Any) -> bytes:
    """As a sender says what its metrics are."""
    if build is body_v2:
        return body_v2(rows, (1, "What another says of it.", ""))
    message = WriteRequest()
    message.metadata.add(type=1, metric_family_name="a", help="What another says of it.")
    compressed: bytes = build(rows)
    whole = bytes(cramjam.snappy.decompress_raw(compressed)) + message.SerializeToString()
    return bytes(cramjam.snappy.compress_raw(whole))


@BOTH
def test_remote_write_of_another_cluster_is_refused_whole(build: Any, kind: str) -> None:
    sink = RecordingSink()
    receiver = RemoteWriteReceiver(sink)
    bound = receiver.bound_to(PROD)
    own = ({"__name__": "a", "cluster": "prod"}, [(NOW, 1.0)])
    foreign = ({"__name__": "a", "cluster": "lab"}, [(NOW, 2.0)])
    with pytest.raises(Forbidden, match="of the cluster prod only, and this is of 'lab'"):
        bound.receive(described(build, [own, foreign]), kind, "snappy")
    assert sink.samples == []
    assert sink.metadata == {}
    assert bound.receive(build([own]), kind, "snappy").samples == 1
    assert receiver.receive(build([foreign]), kind, "snappy").samples == 1
    with pytest.raises(Forbidden):  # also when another sender has made the series known
        bound.receive(build([foreign]), kind, "snappy")
    assert receiver.stats.samples_appended == 2


@BOTH
def test_a_series_that_names_no_cluster_is_of_the_senders_own(build: Any, kind: str) -> None:
    sink = RecordingSink()
    receiver = RemoteWriteReceiver(sink)
    unnamed = build([({"__name__": "a"}, [(NOW, 1.0)])])
    for at, clusters in enumerate((PROD, None, frozenset({"lab"}))):
        unnamed = build([({"__name__": "a"}, [(NOW + at, 1.0)])])
        assert receiver.bound_to(clusters).receive(unnamed, kind, "snappy").samples == 1
    assert [dict(one.labels).get("cluster") for one in sink.samples] == ["prod", None, "lab"]
    with pytest.raises(Forbidden, match="does not say of which"):
        receiver.bound_to(TWO).receive(unnamed, kind, "snappy")


def test_otlp_metrics_likewise() -> None:
    sink = RecordingSink()
    receiver = OtlpMetricsReceiver(sink, OtlpMetricsStats())

    def sent(clusters: frozenset[str], **resource: str) -> None:
        message, metrics = request(**resource)
        point = metrics.add(name="m", description="A measure.").gauge.data_points.add(as_double=1.0)
        point.time_unix_nano = NOW * 1_000_000
        receiver.receive(message.SerializeToString(), Encoding.PROTOBUF, "", clusters)

    sent(PROD, service__name="x")
    assert {dict(one.labels).get("cluster") for one in sink.samples} == {"prod"}
    before, sink.metadata = len(sink.samples), {}
    with pytest.raises(Forbidden):
        sent(PROD, k8s__cluster__name="lab")
    with pytest.raises(Forbidden):
        sent(TWO, service__name="x")
    assert len(sink.samples) == before
    assert sink.metadata == {}


def test_spans_that_name_another_cluster_are_refused() -> None:
    unused: Any = None
    receiver = OtlpTraceReceiver(unused, unused, OtlpTraceStats())
    message = ExportTraceServiceRequest()
    message.resource_spans.add().resource.attributes.extend(attributes(k8s__cluster__name="lab"))
    body = message.SerializeToString()
    with pytest.raises(Forbidden):
        receiver.receive(body, Encoding.PROTOBUF, "", PROD)
    assert receiver.receive(body, Encoding.PROTOBUF, "", TWO) == b""


def test_many_series_at_once_are_bound_too() -> None:
    sink = RecordingSink()
    bound = ClusterBound(sink, PROD)
    frame = LabelFrame.of(Symbols(), [{"__name__": "a"}, {"__name__": "b", "cluster": "prod"}])
    assert len(bound.series_of(frame)) == 2
    with pytest.raises(Forbidden):
        bound.series_of(LabelFrame.of(Symbols(), [{"__name__": "a", "cluster": "lab"}]))
