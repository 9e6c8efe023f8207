"""OTLP metrics and traces. The first byte of an input says in which encoding it is."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from google.protobuf.json_format import MessageToJson
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from bench.torture.fuzz.no_store import NoRuns, NoSamples
from bench.torture.fuzz.run_records import AtOnce
from bench.torture.fuzz.target import Target
from trilens.collect.otlp.body import Encoding, write_status
from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver
from trilens.collect.otlp.stats import OtlpMetricsStats, OtlpTraceStats
from trilens.collect.otlp.trace_receiver import OtlpTraceReceiver
from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message
    from hypothesis.strategies import SearchStrategy
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue

_IS_JSON: Final = 1
_IS_GZIP: Final = 2
_T_NS: Final = 1_763_000_000_000_000_000
_TEXTS: Final = (
    "",
    "training.run_id",
    "training.rank",
    "training.step",
    "train.step",
    "step",
    "forward",
    "r1",
)
_KINDS: Final = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def _metrics(data: bytes) -> None:
    receiver = OtlpMetricsReceiver(NoSamples(), OtlpMetricsStats())
    _received(receiver.receive, data)


def _traces(data: bytes) -> None:
    runs = NoRuns()
    receiver = OtlpTraceReceiver(AtOnce(runs), runs, OtlpTraceStats())
    _received(receiver.receive, data)
    _received(receiver.receive, data)  # sent again it adds nothing, and breaks nothing


def _received(receive: Callable[[bytes, Encoding, str], bytes], data: bytes) -> None:
    kind, body = data[:1] or b"\0", data[1:]
    encoding = Encoding.JSON if kind[0] & _IS_JSON else Encoding.PROTOBUF
    try:
        receive(body, encoding, "gzip" if kind[0] & _IS_GZIP else "")
    except TrilensError as e:
        write_status(str(e), encoding)
        raise


def _metrics_message() -> ExportMetricsServiceRequest:
    message = ExportMetricsServiceRequest()
    of = message.resource_metrics.add()
    of.resource.attributes.add(key="service.name").value.string_value = "vllm"
    metrics = of.scope_metrics.add().metrics
    metrics.add(name="loss", unit="s").gauge.data_points.add(time_unix_nano=_T_NS, as_double=0.5)
    total = metrics.add(name="steps").sum
    total.aggregation_temporality, total.is_monotonic = AGGREGATION_TEMPORALITY_CUMULATIVE, True
    total.data_points.add(time_unix_nano=_T_NS, as_int=3)
    seconds = metrics.add(name="ttft", unit="s").histogram
    seconds.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    seconds.data_points.add(
        time_unix_nano=_T_NS, count=3, sum=1.0, bucket_counts=[1, 2], explicit_bounds=[0.5]
    )
    shares = metrics.add(name="share").summary.data_points.add(time_unix_nano=_T_NS, count=1, sum=2.0)
    shares.quantile_values.add(quantile=0.5, value=1.0)
    return message


def _trace_message(step: int = 1, rank: int = 0, run: str = "r1") -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    of = message.resource_spans.add()
    of.resource.attributes.add(key="training.run_id").value.string_value = run
    of.resource.attributes.add(key="training.rank").value.int_value = rank
    spans = of.scope_spans.add().spans
    whole = spans.add(name="training.step", trace_id=b"t" * 16, span_id=b"s" * 8)
    whole.start_time_unix_nano, whole.end_time_unix_nano = _T_NS, _T_NS + 10**9
    whole.attributes.add(key="training.step").value.int_value = step
    part = spans.add(name="forward", trace_id=b"t" * 16, span_id=b"p" * 8, parent_span_id=b"s" * 8)
    part.start_time_unix_nano, part.end_time_unix_nano = _T_NS, _T_NS + 10**8
    return message


def _encoded(message: Message) -> Iterator[bytes]:
    binary, text = message.SerializeToString(), MessageToJson(message).encode()
    yield b"\0" + binary
    yield b"\1" + text
    yield b"\2" + gzip.compress(binary, mtime=0)


def _attribute(value: AnyValue, drawn: object) -> None:
    match drawn:
        case bool():
            value.bool_value = drawn
        case int():
            value.int_value = drawn
        case float():
            value.double_value = drawn
        case str():
            value.string_value = drawn
        case list():
            for one in drawn:
                _attribute(value.array_value.values.add(), one)


@st.composite
def _drawn_traces(draw: st.DrawFn) -> bytes:
    text, times = _texts(), st.integers(0, 2**64 - 1) | st.integers(_T_NS, _T_NS + 10**10)
    message = _trace_message()
    for span in message.resource_spans[0].scope_spans[0].spans:
        span.name = draw(text)
        span.start_time_unix_nano, span.end_time_unix_nano = draw(times), draw(times)
        for name, value in draw(st.dictionaries(text, _values(), max_size=4)).items():
            _attribute(span.attributes.add(key=name).value, value)
    for name, value in draw(st.dictionaries(text, _values(), max_size=4)).items():
        _attribute(message.resource_spans[0].resource.attributes.add(key=name).value, value)
    return b"\0" + message.SerializeToString()


@st.composite
def _drawn_metrics(draw: st.DrawFn) -> bytes:
    message = ExportMetricsServiceRequest()
    of = message.resource_metrics.add()
    for name, value in draw(st.dictionaries(_texts(), _values(), max_size=3)).items():
        _attribute(of.resource.attributes.add(key=name).value, value)
    for kind in draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=3)):
        metric = of.scope_metrics.add().metrics.add(name=draw(_texts()), unit=draw(_texts()))
        told = getattr(metric, kind)
        if kind not in ("gauge", "summary"):
            told.aggregation_temporality = draw(st.integers(0, 3))
        point = told.data_points.add(time_unix_nano=draw(st.integers(0, 2**64 - 1)))
        point.flags = draw(st.integers(0, 3))
        for name, value in draw(st.dictionaries(_texts(), _values(), max_size=3)).items():
            _attribute(point.attributes.add(key=name).value, value)
        if kind in ("gauge", "sum"):
            point.as_double = draw(st.floats())
        else:
            point.count, point.sum = draw(st.integers(0, 2**64 - 1)), draw(st.floats())
        if kind == "histogram":
            point.bucket_counts.extend(draw(st.lists(st.integers(0, 2**64 - 1), max_size=4)))
            point.explicit_bounds.extend(draw(st.lists(st.floats(), max_size=4)))
    return b"\0" + message.SerializeToString()


def _texts() -> SearchStrategy[str]:
    return st.sampled_from(_TEXTS) | st.text(st.characters(codec="utf-8"), max_size=10)


def _values() -> SearchStrategy[object]:
    plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | _texts()
    return st.recursive(plain, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


OTLP_METRICS: Final = Target(
    "otlp-metrics", "OTLP metrics", _metrics, lambda: _encoded(_metrics_message()), _drawn_metrics
)
OTLP_TRACES: Final = Target(
    "otlp-traces", "OTLP traces", _traces, lambda: _encoded(_trace_message()), _drawn_traces
)
