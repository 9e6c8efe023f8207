"""Which processes of runs are alive. A process is heard when it sends, and lost when it does not for long.

Ages are by the monotonic clock: nobody dies because this machine's clock was set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.model.run import Ending

if TYPE_CHECKING:
    from trilens.model.run import RankProcess

_MISSED: Final = 3  # heartbeats
_PATIENCE_S: Final = 5.0  # at least, whatever was promised: a garbage collection is no death
_RETURN_S: Final = 45.0  # after a start: senders that found no server try again after at most 30 s
_SAVE_S: Final = 15.0  # how old what is on disk of a living process may be


class Standing:
    """Of one process. Not thread-safe."""

    __slots__ = ("_due_s", "_saved_s", "is_unsaved", "process")

    def __init__(self, process: RankProcess, now_s: float, *, is_saved: bool) -> None:
        self.process = process
        self.is_unsaved = not is_saved
        self._saved_s = now_s
        self._due_s = now_s + max(_RETURN_S, _patience_s(process))

    @property
    def is_alive(self) -> bool:
        return self.process.ending is None

    def heard(self, process: RankProcess, now_s: float, now_ms: int, told_ms: int) -> None:
        """It sent something, made at `told_ms` of its own clock: so it lives, also when it was taken for
        dead."""
        if process.ending is Ending.LOST:
            process = replace(process, ending=None, ended_ms=None, error=None)
            self.is_unsaved = True
        self.process = replace(process, heard_ms=now_ms, told_ms=told_ms)
        self._due_s = now_s + _patience_s(process)

    def told_by_another(self, process: RankProcess, told_ms: int) -> None:
        """Somebody else sends what it left: so it does not live, and told this at that time at the latest."""
        self.process = replace(process, heard_ms=max(process.heard_ms, told_ms))
        if self.process.ending in (None, Ending.LOST):
            self._lose()

    def ended(self, ending: Ending, ended_ms: int, error: str | None) -> None:
        self.process = replace(self.process, ending=ending, ended_ms=ended_ms, error=error, phase=None)
        self.is_unsaved = True

    def look(self, now_s: float) -> bool:
        """True when it is lost, from now on."""
        if not self.is_alive or now_s < self._due_s:
            return False
        self._lose()
        return True

    def is_due_to_be_saved(self, now_s: float) -> bool:
        return self.is_unsaved or (self.is_alive and now_s >= self._saved_s + _SAVE_S)

    def saved(self, now_s: float) -> None:
        self.is_unsaved = False
        self._saved_s = now_s

    def _lose(self) -> None:
        self.process = replace(self.process, ending=Ending.LOST, ended_ms=self.process.heard_ms)
        self.is_unsaved = True


def _patience_s(process: RankProcess) -> float:
    return max(_MISSED * process.heartbeat_s, _PATIENCE_S)
