"""Remote write 1.0: every series carries its labels as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from trilens.collect.remote_write.decoded import Decoded
from trilens.collect.remote_write.messages import METRIC_TYPES, TimeSeries, WriteRequest
from trilens.collect.remote_write.series_labels import checked_labels
from trilens.collect.remote_write.wire import LABELS_TAG, SAMPLE_BYTES, ZERO_SAMPLE_BYTES, SampleCollector
from trilens.model.errors import RemoteWriteError

if TYPE_CHECKING:
    from trilens.collect.sink import SampleSink

_MAX_CACHED_SERIES: Final = 2_000_000


class DecoderV1:
    """Knows series by the bytes of their labels."""

    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self._refs: dict[bytes, int] = {}

    def decode(self, body: bytes) -> Decoded:
        try:
            request = WriteRequest.FromString(body)
        except DecodeError as e:
            raise RemoteWriteError(f"not a prometheus.WriteRequest: {e}") from e
        decoded = Decoded()
        self._describe(request)
        series: list[bytes] = list(request.timeseries)
        collector = SampleCollector()
        slow = self._collect_known(series, collector)
        for position in sorted([*slow, *collector.odd]):
            self._decode_series(position, series[position], collector, decoded)
        decoded.samples = collector.finish()
        return decoded

    def _collect_known(self, series: list[bytes], collector: SampleCollector) -> list[int]:
        """Take the series with labels we know and one sample; returns where the others are."""
        known = self._refs.get
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
        try:
            message = TimeSeries.FromString(raw)
        except DecodeError as e:
            decoded.refuse(f"series {position} does not decode (is a label not UTF-8?): {e}")
            return
        try:
            ref = self._ref(raw, message)
        except RemoteWriteError as e:
            decoded.refuse(e.message)
            return
        for sample in message.samples:
            collector.add(position, ref, sample.timestamp, sample.value)
        decoded.histograms += len(message.histograms)
        decoded.exemplars += len(message.exemplars)

    def _ref(self, raw: bytes, message: Any) -> int:
        front = _front_labels(raw, len(message.labels))
        ref = None if front is None else self._refs.get(front)
        if ref is None:
            pairs = [(label.name, label.value) for label in message.labels]
            ref = self._sink.series(checked_labels(pairs))
            if len(self._refs) >= _MAX_CACHED_SERIES:
                self._refs.clear()
            if front is not None:
                self._refs[front] = ref
        return ref

    def _describe(self, request: Any) -> None:
        for family in request.metadata:
            kind = METRIC_TYPES[family.type] if 0 <= family.type < len(METRIC_TYPES) else "unknown"
            if family.metric_family_name:
                self._sink.describe(family.metric_family_name, kind, family.help, family.unit)


def _front_labels(raw: bytes, count: int) -> bytes | None:
    """The bytes of all `count` label fields, if they stand at the front, as every sender writes them."""
    at = 0
    for _ in range(count):
        if raw[at] != LABELS_TAG:
            return None
        size, shift = 0, 0
        at += 1
        while raw[at] >= 0x80:
            size |= (raw[at] & 0x7F) << shift
            shift += 7
            at += 1
        at += 1 + (size | raw[at] << shift)
    return raw[:at] if count else None
