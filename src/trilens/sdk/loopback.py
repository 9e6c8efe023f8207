"""Whether a server can reach what listens on this machine alone."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("127.", "localhost", "[::1]", "::1")


def is_out_of_reach(address: str, server: str) -> bool:
    """An address of loopback means the server's own machine to a server that is elsewhere."""
    host = urlsplit(server).hostname or ""
    return address.startswith(_LOOPBACK) and not host.startswith(_LOOPBACK)
