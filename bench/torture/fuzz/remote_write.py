"""Remote write, 1.0 and 2.0, as the receiver gets it: a snappy block of protobuf.

The first byte of an input says which version it is, and whether the rest is packed already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cramjam
from hypothesis import strategies as st

from bench.torture.fuzz.no_store import NoSamples
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.collect.remote_write import RemoteWriteReceiver, encode
from trilens.collect.remote_write.messages import RequestV2, TimeSeries, TimeSeriesV2, WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_TYPES: Final = (
    "application/x-protobuf",
    "application/x-protobuf;proto=io.prometheus.write.v2.Request",
)
_IS_V2: Final = 1
_IS_PACKED: Final = 2
_NOW_MS: Final = 1_763_000_000_000
_receivers = [RemoteWriteReceiver(NoSamples())]


def _take(data: bytes) -> None:
    kind, body = data[:1] or b"\0", data[1:]
    if not kind[0] & _IS_PACKED:
        body = bytes(cramjam.snappy.compress_raw(body))
    result = _receivers[0].receive(body, _TYPES[kind[0] & _IS_V2], "snappy")
    result.headers()


def _seeds() -> Iterator[bytes]:
    labels = (("__name__", "up"), ("instance", "a:1"), ("job", "dcgm"))
    yield b"\2" + encode([(labels, _NOW_MS, 1.0), (labels, _NOW_MS + 15_000, float("nan"))])
    yield b"\0" + _v1([("__name__", "a"), ("b", 'x"\n')], [(_NOW_MS, 1.5)])
    yield b"\1" + _v2(["", "__name__", "a", "help"], [1, 2], [(_NOW_MS, 1.5)], help_ref=3)


def _v1(labels: list[tuple[str, str]], samples: list[tuple[int, float]]) -> bytes:
    series = TimeSeries()
    for name, value in labels:
        series.labels.add(name=name, value=value)
    for t_ms, sample in samples:
        series.samples.add(timestamp=t_ms, value=sample)
    request = WriteRequest()
    request.timeseries.append(series.SerializeToString())
    request.metadata.add(type=1, metric_family_name="a", help="h", unit="s")
    return bytes(request.SerializeToString())


def _v2(symbols: list[str], refs: list[int], samples: list[tuple[int, float]], help_ref: int = 0) -> bytes:
    series = TimeSeriesV2()
    series.labels_refs.extend(refs)
    for t_ms, value in samples:
        series.samples.add(timestamp=t_ms, value=value)
    series.metadata.type, series.metadata.help_ref = 1, help_ref
    request = RequestV2()
    request.symbols.extend(symbols)
    request.timeseries.append(series.SerializeToString())
    return bytes(request.SerializeToString())


def _large() -> Iterator[bytes]:
    endless = b"\x0a" + b"\xff" * LARGE
    yield b"\0" + _request([endless])
    for piece in (
        b"\x0a\x00",
        b"\x12\x00",
        b"\x1a\x00",
    ):  # labels, samples and exemplars with nothing in them
        yield b"\0" + _request([piece * (4 * MANY)])
    yield b"\0" + b"\x0a\x00" * MANY
    names = [str(number) for number in range(2 * MANY)]
    yield b"\0" + _v1([(name, "v") for name in [*names, names[-1]]], [(_NOW_MS, 1.5)])
    yield b"\1" + b"\x22\x00" + b"\x2a\x00" * MANY
    yield b"\1" + _v2(["", "x" * LARGE], [1] * (4 * MANY), [(_NOW_MS, 1.5)])
    refs = [ref for number in range(2, len(names) + 2) for ref in (number, 1)]
    yield b"\1" + _v2(["", "v" * LARGE, *names], refs, [(_NOW_MS, 1.5)])
    yield b"\1" + _v2(["", "v" * LARGE, *names], [*refs, *refs[-2:]], [(_NOW_MS, 1.5)])


def _request(series: list[bytes]) -> bytes:
    return bytes(WriteRequest(timeseries=series).SerializeToString())


def _shaped() -> SearchStrategy[bytes]:
    text = st.sampled_from(("", "__name__", "job", "a", "\x00", "'; DROP", "é", "🙂")) | st.text(max_size=6)
    sample = st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats())
    samples = st.lists(sample, max_size=3)
    first = st.builds(_v1, st.lists(st.tuples(text, text), max_size=4), samples).map(b"\0".__add__)
    refs = st.lists(st.integers(0, 8) | st.integers(0, 2**32 - 1), max_size=6)
    second = st.builds(_v2, st.lists(text, max_size=6), refs, samples, st.integers(0, 2**32 - 1))
    return first | second.map(b"\1".__add__)


REMOTE_WRITE: Final = Target("remote-write", "remote write 1.0 and 2.0", _take, _seeds, _shaped, _large)
