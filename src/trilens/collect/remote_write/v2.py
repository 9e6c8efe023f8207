"""Remote write 2.0: a request brings its own table of symbols, and series name their labels by number.

The numbers mean something else in every request. Each symbol of a label gets a number of ours that lasts; a
series is then known by the bytes of its numbers. Other symbols (help texts, the trace ids of exemplars) get
none: there is no end to them.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from trilens.collect.remote_write.decoded import Decoded
from trilens.collect.remote_write.known_series import KnownSeries
from trilens.collect.remote_write.messages import METRIC_TYPES, RequestV2, TimeSeriesV2
from trilens.collect.remote_write.series_labels import checked_labels
from trilens.collect.remote_write.wire import (
    LABELS_TAG,
    SAMPLE_BYTES,
    SAMPLE_TAG,
    ZERO_SAMPLE_BYTES,
    SampleCollector,
    decode_varints,
)
from trilens.model.errors import RemoteWriteError
from trilens.model.labels import METRIC_NAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.collect.sink import SampleSink
    from trilens.model.labels import Codes

_METADATA_TAG: Final = 0x2A  # field 5, length-delimited
_NO_CODE: Final = -1
_SHOWN: Final = 200  # characters of a symbol
_PADDING: Final = 300  # more than a one-byte length can point past the end


class DecoderV2:
    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self._codes: dict[str, int] = {}
        self._next_code = 0
        self._known = KnownSeries(sink)

    def forget(self) -> None:
        """All handles: some of them are no longer held."""
        self._known.clear()
        self._codes.clear()

    def decode(self, body: bytes) -> Decoded:
        try:
            request = RequestV2.FromString(body)
        except DecodeError as e:
            raise RemoteWriteError(f"not an io.prometheus.write.v2.Request: {e}") from e
        symbols: list[str] = list(request.symbols)
        if symbols[:1] != [""]:
            raise RemoteWriteError("the first symbol must be the empty text")
        if self._known.prune():
            self._drop_codes()
        codes = np.fromiter(map(self._codes.get, symbols, repeat(_NO_CODE)), np.int32, len(symbols))
        series: list[bytes] = list(request.timeseries)
        decoded, collector = Decoded(), SampleCollector()
        slow = self._collect_known(series, codes, collector)
        for position in sorted([*slow, *collector.odd]):
            self._decode_series(position, series[position], symbols, codes, collector, decoded)
        decoded.samples = collector.finish()
        return decoded

    def _collect_known(self, series: list[bytes], codes: Codes, collector: SampleCollector) -> list[int]:
        """Take the series with labels we know and one sample; returns where the others are."""
        layout = _Layout(series)
        candidates = np.flatnonzero(layout.plain)
        known = self._known.handles.get
        refs = np.fromiter(
            (known(key, -1) for key in layout.keys(candidates, codes)), np.int64, len(candidates)
        )
        taken = np.zeros(len(series), np.bool_)
        for size in (SAMPLE_BYTES, ZERO_SAMPLE_BYTES):
            chosen = (refs >= 0) & (layout.sample_sizes[candidates] == size)
            at = candidates[chosen]
            collector.add_encoded(at, refs[chosen], layout.samples(at, size), size)
            taken[at] = True
        others: list[int] = np.flatnonzero(~taken).tolist()
        return others

    def _intern(self, numbers: list[int], symbols: list[str], codes: Codes) -> None:
        """Give each of these symbols a code, for this request and those to come."""
        for number in dict.fromkeys(numbers):
            if symbols[number] not in self._codes:
                self._codes[symbols[number]] = self._next_code
                self._next_code += 1
            codes[number] = self._codes[symbols[number]]

    def _drop_codes(self) -> None:
        """Those of symbols that no known series has."""
        used = np.unique(np.frombuffer(b"".join(self._known.handles), np.int32))
        numbers = np.fromiter(self._codes.values(), np.int32, len(self._codes))
        kept = np.isin(numbers, used).tolist()
        self._codes = {
            text: code for (text, code), keep in zip(self._codes.items(), kept, strict=True) if keep
        }

    def _decode_series(
        self,
        position: int,
        raw: bytes,
        symbols: list[str],
        codes: Codes,
        collector: SampleCollector,
        decoded: Decoded,
    ) -> None:
        try:
            message = TimeSeriesV2.FromString(raw)
            ref = self._ref(message, symbols, codes, decoded)
        except DecodeError as e:
            decoded.refuse(f"series {position} does not decode: {e}")
            return
        except RemoteWriteError as e:
            decoded.refuse(e.message)
            return
        for sample in message.samples:
            collector.add(position, ref, sample.timestamp, sample.value)
        decoded.histograms += len(message.histograms)
        decoded.exemplars += len(message.exemplars)

    def _ref(self, message: Any, symbols: list[str], codes: Codes, decoded: Decoded) -> int:
        numbers = list(message.labels_refs)
        if any(number >= len(symbols) for number in numbers):
            raise RemoteWriteError(f"a label refers to symbol {max(numbers)} of {len(symbols)}")
        if len(numbers) % 2:
            raise RemoteWriteError("a series has a label name without a value")
        ref = self._known.handles.get(codes[numbers].tobytes())
        if ref is None:
            _check_names(numbers[::2], symbols)
            texts = [symbols[number] for number in numbers]
            labels = checked_labels(list(zip(texts[::2], texts[1::2], strict=True)))
            ref = self._sink.series(labels)
            self._intern(numbers, symbols, codes)
            self._known.handles[codes[numbers].tobytes()] = ref
            # Said with every series in every request; taken when the series is first seen.
            decoded.described += _described(dict(labels)[METRIC_NAME], message.metadata, symbols)
        return ref


def _check_names(numbers: list[int], symbols: list[str]) -> None:
    """By their numbers: a few bytes may name a long symbol a million times, and texts would be compared."""
    if len(set(numbers)) < len(numbers):
        twice = next(number for number, count in Counter(numbers).items() if count > 1)
        raise RemoteWriteError(f"the label {symbols[twice][:_SHOWN]!r} appears twice in a series")


def _described(metric: str, metadata: Any, symbols: list[str]) -> list[tuple[str, str, str, str]]:
    kind = METRIC_TYPES[metadata.type] if 0 <= metadata.type < len(METRIC_TYPES) else "unknown"
    texts = [
        symbols[number] if number < len(symbols) else "" for number in (metadata.help_ref, metadata.unit_ref)
    ]
    return [(metric, kind, texts[0], texts[1])] if metadata.type or any(texts) else []


class _Layout:
    """Where the parts of each series lie: the numbers of its labels, its sample, its metadata.

    `plain` are the series that have just these three, in this order, with the metadata possibly missing.
    """

    def __init__(self, series: list[bytes]) -> None:
        sizes = np.fromiter(map(len, series), np.int64, len(series))
        stops = np.cumsum(sizes)
        self._starts = stops - sizes
        # Padded, so that looking a few bytes past the last series is looking at zeros.
        octets = self._octets = np.frombuffer(b"".join([*series, bytes(_PADDING)]), np.uint8)
        label_sizes = octets[self._starts + 1].astype(np.int64)
        ends = self._label_ends = self._starts + 2 + label_sizes
        plain = (octets[self._starts] == LABELS_TAG) & (label_sizes < 0x80) & (ends < stops)
        ends = self._label_ends = np.where(plain, ends, self._starts)
        self.sample_sizes = octets[ends + 1].astype(np.int64) + 2
        rests = np.minimum(ends + self.sample_sizes, stops)
        metadata_sizes = octets[rests + 1].astype(np.int64)
        has_metadata = (octets[rests] == _METADATA_TAG) & (metadata_sizes < 0x80)
        plain &= (octets[ends - 1] < 0x80) & (octets[ends] == SAMPLE_TAG)
        plain &= ends + self.sample_sizes <= stops
        plain &= (rests == stops) | (has_metadata & (rests + 2 + metadata_sizes == stops))
        self.plain = plain

    def keys(self, at: NDArray[np.intp], codes: Codes) -> list[bytes]:
        """The label numbers of some plain series as ours; no key fits when one is out of range."""
        starts, ends = self._starts[at] + 2, self._label_ends[at]
        inside = np.zeros(len(self._octets) + 1, np.int8)
        inside[starts] += 1
        inside[ends] -= 1
        numbers, last_bytes = decode_varints(
            self._octets[np.cumsum(inside[:-1], dtype=np.int8).view(np.bool_)]
        )
        if ((numbers < 0) | (numbers >= len(codes))).any():
            return [b""] * len(at)
        stops = np.searchsorted(last_bytes, np.cumsum(ends - starts)) * codes.itemsize
        data = codes[numbers].tobytes()
        return [data[i:j] for i, j in pairwise([0, *stops.tolist()])]

    def samples(self, at: NDArray[np.intp], size: int) -> bytes:
        fields = self._octets[self._label_ends[at][:, None] + np.arange(size)]
        return bytes(fields.tobytes())
