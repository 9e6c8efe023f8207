"""Rows that count once something names their number: written whole, or not at all.

Who writes takes a number, writes rows that carry it, and names it last. Until then, and again once another
number has taken its place, readers leave it out; the rows are deleted when nobody reads them any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from trilens.store.engine import Engine

log = logging.getLogger(__name__)

_LATE_US: Final = 3_600_000_000  # a server may go on for a while with an insert whose client has given up


class Numbered:
    """Readers may come from any thread; one thread at a time writes."""

    def __init__(self, engine: Engine, tables: Sequence[str], last: int, stale: Iterable[int]) -> None:
        """`last` is the largest number that was ever named: rows above it are of writes that a crash ended.
        `stale` were to be deleted before that."""
        self._engine = engine
        self._tables = tables
        self._last = last
        self._gate = threading.Lock()
        self._turn = 0  # counts how often what readers see has changed
        self._readers: Counter[int] = Counter()  # how many read what was there at which turn
        self._stale: dict[int, int] = dict.fromkeys(stale, 0)  # with the turn since which nobody sees it
        self._unnamed: set[int] = set()
        self._given_up: set[int] = set()
        for number in self._interrupted():
            self._stale[number] = 0
            self._last = max(self._last, number)
        self.tidy()

    @contextmanager
    def reading(self) -> Iterator[str]:
        """A condition that holds for rows that count. They stay until the end."""
        with self._gate:
            turn = self._turn
            self._readers[turn] += 1
            hidden = sorted(self._stale.keys() | self._unnamed)
            counts = f"written <= {self._last}"  # a number that is given out later is not named now
        if hidden:
            counts += f" AND written NOT IN ({', '.join(map(str, hidden))})"
        try:
            yield counts
        finally:
            with self._gate:
                self._readers[turn] -= 1
                self._readers += Counter()  # forgets those that are 0

    def take(self) -> int:
        """A number for rows that are about to be written."""
        with self._gate:
            number = self._next()
            self._unnamed.add(number)
            return number

    def next(self) -> int:
        """A number for what has no rows, larger than all before."""
        with self._gate:
            return self._next()

    def _next(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return self._last

    def to_delete(self, *more: int) -> list[int]:
        """What is to be kept with a name, so that a start knows of it."""
        return sorted({*self._stale, *more})

    def insert_names(self, table: str, names: pa.Table, numbers: Iterable[int]) -> None:
        """What is named by these rows is on disk."""
        try:
            self._engine.insert_arrow(table, names)
        except StoreError:
            # What went wrong may have been the answer only; they are one block, so all are there or none.
            condition = f"written IN ({', '.join(map(str, numbers))})"
            found = self._engine.query_arrow(f"SELECT count() AS n FROM {table} WHERE {condition}")
            if not found["n"][0].as_py():
                raise

    @contextmanager
    def naming(self, number: int, *instead_of: int) -> Iterator[None]:
        """What readers see changes with the end of this block, in which everything else about it does."""
        with self._gate:
            yield
            self._turn += 1
            self._unnamed.discard(number)
            self._stale |= dict.fromkeys(instead_of, self._turn)

    def give_up(self, number: int) -> None:
        """It was not named, and never will be."""
        with self._gate:
            self._unnamed.discard(number)
            self._given_up.add(number)
            self._stale[number] = self._turn

    def tidy(self) -> None:
        """Delete what nobody reads. What cannot be deleted now is left for the next time."""
        with self._gate:
            oldest = min(self._readers, default=self._turn)
            gone = [number for number, turn in self._stale.items() if turn <= oldest]
        if not gone:
            return
        condition = f"written IN ({', '.join(map(str, gone))})"
        try:
            for table in self._tables:
                found = self._engine.query_arrow(f"SELECT count() AS n FROM {table} WHERE {condition}")
                if found["n"][0].as_py():
                    self._engine.command(f"DELETE FROM {table} WHERE {condition}")
        except StoreError as e:
            log.info("rows that no longer count stay for now", extra={"error": str(e)})
            return
        with self._gate:
            self._given_up = {number for number in self._given_up if number > self._last - _LATE_US}
            for number in {*gone} - self._given_up:
                del self._stale[number]

    def _interrupted(self) -> list[int]:
        later = " UNION DISTINCT ".join(
            f"SELECT written FROM {table} WHERE written > {self._last}" for table in self._tables
        )
        found: list[int] = self._engine.query_arrow(f"SELECT DISTINCT written FROM ({later})")[
            "written"
        ].to_pylist()
        if found:
            log.info("a write of the ledger that was interrupted is undone")
        return found
