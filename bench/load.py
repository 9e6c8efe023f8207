"""History into a server through remote write, encoded in bulk: the same bytes go to every peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import httpx

    from trilens.model.series import Floats, Times

# prometheus.Sample{value=1: double, timestamp=2: int64} inside TimeSeries.samples=2. Every millisecond time
# between 2004 and 2109 takes six varint bytes, so a sample is 18 bytes with everything at a fixed place.
_SAMPLE_SIZE = 18


def encode_samples(t_ms: Times, values: Floats) -> bytes:
    rows = np.empty((len(t_ms), _SAMPLE_SIZE), dtype=np.uint8)
    rows[:, 0] = 0x12
    rows[:, 1] = _SAMPLE_SIZE - 2
    rows[:, 2] = 0x09
    rows[:, 3:11] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8)
    rows[:, 11] = 0x10
    for i in range(6):
        rows[:, 12 + i] = ((t_ms >> (7 * i)) & 0x7F) | (0x80 if i < 5 else 0)
    return rows.tobytes()


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def encode_labels(labels: Sequence[tuple[str, str]]) -> bytes:
    return b"".join(_field(1, _field(1, n.encode()) + _field(2, v.encode())) for n, v in labels)


def bodies(
    labels: Sequence[bytes], t_ms: Times, values: Floats, series_per_body: int = 500
) -> Iterator[bytes]:
    """Remote-write 1.0 bodies for `values[series, time]`."""
    for at in range(0, len(labels), series_per_body):
        parts = [
            _field(1, labels[i] + encode_samples(t_ms, values[i]))
            for i in range(at, min(at + series_per_body, len(labels)))
        ]
        yield bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def send(client: httpx.Client, url: str, body: bytes) -> None:
    response = client.post(
        url,
        content=body,
        headers={
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        },
        timeout=120,
    )
    if response.status_code // 100 != 2:
        raise RuntimeError(f"{url}: {response.status_code} {response.text[:300]}")
