"""Since when somebody looks without a gap. After a gap (this server was down, or did nothing) those that tell
have to find it again, and to tell what they could not: until then, who is silent says nothing."""

from __future__ import annotations

from typing import Final

_AWAY_MS: Final = 30_000  # between two scenes
_RETURN_MS: Final = 45_000  # until all have found it again: senders try at least every 30 s


class Looking:
    def __init__(self) -> None:
        self._last_ms: int | None = None
        self.since_ms = 0

    def look(self, now_ms: int) -> None:
        if self._last_ms is None or not 0 <= now_ms - self._last_ms <= _AWAY_MS:
            self.since_ms = now_ms
        self._last_ms = now_ms

    @property
    def is_settled(self) -> bool:
        """Whether silence has a meaning."""
        return self._last_ms is not None and self._last_ms - self.since_ms >= _RETURN_MS
