"""Questions to the hours of the ledger. What is asked again is read again only where hours are others by now.

The open hour is another every minute. It is read beside those that are over, and added to them.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from trilens.model.errors import QueryTooLarge
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_facts import WORKS_MS
from trilens.model.ledger_sums import Window
from trilens.store import sql
from trilens.store.ledger_memory import RememberedHours
from trilens.store.ledger_rows import (
    BILL_COLUMNS,
    BILLS,
    HOUR_COLUMNS,
    HOURS,
    ROWS,
    bills_of,
    booked_of,
    is_over,
)
from trilens.store.ledger_sources import BY_DAY, DAY_MS, OF_LINES, Sources, days_table
from trilens.store.ledger_sums import (
    added_up,
    episodes_of,
    episodes_statement,
    is_in_lines,
    largest_statement,
    of_lines,
    sums_of,
    sums_statement,
)
from trilens.store.remembered_answers import RememberedAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from trilens.model.ledger import NodeBill
    from trilens.model.ledger_sums import BookedHour, Dimension, Episode, Sum
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.ledger_days import Day, LedgerDays
    from trilens.store.ledger_rows import Named
    from trilens.store.numbered import Numbered

T = TypeVar("T")

Numbers: TypeAlias = tuple[
    tuple[int, int], ...
]  # of each booked hour when it begins, and what its rows carry

_FEW_LINES: Final = 10_000  # with more of them, the engine adds up more quickly
_ALL_LINES: Final = 100_000  # of about 300 bytes, that are remembered
_HOURS_A_LINE: Final = 3  # of a question, take as much as a line of an answer
_NAMES_A_LINE: Final = 3  # likewise
_PROGRESS: Final = sql.text_list([bucket for bucket in Bucket if bucket.is_progress])
_SIGNALS: Final = sql.text_list([basis for basis in Basis if basis.is_signal])
_MOST_SUMS: Final = 500_000  # ten thousand GPUs by the hour for a day, twice


class _Question(NamedTuple):
    numbers: Numbers
    what: tuple[Hashable, ...]

    def is_of_others(self, written: Mapping[int, int | None]) -> bool:
        """Of rows that are not those that these hours have now."""
        return any(number != written.get(hour, number) for hour, number in self.numbers)


class LedgerReads:
    """Thread-safe. `hours` are those that are booked, and change."""

    def __init__(
        self, engine: Engine, numbers: Numbered, hours: Mapping[int, Named], days: LedgerDays
    ) -> None:
        self._engine = engine
        self._numbers = numbers
        self._hours = hours
        self._days = days
        self._answers = RememberedAnswers(_ALL_LINES)
        self._booked = RememberedHours()
        self._large_ms: int | None = None  # the last open hour that had more than a few lines

    def changed(self, hours: Iterable[int]) -> None:
        """What is told of these may be another by now, or is deleted."""
        self._booked.changed(hours)

    def replaced(self, hours: Iterable[int]) -> None:
        """These have other rows by now, or none: what was found of those before, nobody asks for again. The
        open hour is another every minute, and without this all answers of a day would be kept."""
        written = {hour: one.written if (one := self._hours.get(hour)) else None for hour in hours}
        self._answers.let_go(lambda one: isinstance(one, _Question) and one.is_of_others(written))

    def forget(self) -> None:
        """Days were read that had lost rows."""
        self._answers.forget()

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[BookedHour]:
        asked = self._within(from_ms, to_ms)
        turn, known = self._booked.of(asked)
        lacking = [hour for hour in asked if hour not in known]
        if lacking:
            found = self._engine.query_arrow(
                f"SELECT {HOUR_COLUMNS} FROM {HOURS} FINAL WHERE {between(lacking[0], lacking[-1] + 1)} "
                "ORDER BY hour_ms, revision",
                guard=guard,
            )
            read: defaultdict[int, list[BookedHour]] = defaultdict(list)
            for row in found.to_pylist():
                read[row["hour_ms"]].append(booked_of(row))
            told = {hour: tuple(read[hour]) for hour in lacking}
            self._booked.keep(turn, told)
            known |= told
        return [one for hour in asked for one in known[hour]]

    def sums(self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None) -> list[Sum]:
        with self._reading(window.from_ms, window.to_ms) as (counts, numbers):

            def read() -> list[Sum]:
                parts = self._parts(window, numbers)
                each = [self._sums(by, part, of_part, counts, guard) for part, of_part in parts]
                return each[0] if len(each) == 1 else added_up(by, each)

            return self._answer(_Question(numbers, ("sums", *by, *_asked(window))), read)

    def episodes(self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None) -> list[Episode]:
        with self._reading(window.from_ms, window.to_ms) as (counts, numbers):
            question = _Question(numbers, ("episodes", limit, *_asked(window)))
            return self._answer(question, lambda: self._episodes(window, limit, counts, guard))

    def bills(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[NodeBill]:
        with self._reading(from_ms, to_ms) as (counts, numbers):
            statement = (
                f"SELECT {BILL_COLUMNS} FROM {BILLS} WHERE {between(from_ms, to_ms)} AND {counts} "
                "ORDER BY hour_ms, cluster, node"
            )
            return self._answer(
                _Question(numbers, ("bills", from_ms, to_ms)),
                lambda: bills_of(self._engine.query_arrow(statement, guard=guard)),
            )

    def bill_parts(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> dict[tuple[str, str], dict[str, int]]:
        with self._numbers.reading() as counts:
            found = self._engine.query_arrow(
                f"SELECT cluster, node, sumMap(components) AS parts FROM {BILLS} "
                f"WHERE {between(from_ms, to_ms)} AND {counts} GROUP BY cluster, node",
                guard=guard,
            )
        return {(row["cluster"], row["node"]): dict(row["parts"]) for row in found.to_pylist()}

    def billed_hours(
        self, cluster: str, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> list[int]:
        with self._reading(from_ms, to_ms) as (counts, numbers):
            statement = (
                f"SELECT DISTINCT hour_ms FROM {BILLS} "
                f"WHERE {between(from_ms, to_ms)} AND cluster = {sql.text(cluster)} AND {counts}"
            )
            return self._answer(
                _Question(numbers, ("billed", cluster, from_ms, to_ms)),
                lambda: self._engine.query_arrow(statement, guard=guard)["hour_ms"].to_pylist(),
            )

    def hours_of_work(
        self, gpus: Collection[str], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> dict[str, list[int]]:
        """The hours in which a program got on with its work on each: one that had a fault is back."""
        named, found = tuple(sorted(gpus)), defaultdict[str, list[int]](list)
        with self._reading(from_ms, to_ms) as (counts, numbers):
            parts = self._parts(Window(from_ms, to_ms), numbers) if named and numbers else []
            for part, of_part in parts:
                for gpu, hour_ms in self._work(named, part, of_part, counts, guard):
                    found[gpu].append(hour_ms)
        return dict(found)

    def _work(
        self, gpus: tuple[str, ...], window: Window, numbers: Numbers, counts: str, guard: QueryGuard | None
    ) -> list[tuple[str, int]]:
        statement = (
            f"SELECT DISTINCT gpu, hour_ms FROM {ROWS} WHERE {between(window.from_ms, window.to_ms)} "
            f"AND gpu IN {sql.text_list(gpus)} AND bucket IN {_PROGRESS} AND basis IN {_SIGNALS} "
            f"AND gpu_ms > {WORKS_MS} AND {counts} ORDER BY gpu, hour_ms"
        )

        def read() -> list[tuple[str, int]]:
            found = self._engine.query_arrow(statement, guard=guard)
            return [(row["gpu"], row["hour_ms"]) for row in found.to_pylist()]

        return self._answer(_Question(numbers, ("work", *gpus)), read)

    def _answer(self, question: _Question, read: Callable[[], list[T]]) -> list[T]:
        def weighed() -> tuple[list[T], int]:
            found = read()
            named = len(question.numbers) // _HOURS_A_LINE + len(question.what) // _NAMES_A_LINE
            return found, 1 + named + len(found)

        return self._answers.weighed(question, weighed)

    def _sums(
        self,
        by: Sequence[Dimension],
        window: Window,
        numbers: Numbers,
        counts: str,
        guard: QueryGuard | None,
    ) -> list[Sum]:
        def read() -> list[Sum]:
            if self._is_open(numbers) and is_in_lines(by, window.where):
                ((hour_ms, _),) = numbers
                if hour_ms != self._large_ms:
                    return of_lines(self._lines(hour_ms, numbers, counts, guard), hour_ms, by, window.where)
            return self._read_sums(by, window, counts, guard)

        return self._answer(_Question(numbers, ("sums", *by, *_asked(window))), read)

    def _lines(self, hour_ms: int, numbers: Numbers, counts: str, guard: QueryGuard | None) -> list[Sum]:
        """Of the open hour: read once for all who ask until the next booking."""
        window = Window(hour_ms, hour_ms + HOUR_MS)
        question = _Question(numbers, ("lines",))
        lines = self._answer(question, lambda: self._read_sums(OF_LINES, window, counts, guard))
        if len(lines) > _FEW_LINES:
            self._large_ms = hour_ms
        return lines

    def _read_sums(
        self, by: Sequence[Dimension], window: Window, counts: str, guard: QueryGuard | None
    ) -> list[Sum]:
        days, of_days = self._days.within(window), days_table(by, window.where)
        if of_days is None:
            days, of_days = {}, BY_DAY
        elif not all(day.has_pairs for day in days.values()):
            of_days = BY_DAY
        statement = sums_statement(by, _sources(window, counts, days), of_days, window.where)
        limits = {"max_rows_to_group_by": _MOST_SUMS}
        try:
            found = self._engine.query_arrow(statement, guard=guard, settings=limits)
        except QueryTooLarge as e:
            raise QueryTooLarge(
                f"the answer has more than {_MOST_SUMS:,} lines, or takes too much memory",
                hint="ask by fewer dimensions, for less time, or for a part of it (where)",
            ) from e
        return sums_of(by, found)

    def _episodes(self, window: Window, limit: int, counts: str, guard: QueryGuard | None) -> list[Episode]:
        days = self._days.within(window) if days_table((), window.where) is not None else {}
        sources = _sources(window, counts, days)
        statement = largest_statement(sources, window.where, limit)
        numbers = self._engine.query_arrow(statement, guard=guard)["number"].to_pylist()
        if not numbers:
            return []
        statement = episodes_statement(sources, window.where, numbers)
        return episodes_of(self._engine.query_arrow(statement, guard=guard))

    def _parts(self, window: Window, numbers: Numbers) -> list[tuple[Window, Numbers]]:
        """The hours that are over, and the open one."""
        if len(numbers) < 2 or not self._is_open(numbers[-1:]):
            return [(window, numbers)]
        last, _ = numbers[-1]
        return [
            (replace(window, to_ms=last), numbers[:-1]),
            (replace(window, from_ms=last), numbers[-1:]),
        ]

    def _is_open(self, numbers: Numbers) -> bool:
        """Of a single hour."""
        named = self._hours.get(numbers[0][0]) if len(numbers) == 1 else None
        return named is not None and not is_over(numbers[0][0], named.upto_ms)

    @contextmanager
    def _reading(self, from_ms: int, to_ms: int) -> Iterator[tuple[str, Numbers]]:
        """A condition that holds for rows that count, and the numbers that the hours of the span have
        then."""
        while True:
            numbers = self._numbers_of(from_ms, to_ms)
            with self._numbers.reading() as counts:
                if numbers == self._numbers_of(from_ms, to_ms):  # else one was written right between
                    yield counts, numbers
                    return

    def _numbers_of(self, from_ms: int, to_ms: int) -> Numbers:
        named = ((hour, self._hours.get(hour)) for hour in self._within(from_ms, to_ms))
        return tuple((hour, one.written) for hour, one in named if one is not None)

    def _within(self, from_ms: int, to_ms: int) -> list[int]:
        """The booked hours that begin in the span."""
        first = -(-from_ms // HOUR_MS) * HOUR_MS
        if (to_ms - first) // HOUR_MS < len(self._hours):
            return [hour for hour in range(first, to_ms, HOUR_MS) if hour in self._hours]
        return sorted(hour for hour in [*self._hours] if from_ms <= hour < to_ms)


def between(from_ms: int, to_ms: int) -> str:
    return f"hour_ms >= {from_ms} AND hour_ms < {to_ms}"


def _asked(window: Window) -> tuple[Hashable, ...]:
    return window.from_ms, window.to_ms, tuple(sorted(window.where.items()))


def _sources(window: Window, counts: str, days: Mapping[int, Day]) -> Sources:
    """These days, and hours elsewhere."""
    spans, at = [], window.from_ms
    for day_ms in [*sorted(days), None]:
        until_ms = window.to_ms if day_ms is None else day_ms
        if at < until_ms:
            spans.append(f"hour_ms >= {at} AND hour_ms < {until_ms}")
        at = until_ms + DAY_MS
    hours = f"({' OR '.join(spans) or '0'}) AND {counts}" if spans or not days else None
    if not days:
        return Sources(hours, None)
    made = f"written IN ({', '.join(map(str, sorted(day.written for day in days.values())))})"
    return Sources(hours, f"day_ms >= {min(days)} AND day_ms <= {max(days)} AND {made}")
