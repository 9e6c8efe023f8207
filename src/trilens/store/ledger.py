"""Hours of the ledger: kept whole, with their corrections, and added up.

See docs/decisions/ledger-hours.md.
"""

from __future__ import annotations

import threading
import time
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trilens.store.ledger_damage import damaged_hours
from trilens.store.ledger_days import DAYS_MADE, LedgerDays
from trilens.store.ledger_expiry import delete_months, month_of
from trilens.store.ledger_reads import LedgerReads, between
from trilens.store.ledger_rows import (
    BILLS,
    HOUR_COLUMNS,
    HOURS,
    NAMED_COLUMNS,
    ROW_SCHEMA,
    ROWS,
    WORKLOAD,
    Named,
    bills_table,
    digest_of,
    hour_row,
    hour_table,
    is_over,
    rows_table,
    warnings_text,
)
from trilens.store.ledger_sources import BY_HOUR, DAYS, PAIRS
from trilens.store.numbered import Numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_sums import Window
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine

# Whose money it is and for what: what moved between these is a correction that somebody sees.
_MOVED_BETWEEN: Final = (
    "cluster",
    "node",
    "gpu",
    *WORKLOAD,
    "namespace",
    "run",
    "experiment",
    "team",
    "cost_centre",
    "queue",
    "bucket",
    "cause",
    "currency",
)


_ROW_ORDER: Final = ", ".join(
    ("cluster", "node", "gpu", *WORKLOAD, "run", "bucket", "cause", "since_ms", "currency")
)
_ROWS_AT_ONCE: Final = 50_000  # of an export, of about 300 bytes
_HOURS_AT_ONCE: Final = 168
_SETTLED_AGAIN: Final = 60  # an hour, as often as it is settled


class Ledger:
    """Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()
        self._hours = _hours_named(engine)
        self._astray: dict[int, frozenset[int]] = {}  # by hour: numbers that are read, and nobody names
        self._settled = 0
        last, stale = _last_named(engine)
        self._numbers = Numbered(engine, (ROWS, BILLS, DAYS, PAIRS), last, stale)
        self._days = LedgerDays(engine, self._numbers, self._hours)
        self._reads = LedgerReads(engine, self._numbers, self._hours, self._days)

        self.hours = self._reads.hours
        self.sums = self._reads.sums
        self.episodes = self._reads.episodes
        self.bills = self._reads.bills
        self.bill_parts = self._reads.bill_parts
        self.billed_hours = self._reads.billed_hours
        self.hours_of_work = self._reads.hours_of_work

    def write(self, hour: LedgerHour, *, reason: str = "") -> int | None:
        """On disk on return. After a StoreError nothing of it counts, and it may be written again."""
        return self.write_all([hour], reason=reason)[0]

    def write_all(self, hours: Sequence[LedgerHour], *, reason: str = "") -> list[int | None]:
        """Of different hours, together: many small ones take as long as one. After a StoreError none counts
        whose rows are other than they were."""
        digests = {hour.hour_ms: digest_of(hour) for hour in hours}
        with self._writing:
            same = {}
            for hour in hours:
                known = self._hours.get(hour.hour_ms)
                if known is not None and known.digest == digests[hour.hour_ms]:
                    same[hour.hour_ms] = known.written
            whole = self._whole([hour for hour in hours if hour.hour_ms in same], same.values())
            changed = []
            for hour in hours:
                if hour.hour_ms in whole:
                    self._note(hour, self._hours[hour.hour_ms])
                else:
                    changed.append(hour)
            revisions = self._write(changed, digests, reason) if changed else {}
        return [revisions.get(hour.hour_ms) for hour in hours]

    def incomplete(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[int]:
        """The next write of one of these takes the place of all that is there of it."""
        with self._writing, self._numbers.reading() as counts:
            found = damaged_hours(self._engine, between(from_ms, to_ms), counts, guard)
            for hour_ms, damaged in found.items():
                self._hours[hour_ms] = damaged.named._replace(digest="")  # no rows are the same as these
                self._astray[hour_ms] = damaged.others
        return [*found]

    def rows(self, window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        """Some hours after the other: what is held in memory does not grow with the window."""
        where = BY_HOUR.filters(window.where)
        hours = sorted(hour for hour in [*self._hours] if window.from_ms <= hour < window.to_ms)
        at_once = 1  # until it is known how much an hour has
        while hours:
            asked, hours = hours[:at_once], hours[at_once:]
            with self._numbers.reading() as counts:
                found = self._engine.query_arrow(
                    f"SELECT {', '.join(ROW_SCHEMA.names)} FROM {ROWS} "
                    f"WHERE hour_ms BETWEEN {asked[0]} AND {asked[-1]} AND {where} AND {counts} "
                    f"ORDER BY hour_ms, {_ROW_ORDER}",
                    guard=guard,
                )
            at_once = min(_HOURS_AT_ONCE, max(1, _ROWS_AT_ONCE * at_once // max(1, found.num_rows)))
            yield from found.to_batches()

    def settle(self) -> int:
        """Make the days that are over and are not made of the hours that count now, and delete rows that no
        longer count; returns how many days. Answers are the same before and after, and quicker after."""
        if self._settled % _SETTLED_AGAIN == 0 and self._days.distrust():
            self._reads.forget()
        self._settled += 1
        made = 0
        for day_ms, hours in self._days.due():
            with self._writing:
                if self._days.hours_of(day_ms) == hours:
                    self._days.make(day_ms, hours)
                    made += 1
        with self._writing:
            self._numbers.tidy()
        return made

    def delete_before(self, before_ms: int) -> int:
        """Whole months that were over before then; returns how many rows."""
        until_ms = month_of(before_ms)
        with self._writing:
            deleted = delete_months(self._engine, until_ms)
            gone = [hour_ms for hour_ms in self._hours if hour_ms < until_ms]
            for hour_ms in gone:
                del self._hours[hour_ms]
            self._days.forget_before(until_ms)
            self._reads.changed(gone)
            self._reads.replaced(gone)
        return deleted

    def _write(self, hours: Sequence[LedgerHour], digests: Mapping[int, str], reason: str) -> dict[int, int]:
        contents = [(rows_table(hour.rows), bills_table(hour.bills)) for hour in hours]
        numbers = [self._numbers.take() for _ in hours]
        try:
            for table, parts in zip((ROWS, BILLS), zip(*contents, strict=True), strict=True):
                self._engine.insert_arrow(table, pa.concat_tables(map(_numbered, parts, numbers)))
            known = [self._hours.get(hour.hour_ms) for hour in hours]
            moved = self._moved(hours, numbers)
            revised = [
                hour_row(
                    hour,
                    0 if before is None else before.revision + is_over(hour.hour_ms, before.upto_ms),
                    _now_ms(),
                    moved.get(hour.hour_ms, 0),
                    reason,
                    digests[hour.hour_ms],
                )
                for hour, before in zip(hours, known, strict=True)
            ]
            replaced = [
                () if before is None else (before.written, *self._astray.get(hour.hour_ms, ()))
                for hour, before in zip(hours, known, strict=True)
            ]
            stale = self._numbers.to_delete(*chain.from_iterable(replaced))
            named = zip(revised, numbers, strict=True)
            tables = [hour_table(row, number, stale, self._numbers.next()) for row, number in named]
            self._numbers.insert_names(HOURS, pa.concat_tables(tables), numbers)
        except BaseException:
            for number in numbers:
                self._numbers.give_up(number)
            raise
        finally:
            self._reads.changed(hour.hour_ms for hour in hours)
        for row, number, instead_of in zip(revised, numbers, replaced, strict=True):
            with self._numbers.naming(number, *instead_of):
                self._hours[row["hour_ms"]] = Named.of({**row, "written": number})
                self._astray.pop(row["hour_ms"], None)
        self._reads.replaced(hour.hour_ms for hour in hours)
        return {row["hour_ms"]: row["revision"] for row in revised}

    def _whole(self, hours: Sequence[LedgerHour], numbers: Iterable[int]) -> set[int]:
        """Those of which everything is on disk. Of the others the engine has set a part aside that it could
        not read: computing them again is how it comes back."""
        if not hours:
            return set()
        these = f"hour_ms IN ({_listed(hour.hour_ms for hour in hours)}) AND written IN ({_listed(numbers)})"
        found = self._engine.query_arrow(
            f"SELECT hour_ms, countIf(kind = 0) AS rows, countIf(kind = 1) AS bills FROM ("
            f"SELECT hour_ms, 0 AS kind FROM {ROWS} WHERE {these} UNION ALL "
            f"SELECT hour_ms, 1 AS kind FROM {BILLS} WHERE {these}) GROUP BY hour_ms"
        ).to_pylist()
        there = {one["hour_ms"]: (one["rows"], one["bills"]) for one in found}
        return {
            hour.hour_ms
            for hour in hours
            if there.get(hour.hour_ms, (0, 0)) == (len(hour.rows), len(hour.bills))
        }

    def _note(self, hour: LedgerHour, known: Named) -> None:
        """The rows are the same; what else is told of the hour may not be."""
        told = (hour.upto_ms, hour.prices, hash(warnings_text(hour)))
        if told == (known.upto_ms, known.prices, known.warnings):
            return
        found = self._engine.query_arrow(
            f"SELECT {HOUR_COLUMNS} FROM {HOURS} FINAL "
            f"WHERE hour_ms = {hour.hour_ms} AND revision = {known.revision}"
        ).to_pylist()
        row = {
            **found[0],
            "upto_ms": hour.upto_ms,
            "computed_ms": _now_ms(),
            "prices": hour.prices,
            "warnings": warnings_text(hour),
        }
        stale = self._numbers.to_delete()
        self._engine.insert_arrow(HOURS, hour_table(row, known.written, stale, self._numbers.next()))
        self._reads.changed([hour.hour_ms])
        self._hours[hour.hour_ms] = Named.of({**row, "written": known.written})

    def _moved(self, hours: Sequence[LedgerHour], numbers: Sequence[int]) -> dict[int, int]:
        """How much is elsewhere now, of those that were over; what is more or less in all counts too."""
        before, after = [], []
        for hour, number in zip(hours, numbers, strict=True):
            known = self._hours.get(hour.hour_ms)
            if known is not None and is_over(hour.hour_ms, known.upto_ms):
                before += [known.written, *self._astray.get(hour.hour_ms, ())]
                after.append(number)
        if not before:
            return {}
        of_hours = _listed(hour.hour_ms for hour in hours)
        of_both, of_after = _listed([*before, *after]), _listed(after)
        found = self._engine.query_arrow(
            "SELECT hour_ms, toDecimal128(sumIf(moved, moved > 0), 0) AS gained, "
            "toDecimal128(-sumIf(moved, moved < 0), 0) AS lost FROM (SELECT hour_ms, "
            f"sum(if(written IN ({of_after}), 1, -1) * toInt128(ifNull(quanta, 0))) AS moved FROM {ROWS} "
            f"WHERE hour_ms IN ({of_hours}) AND written IN ({of_both}) "
            f"GROUP BY hour_ms, {', '.join(_MOVED_BETWEEN)}) GROUP BY hour_ms"
        )
        return {row["hour_ms"]: int(max(row["gained"], row["lost"])) for row in found.to_pylist()}


def _hours_named(engine: Engine) -> dict[int, Named]:
    found = engine.query_arrow(
        f"SELECT hour_ms, {NAMED_COLUMNS} FROM {HOURS} FINAL "
        "ORDER BY hour_ms, revision DESC LIMIT 1 BY hour_ms"
    )
    return {row["hour_ms"]: Named.of(row) for row in found.to_pylist()}


def _last_named(engine: Engine) -> tuple[int, list[int]]:
    """The largest number that was given out with a name, and what was to be deleted then."""
    both = " UNION ALL ".join(f"SELECT written, stale, version FROM {table}" for table in (HOURS, DAYS_MADE))
    found = engine.query_arrow(
        f"SELECT max(version) AS last, argMax(stale, version) AS stale FROM ({both})"
    ).to_pylist()[0]
    return found["last"], found["stale"]


def _numbered(content: pa.Table, number: int) -> pa.Table:
    return content.append_column("written", pa.array([number] * content.num_rows, pa.int64()))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
