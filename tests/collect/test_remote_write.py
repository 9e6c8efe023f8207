from __future__ import annotations

import math
import struct
import threading
import time
import tracemalloc
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_sink import STALE, RecordingSink

from http_target import HttpTarget
from servers import free_port, require_server, running
from trilens.collect.remote_write import RemoteWriteReceiver, WriteResult, encode
from trilens.collect.remote_write.messages import RequestV2, TimeSeries, TimeSeriesV2, WriteRequest
from trilens.model.errors import RemoteWriteError, RemoteWriteUnsupported, StoreError, StoreReadOnly
from trilens.model.labels import Labels, make_labels

if TYPE_CHECKING:
    from pathlib import Path

V1 = "application/x-protobuf"
V2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
NOW = 1_763_000_000_000

Rows = list[tuple[dict[str, str], list[tuple[int, float]]]]


def snappy(message: Any) -> bytes:
    return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))


def body_v1(rows: Rows) -> bytes:
    return encode((tuple(labels.items()), t, v) for labels, samples in rows for t, v in samples)


def body_v2(rows: Rows, metadata: tuple[int, str, str] | None = None) -> bytes:
    symbols = {"": 0}
    request = RequestV2()
    for labels, samples in rows:
        series = TimeSeriesV2()
        for text in (text for pair in labels.items() for text in pair):
            series.labels_refs.append(symbols.setdefault(text, len(symbols)))
        for t, v in samples:
            series.samples.add(timestamp=t, value=v)
        if metadata is not None:
            series.metadata.type = metadata[0]
            series.metadata.help_ref = symbols.setdefault(metadata[1], len(symbols))
            series.metadata.unit_ref = symbols.setdefault(metadata[2], len(symbols))
        request.timeseries.append(series.SerializeToString())
    request.symbols.extend(symbols)
    return snappy(request)


BOTH = pytest.mark.parametrize(("build", "kind"), [(body_v1, V1), (body_v2, V2)], ids=["1.0", "2.0"])


class Receiving:
    def __init__(self) -> None:
        self.sink = RecordingSink()
        self.receiver = RemoteWriteReceiver(self.sink)

    def __call__(self, body: bytes, kind: str = V1) -> WriteResult:
        return self.receiver.receive(body, kind, "snappy")


@pytest.fixture
def receive() -> Receiving:
    return Receiving()


@BOTH
def test_samples_arrive_and_known_series_are_recognised(receive: Receiving, build: Any, kind: str) -> None:
    a, b = {"__name__": "a", "x": "1"}, {"__name__": "b"}
    for i in range(3):
        result = receive(build([(a, [(NOW + i, 0.0)]), (b, [(NOW + i, 1.5)])]), kind)
        assert result == WriteResult(samples=2)
        assert result.http_status == 204
        assert result.headers()["X-Prometheus-Remote-Write-Samples-Written"] == "2"
    assert receive(build([(a, [(NOW + 3, 7.0), (NOW + 4, math.inf)])]), kind).samples == 2
    assert receive.sink.values("a") == [0, 0, 0, 7, math.inf]
    assert [s.t_ms for s in receive.sink.of("b")] == [NOW, NOW + 1, NOW + 2]
    assert receive.sink.of("a")[0].labels == a
    assert receive.sink.durable_calls == 4


@BOTH
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_request_reads_back_as_it_was_written(build: Any, kind: str, data: st.DataObject) -> None:
    """The quick way through known bytes and the careful way must give the same rows."""
    receive = Receiving()
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=150)
    extra = st.dictionaries(text.filter(lambda name: name != "__name__"), text, max_size=4)
    distinct = st.lists(extra, min_size=1, max_size=4, unique_by=lambda labels: tuple(sorted(labels.items())))
    names = [{"__name__": "m", **labels} for labels in data.draw(distinct)]
    times = {tuple(sorted(labels.items())): data.draw(st.integers(-(2**50), 2**50)) for labels in names}
    values = st.sampled_from([0.0, -0.0, 1.0, -1.5, math.inf, 5e-324])
    expected = []
    for _ in range(3):
        rows: Rows = []
        for labels in names:
            key = tuple(sorted(labels.items()))
            samples = []
            for value in data.draw(st.lists(values, max_size=3)):
                times[key] += data.draw(st.sampled_from([1, 15_000, 2**43]))
                samples.append((times[key], value))
                expected.append((labels, times[key], value))
            rows.append((labels, samples))
        result = receive(build(rows), kind)
        assert result.rejected is None
    assert [tuple(s) for s in receive.sink.samples] == expected


@BOTH
def test_staleness_markers_pass_through(receive: Receiving, build: Any, kind: str) -> None:
    from trilens.model.series import STALE_NAN

    for i, value in enumerate((1.0, STALE_NAN, math.nan)):
        receive(build([({"__name__": "a"}, [(NOW + i, value)])]), kind)
    values = receive.sink.values("a")
    assert values[:2] == [1, STALE]
    assert isinstance(values[2], float)
    assert math.isnan(values[2])


@BOTH
def test_old_and_conflicting_samples_are_refused_and_the_rest_taken(
    receive: Receiving, build: Any, kind: str
) -> None:
    a, b = {"__name__": "a"}, {"__name__": "b"}
    receive(build([(a, [(NOW, 1.0)]), (b, [(NOW, 1.0)])]), kind)
    result = receive(build([(a, [(NOW - 1, 1.0)]), (b, [(NOW, 2.0)]), (a, [(NOW + 1, 3.0)])]), kind)
    assert result.http_status == 400
    assert result.samples == 1
    assert result.rejected is not None
    assert "1 samples out of order" in result.rejected
    assert "1 samples with another value" in result.rejected
    assert receive.sink.values("a") == [1, 3]
    repeated = receive(build([(a, [(NOW + 1, 3.0)])]), kind)
    assert repeated == WriteResult(samples=1)  # a sender that tries again is told that all is well


@BOTH
@pytest.mark.parametrize(
    ("labels", "reason"),
    [({"x": "1"}, "no metric name"), ({"__name__": "a", "": "1"}, "has no name"), ({}, "no metric name")],
)
def test_bad_labels_are_refused_and_the_rest_taken(
    receive: Receiving, build: Any, kind: str, labels: dict[str, str], reason: str
) -> None:
    for i in range(2):  # a refused series must not be remembered as known
        result = receive(build([(labels, [(NOW + i, 1.0)]), ({"__name__": "ok"}, [(NOW + i, 1.0)])]), kind)
        assert result.rejected is not None
        assert reason in result.rejected
    assert receive.sink.values("ok") == [1, 1]
    assert len(receive.sink.samples) == 2


@BOTH
def test_labels_may_come_in_any_order_and_empty_ones_are_none(
    receive: Receiving, build: Any, kind: str
) -> None:
    receive(build([({"z": "1", "__name__": "a", "e": ""}, [(NOW, 1.0)])]), kind)
    receive(build([({"__name__": "a", "z": "1"}, [(NOW + 1, 2.0)])]), kind)
    assert [s.labels for s in receive.sink.samples] == [{"__name__": "a", "z": "1"}] * 2


@BOTH
def test_where_very_many_series_are_refused_nothing_is_taken(
    receive: Receiving, build: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a while, and other senders wait meanwhile."""
    monkeypatch.setattr("trilens.collect.remote_write.decoded._MOST_REFUSED", 2)
    good: Rows = [({"__name__": "up", "job": "a"}, [(NOW, 1.0)])]
    bad: Rows = [({"job": str(at)}, [(NOW, 1.0)]) for at in range(3)]
    assert receive(build(good + bad[:2]), kind).samples == 1
    with pytest.raises(RemoteWriteError, match="more than 2 series of the request are refused, the first: "):
        receive(build([({"__name__": "up", "job": "b"}, [(NOW, 1.0)]), *bad]), kind)
    assert len(receive.sink.samples) == 1


def test_a_label_that_appears_twice_is_refused(receive: Receiving) -> None:
    series = TimeSeries()
    for name, value in (("__name__", "a"), ("x", "1"), ("x", "2")):
        series.labels.add(name=name, value=value)
    series.samples.add(timestamp=NOW, value=1)
    result = receive(snappy(WriteRequest(timeseries=[series.SerializeToString()])))
    assert result.rejected is not None
    assert "'x' appears twice" in result.rejected


def test_a_label_that_appears_twice_is_refused_in_2_0_too(receive: Receiving) -> None:
    request = RequestV2(symbols=["", "__name__", "a", "x", "x"])
    for refs in ([1, 2, 3, 2, 3, 2], [1, 2, 3, 2, 4, 2]):
        series = TimeSeriesV2(labels_refs=refs)
        series.samples.add(timestamp=NOW, value=1)
        request.timeseries.append(series.SerializeToString())
    result = receive(snappy(request), V2)
    assert result.rejected is not None
    assert "2 series refused, the first because the label 'x' appears twice" in result.rejected


def test_labels_behind_the_sample_belong_to_the_series(receive: Receiving) -> None:
    """Legal protobuf that no sender writes: the known front alone must not decide which series it is."""
    known = TimeSeries()
    known.labels.add(name="__name__", value="a")
    known.samples.add(timestamp=NOW, value=1)
    more = TimeSeries()
    more.labels.add(name="x", value="1")
    front = known.SerializeToString()
    receive(snappy(WriteRequest(timeseries=[front])))
    receive(snappy(WriteRequest(timeseries=[front + more.SerializeToString()])))
    assert [s.labels for s in receive.sink.samples] == [{"__name__": "a"}, {"__name__": "a", "x": "1"}]
    two = TimeSeries()
    two.samples.add(timestamp=NOW + 1, value=2)
    receive(snappy(WriteRequest(timeseries=[front + two.SerializeToString()])))
    assert receive.sink.samples[-1] == ({"__name__": "a"}, NOW + 1, 2)


def test_a_sample_of_the_usual_length_may_still_be_unusual(receive: Receiving) -> None:
    known = TimeSeries()
    known.labels.add(name="__name__", value="a")
    labels = known.SerializeToString()
    known.samples.add(timestamp=5, value=1)
    receive(snappy(WriteRequest(timeseries=[known.SerializeToString()])))
    # A time of four bytes and a field that we do not know: as long as a time of six bytes.
    sample = b"\x12\x10\x09" + struct.pack("<d", 2.5) + b"\x10\x80\x80\x80\x01\x18\x05"
    receive(snappy(WriteRequest(timeseries=[labels + sample])))
    assert receive.sink.samples[-1] == ({"__name__": "a"}, 2**21, 2.5)


def test_a_sample_behind_the_metadata_is_read(receive: Receiving) -> None:
    symbols = ["", "__name__", "a"]
    series = TimeSeriesV2(labels_refs=[1, 2])
    series.samples.add(timestamp=NOW, value=1)
    series.metadata.type = 2
    usual = series.SerializeToString()
    receive(snappy(RequestV2(symbols=symbols, timeseries=[usual])), V2)
    more = TimeSeriesV2()
    more.samples.add(timestamp=NOW + 1, value=2)
    receive(snappy(RequestV2(symbols=symbols, timeseries=[usual + more.SerializeToString()])), V2)
    assert receive.sink.values("a") == [1, 2]


def test_a_label_that_is_not_utf8_is_refused(receive: Receiving) -> None:
    good = TimeSeries()
    good.labels.add(name="__name__", value="good")
    good.samples.add(timestamp=NOW, value=1)
    bad = good.SerializeToString().replace(b"good", b"\xff\xfe\xfd\xfc")
    result = receive(snappy(WriteRequest(timeseries=[bad, good.SerializeToString()])))
    assert result.rejected is not None
    assert "UTF-8" in result.rejected
    assert receive.sink.values("good") == [1]


@BOTH
def test_native_histograms_are_refused_and_exemplars_left_out(
    receive: Receiving, build: Any, kind: str
) -> None:
    series: Any = TimeSeries() if kind == V1 else TimeSeriesV2()
    request: Any = WriteRequest() if kind == V1 else RequestV2(symbols=["", "__name__", "a"])
    if kind == V1:
        series.labels.add(name="__name__", value="a")
    else:
        series.labels_refs.extend([1, 2])
    for i in range(2):
        del series.samples[:]
        del series.histograms[:]
        del series.exemplars[:]
        series.samples.add(timestamp=NOW + i, value=1)
        series.histograms.append(b"\x08\x01")
        series.exemplars.append(b"")
        del request.timeseries[:]
        request.timeseries.append(series.SerializeToString())
        result = receive(snappy(request), kind)
        assert result.rejected == "1 native histograms, which are not supported yet"
        assert (result.samples, result.histograms, result.exemplars) == (1, 0, 0)
    assert receive.receiver.stats.exemplars_dropped == 2


def test_metadata(receive: Receiving) -> None:
    request = WriteRequest()
    request.metadata.add(type=1, metric_family_name="requests", help="All of them.", unit="")
    request.metadata.add(type=99, metric_family_name="odd")
    receive(snappy(request))
    assert receive.sink.metadata == {"requests": ("counter", "All of them.", ""), "odd": ("unknown", "", "")}
    receive(body_v2([({"__name__": "t_seconds"}, [(NOW, 1.0)])], (2, "Time.", "seconds")), V2)
    assert receive.sink.metadata["t_seconds"] == ("gauge", "Time.", "seconds")


def test_symbols_out_of_range_are_refused(receive: Receiving) -> None:
    good = TimeSeriesV2(labels_refs=[1, 2])
    good.samples.add(timestamp=NOW, value=1)
    bad = TimeSeriesV2(labels_refs=[1, 77])
    bad.samples.add(timestamp=NOW, value=1)
    odd = TimeSeriesV2(labels_refs=[1, 2, 1])
    request = RequestV2(symbols=["", "__name__", "a"])
    request.timeseries.extend(series.SerializeToString() for series in (good, bad, odd))
    result = receive(snappy(request), V2)
    assert result.rejected is not None
    assert "2 series refused, the first because a label refers to symbol 77 of 3" in result.rejected
    assert receive.sink.values("a") == [1]


def test_a_cut_label_number_does_not_spill_into_the_next_series(receive: Receiving) -> None:
    good = TimeSeriesV2(labels_refs=[1, 2])
    good.samples.add(timestamp=NOW, value=1)
    tail = good.SerializeToString()[4:]
    cut = b"\x0a\x02\x01\x82" + tail  # the last number is not whole
    request = RequestV2(symbols=["", "__name__", "a", "b"])
    request.timeseries.extend([good.SerializeToString(), cut, good.SerializeToString()])
    result = receive(snappy(request), V2)
    result = receive(snappy(request), V2)
    assert result.rejected is not None
    assert "1 series refused" in result.rejected
    assert {s.name for s in receive.sink.samples} == {"a"}


def test_a_number_without_end_is_refused_at_once(receive: Receiving) -> None:
    """Read to its end, each byte would be a shift of a number as long as all before it."""
    good = TimeSeries()
    good.labels.add(name="__name__", value="a")
    good.samples.add(timestamp=NOW, value=1)
    endless = b"\x0a" + b"\xff" * 3_000_000
    began_s = time.thread_time()
    result = receive(snappy(WriteRequest(timeseries=[endless, good.SerializeToString()])))
    assert time.thread_time() - began_s < 5
    assert result.rejected is not None
    assert "1 series refused, the first because series 0 does not decode" in result.rejected
    assert receive.sink.values("a") == [1]


@pytest.mark.parametrize(
    "number",
    [b"\xff" * 9 + b"\x01", b"\xfc" + b"\xff" * 8 + b"\x01", b"\x82" + b"\x80" * 9 + b"\x00"],
    ids=["the last one", "before the first", "eleven bytes"],
)
def test_a_label_number_that_is_too_large_is_no_other_symbol(receive: Receiving, number: bytes) -> None:
    good = TimeSeriesV2(labels_refs=[1, 2])
    good.samples.add(timestamp=NOW, value=1)
    tail = good.SerializeToString()[4:]
    bad = b"\x0a" + bytes([1 + len(number)]) + b"\x01" + number + tail
    request = RequestV2(symbols=["", "__name__", "a"], timeseries=[good.SerializeToString()])
    receive(snappy(request), V2)
    result = receive(snappy(RequestV2(symbols=request.symbols, timeseries=[bad])), V2)
    assert result.rejected is not None
    assert "1 series refused" in result.rejected
    assert receive.sink.values("a") == [1]


def test_one_of_many_labels_that_appears_twice_is_found_at_once(receive: Receiving) -> None:
    series = TimeSeries()
    for name in [*map(str, range(40_000)), "39999"]:
        series.labels.add(name=name, value="v")
    began_s = time.thread_time()
    result = receive(snappy(WriteRequest(timeseries=[series.SerializeToString()])))
    assert time.thread_time() - began_s < 5
    assert result.rejected is not None
    assert "'39999' appears twice" in result.rejected


@pytest.mark.parametrize("twice", [True, False], ids=["a label twice", "no name"])
def test_a_long_symbol_that_many_labels_have_is_not_written_out(receive: Receiving, twice: bool) -> None:
    names = [*map(str, range(2_000))]
    refs = [ref for number in range(2, 2_002) for ref in (number, 1)]
    series = TimeSeriesV2(labels_refs=refs * 2 if twice else refs)
    request = RequestV2(symbols=["", "v" * 50_000, *names], timeseries=[series.SerializeToString()])
    tracemalloc.start()
    result = receive(snappy(request), V2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000, "all of them would be a hundred megabytes"
    assert result.rejected is not None
    assert ("appears twice" if twice else "has no metric name") in result.rejected
    assert len(result.rejected) < 500


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("application/json", "snappy"),
        ("application/x-protobuf;proto=some.Other", "snappy"),
        (V1, "gzip"),
        (V1, ""),
        ("", "snappy"),
    ],
)
def test_what_is_not_spoken_is_answered_with_415(receive: Receiving, kind: str, encoding: str) -> None:
    with pytest.raises(RemoteWriteUnsupported) as caught:
        receive.receiver.receive(b"", kind, encoding)
    assert caught.value.http_status == 415


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-protobuf; proto=prometheus.WriteRequest",
        'Application/X-Protobuf;proto="prometheus.WriteRequest"',
    ],
)
def test_the_message_of_1_0_may_be_named(receive: Receiving, kind: str) -> None:
    assert receive(body_v1([({"__name__": "a"}, [(NOW, 1.0)])]), kind).samples == 1


@settings(max_examples=200, deadline=None)
@given(garbage=st.binary(max_size=200), compressed=st.booleans(), kind=st.sampled_from([V1, V2]))
def test_garbage_is_a_clear_400_or_nothing(garbage: bytes, compressed: bool, kind: str) -> None:
    body = bytes(cramjam.snappy.compress_raw(garbage)) if compressed else garbage
    receive = Receiving()
    try:
        result = receive(body, kind)
    except RemoteWriteError as e:
        assert e.http_status == 400
        assert e.message
    else:
        assert result.samples == len(receive.sink.samples)


@BOTH
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_request_never_writes_to_an_unknown_series(
    build: Any, kind: str, data: st.DataObject
) -> None:
    receive = Receiving()
    rows: Rows = [({"__name__": f"m{i}", "x": "y"}, [(NOW, float(i))]) for i in range(4)]
    receive(build(rows), kind)
    raw = bytearray(bytes(cramjam.snappy.decompress_raw(build([(r[0], [(NOW + 1, 1.0)]) for r in rows]))))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    try:
        receive(bytes(cramjam.snappy.compress_raw(bytes(raw))), kind)
    except RemoteWriteError:
        assert len(receive.sink.samples) == 4  # refused as a whole: nothing was taken
    for sample in receive.sink.samples[:4]:
        assert sample.labels in [row[0] for row in rows]


def test_a_body_that_claims_to_be_huge_is_refused_before_it_is_unpacked(receive: Receiving) -> None:
    with pytest.raises(RemoteWriteError, match="limit"):
        receive(b"\xff\xff\xff\xff\x0f" + b"\0" * 100)


def test_a_full_disk_is_the_senders_reason_to_try_again(receive: Receiving) -> None:
    receive.sink.read_only = True
    body = body_v1([({"__name__": "a"}, [(NOW, 1.0)])])
    with pytest.raises(StoreReadOnly) as caught:
        receive(body)
    assert caught.value.http_status == 503
    receive.sink.read_only = False
    assert receive(body).samples == 1


def test_a_write_that_does_not_reach_the_disk_is_not_acknowledged(receive: Receiving) -> None:
    def fails() -> Future[None]:
        future: Future[None] = Future()
        future.set_exception(StoreError("no disk"))
        return future

    receive.sink.durable = fails  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        receive(body_v1([({"__name__": "a"}, [(NOW, 1.0)])]))


def test_encode_groups_rows_of_a_series() -> None:
    a: Labels = make_labels({"__name__": "a"})
    b: Labels = make_labels({"__name__": "b"})
    body = encode([(a, 1, 1.0), (a, 2, 2.0), (b, 1, 3.0)])
    request = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(body)))
    assert [len(TimeSeries.FromString(raw).samples) for raw in request.timeseries] == [2, 1]
    assert encode([]) == bytes(cramjam.snappy.compress_raw(b""))


class ReceivingServer:
    """The receiver behind a plain HTTP server, as the real one is behind the API."""

    def __init__(self, receiver: RemoteWriteReceiver) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                result = receiver.receive(
                    body, self.headers.get("Content-Type", ""), self.headers.get("Content-Encoding", "")
                )
                self.send_response(result.http_status)
                for name, value in result.headers().items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/api/v1/write"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_a_real_prometheus_agent_writes_to_us(receive: Receiving, tmp_path: Path) -> None:
    prometheus = require_server("prometheus")
    port = free_port()
    text = '# HELP a_total Things.\n# TYPE a_total counter\na_total{x="ü"} 1\ng 0\ng{y="1"} NaN\n'
    with HttpTarget(text) as target, ReceivingServer(receive.receiver) as url:
        config = tmp_path / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, external_labels: {{cluster: test}}}}
scrape_configs: [{{job_name: j, static_configs: [{{targets: ["{target.address}"]}}]}}]
remote_write:
  - url: {url}
    queue_config: {{batch_send_deadline: 100ms}}
    metadata_config: {{send_interval: 200ms}}
""")
        command = [
            prometheus,
            "--enable-feature=agent",
            f"--config.file={config}",
            f"--storage.agent.path={tmp_path / 'agent'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        ready = f"http://127.0.0.1:{port}/-/ready"
        with running(command, ready, log=tmp_path / "log"):
            receive.sink.wait_for(lambda s: len(s.of("up")) >= 3 and "a_total" in s.metadata, timeout_s=60)
            target.say("g 0\n")
            receive.sink.wait_for(lambda s: STALE in s.values("a_total"), timeout_s=60)
    labels = {"cluster": "test", "job": "j", "instance": target.address}
    assert receive.sink.of("a_total")[0].labels == {"__name__": "a_total", "x": "ü", **labels}
    assert receive.sink.metadata["a_total"] == ("counter", "Things.", "")
    assert 0 in receive.sink.values("g")
    assert receive.receiver.stats.series_refused == 0


@BOTH
def test_a_series_that_was_forgotten_is_resolved_again(receive: Receiving, build: Any, kind: str) -> None:
    a, b = {"__name__": "a", "x": "1"}, {"__name__": "b"}
    receive(build([(a, [(NOW, 1.0)])]), kind)
    receive.sink.forget()
    assert receive(build([(a, [(NOW + 1, 2.0)]), (b, [(NOW + 1, 0.0)])]), kind) == WriteResult(samples=2)
    assert receive.sink.values("a") == [1, 2]


@BOTH
def test_what_is_remembered_does_not_grow_with_series_that_come_and_go(
    receive: Receiving, build: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.collect.remote_write.known_series._SPARE", 10)
    receive = Receiving()
    decoder = receive.receiver._decoders["prometheus.WriteRequest" if kind == V1 else V2.split("=")[1]]
    for round_ in range(40):
        rows = [({"__name__": "a", "pod": f"{round_}-{i}"}, [(NOW + round_, 1.0)]) for i in range(20)]
        receive(build([({"__name__": "steady"}, [(NOW + round_, float(round_))]), *rows]), kind)
        assert len(decoder._known.handles) <= 60
        assert len(getattr(decoder, "_codes", ())) <= 90
        receive.sink.forget()
    assert receive.sink.values("steady") == list(range(40))


def test_symbols_that_no_label_names_are_not_remembered(receive: Receiving) -> None:
    decoder = receive.receiver._decoders[V2.split("=")[1]]
    for round_ in range(3):
        request = RequestV2(
            symbols=["", "__name__", "a", f"help {round_}", f"trace {round_}", f"pod {round_}"]
        )
        for refs in ([1, 2], [1, 2, 5]):  # the second lacks a value, and is refused
            series = TimeSeriesV2(labels_refs=refs)
            series.samples.add(timestamp=NOW + round_, value=round_)
            series.metadata.help_ref = 3
            request.timeseries.append(series.SerializeToString())
        receive(snappy(request), V2)
    assert receive.sink.values("a") == [0, 1, 2]
    assert set(decoder._codes) == {"__name__", "a"}
    decoder.forget()
    assert not decoder._codes
