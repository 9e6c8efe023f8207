"""The sending side: rows into the body of a remote write 1.0 request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cramjam

from trilens.collect.remote_write.messages import TimeSeries, WriteRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.labels import Labels

HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


def encode(rows: Iterable[tuple[Labels, int, float]]) -> bytes:
    """Rows are (labels, milliseconds, value); rows of one series one after the other share its labels."""
    request = WriteRequest()
    series = TimeSeries()
    previous: Labels | None = None
    for labels, t_ms, value in rows:
        if labels != previous:
            if previous is not None:
                request.timeseries.append(series.SerializeToString())
            series = TimeSeries()
            for name, text in labels:
                series.labels.add(name=name, value=text)
            previous = labels
        series.samples.add(value=value, timestamp=t_ms)
    if previous is not None:
        request.timeseries.append(series.SerializeToString())
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
