"""Days of the ledger: its hours added up, so that a month need not be read by the hour.

A day keeps the numbers of the hours that it was made of. When one of them is another by now, the day is not
read until it has been made again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from trilens.model.ledger import HOUR_MS, Bucket
from trilens.store import sql
from trilens.store.ledger_rows import HOURS, ROWS, WORKLOAD, is_over
from trilens.store.ledger_sources import ALL_PAIRS, BY_DAY, BY_HOUR, DAY_MS, DAYS, PAIRED, PAIRS, pair_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.ledger_sums import Dimension, Window
    from trilens.store.engine import Engine
    from trilens.store.ledger_rows import Named
    from trilens.store.numbered import Numbered

log = logging.getLogger(__name__)

DAYS_MADE: Final = "ledger_days_made"
_MADE_SCHEMA: Final = pa.schema(
    [
        ("day_ms", pa.int64()),
        ("hours", pa.list_(pa.int64())),
        ("written", pa.int64()),
        ("stale", pa.list_(pa.int64())),
        ("version", pa.int64()),
        ("has_pairs", pa.bool_()),
    ]
)

# A day has all of an hour's columns but these: its GPU, its doubts, and the hour itself.
_KEY: Final = ", ".join(
    (
        "cluster",
        "node",
        "model",
        "purchase",
        "region",
        *WORKLOAD,
        "attempt",
        "namespace",
        "run",
        "experiment",
        "team",
        "cost_centre",
        "queue",
        "bucket",
        "cause",
        "since_ms",
        "step",
        "basis",
        "currency",
    )
)
_FLEETS: Final = sql.text_list(sorted(bucket for bucket in Bucket if bucket.is_fleet))


class Day(NamedTuple):
    written: int
    hours: tuple[int, ...]  # the numbers of the hours that it was made of
    has_pairs: bool  # one that an earlier version made has none


class LedgerDays:
    """Read by any thread; one makes them, and no hour is written meanwhile."""

    def __init__(self, engine: Engine, numbers: Numbered, hours: Mapping[int, Named]) -> None:
        """`hours` are those that count, by when they begin, as they are at any time."""
        self._engine = engine
        self._numbers = numbers
        self._hours = hours
        self._made = _made(engine)

    def within(self, window: Window) -> dict[int, Day]:
        """Those that lie in the window and are made of the hours that count."""
        first = -(-window.from_ms // DAY_MS) * DAY_MS
        return {
            day_ms: made
            for day_ms, made in [*self._made.items()]
            if first <= day_ms <= window.to_ms - DAY_MS and made.hours == self.hours_of(day_ms)
        }

    def hours_of(self, day_ms: int) -> tuple[int, ...]:
        hours = (self._hours.get(hour_ms) for hour_ms in range(day_ms, day_ms + DAY_MS, HOUR_MS))
        return tuple(named.written for named in hours if named is not None)

    def due(self) -> list[tuple[int, tuple[int, ...]]]:
        """Those that are over and are not made of the hours that count now, with these."""
        booked: defaultdict[int, list[int]] = defaultdict(list)
        for hour_ms, named in [*self._hours.items()]:
            booked[hour_ms // DAY_MS * DAY_MS].append(hour_ms if is_over(hour_ms, named.upto_ms) else -1)
        last = max(booked, default=0)
        due = []
        for day_ms, hours in sorted(booked.items()):
            if -1 in hours or (day_ms == last and len(hours) < DAY_MS // HOUR_MS):
                continue
            made, numbers = self._made.get(day_ms), self.hours_of(day_ms)
            if made is None or made.hours != numbers or not made.has_pairs:
                due.append((day_ms, numbers))
        return due

    def make(self, day_ms: int, hours: tuple[int, ...]) -> None:
        before = self._made.get(day_ms)
        instead_of = (before.written,) if before is not None else ()
        number = self._numbers.take()
        try:
            with self._numbers.reading() as counts:
                self._engine.command(_day_statement(number, day_ms, counts))
            self._engine.command(_pairs_statement(number, day_ms))
            stale = self._numbers.to_delete(*instead_of)
            made = (day_ms, hours, number, stale, self._numbers.next(), True)
            named = dict(zip(_MADE_SCHEMA.names, ([told] for told in made), strict=True))
            self._numbers.insert_names(DAYS_MADE, pa.table(named, _MADE_SCHEMA), [number])
        except BaseException:
            self._numbers.give_up(number)
            raise
        with self._numbers.naming(number, *instead_of):
            self._made[day_ms] = Day(number, hours, has_pairs=True)

    def distrust(self) -> bool:
        """Days that do not come to what their hours came to are not read, and made again: the engine sets
        aside what it cannot read. Returns whether there are any."""
        tables = self._engine.query_arrow(
            "SELECT written, count() AS tables, min(gpu_ms) AS least_ms, max(gpu_ms) AS most_ms, "
            "min(quanta) AS least, max(quanta) AS most FROM ("
            f"SELECT written, sum(gpu_ms) AS gpu_ms, sum(quanta) AS quanta FROM {DAYS} GROUP BY written "
            "UNION ALL "
            f"SELECT written, sum(gpu_ms), sum(quanta) FROM {PAIRS} GROUP BY written, pair) GROUP BY written"
        ).to_pylist()
        there = {one.pop("written"): (*one.values(),) for one in tables}
        hours = self._engine.query_arrow(
            f"SELECT written, gpu_ms, quanta FROM {HOURS} FINAL "
            "ORDER BY hour_ms, revision DESC LIMIT 1 BY hour_ms"
        ).to_pylist()
        of_hours = {one["written"]: (one["gpu_ms"], one["quanta"]) for one in hours}
        has_lost = False
        for day_ms, made in [*self._made.items()]:
            if not of_hours.keys() >= {*made.hours}:
                continue  # one of them is another by now
            gpu_ms = sum(of_hours[hour][0] for hour in made.hours)
            quanta = sum(of_hours[hour][1] for hour in made.hours)
            parts = 1 + len(ALL_PAIRS) * made.has_pairs
            if gpu_ms and there.get(made.written) != (parts, gpu_ms, gpu_ms, quanta, quanta):
                log.warning("a day of the ledger has lost rows, and is made again", extra={"day": day_ms})
                self._made[day_ms] = made._replace(hours=())
                has_lost = True
        return has_lost

    def forget_before(self, until_ms: int) -> None:
        for day_ms in [day_ms for day_ms in self._made if day_ms < until_ms]:
            del self._made[day_ms]


def _made(engine: Engine) -> dict[int, Day]:
    found = engine.query_arrow(f"SELECT day_ms, written, hours, has_pairs FROM {DAYS_MADE} FINAL")
    return {
        row["day_ms"]: Day(row["written"], tuple(row["hours"]), row["has_pairs"]) for row in found.to_pylist()
    }


def _day_statement(number: int, day_ms: int, counts: str) -> str:
    """Of one day's hours, of their rows that count."""
    return (
        f"INSERT INTO {DAYS} (day_ms, {_KEY}, gpu_ms, throttled_ms, quanta, unpriced_ms, gpus, first_ms, "
        f"last_ms, written) SELECT {day_ms}, {_KEY}, sum(gpu_ms), sum(throttled_ms), "
        f"toDecimal128(sum(toInt128(ifNull(quanta, 0))), 0), sum({BY_HOUR.unpriced}), {BY_HOUR.gpus}, "
        f"min(hour_ms), max(hour_ms), {number} FROM {ROWS} "
        f"WHERE hour_ms >= {day_ms} AND hour_ms < {day_ms + DAY_MS} AND {counts} GROUP BY {_KEY}"
    )


def _pairs_statement(number: int, day_ms: int) -> str:
    """Of the day that has this number: first without whose workload and node it was, then by each two."""
    key = ", ".join((*PAIRED.values(), "currency"))
    pairs = ", ".join(
        f"({sql.text(pair_name(one, other))}, {_value(one)}, {_value(other)})" for one, other in ALL_PAIRS
    )
    return (
        f"INSERT INTO {PAIRS} (day_ms, pair, one, other, fleet, currency, gpu_ms, throttled_ms, useful_ms, "
        f"signal_ms, quanta, unpriced_ms, written) SELECT {day_ms}, each.1, each.2, each.3, fleet, currency, "
        f"sum(ms), sum(throttled), sum(useful), sum(signal), sum(amount), sum(unpriced), {number} FROM ("
        f"SELECT {key}, bucket IN {_FLEETS} AS fleet, sum(gpu_ms) AS ms, sum(throttled_ms) AS throttled, "
        f"sum({BY_DAY.useful}) AS useful, sum({BY_DAY.signal}) AS signal, sum(quanta) AS amount, "
        f"sum(unpriced_ms) AS unpriced FROM {DAYS} WHERE day_ms = {day_ms} AND written = {number} "
        f"GROUP BY {key}) ARRAY JOIN [{pairs}] AS each GROUP BY each, fleet, currency"
    )


def _value(dimension: Dimension) -> str:
    return f"toNullable(toString({PAIRED[dimension]}))"
