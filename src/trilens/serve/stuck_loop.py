"""A loop that does not turn any more says where it is: nothing else could.

faulthandler has a timer for that, which looks at threads while they run: it has killed a busy server. The
thread here holds the interpreter's lock while it looks.
"""

from __future__ import annotations

import faulthandler
import logging
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)


class StuckLoop:
    """While entered, standard error is told where every thread is each time that `turned` was not called
    for so long."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._turned = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._watch, name="trilens-stuck-loop", daemon=True)

    def turned(self) -> None:
        self._turned.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._ended = True
        self._turned.set()
        self._thread.join()

    def _watch(self) -> None:
        is_told = False
        while not self._ended:
            if self._turned.wait(self._after_s):
                self._turned.clear()
                is_told = False
            elif not is_told:
                is_told = True  # once is enough: the loop may stand for hours
                log.error("the server does nothing: its loop has not turned", extra={"s": self._after_s})
                faulthandler.dump_traceback(all_threads=True)
