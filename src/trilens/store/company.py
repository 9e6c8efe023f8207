"""Whether another server works with the same tables: on a ClickHouse no lock of a directory keeps it out.

Each server writes from time to time that it is there, into one row. Who finds there, since it wrote, the word
of another has company; one that was killed says nothing any more, so a restart has none. No clocks of two
machines are compared but to know whose word is the last: of two that differ, one at least sees the other.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Final

from trilens.store.progress import load_progress, save_progress

if TYPE_CHECKING:
    from trilens.store.engine import Engine

log = logging.getLogger(__name__)

_JOB: Final = "the server that works here"


class Company:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._me = secrets.randbits(62)
        self._is_told = False
        self.found: str | None = None  # in words

    def look(self) -> None:
        """To be called again and again. Raises StoreError."""
        if self._engine.embedded:
            return
        is_alone = not self._is_told or load_progress(self._engine, _JOB) == self._me
        save_progress(self._engine, _JOB, self._me)
        self._is_told = True
        before, self.found = self.found, None if is_alone else f"another server works on {self._engine.where}"
        if self.found is not None and before is None:
            log.error("%s: both evaluate rules, book and tell people", self.found)
