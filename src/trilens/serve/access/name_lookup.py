"""Names looked up in threads of their own: a name server that does not answer holds up nobody else, and who
tells many names of such a one holds up himself."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from trilens.serve.shares import Shares

_THREADS: Final = 16
_THREADS_OF_ONE: Final = 4
_LONGEST_S: Final = 2.0  # a name server in the same data center takes milliseconds
_MOST_WAITING: Final = 512
_MOST_WAITING_OF_ONE: Final = 128


class NameLookup:
    """Of one event loop."""

    def __init__(self, longest_s: float = _LONGEST_S) -> None:
        self._longest_s = longest_s
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")  # begun when first needed
        self._shares = Shares(threads, _THREADS_OF_ONE, _MOST_WAITING_OF_ONE)

    async def address_of(self, name: str, sender: str) -> str | None:
        """Its first address; None where none is known in time, or `sender` told too many names at once. Not
        remembered: the next program of that name may be elsewhere."""
        if self._shares.asked >= _MOST_WAITING:
            return None
        with self._shares.of(sender) as share:
            if share is None:
                return None
            try:
                async with asyncio.timeout(self._longest_s):
                    # One that has no thread yet when its time is over is not asked about any more.
                    return await asyncio.wrap_future(await share.submit(partial(_first_address, name)))
            except TimeoutError:
                return None


def _first_address(name: str) -> str | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0]) if found else None
