"""Asking again and again, beside the screen: never twice at once, and away is no end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from trilens.model.errors import ServerError, TrilensError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.cli.top.picture import Picture


class Watch:
    """`tell` gets each answer, or the error instead, in the thread that asks."""

    def __init__(
        self, ask: Callable[[], Picture], tell: Callable[[Picture | TrilensError], None], every_s: float
    ) -> None:
        self._ask = ask
        self._tell = tell
        self._every_s = every_s
        self._at_once = threading.Event()
        self._ends = False
        self.is_paused = False
        # A daemon: whoever quits does not wait for a server that takes its time.
        self._thread = threading.Thread(target=self._run, name="trilens-top", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def now(self) -> None:
        """Asks as soon as the question under way is answered."""
        self._at_once.set()

    def end(self) -> None:
        self._ends = True
        self._at_once.set()

    def _run(self) -> None:
        while not self._ends:
            if not self.is_paused or self._at_once.is_set():
                self._at_once.clear()
                self._once()
            self._at_once.wait(self._every_s)

    def _once(self) -> None:
        try:
            answer: Picture | TrilensError = self._ask()
        except TrilensError as e:
            answer = e
        except Exception as e:  # noqa: BLE001 - one answer that nobody foresaw is no end
            answer = ServerError(
                f"the answer cannot be read: {e!r}",
                hint="is the server of another version than this command?",
            )
        if not self._ends:
            self._tell(answer)
