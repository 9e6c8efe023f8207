"""How the C library hands out memory, for a process that runs for months in many threads."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

# Of the GNU C library's malloc.h.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8

# By default there are eight heaps a core, each keeping what its threads once needed, and only blocks above a
# size that grows with what is freed, up to 32 MiB, are asked of the system one by one: scrapes, rounds and
# answers of megabytes leave holes that nothing else fits into. With 300,000 series 690 MB lay free so after
# half an hour, and it rose; with these settings it stays at 120.
_FEW_HEAPS: Final = 2
_LARGE: Final = 1 << 20  # given back to the system as soon as it is freed
_FREE_AT_THE_END: Final = 4 << 20  # of a heap, before that is given back


def keep_the_c_heap_small() -> None:
    """Before there are threads. Where another C library runs, which has no such settings, nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for setting, value in (
        (_ARENA_MAX, _FEW_HEAPS),
        (_MMAP_THRESHOLD, _LARGE),
        (_TRIM_THRESHOLD, _FREE_AT_THE_END),
    ):
        mallopt(setting, value)
