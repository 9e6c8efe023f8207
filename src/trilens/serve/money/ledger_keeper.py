"""Keeps the ledger: computes each hour when its turn has come, and again when something of it has changed."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.ledger.allocation.imported_hours import is_pool
from trilens.ledger.booking import HOURS_AT_ONCE, Booking
from trilens.ledger.due_hours import DueHours, Reason, hour_of
from trilens.ledger.known_losses import KnownLosses
from trilens.model.errors import QueryCancelled, StoreError, TrilensError
from trilens.model.finding import FindingKind
from trilens.model.ledger import HOUR_MS
from trilens.model.query import QueryGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from trilens.ledger.booking import Computed
    from trilens.ledger.due_hours import Stretch
    from trilens.ledger.prices.rates import PriceBook
    from trilens.ledger.source import FactSource, SignalSource, WrittenBook
    from trilens.model.finding import FindingInterval

log = logging.getLogger(__name__)

_OPEN_EVERY_MS: Final = 60_000
_OPEN_SHARE: Final = 10  # at most a tenth of the time goes into the open hour
_LOOK_S: Final = 5.0
_AFTER_FAILURE_S: Final = 5.0
ROWS_AT_ONCE: Final = 20_000
_READ_S: Final = 600.0  # for a day of a large fleet, in the background
_LATE_EVERY_MS: Final = 5 * 60_000  # a program that comes back tells of hours for a while
_WHOLE_EVERY_MS: Final = HOUR_MS
_OVERLAP_MS: Final = 2 * 60_000  # for records that were on their way when an hour was last computed
_KEPT_MS: Final = 2_000  # what is told of is on disk by then
_IN_NO_HURRY: Final = (Reason.PRICES, Reason.AGAIN, Reason.MISSED)


class LateHours(Protocol):
    @property
    def upto(self) -> int: ...

    @property
    def commits(self) -> Mapping[int, int]: ...


class LateRecords(Protocol):
    """Records of runs that came after their hour."""

    def late_hours(self, since: int, *, guard: QueryGuard | None = None) -> LateHours:
        """When the last record of an hour was written, in microseconds, of those with any since then; and
        what to ask with the next time."""


class ImportedTime(Protocol):
    def told_hours(self, *, guard: QueryGuard | None = None) -> Mapping[int, int]:
        """The hours that imports tell of, each with when it was last told of, in milliseconds."""


@dataclass(slots=True)
class KeeperState:
    """For metrics and the API; written by the keeper alone."""

    computed: Counter[Reason] = field(default_factory=Counter)  # hours
    revisions: int = 0  # hours that were booked already, and came out otherwise
    failures: int = 0
    left: int = 0  # hours that stay as they are, because what they were computed from has expired
    upto_ms: int | None = None  # until when the open hour is booked
    took_s: float | None = None  # the last time that this took
    troubles: dict[str, str] = field(default_factory=dict)  # what does not work now, and why


class _Working(NamedTuple):
    """What is known once the book was read."""

    due: DueHours
    losses: KnownLosses
    booking: Booking


class LedgerKeeper:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        facts: FactSource,
        signals: SignalSource,
        book: WrittenBook,
        prices: PriceBook,
        *,
        kept_for: timedelta,
        booked_for: timedelta,
        late: LateRecords,
        imports: ImportedTime,
        on_booked: Callable[[int], None] | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Hours older than `kept_for` are left as they are: what they came from has expired. Those older than
        `booked_for` are not booked, whatever is imported. `on_booked` is told the time when the open hour was
        booked."""
        self._facts = facts
        self._signals = signals
        self._book = book
        self._prices = prices
        self._kept_ms = round(kept_for.total_seconds() * 1000)
        self._booked_ms = round(booked_for.total_seconds() * 1000)
        self._late = late
        self._imports = imports
        self._on_booked = on_booked
        self._clock_ms = clock_ms
        self._working: _Working | None = None
        self._first_ms: int | None = None
        self._priced = ""
        self._late_since = 0
        self._late_due_ms = 0
        self._whole_due_ms = 0
        self._open_due_ms = 0
        self._open_fails = False
        self._lock = threading.Lock()
        self._told: dict[int, Reason] = {}
        self._found: dict[int, int] = {}  # hours, and when a stall of theirs was told of
        self.state = KeeperState()
        self._guard = QueryGuard()
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-ledger", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._guard.cancel()
        if self._thread.is_alive():
            self._thread.join()

    def recompute(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> int:
        """Asks for the hours that begin in the span, as far as they are over and there is anything to know of
        them; how many these are. The open hour, if it is among them, is booked next."""
        now_ms = self._clock_ms()
        first_ms, end_ms = hour_of(from_ms), min(to_ms, hour_of(now_ms))
        hours = {one.hour_ms for one in self._book.hours(first_ms, end_ms, guard=guard)}
        if self._first_ms is not None:
            known_ms = max(first_ms, self._first_ms, now_ms - self._kept_ms)
            hours.update(range(hour_of(known_ms), end_ms, HOUR_MS))
        if end_ms < to_ms:
            self._open_due_ms = 0
        self._tell(hours, Reason.ASKED)
        return len(hours)

    def imported(self, hours: Iterable[int]) -> None:
        """An import tells of these."""
        self._tell(self._still_booked(hours), Reason.IMPORTED)

    def found(self, findings: Iterable[FindingInterval]) -> None:
        """Detectors found these, or that they are over: hours with a stall of a run are due again."""
        now_ms = self._clock_ms()
        for one in findings:
            if one.finding.kind is FindingKind.STALL and one.finding.subject.run is not None:
                hours = range(hour_of(one.finding.onset_ms), (one.ended_ms or one.seen_ms) + 1, HOUR_MS)
                with self._lock:
                    self._found |= dict.fromkeys(hours, now_ms)

    def use_prices(self, prices: PriceBook) -> None:
        """From now on, and for hours that were computed with others."""
        self._prices = prices
        self._wake.set()

    def waiting(self, from_ms: int | None = None, to_ms: int | None = None) -> Mapping[Reason, int]:
        """Hours that wait to be computed, in all or of those that begin in the span."""
        with self._lock:
            hours = dict(self._told)
        if self._working is not None:
            hours = {**self._working.due.waiting(), **hours}
        return Counter(
            reason
            for hour, reason in hours.items()
            if (from_ms is None or hour >= from_ms) and (to_ms is None or hour < to_ms)
        )

    def _tell(self, hours: Iterable[int], reason: Reason) -> None:
        with self._lock:
            self._told |= dict.fromkeys(hours, reason)
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self.try_to_work())
            self._wake.clear()

    def try_to_work(self) -> float:
        """One piece of work; for so many seconds there is no other."""
        try:
            rest_s = self._work()
        except QueryCancelled:
            return 0.0  # it is to stop
        except TrilensError as e:
            self._complain("ledger", str(e))
        except Exception:  # a defect here must not end it for good
            log.exception("keeping the ledger failed")
            self._complain("ledger", "a defect; the server's log says more")
        else:
            if not self._fails():
                self.state.troubles.pop("ledger", None)
            return rest_s
        self.state.failures += 1
        return _AFTER_FAILURE_S

    def _fails(self) -> bool:
        """An hour that waits to be tried again is a trouble until it is booked."""
        return self._open_fails or (self._working is not None and self._working.due.fails)

    def _complain(self, what: str, why: str) -> None:
        if self.state.troubles.get(what) != why:
            log.warning("the ledger is behind", extra={"part": what, "error": why})
        self.state.troubles = {**self.state.troubles, what: why}

    def _work(self) -> float:
        now_ms = self._clock_ms()
        working = self._working
        if working is None:
            working = self._working = self._begun(now_ms)
        due = working.due
        self._look(working, now_ms)
        if self._is_open_due(now_ms):
            self._book_open(working, now_ms)
        due.want_lost(working.losses.news())
        stretch = due.next(now_ms, HOURS_AT_ONCE)
        if stretch is None:
            return _LOOK_S
        self._book_stretch(working, stretch)
        return 0.0

    def _begun(self, now_ms: int) -> _Working:
        kept = self._book.hours(now_ms - self._kept_ms, now_ms + self._kept_ms, guard=self._new_guard())
        due = DueHours(kept, now_ms)
        self._late_since = 1000 * (due.looked_ms - _OVERLAP_MS)
        due.want(self._unbooked_imports(), Reason.IMPORTED)
        losses = KnownLosses(self._facts, due.looked_ms)
        return _Working(due, losses, Booking(self._facts, self._signals, losses))

    def _unbooked_imports(self) -> list[int]:
        """Of hours that an import told of after they were last computed: the server was stopped meanwhile."""
        told = self._imports.told_hours(guard=self._new_guard())
        if not told:
            return []
        booked = self._book.hours(min(told), max(told) + 1, guard=self._new_guard())
        computed_ms = {one.hour_ms: one.computed_ms for one in booked}
        unbooked = [hour for hour, told_ms in told.items() if computed_ms.get(hour, 0) <= told_ms]
        return self._still_booked(unbooked)

    def _still_booked(self, hours: Iterable[int]) -> list[int]:
        """A job may have begun long before the first hour that the book keeps."""
        oldest_ms = self._clock_ms() - self._booked_ms
        return [hour for hour in hours if hour + HOUR_MS > oldest_ms]

    def _look(self, working: _Working, now_ms: int) -> None:
        due = working.due
        with self._lock:
            told, self._told = self._told, {}
            found = [hour for hour, at_ms in self._found.items() if abs(now_ms - at_ms) >= _KEPT_MS]
            for hour in found:
                del self._found[hour]
        for hour, reason in told.items():
            due.want([hour], reason)
        due.want_found(found)
        self._look_for_late(due, now_ms)
        self._look_for_damage(due, now_ms)
        if self._first_ms is None:
            self._first_ms = self._facts.first_ms(guard=self._new_guard())
        if self._priced != self._prices.digest:
            due.want_priced(self._prices.digest, now_ms - self._kept_ms)
            self._priced = self._prices.digest
        first_ms = max(self._first_ms, now_ms - self._kept_ms) if self._first_ms is not None else None
        due.look(now_ms, first_ms)

    def _look_for_late(self, due: DueHours, now_ms: int) -> None:
        if 0 < self._late_due_ms - now_ms <= _LATE_EVERY_MS:
            return
        found = self._late.late_hours(self._late_since, guard=self._new_guard())
        due.want_late({hour: at_us // 1000 for hour, at_us in found.commits.items()})
        self._late_since, self._late_due_ms = found.upto, now_ms + _LATE_EVERY_MS

    def _look_for_damage(self, due: DueHours, now_ms: int) -> None:
        """As far as what hours came from is kept; of others less is better than nothing."""
        if 0 < self._whole_due_ms - now_ms <= _WHOLE_EVERY_MS:
            return
        lost = self._book.incomplete(now_ms - self._kept_ms, hour_of(now_ms), guard=self._new_guard())
        if lost:
            log.warning("hours of the ledger have lost rows: computed again", extra={"hours": len(lost)})
        due.want(lost, Reason.DAMAGED)
        self._whole_due_ms = now_ms + _WHOLE_EVERY_MS

    def _is_open_due(self, now_ms: int) -> bool:
        """Also when the clock has jumped back."""
        return self._first_ms is not None and not 0 < self._open_due_ms - now_ms <= HOUR_MS

    def _book_open(self, working: _Working, now_ms: int) -> None:
        hour = hour_of(now_ms)
        began_s = time.monotonic()
        self._open_due_ms = now_ms + _OPEN_EVERY_MS
        if now_ms == hour or not working.due.may_take(hour, now_ms):
            return
        self._open_fails = True  # unless it is booked now
        for computed in working.booking.hours(
            hour, hour + HOUR_MS, self._prices, now_ms, guard=self._new_guard()
        ):
            self._write(working.due, [computed], Reason.OPEN, now_ms)
        self._open_fails = False
        self.state.upto_ms = now_ms
        if self._on_booked is not None:
            self._on_booked(now_ms)
        self.state.took_s = took_s = time.monotonic() - began_s
        self._open_due_ms = now_ms + max(_OPEN_EVERY_MS, round(1000 * took_s * _OPEN_SHARE))

    def _book_stretch(self, working: _Working, stretch: Stretch) -> None:
        """A failure concerns the hour that it came at: the others go on without it."""
        now_ms, hour = self._clock_ms(), stretch.to_ms - HOUR_MS
        hours = working.booking.hours(
            stretch.from_ms, stretch.to_ms, self._prices, now_ms, guard=self._new_guard()
        )
        held: list[Computed] = []
        began_s = time.monotonic()
        while hour >= stretch.from_ms and not self._stopping.is_set():
            with _told_of(working.due, hour, now_ms):
                held.append(next(hours))
            hour -= HOUR_MS
            may_wait = hour >= stretch.from_ms and not self._is_open_due(self._clock_ms())
            if may_wait and sum(len(one.hour.rows) for one in held) < ROWS_AT_ONCE:
                continue  # a few rows take as long to write as one
            self._write_held(working.due, held, stretch.reason, now_ms)
            held = []
            if not may_wait:
                return  # the rest still waits
            if stretch.reason in _IN_NO_HURRY:
                self._stopping.wait(time.monotonic() - began_s)
                began_s = time.monotonic()

    def _write_held(self, due: DueHours, held: Sequence[Computed], reason: Reason, now_ms: int) -> None:
        """Together, or where that fails one by one: what is wrong with one must not keep the others."""
        if len(held) > 1:
            try:
                self._write(due, held, reason, now_ms)
            except StoreError as e:
                log.info("hours of the ledger are written one by one", extra={"error": str(e)})
            else:
                return
        failure: Exception | None = None
        for one in held:
            try:
                with _told_of(due, one.hour.hour_ms, now_ms):
                    self._write(due, [one], reason, now_ms)
            except StoreError as e:
                failure = failure or e
        if failure is not None:
            raise failure

    def _write(self, due: DueHours, computed: Sequence[Computed], reason: Reason, now_ms: int) -> None:
        troubles = dict.fromkeys(trouble for one in computed for trouble in one.trouble)
        if troubles:
            self._complain("signals", "; ".join(troubles))
        else:
            self.state.troubles.pop("signals", None)
        kept = [one.hour for one in computed if self._may_write(one.hour.hour_ms, now_ms)]
        revisions = self._book.write_all(kept, reason=str(reason)) if kept else ()
        self.state.revisions += sum(bool(revision) for revision in revisions)
        self.state.computed[reason] += len(kept)
        self.state.left += len(computed) - len(kept)
        for one in computed:
            due.done(one.hour.hour_ms, one.hour.upto_ms, now_ms, one.hour.prices)

    def _may_write(self, hour_ms: int, now_ms: int) -> bool:
        """What imports told does not expire before the ledger does."""
        if hour_ms >= now_ms - self._kept_ms:
            return True
        return all(is_pool(bill.node) for bill in self._book.bills(hour_ms, hour_ms + HOUR_MS))

    def _new_guard(self) -> QueryGuard:
        self._guard = QueryGuard(timeout_s=_READ_S)
        if self._stopping.is_set():
            self._guard.cancel()
        return self._guard


@contextmanager
def _told_of(due: DueHours, hour_ms: int, now_ms: int) -> Iterator[None]:
    """An hour that fails in here is tried again later."""
    try:
        yield
    except QueryCancelled:
        raise
    except Exception:
        due.failed(hour_ms, now_ms)
        raise
