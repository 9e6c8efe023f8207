"""Whether a process that is not heard any more still listens where its metrics were: the kernel takes
connections for it as long as it lives, also while its interpreter is locked."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.run import RankProcess, RunId, WriterId

_CONNECT_S: Final = 0.3
_AGAIN_S: Final = 10.0
_MOST_AT_ONCE: Final = 8  # of one look: when a whole cluster is cut off, its answers would take too long
_MOST_KNOWN: Final = 10_000


class _Answer(NamedTuple):
    at_s: float
    listens: bool | None


class Listening:
    """Not thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._known: dict[tuple[RunId, int, WriterId], _Answer] = {}
        self._asked = 0

    def begin(self) -> None:
        """A new look."""
        self._asked = 0
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()

    def of(self, process: RankProcess) -> bool | None:
        """None where nobody answers: its machine, or the way to it, is gone."""
        host, _, port = (process.metrics_address or "").rpartition(":")
        if not host or not port.isdigit():
            return None
        key = (process.run, process.rank, process.writer)
        known = self._known.get(key)
        now_s = self._clock_s()
        is_new = known is not None and now_s - known.at_s < _AGAIN_S
        if known is not None and (is_new or self._asked >= _MOST_AT_ONCE):
            return known.listens
        if self._asked >= _MOST_AT_ONCE:
            return None
        self._asked += 1
        listens = _takes_connections(host.strip("[]"), int(port))
        self._known[key] = _Answer(now_s, listens)
        return listens


def _takes_connections(host: str, port: int) -> bool | None:
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, OverflowError):
        return None
    return True
