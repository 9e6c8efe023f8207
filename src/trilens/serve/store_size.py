"""How large the store is. The engine knows, and may be away: nobody waits for it longer than a moment."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.store.store import StoreSize

log = logging.getLogger(__name__)

_FRESH_S: Final = 5.0  # asked of the engine no more often
_WAIT_S: Final = 1.0  # an engine that is well answers in milliseconds
_OLDEST_S: Final = 120.0  # what is older is not told any more


class KeptSize:
    """Asked in a thread of its own, one at a time."""

    def __init__(self, read: Callable[[], StoreSize], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._known: tuple[float, StoreSize] | None = None

    def latest(self) -> StoreSize | None:
        """None while it is not known."""
        if self._age_s() > _FRESH_S:
            self._ask().join(_WAIT_S)
        known = self._known
        return known[1] if known is not None and self._age_s() <= _OLDEST_S else None

    def _age_s(self) -> float:
        known = self._known
        return self._clock_s() - known[0] if known is not None else float("inf")

    def _ask(self) -> threading.Thread:
        with self._lock:
            if self._asking is None or not self._asking.is_alive():
                self._asking = threading.Thread(target=self._look, name="store-size", daemon=True)
                self._asking.start()
            return self._asking

    def _look(self) -> None:
        try:
            self._known = (self._clock_s(), self._read())
        except StoreError as e:
            log.debug("the store does not tell its size", extra={"error": str(e)})
