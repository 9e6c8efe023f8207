"""Remote write 1.0: every series carries its labels as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from trilens.collect.remote_write.decoded import Decoded
from trilens.collect.remote_write.known_series import KnownSeries
from trilens.collect.remote_write.messages import METRIC_TYPES, TimeSeries, WriteRequest
from trilens.collect.remote_write.series_labels import checked_labels
from trilens.collect.remote_write.wire import (
    LABELS_TAG,
    LONGEST_VARINT,
    SAMPLE_BYTES,
    ZERO_SAMPLE_BYTES,
    SampleCollector,
)
from trilens.model.errors import RemoteWriteError

if TYPE_CHECKING:
    from trilens.collect.sink import SampleSink


class DecoderV1:
    """Knows series by the bytes of their labels."""

    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self._known = KnownSeries(sink)

    def forget(self) -> None:
        """All handles: some of them are no longer held."""
        self._known.clear()

    def decode(self, body: bytes) -> Decoded:
        try:
            request = WriteRequest.FromString(body)
        except DecodeError as e:
            raise RemoteWriteError(f"not a prometheus.WriteRequest: {e}") from e
        decoded = Decoded()
        self._known.prune()
        decoded.described = _described(request)
        series: list[bytes] = list(request.timeseries)
        collector = SampleCollector()
        slow = self._collect_known(series, collector)
        for position in sorted([*slow, *collector.odd]):
            self._decode_series(position, series[position], collector, decoded)
        decoded.samples = collector.finish()
        return decoded

    def _collect_known(self, series: list[bytes], collector: SampleCollector) -> list[int]:
        """Take the series with labels we know and one sample; returns where the others are."""
        known = self._known.handles.get
        others: list[int] = []
        found: dict[int, tuple[list[int], list[int], list[bytes]]] = {
            SAMPLE_BYTES: ([], [], []),
            ZERO_SAMPLE_BYTES: ([], [], []),
        }
        for position, raw in enumerate(series):
            # Known labels are followed by whole fields only, so a matching front makes the rest certain.
            size = SAMPLE_BYTES
            ref = known(raw[:-SAMPLE_BYTES])
            if ref is None:
                size = ZERO_SAMPLE_BYTES
                ref = known(raw[:-ZERO_SAMPLE_BYTES])
            if ref is None:
                others.append(position)
            else:
                positions, refs, samples = found[size]
                positions.append(position)
                refs.append(ref)
                samples.append(raw[-size:])
        for size, (positions, refs, samples) in found.items():
            collector.add_encoded(positions, refs, b"".join(samples), size)
        return others

    def _decode_series(self, position: int, raw: bytes, collector: SampleCollector, decoded: Decoded) -> None:
        front, labels = _front_labels(raw)
        ref = self._known.handles.get(front)
        if ref is not None and collector.add_run(position, ref, raw[len(front) :]):
            return
        try:
            message = TimeSeries.FromString(raw)
        except DecodeError as e:
            decoded.refuse(f"series {position} does not decode (is a label not UTF-8?): {e}")
            return
        try:
            if ref is None or labels != len(message.labels):
                ref = self._ref(front if labels == len(message.labels) else b"", message)
        except RemoteWriteError as e:
            decoded.refuse(e.message)
            return
        for sample in message.samples:
            collector.add(position, ref, sample.timestamp, sample.value)
        decoded.histograms += len(message.histograms)
        decoded.exemplars += len(message.exemplars)

    def _ref(self, front: bytes, message: Any) -> int:
        pairs = [(label.name, label.value) for label in message.labels]
        ref = self._sink.series(checked_labels(pairs))
        if front:  # else the labels lie elsewhere in the message, and these bytes do not stand for them
            self._known.handles[front] = ref
        return ref


def _described(request: Any) -> list[tuple[str, str, str, str]]:
    return [
        (
            family.metric_family_name,
            METRIC_TYPES[family.type] if 0 <= family.type < len(METRIC_TYPES) else "unknown",
            family.help,
            family.unit,
        )
        for family in request.metadata
        if family.metric_family_name
    ]


def _front_labels(raw: bytes) -> tuple[bytes, int]:
    """The label fields at the front, where every sender writes them: their bytes, and how many they are."""
    at, count, end = 0, 0, len(raw)
    try:
        while at < end and raw[at] == LABELS_TAG:
            size, shift, next_at = 0, 0, at + 1
            while raw[next_at] >= 0x80:
                size |= (raw[next_at] & 0x7F) << shift
                shift += 7
                next_at += 1
                if next_at - at > LONGEST_VARINT:  # the longer it is, the longer each byte of it takes
                    return b"", 0
            at = next_at + 1 + (size | raw[next_at] << shift)
            count += 1
    except IndexError:
        return b"", 0  # cut off: the protobuf library says what is wrong
    return raw[:at], count
