"""One sample of this moment, by remote write."""

from __future__ import annotations

import time

import httpx

from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels

TIMEOUT_S = 60.0


def write_now(
    url: str, name: str, value: float, /, *, timeout_s: float = TIMEOUT_S, **labels: str
) -> httpx.Response:
    row = (make_labels({"__name__": name, **labels}), time.time_ns() // 1_000_000, value)
    return httpx.post(f"{url}/api/v1/write", content=encode([row]), headers=HEADERS, timeout=timeout_s)
