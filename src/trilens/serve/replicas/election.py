"""Which of several servers works: pure logic over what a lease says and when that was seen here.

As Kubernetes' own components do it: no clock is compared with another machine's. A lease is over when it has
not changed for its duration since it was seen to change, by the clock of who looks. Who holds it is sure of
it for less than that, counted from before the renewal was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


class Timing(NamedTuple):
    duration_s: float

    @property
    def sure_s(self) -> float:
        """After a renewal: by the time somebody else could take over, this one has stopped."""
        return self.duration_s * 2 / 3

    @property
    def retry_s(self) -> float:
        return self.duration_s * 2 / 15


@dataclass(frozen=True, slots=True)
class Held:
    """What a lease says."""

    holder: str  # empty once it was given back
    address: str  # where the holder answers
    duration_s: int
    acquired: str
    renewed: str
    transitions: int


class Election:
    """What `leads` says may be asked from any thread; the rest is for one."""

    def __init__(self, me: str, address: str, timing: Timing) -> None:
        self.me = me
        self.timing = timing
        self._address = address
        self._seen: Held | None = None
        self._seen_at_s = 0.0
        self._sure_until_s = float("-inf")

    def saw(self, held: Held | None, now_s: float) -> None:
        if held != self._seen:
            self._seen, self._seen_at_s = held, now_s
        if held is not None and held.holder != self.me:
            self._sure_until_s = float("-inf")

    def due(self, now_s: float, utc: str) -> Held | None:
        """What to write into the lease now; None where somebody else has it."""
        seen = self._seen
        if seen is None:
            return self._new(utc, transitions=0)
        if seen.holder == self.me:
            return replace(seen, renewed=utc)
        if seen.holder and now_s < self._seen_at_s + seen.duration_s:
            return None
        return self._new(utc, transitions=seen.transitions + 1)

    def wrote(self, held: Held, sent_s: float) -> None:
        """`sent_s` is when the request was begun: nobody has seen it before."""
        self._seen, self._seen_at_s = held, sent_s
        self._sure_until_s = sent_s + self.timing.sure_s if held.holder == self.me else float("-inf")

    def gives_back(self, utc: str) -> Held | None:
        """What to write so that the next one need not wait; None where it is not ours."""
        if self._seen is None or self._seen.holder != self.me:
            return None
        return replace(self._seen, holder="", address="", duration_s=1, renewed=utc)

    def leads(self, now_s: float) -> bool:
        return now_s < self._sure_until_s

    def leader(self, now_s: float) -> Held | None:
        """Who works, as far as is known here."""
        seen = self._seen
        if seen is None or not seen.holder or now_s >= self._seen_at_s + seen.duration_s:
            return None
        return seen

    def _new(self, utc: str, transitions: int) -> Held:
        return Held(self.me, self._address, round(self.timing.duration_s), utc, utc, transitions)
