"""What each workload has cost, and how much of its time was of use: added up when an hour was booked."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.cost import by_keys
from trilens.ledger.answers.goodput import goodput
from trilens.model.errors import TrilensError
from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.query import QueryGuard
from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_book import seen_book

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.ledger.source import LedgerBook
    from trilens.serve.access.sight import Sight

_DAY_MS: Final = 24 * HOUR_MS
_COUNTED_MS: Final = 30 * _DAY_MS
_PAST_EVERY_MS: Final = 15 * 60_000  # days that are over seldom change, and are most of what is added up
_OLD_MS: Final = 3 * 60_000  # older than that, nobody has told that an hour was booked
_WATCHED_MS: Final = 10 * 60_000  # since nobody has asked for so long, nothing is added up


class Spent(NamedTuple):
    """`quanta` of what has a price in the book's currency; None where not all of it has one."""

    quanta: int | None
    goodput: float | None

    @property
    def amount(self) -> float | None:
        return None if self.quanta is None else round(self.quanta / QUANTA_PER_UNIT, 2)


class WorkloadMoney:
    """Thread-safe."""

    def __init__(self, book: LedgerBook, currency: Callable[[], str], now_ms: Callable[[], int]) -> None:
        self._book = book
        self._currency = currency
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._past: dict[WorkloadKey, int | None] = {}
        self._past_until_ms = 0
        self._past_read_ms: int | None = None
        self._known: Mapping[WorkloadKey, Spent] = {}
        self._read_ms: int | None = None
        self._asked_ms: int | None = None
        self._seen: dict[Sight, WorkloadMoney] = {}

    def by(self, sight: Sight) -> WorkloadMoney:
        """What was booked on those who are seen: workloads change hands."""
        if sight.is_whole:
            return self
        with self._lock:
            if sight not in self._seen:
                book = seen_book(self._book, sight)
                self._seen[sight] = WorkloadMoney(book, self._currency, self._now_ms)
            return self._seen[sight]

    def booked(self, now_ms: int) -> None:
        """The open hour was booked just now: in the ledger's thread."""
        with self._lock:
            self._seen = {sight: one for sight, one in self._seen.items() if one._is_watched(now_ms)}
            others = [*self._seen.values()]
        for one in others:
            one.booked(now_ms)
        if not self._is_watched(now_ms):
            return
        with suppress(TrilensError):  # what is known stays, and who asks next reads it himself
            self._read(now_ms, QueryGuard())

    def _is_watched(self, now_ms: int) -> bool:
        return self._asked_ms is not None and now_ms - self._asked_ms <= _WATCHED_MS

    def figures(self, guard: QueryGuard) -> Mapping[WorkloadKey, Spent]:
        self._asked_ms = now_ms = self._now_ms()
        if self._read_ms is None or now_ms - self._read_ms > _OLD_MS:
            self._read(now_ms, guard)
        return self._known

    def _read(self, now_ms: int, guard: QueryGuard) -> None:
        with self._lock:
            today_ms = now_ms // _DAY_MS * _DAY_MS
            is_old = self._past_read_ms is None or now_ms - self._past_read_ms > _PAST_EVERY_MS
            if is_old or self._past_until_ms != today_ms:
                self._past = self._amounts(Window(today_ms - _COUNTED_MS, today_ms), guard)
                self._past_until_ms, self._past_read_ms = today_ms, now_ms
            next_ms = now_ms // HOUR_MS * HOUR_MS + HOUR_MS
            today = self._amounts(Window(today_ms, next_ms), guard)
            lately = self._book.sums([Dimension.WORKLOAD], Window(next_ms - _DAY_MS, next_ms), guard=guard)
            timed = by_keys(one._replace(currency="", quanta=0) for one in lately)
            useful = {one.keys[0]: goodput(one).ratio for one in timed}
            self._known = {
                key: Spent(_added(self._past.get(key, 0), today.get(key, 0)), useful.get(key))
                for key in self._past.keys() | today.keys()
            }
            self._read_ms = now_ms

    def _amounts(self, window: Window, guard: QueryGuard) -> dict[WorkloadKey, int | None]:
        found: dict[WorkloadKey, int | None] = {}
        currency = self._currency()
        for one in self._book.sums([Dimension.WORKLOAD], window, guard=guard):
            key = one.keys[0]
            if isinstance(key, WorkloadKey):
                is_whole = not one.unpriced_ms and one.currency in ("", currency)
                found[key] = _added(found.get(key, 0), one.quanta if is_whole else None)
        return found


def _added(one: int | None, other: int | None) -> int | None:
    """A part of an amount would be taken for all of it."""
    return None if one is None or other is None else one + other
