"""Which hours are to be computed, in which order, and why."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.ledger_sums import BookedHour

CLOSE_AFTER_MS: Final = 10 * 60_000  # records of programs and scrapes of an hour are in by then
_AGAIN_AFTER_MS: Final = (HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS)
_RETRY_MS: Final = 60_000
_RETRY_AT_MOST_MS: Final = HOUR_MS
_WRONG_CLOCK_MS: Final = HOUR_MS  # what was computed so far in the future was by a clock that was wrong


class Reason(StrEnum):
    """Why an hour is computed, the most urgent first; kept with its revisions."""

    OPEN = "open"
    CLOSED = "closed"
    ASKED = "asked for"
    DAMAGED = "rows were missing"
    IMPORTED = "import"
    LOST_WORK = "lost work"
    LATE = "late records"
    FOUND = "a stall was found"
    PRICES = "other prices"
    AGAIN = "looked at again"
    MISSED = "not computed before"


_URGENCY: Final = {reason: place for place, reason in enumerate(Reason)}


class Stretch(NamedTuple):
    """Hours one after the other."""

    from_ms: int
    to_ms: int
    reason: Reason


class _Known(NamedTuple):
    upto_ms: int
    computed_ms: int
    prices: str


class DueHours:
    """Not thread-safe. Time is told to it, and may jump."""

    def __init__(self, booked: Iterable[BookedHour], now_ms: int) -> None:
        """`booked` are all that the book has of the time in which hours may be computed again."""
        self._known: dict[int, _Known] = {}
        for one in booked:  # by revision: the last counts
            if one.computed_ms <= now_ms + _WRONG_CLOCK_MS:
                self._known[one.hour_ms] = _Known(one.upto_ms, one.computed_ms, one.prices)
        self._pending: dict[int, Reason] = {}
        self._failed: Counter[int] = Counter()
        self._not_before: dict[int, int] = {}
        self._looked_ms = min(max((one.computed_ms for one in self._known.values()), default=now_ms), now_ms)

    @property
    def looked_ms(self) -> int:
        """When it was last looked; before the first look, when an hour was last computed."""
        return self._looked_ms

    def look(self, now_ms: int, first_ms: int | None) -> None:
        """Hours whose turn has come since the last look. All are to be in the book from `first_ms` on; None
        where nothing is to be computed by itself."""
        if now_ms < self._looked_ms - _WRONG_CLOCK_MS:
            self._forget_after(now_ms)
        over_ms = now_ms - CLOSE_AFTER_MS - HOUR_MS  # the last hour that may be closed
        for hour in range(hour_of(first_ms), over_ms + 1, HOUR_MS) if first_ms is not None else ():
            known = self._known.get(hour)
            if known is None:
                self._want(hour, Reason.MISSED if hour + HOUR_MS <= over_ms else Reason.CLOSED)
            elif known.upto_ms < hour + HOUR_MS:
                self._want(hour, Reason.CLOSED)
        just_over = hour_of(now_ms) - HOUR_MS
        if first_ms is not None and just_over >= hour_of(first_ms) and just_over not in self._known:
            self._want(just_over, Reason.CLOSED)  # at a start: nobody has booked it while it was open
        for after_ms in _AGAIN_AFTER_MS:
            last, first = now_ms - after_ms - HOUR_MS, self._looked_ms - after_ms - HOUR_MS
            for hour in range(hour_of(first) + HOUR_MS, last + 1, HOUR_MS):
                if hour in self._known:
                    self._want(hour, Reason.AGAIN)
        self._looked_ms = now_ms

    def _forget_after(self, now_ms: int) -> None:
        """The clock was wrong, and so is what was computed by it."""
        for hour in [hour for hour, known in self._known.items() if known.computed_ms > now_ms]:
            del self._known[hour]
            self._pending.pop(hour, None)
        for hour in [hour for hour in self._failed if hour > now_ms]:
            del self._failed[hour], self._not_before[hour]

    def want(self, hours: Iterable[int], reason: Reason) -> None:
        for hour in hours:
            self._want(hour, reason)

    def want_lost(self, hours: Iterable[int]) -> None:
        """Hours of which work was lost: those that are closed, as others will be computed in any case."""
        self.want((hour for hour in hours if self._is_closed(hour)), Reason.LOST_WORK)

    def want_found(self, hours: Iterable[int]) -> None:
        """Hours of which a stall was found, or its end: those that are closed."""
        self.want((hour for hour in hours if self._is_closed(hour)), Reason.FOUND)

    def want_late(self, told_ms: Mapping[int, int]) -> None:
        """Hours with when they were last told of: those that are over, and were computed before that."""
        for hour, last_ms in told_ms.items():
            if self._is_closed(hour) and self._known[hour].computed_ms <= last_ms:
                self._want(hour, Reason.LATE)

    def want_priced(self, prices: str, from_ms: int) -> None:
        """Hours that are over and were computed with another price book."""
        for hour, known in self._known.items():
            if known.prices != prices and hour >= from_ms and self._is_closed(hour):
                self._want(hour, Reason.PRICES)

    def next(self, now_ms: int, at_most: int) -> Stretch | None:
        """The most urgent, the newest first; of hours that lie beside it and wait for the same, `at_most`."""
        ready = [hour for hour in self._pending if self._is_ready(hour, now_ms)]
        if not ready:
            return None
        last = min(ready, key=lambda hour: (_URGENCY[self._pending[hour]], -hour))
        reason, first = self._pending[last], last
        while (
            self._pending.get(first - HOUR_MS) is reason
            and self._is_ready(first - HOUR_MS, now_ms)
            and last - first < (at_most - 1) * HOUR_MS
        ):
            first -= HOUR_MS
        return Stretch(first, last + HOUR_MS, reason)

    def waiting(self) -> dict[int, Reason]:
        """May be asked from any thread."""
        return dict(self._pending)

    def may_take(self, hour: int, upto_ms: int) -> bool:
        """Not less of an hour than is booked: the clock has been set back a little."""
        known = self._known.get(hour)
        return known is None or known.upto_ms <= upto_ms

    def done(self, hour: int, upto_ms: int, now_ms: int, prices: str) -> None:
        """Also of an hour that is to be left as it is."""
        self._known[hour] = _Known(upto_ms, now_ms, prices)
        if upto_ms >= hour + HOUR_MS:
            self._pending.pop(hour, None)
            self._failed.pop(hour, None)
            self._not_before.pop(hour, None)

    @property
    def fails(self) -> bool:
        """Whether an hour failed, and has not been computed since."""
        return bool(self._failed)

    def failed(self, hour: int, now_ms: int) -> None:
        """It is tried again, each time after twice as long."""
        wait_ms = min(_RETRY_MS << min(self._failed[hour], 10), _RETRY_AT_MOST_MS)
        self._failed[hour] += 1
        self._not_before[hour] = now_ms + wait_ms

    def _is_ready(self, hour: int, now_ms: int) -> bool:
        before = self._not_before.get(hour, now_ms)
        may_retry = before <= now_ms or before > now_ms + _RETRY_AT_MOST_MS  # the clock has jumped back
        return may_retry and hour + HOUR_MS <= now_ms

    def _is_closed(self, hour: int) -> bool:
        known = self._known.get(hour)
        return known is not None and known.upto_ms >= hour + HOUR_MS

    def _want(self, hour: int, reason: Reason) -> None:
        known = self._pending.get(hour)
        if known is None or _URGENCY[reason] < _URGENCY[known]:
            self._pending[hour] = reason


def hour_of(moment_ms: int) -> int:
    return moment_ms - moment_ms % HOUR_MS
