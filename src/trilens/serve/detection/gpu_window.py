"""Keeps the window of GPU telemetry full: the past once at the start, then what is new, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.detect.figures import COLUMN_MS, FIELDS, KEY_LABELS
from trilens.detect.telemetry import COLUMNS, Block, Readings, TelemetryWindow
from trilens.model.errors import TrilensError
from trilens.serve.own_queries import Times

if TYPE_CHECKING:
    from trilens.detect.figures import Field
    from trilens.serve.detection.asked import Asked

_AGAIN: Final = 2  # columns that are asked again: scrapes of these may only just have come in
_ABSENT_ROUNDS: Final = 12  # what nobody reports, who reports others, is asked for once a minute


class GpuWindow:
    """Not thread-safe."""

    def __init__(self, asked: Asked, *, history: int = COLUMNS, again: int = _AGAIN) -> None:
        """`history` columns are asked for at the start: few of another server, over the network."""
        self._asked = asked
        self._history = history
        self._again = again
        self._round = 0
        self._absent: set[Field] = set()
        self.window = TelemetryWindow()
        self.trouble: str | None = None

    def look(self, now_ms: int) -> None:
        """What could not be asked is missing then, and said in `trouble`."""
        last_ms = now_ms - now_ms % COLUMN_MS
        known_ms = self.window.last_ms
        columns = self._history
        if known_ms is not None:
            if last_ms <= known_ms:
                return
            columns = min((last_ms - known_ms) // COLUMN_MS + self._again, self._history)
        times = Times(last_ms - (columns - 1) * COLUMN_MS, COLUMN_MS, columns)
        told: dict[Field, Readings] = {}
        self.trouble = None
        # Before the first scrape nobody reports anything; who does not report one thing may never.
        rests = self._absent if len(self._absent) < len(FIELDS) and self._round % _ABSENT_ROUNDS else set()
        for field in FIELDS:
            if field in rests:
                continue
            try:
                found = self._asked.matrix(field.query, times, KEY_LABELS)
            except TrilensError as e:
                self.trouble = f"{field.name} could not be asked: {e}"
                break  # the next would fail alike, and each after a while
            keys = [(uuid, instance) for uuid, instance in found.keys]
            told[field] = Readings(keys, found.values)
            (self._absent.discard if keys else self._absent.add)(field)
        self._round += 1
        if told or known_ms is None:
            self.window.extend(Block(times.start_ms, columns, told))
