"""What goes wrong inside the SDK is counted, said in one line, and never raised into the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of the program's logging may call the SDK again
        self._lost: dict[str, int] = {}
        self._said: set[str] = set()
        self._is_silent = False

    def lost(self, kind: str, count: int = 1, why: str = "") -> None:
        """Counts what could not be kept; the first of a kind is logged, the others are only counted."""
        with self._lock:
            first = kind not in self._lost
            self._lost[kind] = self._lost.get(kind, 0) + count
        if first:
            reason = f": {why}" if why else ""
            self._log("warning", f"trilens: lost {kind}{reason}. The program runs on; more is only counted")

    def say(self, key: str, text: str, *, level: str = "info") -> None:
        """A line for people, once for each key."""
        with self._lock:
            if key in self._said:
                return
            self._said.add(key)
        self._log(level, f"trilens: {text}")

    def run(self, kind: str, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `call` returns; None when it raised, which is then counted as lost."""
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the one place where everything is caught
            self.lost(kind, why=describe(error))
            return None

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._lost)

    def leave_to_parent(self) -> None:
        """In a forked child: it says nothing. A lock that another thread held at the fork is never free."""
        self._lock = threading.RLock()
        self._is_silent = True

    def _log(self, level: str, text: str) -> None:
        if self._is_silent:
            return
        import logging  # a program that never loses anything does not pay for it

        try:
            getattr(logging.getLogger("trilens"), level)(text)
        except Exception:  # noqa: BLE001 - a handler of the program's own that fails
            with self._lock:
                self._lost["log line"] = self._lost.get("log line", 0) + 1


def describe(error: BaseException) -> str:
    """The last line of its traceback, as people know it, on one line."""
    try:
        text = str(error).strip().split("\n", 1)[0]
    except Exception:  # noqa: BLE001 - an error whose text cannot be made
        text = ""
    name = type(error).__qualname__
    return f"{name}: {text}"[:500] if text else name
