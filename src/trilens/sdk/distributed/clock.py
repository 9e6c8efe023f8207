"""How far this machine's clock is from rank 0's, measured through the job's store.

As NTP does: ask, let rank 0 write down its time, and take the exchange with the shortest round trip; the
truth lies within half of that. Rank 0 looks for those who ask about twice a second and then answers a few
questions in a row, so that an exchange takes a few round trips to the store and no more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.distributed.process_group import Store

ROUNDS: Final = 16
_ANSWER_S: Final = 0.25  # for one question of a row, once it has begun
_TURN_S: Final = 5.0  # until rank 0 begins to answer: it looks twice a second, and others ask too
_PATIENCE: Final = 6  # looks of rank 0 at a ticket whose owner asks nothing before it goes on to the next


class ClockOffset(NamedTuple):
    offset_us: int  # what to add to this clock to have rank 0's
    uncertainty_us: int  # the truth lies so far to either side at most


def now_us() -> int:
    return time.time_ns() // 1_000


class ClockServer:
    """On rank 0."""

    def __init__(self, store: Store, machine: str, clock_us: Callable[[], int] = now_us) -> None:
        self._store = store
        self._clock_us = clock_us
        self._ticket = 1
        self._looked = 0
        store.set(_key("machine"), machine)

    def look(self) -> None:
        """Answers those who are asking now."""
        while self._store.add(_key("tickets"), 0) >= self._ticket:
            if not self._store.check([_key(self._ticket, 0)]):
                self._looked += 1
                if self._looked < _PATIENCE:
                    return
            else:
                self._answer(self._ticket)
            self._ticket += 1
            self._looked = 0

    def _answer(self, ticket: int) -> None:
        for question in range(ROUNDS):
            if not _appears(self._store, _key(ticket, question), _ANSWER_S):
                break
            self._store.set(_key(ticket, question, "answer"), str(self._clock_us()))
            self._store.delete_key(_key(ticket, question))


def measure(store: Store, machine: str, clock_us: Callable[[], int] = now_us) -> ClockOffset | None:
    """On any other rank; None where rank 0 does not answer. Takes up to a few seconds."""
    if not _appears(store, _key("machine"), _TURN_S):
        return None
    if store.get(_key("machine")).decode() == machine:
        return ClockOffset(0, 0)  # one kernel, one clock
    ticket = store.add(_key("tickets"), 1)
    best: ClockOffset | None = None
    for question in range(ROUNDS):
        answer = _key(ticket, question, "answer")
        asked_us = clock_us()
        store.set(_key(ticket, question), "?")
        if not _appears(store, answer, _ANSWER_S if question else _TURN_S):
            break
        answered_us = clock_us()
        theirs_us = int(store.get(answer))
        store.delete_key(answer)
        if question:  # the first waited until rank 0 looked
            offset_us = theirs_us - (asked_us + answered_us) // 2
            uncertainty_us = (answered_us - asked_us + 1) // 2
            if best is None or uncertainty_us < best.uncertainty_us:
                best = ClockOffset(offset_us, uncertainty_us)
    return best


def _appears(store: Store, key: str, limit_s: float) -> bool:
    """Asked again and again: each is a round trip, so that this does not spin."""
    deadline_s = time.monotonic() + limit_s
    patient_s = time.monotonic() + 0.02
    while not store.check([key]):
        now_s = time.monotonic()
        if now_s > deadline_s:
            return False
        if now_s > patient_s:
            time.sleep(0.002)
    return True


def _key(*parts: str | int) -> str:
    return "/".join(("trilens/clock", *map(str, parts)))
