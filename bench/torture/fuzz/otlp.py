"""OTLP metrics and traces. The first byte of an input says in which encoding it is, and whether the server of
traces has just started: one that has not goes on with what it was told before.
"""

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
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.collect.otlp.body import Encoding, write_status
from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver
from trilens.collect.otlp.stats import OtlpMetricsStats, OtlpTraceStats
from trilens.collect.otlp.trace_receiver import OtlpTraceReceiver
from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from google.protobuf.message import Message
    from hypothesis.strategies import SearchStrategy
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

_IS_JSON: Final = 1
_IS_GZIP: Final = 2
_IS_STARTED: Final = 4
_T_NS: Final = 1_763_000_000_000_000_000
_STARTS_AGAIN: Final = 2_000  # inputs, after which a server that has met too much is another one
# Of a resource and of its spans, as the receiver reads them (tests/fuzz/test_fuzz_short.py).
TRAINING: Final = (
    "training.run_id",
    "training.rank",
    "training.local_rank",
    "training.world_size",
    "training.total_steps",
    "training.experiment",
    "training.run_name",
    "training.step",
    "training.samples",
    "training.tokens",
    "training.epoch",
    "training.batch_size",
    "training.dataset",
    "training.shard",
    "training.sample_ids",
    "training.sample_range",
    "training.sample_digest",
    "training.checkpoint.path",
    "training.checkpoint.bytes",
    "training.checkpoint.loaded",
    "training.loss",
    "process.pid",
    "process.runtime.name",
    "process.runtime.version",
    "telemetry.sdk.version",
    "service.name",
    "service.instance.id",
    "host.name",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.container.name",
)
_TEXTS: Final = ("", "train.step", "step", "forward", "r1", "$WORLD_SIZE", "8", "0x8", "\u0663", "9" * 5_000)
_KINDS: Final = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def _metrics(data: bytes) -> None:
    receiver = OtlpMetricsReceiver(NoSamples(), OtlpMetricsStats())
    _received(receiver.receive, data)


def _traces(data: bytes) -> None:
    receiver = _started() if (data[:1] or b"\0")[0] & _IS_STARTED else _server.receiver()
    _received(receiver.receive, data)
    _received(receiver.receive, data)  # sent again it adds nothing, and breaks nothing


class _Server:
    """One for many inputs: what one of them leaves behind must not harm those that come after it."""

    def __init__(self) -> None:
        self._receiver = _started()
        self._met = 0

    def receiver(self) -> OtlpTraceReceiver:
        self._met += 1
        if self._met % _STARTS_AGAIN == 0:
            self._receiver = _started()
        return self._receiver


def _started() -> OtlpTraceReceiver:
    runs = NoRuns()
    return OtlpTraceReceiver(AtOnce(runs), runs, OtlpTraceStats())


_server: Final = _Server()


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


def _whole_trace_message() -> ExportTraceServiceRequest:
    """All that is read of a process, a step and a checkpoint."""
    message = _trace_message()
    of = message.resource_spans[0]
    step = of.scope_spans[0].spans[0]
    saved = of.scope_spans[0].spans.add(trace_id=b"t" * 16, span_id=b"c" * 8)
    saved.CopyFrom(step)
    saved.span_id = b"c" * 8
    _tell(of.resource.attributes, _PROCESS)
    _tell(step.attributes, _STEP)
    _tell(saved.attributes, _CHECKPOINT)
    return message


_PROCESS: Final[dict[str, object]] = {
    "process.pid": 100,
    "process.runtime.name": "cpython",
    "process.runtime.version": "3.12",
    "service.name": "train",
    "service.instance.id": "i-0",
    "host.name": "n1",
    "k8s.pod.name": "p-0",
    "training.local_rank": 0,
    "training.world_size": "8",
    "training.total_steps": 1_000,
    "training.experiment": "lr",
}
_STEP: Final[dict[str, object]] = {
    "training.samples": 3,
    "training.tokens": 12,
    "training.epoch": 1,
    "training.batch_size": 3,
    "training.loss": 0.5,
    "training.dataset": "c4",
    "training.sample_ids": [4, 6, 9],
    "training.sample_range": [0, 3, 1],
    "training.sample_digest": "0" * 16,
}
_CHECKPOINT: Final[dict[str, object]] = {
    "training.checkpoint.path": "/c/1",
    "training.checkpoint.bytes": 77,
    "training.checkpoint.loaded": True,
}


def _tell(attributes: RepeatedCompositeFieldContainer[KeyValue], told: Mapping[str, object]) -> None:
    for name, value in told.items():
        _attribute(attributes.add(key=name).value, value)


def _encoded(message: Message, *servers: int) -> Iterator[bytes]:
    binary, text = message.SerializeToString(), MessageToJson(message).encode()
    for server in servers or (0,):
        yield bytes([server]) + binary
        yield bytes([server | _IS_JSON]) + text
        yield bytes([server | _IS_GZIP]) + gzip.compress(binary, mtime=0)


def _trace_seeds() -> Iterator[bytes]:
    yield from _encoded(_trace_message(), 0, _IS_STARTED)
    yield from _encoded(_whole_trace_message(), 0, _IS_STARTED)


def _large_traces() -> Iterator[bytes]:
    message = _whole_trace_message()
    spans = message.resource_spans[0].scope_spans[0].spans
    for number in range(MANY // 5):
        spans.add().CopyFrom(spans[number % 3])
        spans[-1].span_id = number.to_bytes(8, "big")
    yield bytes([_IS_STARTED]) + message.SerializeToString()
    message = _whole_trace_message()
    _tell(message.resource_spans[0].resource.attributes, {f"a{number}": "v" for number in range(MANY)})
    for _ in range(MANY // 5):
        message.resource_spans[0].scope_spans[0].spans.add().CopyFrom(
            _trace_message(2).resource_spans[0].scope_spans[0].spans[0]
        )
    yield bytes([_IS_STARTED]) + message.SerializeToString()
    for name in (
        "training.run_id",
        "training.rank",
        "training.world_size",
        "training.sample_ids",
        "host.name",
    ):
        for value in ("9" * LARGE, [*range(MANY)]):
            message = _whole_trace_message()
            for told in (
                message.resource_spans[0].resource,
                message.resource_spans[0].scope_spans[0].spans[0],
            ):
                _tell(told.attributes, {name: value})
            yield bytes([_IS_STARTED]) + message.SerializeToString()
    yield from _large_json()


def _large_metrics() -> Iterator[bytes]:
    message = _metrics_message()
    for metric in message.resource_metrics[0].scope_metrics[0].metrics:
        points = getattr(metric, metric.WhichOneof("data") or "").data_points
        points.extend([points[0]] * (MANY // 10))
    yield b"\0" + message.SerializeToString()
    message = _metrics_message()
    point = message.resource_metrics[0].scope_metrics[0].metrics[0].gauge.data_points[0]
    for told in (message.resource_metrics[0].resource, point):
        _tell(told.attributes, {"same": "v" * (LARGE // 4)})
        _tell(told.attributes, {f"a.{number}": "v" for number in range(MANY)})
        _tell(told.attributes, {"a" + "." * (number % 500): "v" for number in range(MANY // 10)})
    yield b"\0" + message.SerializeToString()
    yield from _large_json()


def _large_json() -> Iterator[bytes]:
    yield b"\1" + b"[" * LARGE
    yield b"\1" + b'{"a":' * MANY
    yield b"\1" + b'{"resourceSpans":[' + b"{}," * (MANY // 5) + b"{}]}"
    yield b"\2" + gzip.compress(bytes(30 * LARGE), mtime=0)


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
    told = st.dictionaries(st.sampled_from(TRAINING) | text, _values(), max_size=5)
    message = draw(st.sampled_from((_trace_message, _whole_trace_message)))()
    for span in message.resource_spans[0].scope_spans[0].spans:
        span.name = draw(text)
        span.start_time_unix_nano, span.end_time_unix_nano = draw(times), draw(times)
        _tell(span.attributes, draw(told))
    _tell(message.resource_spans[0].resource.attributes, draw(told))
    return bytes([draw(st.sampled_from((0, _IS_STARTED)))]) + message.SerializeToString()


@st.composite
def _drawn_metrics(draw: st.DrawFn) -> bytes:
    message = ExportMetricsServiceRequest()
    of = message.resource_metrics.add()
    _tell(of.resource.attributes, draw(st.dictionaries(_texts(), _values(), max_size=3)))
    for kind in draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=3)):
        metric = of.scope_metrics.add().metrics.add(name=draw(_texts()), unit=draw(_texts()))
        told = getattr(metric, kind)
        if kind not in ("gauge", "summary"):
            told.aggregation_temporality = draw(st.integers(0, 3))
        point = told.data_points.add(time_unix_nano=draw(st.integers(0, 2**64 - 1)))
        point.flags = draw(st.integers(0, 3))
        _tell(point.attributes, draw(st.dictionaries(_texts(), _values(), max_size=3)))
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
    "otlp-metrics",
    "OTLP metrics",
    _metrics,
    lambda: _encoded(_metrics_message()),
    _drawn_metrics,
    _large_metrics,
)
OTLP_TRACES: Final = Target("otlp-traces", "OTLP traces", _traces, _trace_seeds, _drawn_traces, _large_traces)
