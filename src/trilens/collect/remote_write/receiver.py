"""Takes a remote write request apart and appends what is in it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cramjam

from trilens.collect.cluster_bound import ClusterBound
from trilens.collect.left_out import left_out
from trilens.collect.remote_write.v1 import DecoderV1
from trilens.collect.remote_write.v2 import DecoderV2
from trilens.model.errors import RemoteWriteError, RemoteWriteUnsupported

if TYPE_CHECKING:
    from trilens.collect.remote_write.decoded import Decoded
    from trilens.collect.sink import SampleSink
    from trilens.model.series import AppendOutcome

_MAX_BODY_BYTES: Final = 128 * 1024 * 1024
_V1: Final = "prometheus.WriteRequest"
_V2: Final = "io.prometheus.write.v2.Request"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What was written. `rejected` says what was not, and why; the rest was taken all the same."""

    samples: int
    histograms: int = 0
    exemplars: int = 0
    rejected: str | None = None

    @property
    def http_status(self) -> int:
        return 204 if self.rejected is None else 400

    def headers(self) -> dict[str, str]:
        """What remote write 2.0 asks every answer to carry; senders of 1.0 do not mind."""
        return {
            "X-Prometheus-Remote-Write-Samples-Written": str(self.samples),
            "X-Prometheus-Remote-Write-Histograms-Written": str(self.histograms),
            "X-Prometheus-Remote-Write-Exemplars-Written": str(self.exemplars),
        }


@dataclass(slots=True)
class WriteStats:
    """Counted since start."""

    requests: int = 0
    samples_appended: int = 0
    samples_repeated: int = 0
    samples_duplicate: int = 0
    samples_out_of_order: int = 0
    samples_too_old: int = 0
    series_refused: int = 0
    histograms_refused: int = 0
    exemplars_dropped: int = 0


class RemoteWriteReceiver:
    """Thread-safe: one request is decoded at a time, several wait for the disk together."""

    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._decoders: dict[str, DecoderV1 | DecoderV2] = {_V1: DecoderV1(sink), _V2: DecoderV2(sink)}
        self._bound: dict[frozenset[str], RemoteWriteReceiver] = {}
        self.stats = WriteStats()

    def bound_to(self, clusters: frozenset[str] | None) -> RemoteWriteReceiver:
        """For a sender that may tell of these clusters alone. It knows series by itself: what its bytes stand
        for may be another series than the same bytes of somebody else."""
        if clusters is None:
            return self
        with self._lock:
            if clusters not in self._bound:
                bound = self._bound[clusters] = RemoteWriteReceiver(ClusterBound(self._sink, clusters))
                bound.stats, bound._lock = self.stats, self._lock  # counted, and decoded, one at a time
            return self._bound[clusters]

    def receive(self, body: bytes, content_type: str, content_encoding: str) -> WriteResult:
        """Returns when the samples are on disk.

        RemoteWriteError (400) and RemoteWriteUnsupported (415) mean that nothing was taken; so does
        StoreReadOnly (503), after which the sender tries again.
        """
        decoder = self._decoders[_message(content_type)]
        data = _decompress(body, content_encoding)
        with self._lock:
            decoded = decoder.decode(data)
            if not self._sink.held(decoded.samples.refs).all():  # after a long silence
                decoder.forget()
                decoded = decoder.decode(data)
            for told in decoded.described:  # of a request that is taken, and of no other
                self._sink.describe(*told)
            samples = decoded.samples
            outcome = self._sink.append(samples.refs, samples.t_ms, samples.values)
            self._count(decoded, outcome)
        self._sink.durable().result()
        return WriteResult(samples=outcome.accepted + outcome.repeated, rejected=_rejection(decoded, outcome))

    def _count(self, decoded: Decoded, outcome: AppendOutcome) -> None:
        stats = self.stats
        stats.requests += 1
        stats.samples_appended += outcome.accepted
        stats.samples_repeated += outcome.repeated
        stats.samples_duplicate += outcome.duplicate
        stats.samples_out_of_order += outcome.out_of_order
        stats.samples_too_old += outcome.too_old
        stats.series_refused += decoded.refused_series
        stats.histograms_refused += decoded.histograms
        stats.exemplars_dropped += decoded.exemplars


def _message(content_type: str) -> str:
    kind, *parameters = (part.strip() for part in content_type.split(";"))
    if kind.lower() != "application/x-protobuf":
        raise RemoteWriteUnsupported(f"content type {content_type!r} is not application/x-protobuf")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "proto":
            value = value.strip().strip('"')
            if value not in (_V1, _V2):
                raise RemoteWriteUnsupported(f"unknown message {value!r}; known are {_V1} and {_V2}")
            return value
    return _V1  # senders of 1.0 name no message


def _decompress(body: bytes, content_encoding: str) -> bytes:
    if content_encoding.strip().lower() != "snappy":
        raise RemoteWriteUnsupported(f"content encoding {content_encoding!r} is not snappy")
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > _MAX_BODY_BYTES:
            raise RemoteWriteError(f"the request has {size:,} bytes; the limit is {_MAX_BODY_BYTES:,}")
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as e:
        raise RemoteWriteError(f"the body is not a snappy block: {e}") from e


def _rejection(decoded: Decoded, outcome: AppendOutcome) -> str | None:
    reasons = left_out(outcome)
    if decoded.refused_series:
        reasons.append(f"{decoded.refused_series} series refused, the first because {decoded.first_refusal}")
    if decoded.histograms:
        reasons.append(f"{decoded.histograms} native histograms, which are not supported yet")
    return "; ".join(reasons) or None
