"""Who has come to a meeting of a process group, kept in the job's store.

Every rank leaves a key of its own and counts itself; the last one says that all are there, so that waiting is
one small question however large the group is. Only when time is up are the ranks looked at one by one, by the
first that gives up; the others look only at those it found missing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.sdk.distributed.process_group import Store

_FIRST_PAUSE_S: Final = 0.001
_ASKED_A_SECOND: Final = 5_000  # by all ranks together, which one process answers


class Arrivals:
    """Meetings are counted from 1; every member must come to the same ones."""

    def __init__(self, store: Store, name: str, ranks: Sequence[int], me: int) -> None:
        self._store = store
        self._prefix = f"trilens/barrier/{name}"
        self._ranks = tuple(ranks)
        self._me = me
        self._longest_pause_s = max(0.05, len(self._ranks) / _ASKED_A_SECOND)
        self._to_clear: list[int] = []

    def arrive(self, meeting: int) -> None:
        self._to_clear.append(meeting)
        self._store.set(self._key(meeting, self._me), "1")
        if self._store.add(self._key(meeting, "count"), 1) >= len(self._ranks):
            self._store.set(self._key(meeting, "all"), "1")

    def wait(self, meeting: int, deadline_s: float) -> tuple[int, ...]:
        """The ranks that have not come by then, on the monotonic clock; nobody waits for ever."""
        pause_s = _FIRST_PAUSE_S
        while True:
            if self._store.check([self._key(meeting, "all")]):
                self._clear_before(meeting)
                return ()
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return self._missing(meeting)
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, self._longest_pause_s)

    def give_up(self, meeting: int, missing: Sequence[int]) -> None:
        """Tells those who come later, or look later, that the meeting was not complete in time."""
        self._store.set(self._key(meeting, "missing"), " ".join(map(str, missing)))

    def was_given_up(self, meeting: int) -> bool:
        return self._store.check([self._key(meeting, "missing")])

    def _missing(self, meeting: int) -> tuple[int, ...]:
        suspects: Sequence[int] = self._ranks
        if self.was_given_up(meeting):
            told = self._store.get(self._key(meeting, "missing"))
            suspects = [int(rank) for rank in told.decode().split()]
        missing = tuple(rank for rank in suspects if not self._store.check([self._key(meeting, rank)]))
        if suspects is self._ranks:
            self.give_up(meeting, missing)
        return missing

    def _clear_before(self, meeting: int) -> None:
        """All are here, so nobody looks at an earlier meeting any more. Each removes what is its own."""
        shared = ("count", "all", "missing") if self._me == self._ranks[0] else ()
        for past in self._to_clear:
            if past < meeting:
                for part in (self._me, *shared):
                    self._store.delete_key(self._key(past, part))
        self._to_clear = [meeting]

    def _key(self, meeting: int, part: str | int) -> str:
        return f"{self._prefix}/{meeting}/{part}"
