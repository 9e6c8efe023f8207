"""How long a whole exchange over HTTP may take. A client's own timeout is of each read: whoever says a byte
now and then is never late."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECTED: Final = (".connect_tcp.complete", ".start_tls.complete")


class Deadline:
    """Of the requests of one `httpx.Client`, made one after the other. To connect, and to agree on TLS, each
    has the client's timeout to itself: neither can be drawn out."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._until_s = 0.0

    def begin(self) -> dict[str, Any]:
        """The extensions of a request that begins now. What is late raises httpx.ReadTimeout."""
        self._until_s = time.monotonic() + self._timeout_s
        return {"trace": self._trace}

    def _trace(self, event: str, told: Mapping[str, Any]) -> None:
        if not event.endswith(_CONNECTED):
            return
        stream = told["return_value"]  # one that is kept serves later requests, too
        read, write = stream.read, stream.write
        stream.read = lambda max_bytes, timeout=None: read(max_bytes, self._left_s(timeout))
        stream.write = lambda buffer, timeout=None: write(buffer, self._left_s(timeout))

    def _left_s(self, timeout_s: float | None) -> float:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise httpx.ReadTimeout(f"timed out: the whole of it took longer than {self._timeout_s:g} s")
        return left_s if timeout_s is None else min(left_s, timeout_s)
