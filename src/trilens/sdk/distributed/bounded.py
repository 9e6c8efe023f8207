"""Calls that may never come back, waited for only so long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T], *, what: str) -> T:
    """What it returns or raises; TimeoutError when it takes longer. Its thread is then left to itself."""
    results: list[T] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            failures.append(error)

    thread = threading.Thread(target=work, name=f"trilens-{what.replace(' ', '-')}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError(f"the {what} does not answer")
    return results[0]
