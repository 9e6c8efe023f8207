"""Tells the mirror what changes in the queue, in a thread of its own: one that hangs holds up nobody long."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.delivery.mirror import Mirror, MirroredRow

log = logging.getLogger(__name__)

_ANSWERS_S: Final = 5.0  # who writes waits no longer; a store that is well takes it in a fraction of that
_AGAIN_S: Final = 1.0


class MirrorTeller:
    """Thread-safe."""

    def __init__(self, mirror: Mirror, take: Callable[[], Sequence[MirroredRow]]) -> None:
        """`take` gives what has changed since it was last asked; it is called in the thread."""
        self._mirror = mirror
        self._take = take
        self._untold: dict[tuple[str, str], str | None] = {}  # what was taken; the thread's alone
        self._changed = threading.Condition()
        self._written = 0  # writes so far
        self._answered = 0  # of these, those that the mirror took, or said that it does not
        self._is_silent = False  # somebody waited in vain, and nothing was answered in time since
        self._trouble: str | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="notify-mirror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def tell(self) -> None:
        """Something was written. The mirror has it when this returns, if it can: one that is known to say
        nothing is not waited for."""
        with self._changed:
            self._written += 1
            mine = self._written
            self._changed.notify_all()
            if self._is_silent or self._closing:
                return
            if not self._changed.wait_for(lambda: self._answered >= mine, _ANSWERS_S):
                self._is_silent = True
                self._failed("no answer")

    def close(self) -> None:
        """Tells it once more what it does not have."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_ANSWERS_S)
        if self._thread.is_alive():
            self._failed("no answer at the end")

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                again_s = _AGAIN_S if self._trouble is not None else None
                self._changed.wait_for(lambda: self._closing or self._written > self._answered, again_s)
                is_last, upto = self._closing, self._written
            began_s = time.monotonic()
            trouble = self._tell_untold()
            with self._changed:
                self._answered = upto
                if time.monotonic() - began_s < _ANSWERS_S:
                    self._is_silent = False
                if trouble is not None:
                    self._failed(trouble)
                elif self._trouble is not None:
                    log.info("notifications are in the store again")
                    self._trouble = None
                self._changed.notify_all()

    def _tell_untold(self) -> str | None:
        """Why not, where it is not done."""
        try:
            for kind, key, body in self._take():
                self._untold[kind, key] = body
            if self._untold:
                self._mirror.put([(kind, key, body) for (kind, key), body in self._untold.items()])
                self._untold.clear()
        except StoreError as e:
            return str(e)
        except Exception as e:  # or nobody would tell it anything any more
            log.exception("telling the store of notifications failed, which is a defect")
            return repr(e)
        return None

    def _failed(self, trouble: str) -> None:
        if self._trouble is None:
            log.error(
                "notifications wait in memory alone: the store does not take them", extra={"error": trouble}
            )
        self._trouble = trouble
