"""What a rank's last words tell of itself: a reason of its own, or only that another one has gone."""

from __future__ import annotations

from typing import Final

# What ranks say when another one has gone: no reason of their own.
_FOLLOWERS: Final = (
    "connection closed by peer",
    "connection reset",
    "connection refused",
    "connection aborted",
    "broken pipe",
    "socket timeout",
    "sigterm",
    "signalexception",
    "nccl",
    "gloo",
    "distbackenderror",
    "diststoreerror",
    "processgroup",
    "rendezvous",
    "watchdog",
    "keyboardinterrupt",
)
_OUT_OF_MEMORY: Final = ("out of memory", "outofmemory", "cannot allocate memory", "memoryerror")


def only_follows(error: str) -> bool:
    lower = error.lower()
    return any(word in lower for word in _FOLLOWERS) and not is_out_of_memory(error)


def is_out_of_memory(error: str) -> bool:
    lower = error.lower()
    return any(word in lower for word in _OUT_OF_MEMORY)
