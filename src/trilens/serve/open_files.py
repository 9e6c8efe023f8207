"""How many files this process may have open, connections among them."""

from __future__ import annotations

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

_OF_THE_STORE: Final = 1024  # parts that are read and merged, logs, what is scraped
_ENOUGH: Final = 1 << 20  # where there is no limit at all: tables of the kernel are made of it


def may_open_many(connections: int) -> None:
    """Raise the limit as far as it may be without rights, as servers do: what a shell hands down, mostly
    1,024, is meant for programs that use select(). Where even that is too little, it is said at once, and not
    when the last one is gone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < connections + _OF_THE_STORE:
        log.warning(
            "this process may have fewer files open than it may need",
            extra={"files": most, "max_connections": connections, "hint": "raise ulimit -Hn (LimitNOFILE)"},
        )
