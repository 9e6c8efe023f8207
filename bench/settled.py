"""A store in which hours were laid in minutes, brought to where a server would have it by then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.store.engine import Engine


def wait_for_merges(engine: Engine) -> None:
    """A server that took this in over hours has merged it by then; minutes were enough to write it here."""
    idle_s = 0
    while idle_s < 3:
        merging = engine.query_arrow("SELECT count() AS n FROM system.merges")["n"][0].as_py()
        idle_s = 0 if merging else idle_s + 1
        time.sleep(1)
