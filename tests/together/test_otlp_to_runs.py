"""A program that is instrumented with OpenTelemetry alone: its own exporters, a real `trilens up`."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from servers import until
from trilens.cli.run_export import export
from trilens.collect.otlp.attributes import read_attributes
from trilens.model.errors import RequestError
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.proto.trace.v1.trace_pb2 import Span
    from opentelemetry.sdk.trace import ReadableSpan

RUN = "otel-run"


class Collector:
    """Takes traces as a collector does: busy at first, then all of them."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.turned_away = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
                wanted = ("/v1/traces", "application/x-protobuf", "Bearer sesame")
                told = (self.path, self.headers["Content-Type"], self.headers["Authorization"])
                status = 200 if told == wanted else 400
                if not collector.turned_away and status == 200:
                    collector.turned_away, status = 1, 503
                elif status == 200:
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(status)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[tuple[dict[str, Any], Span]]:
        """Each with the attributes of its resource and its own."""
        return [
            ({**read_attributes(one.resource.attributes), **read_attributes(span.attributes)}, span)
            for request in [*self.requests]
            for one in request.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("otlp")
    config = folder / "trilens.yaml"
    config.write_text(f"otlp: {{url: '{collector.url}', bearer_token: sesame, interval: 200ms}}\n")
    with server(folder, "--config", str(config)) as (address, _):
        yield address


class Kept(SpanExporter):
    """Holds spans back, to send them as the test wants."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


def trained(rank: int, steps: int) -> list[ReadableSpan]:
    """As a program writes it."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    resource = Resource.create(
        {
            "service.name": "train",
            "service.instance.id": f"i-{rank}",
            "training.run_id": RUN,
            "training.rank": rank,
            "training.world_size": 2,
            "training.experiment": "otel",
            "host.name": f"n{rank}",
            "k8s.pod.name": f"train-{rank}",
            "k8s.namespace.name": "ml",
        }
    )
    provider, kept = TracerProvider(resource=resource), Kept()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("loop")
    for step in range(steps):
        ids = [8 * step + 2 * i + rank for i in range(4)]
        with tracer.start_as_current_span("step") as span:
            span.set_attributes({"training.step": step, "training.dataset": "c4", "training.samples": 4})
            for phase in ("data", "forward", "backward"):
                with tracer.start_as_current_span(phase):
                    pass
            span.set_attribute("training.sample_ids", ids)
            span.set_attribute("training.loss", float("nan") if step == 3 else 3.0 - step)
    with tracer.start_as_current_span("save") as span:
        span.set_attributes({"training.step": steps - 1, "training.checkpoint.path": "/ckpt/5"})
    with tracer.start_as_current_span("GET /something"):
        pass
    return kept.spans


def data(url: str, path: str, **params: Any) -> Any:
    answer = httpx.get(f"{url}{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.fixture(scope="module")
def told(url: str) -> str:
    """The server, once two ranks have sent everything to it."""
    for rank in (0, 1):
        exporter = OTLPSpanExporter(f"{url}/v1/traces", compression=Compression.Gzip)
        spans = trained(rank, 5)
        # Phases before their step, in pieces, and twice: as exporters and their retries do.
        for piece in (spans[:6], spans[:6], spans[6:], spans[6:]):
            assert exporter.export(piece) is SpanExportResult.SUCCESS
    return url


def test_spans_become_steps_phases_batches_and_checkpoints_once(told: str) -> None:
    ranks = data(told, f"/api/runs/{RUN}/steps/2")["ranks"]
    assert [(one["rank"], one["pod"], one["values"]["loss"]) for one in ranks] == [
        (0, "train-0", 1.0),
        (1, "train-1", 1.0),
    ]
    for one in ranks:
        assert list(one["phases_us"]) == ["data", "forward", "backward"]
        assert sum(one["phases_us"].values()) <= one["duration_us"]
        (batch,) = one["batches"]
        assert (batch["dataset"], batch["range"]) == ("c4", [16 + one["rank"], 4, 2])
    asked = httpx.get(f"{told}/metrics").text
    assert 'trilens_otlp_spans_total{outcome="step"} 10.0' in asked
    assert 'trilens_otlp_spans_total{outcome="phase"} 30.0' in asked
    assert 'trilens_otlp_spans_total{outcome="checkpoint"} 2.0' in asked
    assert 'trilens_otlp_spans_total{outcome="not_kept"} 4.0' in asked  # the GET, of two ranks, twice


def test_steps_go_out_as_one_trace_over_all_ranks(told: str, collector: Collector) -> None:
    def steps() -> list[tuple[dict[str, Any], Span]]:
        return [one for one in collector.spans() if one[1].name == "step"]

    until(lambda: len(steps()) >= 10, "the collector gets no steps")
    assert collector.turned_away == 1  # and it was asked again
    assert len(steps()) == 10
    of_2 = {own["training.rank"]: (own, span) for own, span in steps() if own["training.step"] == 2}
    (own, root), (_, other) = of_2[0], of_2[1]
    assert (own["training.run_id"], own["training.loss"], own["training.samples"]) == (RUN, 1.0, 4)
    assert (own["training.dataset"], own["training.sample_range"]) == ("c4", [16, 4, 2])
    assert (len(root.trace_id), root.parent_span_id) == (16, b"")
    assert (other.trace_id, other.parent_span_id) == (root.trace_id, root.span_id)
    assert len({span.trace_id for _, span in steps()}) == 5
    phases = [span for _, span in collector.spans() if span.parent_span_id == root.span_id and span != other]
    assert [span.name for span in phases] == ["data", "forward", "backward"]
    assert phases[0].start_time_unix_nano == root.start_time_unix_nano
    assert phases[-1].end_time_unix_nano <= root.end_time_unix_nano
    (saved, *_) = [own for own, span in collector.spans() if span.name == "save checkpoint"]
    assert (saved["training.checkpoint.path"], saved["training.step"]) == ("/ckpt/5", 4)
    shown = httpx.get(f"{told}/metrics").text
    assert 'trilens_otlp_export_records_total{outcome="sent"} 12.0' in shown
    assert "trilens_otlp_export_failures_total 1.0" in shown


def test_the_past_is_sent_by_command_with_the_same_ids(told: str, collector: Collector) -> None:
    def ids(of: Collector) -> set[tuple[bytes, bytes]]:
        steps = [one for one in of.spans() if one[0].get("training.step") in (1, 2)]
        return {(span.trace_id, span.span_id) for _, span in steps}

    until(lambda: len(ids(collector)) == 4, "the collector gets no steps")
    other = Collector()
    other.turned_away = 1
    try:
        where = ("--otlp", other.url, "--server", told, "--first", "1", "--last", "2")
        answer = trilens("runs", "export", RUN, *where, "--header", "Authorization=Bearer sesame")
        assert (answer.returncode, "bytes sent" in answer.stderr) == (0, True), answer.stderr
        assert ids(other) == ids(collector)
        assert {own["training.step"] for own, span in other.spans() if span.name == "step"} == {1, 2}
        answer = trilens("runs", "export", RUN, *where)  # without the collector's token
        assert (answer.returncode, "answered HTTP 400" in answer.stderr) == (1, True)
    finally:
        other.close()


def test_a_header_that_is_none() -> None:
    with pytest.raises(RequestError, match="is not NAME=VALUE"):
        export("any", "http://127.0.0.1:1", header=["nonsense"])


def test_what_a_step_span_lacks_is_said(url: str) -> None:
    attribute = {"key": "training.step", "value": {"intValue": "-4"}}
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "step",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [attribute],
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    answer = httpx.post(f"{url}/v1/traces", json=body)
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert "training.step is -4" in answer.json()["partialSuccess"]["errorMessage"]
    attribute["value"] = {"intValue": "4"}
    answer = httpx.post(f"{url}/v1/traces", json=body)
    assert "training.run_id '' is not 1 to 64" in answer.json()["partialSuccess"]["errorMessage"]


def test_metrics_of_the_real_exporter(url: str) -> None:
    exporter = OTLPMetricExporter(f"{url}/v1/metrics", compression=Compression.Gzip)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    resource = Resource.create(
        {"service.name": "chat", "service.instance.id": "i-9", "k8s.pod.name": "chat-0"}
    )
    provider = MeterProvider([reader], resource=resource)
    meter = provider.get_meter("server")
    meter.create_counter("requests", unit="{request}").add(3, {"model": "llama"})
    duration = meter.create_histogram("gen_ai.server.request.duration", unit="s")
    duration.record(0.3, {"gen_ai.request.model": "llama"})
    meter.create_gauge("queue.depth").set(7)
    assert provider.force_flush()
    provider.shutdown()
    found = {}
    for series in data(url, "/api/v1/query", query='{job="chat"}')["result"]:
        labels = series["metric"]
        if labels.get("le", "+Inf") == "+Inf":
            found[labels["__name__"]] = (series["value"][1], labels.get("pod"), labels.get("instance"))
    assert found == {
        "requests_total": ("3", "chat-0", "i-9"),
        "gen_ai_server_request_duration_seconds_bucket": ("1", "chat-0", "i-9"),
        "gen_ai_server_request_duration_seconds_count": ("1", "chat-0", "i-9"),
        "gen_ai_server_request_duration_seconds_sum": ("0.3", "chat-0", "i-9"),
        "queue_depth": ("7", "chat-0", "i-9"),
        "target_info": ("1", "chat-0", "i-9"),
    }


def test_what_does_not_decode_is_answered_in_the_senders_encoding(url: str) -> None:
    headers = {"content-type": "application/x-protobuf"}
    answer = httpx.post(f"{url}/v1/metrics", content=b"\xff\xff", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/x-protobuf")
    assert b"not an ExportMetricsServiceRequest" in answer.content
    answer = httpx.post(f"{url}/v1/traces", content=b"[]", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "not an ExportTraceServiceRequest" in answer.json()["message"]
    answer = httpx.post(f"{url}/v1/traces", content=b"", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    empty = ExportMetricsServiceRequest().SerializeToString()
    answer = httpx.post(f"{url}/v1/traces", content=empty, headers=headers)
    assert answer.status_code == 200
    assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
