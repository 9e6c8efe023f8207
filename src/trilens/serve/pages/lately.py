"""What was found lately, and holds for a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

_MOST: Final = 64


class Lately(Generic[T]):
    """Thread-safe."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._found: dict[Hashable, tuple[float, T]] = {}

    def of(self, key: Hashable, find: Callable[[], T]) -> T:
        now_s = time.monotonic()
        known = self._found.get(key)
        if known is not None and now_s - known[0] <= self._kept_s:
            return known[1]
        found = find()
        kept = [one for one in [*self._found.items()][-_MOST:] if now_s - one[1][0] <= self._kept_s]
        self._found = dict(kept) | {key: (now_s, found)}
        return found
