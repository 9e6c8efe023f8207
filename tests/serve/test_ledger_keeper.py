"""The ledger is kept: hours are computed when they are due, and what goes wrong is told and tried again."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.ledger.due_hours import Reason
from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.model.errors import StoreError
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import BindingInterval, ClaimSource, GpuBinding, GpuKey
from trilens.model.ledger import HOUR_MS, LedgerHour, NodeBill
from trilens.model.ledger_facts import Facts, RankSteps, RunHistory, StepMinutes
from trilens.model.ledger_sums import BookedHour
from trilens.model.run import Ending, RankProcess, RunId, WriterId
from trilens.model.run_sums import AttemptSpan
from trilens.model.workload import GpuUuid, PodKey
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.store.ledger_facts import LateHours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from trilens.ledger.prices.rates import Rate
    from trilens.model.ledger_sums import Dimension, Episode, Sum, Window
    from trilens.model.machine import Machine
    from trilens.model.query import QueryGuard

MINUTE = 60_000
NOON = 500_000 * HOUR_MS
RUN = RunId("r1")
KEPT_DAYS = 7
BOOKED_DAYS = 60


class Book:
    """Remembers what is written, and why."""

    def __init__(self) -> None:
        self.written: list[tuple[int, str]] = []
        self.kept: dict[int, BookedHour] = {}
        self.nodes: dict[int, list[str]] = {}
        self.clock_ms: Callable[[], int] = lambda: 0
        self.fails: set[int] = set()
        self.damaged: list[int] = []

    def write_all(self, hours: Sequence[LedgerHour], *, reason: str = "") -> list[int | None]:
        return [self.write(hour, reason=reason) for hour in hours]

    def write(self, hour: LedgerHour, *, reason: str = "") -> int | None:
        if hour.hour_ms in self.fails:
            raise StoreError("the disk is full")
        self.written.append(((hour.hour_ms - NOON) // HOUR_MS, reason))
        self.kept[hour.hour_ms] = BookedHour(
            hour.hour_ms, 0, hour.upto_ms, self.clock_ms(), 0, 0, 0, 0, "", 0, reason, hour.prices, "", ()
        )
        return 0

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[BookedHour]:
        return [one for hour, one in sorted(self.kept.items()) if from_ms <= hour < to_ms]

    def incomplete(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[int]:
        return [hour for hour in self.damaged if from_ms <= hour < to_ms]

    def bills(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[NodeBill]:
        return [
            NodeBill(hour, "c", node, HOUR_MS, HOUR_MS, None, 0, "", {}, "")
            for hour, nodes in self.nodes.items()
            for node in nodes
            if from_ms <= hour < to_ms
        ]

    def sums(self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None) -> list[Sum]:
        raise NotImplementedError

    def episodes(self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None) -> list[Episode]:
        raise NotImplementedError

    def rows(self, window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def taken(self) -> list[tuple[int, str]]:
        taken, self.written = self.written, []
        return taken


class Known:
    """What is known of the time: nothing, but for lives of one run."""

    def __init__(self) -> None:
        self.began_ms: int | None = NOON
        self.lives: list[RankProcess] = []
        self.bindings: list[BindingInterval] = []
        self.spans: list[AttemptSpan] = []
        self.asked = Counter[RunId]()
        self.reads: list[tuple[int, int]] = []
        self.late: dict[int, int] = {}
        self.late_since: list[int] = []
        self.imports: dict[int, int] = {}

    def told_hours(self, *, guard: QueryGuard | None = None) -> Mapping[int, int]:
        return self.imports

    def programs(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        self.reads.append((from_ms, to_ms))
        lives = [one for one in self.lives if one.started_ms < to_ms]
        return Facts(from_ms, to_ms, bindings=self.bindings, lives=lives)

    def records(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        return self.programs(from_ms, to_ms)

    def rank_steps(self, *_: object, **__: object) -> RankSteps:
        raise AssertionError("an hour is booked by the minute")

    def step_minutes(self, *_: object, **__: object) -> StepMinutes:
        raise AssertionError("an hour is booked with its records")

    def with_steps(
        self, records: Facts, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Facts:
        return records

    def histories(
        self, runs: Sequence[RunId], *, guard: QueryGuard | None = None
    ) -> Mapping[RunId, RunHistory]:
        self.asked.update(runs)
        return dict.fromkeys(runs, RunHistory(self.lives, self.spans, []))

    def repeating(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> Mapping[RunId, int]:
        return {RUN: len(self.spans)} if len(self.spans) > 1 else {}

    def first_ms(self, *, guard: QueryGuard | None = None) -> int | None:
        return self.began_ms

    def late_hours(self, since: int, *, guard: QueryGuard | None = None) -> LateHours:
        self.late_since.append(since)
        return LateHours(since + 1, self.late)


class Quiet:
    def __init__(self) -> None:
        self.trouble: tuple[str, ...] = ()

    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        nothing = np.zeros((0, 120))
        gpus = GpuMinutes(from_ms, {}, nothing, nothing, nothing, nothing)
        return Signals(gpus, ServingMinutes(from_ms, {}, nothing, nothing, nothing), self.trouble)


class Book1:
    def __init__(self, digest: str) -> None:
        self.digest = digest

    def rates(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> Sequence[Rate]:
        return []


class Kept:
    """A keeper whose time stands still unless it is moved."""

    def __init__(self, now_ms: int, book: Book | None = None) -> None:
        self.now_ms = now_ms
        self.book = book or Book()
        self.book.clock_ms = lambda: self.now_ms
        self.known, self.signals = Known(), Quiet()
        self.begin()

    def begin(self, on_booked: Callable[[int], None] | None = None) -> None:
        self.keeper = LedgerKeeper(
            self.known,
            self.signals,
            self.book,
            Book1("p1"),
            kept_for=timedelta(days=KEPT_DAYS),
            booked_for=timedelta(days=BOOKED_DAYS),
            late=self.known,
            imports=self.known,
            on_booked=on_booked,
            clock_ms=lambda: self.now_ms,
        )

    def works(self) -> list[tuple[int, str]]:
        """Until there is nothing to do; what was written."""
        while self.keeper.try_to_work() == 0:
            pass
        return self.book.taken()


@pytest.fixture
def kept() -> Kept:
    return Kept(NOON + 30 * MINUTE)


def test_the_open_hour_is_booked_every_minute(kept: Kept) -> None:
    assert kept.works() == [(0, "open")]
    kept.now_ms += MINUTE - 1
    assert kept.works() == []
    kept.now_ms += 1
    assert kept.works() == [(0, "open")]
    assert kept.keeper.state.upto_ms == kept.now_ms


def test_nothing_is_booked_before_there_is_anything(kept: Kept) -> None:
    kept.known.began_ms = None
    assert kept.works() == []
    kept.known.began_ms = kept.now_ms
    assert kept.works() == [(0, "open")]


def test_an_existing_store_is_booked_from_its_first_fact_on_newest_first() -> None:
    kept = Kept(NOON + 30 * HOUR_MS + 30 * MINUTE)
    assert kept.works() == [
        (30, "open"),
        (29, "closed"),
        *((hour, "not computed before") for hour in range(28, -1, -1)),
    ]
    longest = max(to_ms - from_ms for from_ms, to_ms in kept.known.reads)
    assert longest == 24 * HOUR_MS
    assert kept.keeper.waiting() == {}
    kept.begin()
    assert kept.works() == [(30, "open")]


def test_hours_are_not_looked_for_further_back_than_facts_are_kept() -> None:
    kept = Kept(NOON + 90 * 24 * HOUR_MS + 30 * MINUTE)
    hours = [hour for hour, _ in kept.works()]
    assert min(hours) == (90 - KEPT_DAYS) * 24
    assert len(hours) == len(set(hours)) == KEPT_DAYS * 24 + 1


def test_asking_for_hours_computes_them_again(kept: Kept) -> None:
    kept.now_ms = NOON + 4 * HOUR_MS + 30 * MINUTE
    kept.works()
    assert kept.keeper.recompute(NOON + HOUR_MS, NOON + 9 * HOUR_MS) == 3
    assert kept.keeper.waiting() == {Reason.ASKED: 3}
    assert kept.keeper.waiting(NOON + 3 * HOUR_MS, NOON + 4 * HOUR_MS) == {Reason.ASKED: 1}
    assert kept.works() == [(4, "open"), (3, "asked for"), (2, "asked for"), (1, "asked for")]


def test_late_records_imports_and_prices_bring_hours_back(kept: Kept) -> None:
    kept.now_ms = NOON + 4 * HOUR_MS + 30 * MINUTE
    kept.works()
    kept.keeper.imported([NOON, NOON - 100 * HOUR_MS, NOON + 50 * HOUR_MS])
    assert kept.works() == [(0, "import"), (-100, "import")]
    kept.known.late = {NOON + 2 * HOUR_MS: (kept.now_ms + MINUTE) * 1000, NOON + HOUR_MS: NOON * 1000}
    kept.now_ms += 5 * MINUTE
    assert kept.works() == [(4, "open"), (2, "late records")]
    assert kept.known.late_since[-1] == kept.known.late_since[0] + 1
    kept.keeper.use_prices(Book1("p2"))
    priced = kept.works()
    assert priced == [(hour, "other prices") for hour in (3, 2, 1, 0, -100)]
    assert kept.keeper.waiting() == {Reason.IMPORTED: 1}  # of an hour that has not come yet


def test_a_stall_that_is_found_or_ends_brings_closed_hours_back(kept: Kept) -> None:
    kept.now_ms = NOON + 4 * HOUR_MS + 30 * MINUTE
    kept.works()
    onset_ms, ended_ms = NOON + 2 * HOUR_MS + 1, NOON + 4 * HOUR_MS + MINUTE
    what = Finding(
        "D001", FindingKind.STALL, Subject(run=RUN), Severity.CRITICAL, "", onset_ms, "stands", "look"
    )
    stalled = FindingInterval(what, onset_ms, ended_ms, ended_ms)
    kept.keeper.found([replace(stalled, finding=replace(what, subject=Subject()))])
    kept.keeper.found([replace(stalled, finding=replace(what, kind=FindingKind.HANG))])
    kept.now_ms += 10_000
    assert kept.works() == []
    kept.keeper.found([stalled])
    assert kept.works() == []  # it may not be on disk yet
    kept.now_ms += 10_000
    assert kept.works() == [(3, "a stall was found"), (2, "a stall was found")]
    kept.now_ms += 10_000
    assert kept.works() == []


def test_hours_that_have_lost_rows_are_looked_for_at_the_start_and_every_hour(kept: Kept) -> None:
    kept.now_ms = NOON + 4 * HOUR_MS + 30 * MINUTE
    kept.works()
    kept.book.damaged = [NOON - (KEPT_DAYS + 1) * 24 * HOUR_MS, NOON + HOUR_MS, NOON + 5 * HOUR_MS]
    kept.now_ms += 59 * MINUTE
    kept.works()
    assert kept.keeper.state.computed[Reason.DAMAGED] == 0
    kept.now_ms += MINUTE
    assert (1, "rows were missing") in kept.works()
    assert kept.keeper.state.computed[Reason.DAMAGED] == 1, "one has expired, one is open"
    kept.begin()
    assert (1, "rows were missing") in kept.works()


def test_an_import_that_was_not_booked_before_a_stop_is_booked_after_it(kept: Kept) -> None:
    kept.keeper.imported([NOON - 300 * HOUR_MS])
    kept.works()
    told_ms = kept.now_ms - MINUTE
    kept.known.imports = {NOON - hour * HOUR_MS: told_ms for hour in (300, 301, 302)}
    kept.begin()
    assert kept.works() == [(0, "open"), (-301, "import"), (-302, "import")]


def test_an_imported_job_is_not_booked_for_longer_than_the_ledger_is_kept(kept: Kept) -> None:
    oldest = NOON - BOOKED_DAYS * 24 * HOUR_MS
    kept.works()
    kept.keeper.imported(range(oldest - 3 * HOUR_MS, oldest + 2 * HOUR_MS, HOUR_MS))
    assert [hour for hour, _ in kept.works()] == [-BOOKED_DAYS * 24 + 1, -BOOKED_DAYS * 24]
    kept.known.imports = dict.fromkeys([oldest - HOUR_MS, oldest], kept.now_ms + MINUTE)
    kept.begin()
    assert kept.works()[1:] == [(-BOOKED_DAYS * 24, "import")]


def test_an_hour_whose_facts_have_expired_stays_as_it_is(kept: Kept) -> None:
    kept.works()
    old = NOON - 40 * 24 * HOUR_MS
    kept.keeper.imported([old, old + HOUR_MS])
    kept.works()
    kept.book.nodes[old] = ["n1"]
    assert kept.keeper.recompute(0, old + 2 * HOUR_MS) == 2  # of all others nothing is known
    assert kept.works() == [(-40 * 24 + 1, "asked for")]
    assert kept.keeper.state.left == 1
    assert kept.keeper.waiting() == {}


def test_what_fails_is_told_and_tried_again_and_holds_up_nothing_else(kept: Kept) -> None:
    kept.now_ms = NOON + 3 * HOUR_MS + 30 * MINUTE
    kept.book.fails = {NOON + HOUR_MS}
    seen = []
    for _ in range(9):
        kept.keeper.try_to_work()
        seen += kept.book.taken()
    assert seen == [(3, "open"), (2, "closed"), (0, "not computed before")]
    assert kept.keeper.state.failures == 1
    assert kept.keeper.state.troubles == {"ledger": "the disk is full"}  # while it waits to be tried again
    kept.book.fails = set()
    kept.now_ms += 10 * MINUTE
    assert (1, "not computed before") in kept.works()
    assert kept.keeper.state.troubles == {}


def test_an_open_hour_that_fails_is_a_trouble_until_it_is_booked(kept: Kept) -> None:
    kept.book.fails = {NOON}
    kept.keeper.try_to_work()
    kept.now_ms += 5_000
    kept.keeper.try_to_work()  # there is nothing to do yet, which is no success
    assert kept.keeper.state.troubles == {"ledger": "the disk is full"}
    kept.book.fails = set()
    kept.now_ms += MINUTE
    assert kept.works() == [(0, "open")]
    assert kept.keeper.state.troubles == {}


def held_since(from_ms: int) -> BindingInterval:
    pod = PodKey("lab", "ml", "train", "u1")
    binding = GpuBinding(GpuKey(GpuUuid("GPU-1")), pod, "main", Fraction(1), (ClaimSource.DCGM,))
    return BindingInterval(binding, from_ms, None)


def test_signals_that_cannot_be_asked_are_told(kept: Kept) -> None:
    kept.known.bindings = [held_since(NOON)]
    kept.signals.trouble = ("the metric source did not answer",)
    kept.works()
    assert kept.keeper.state.troubles == {"signals": "the metric source did not answer"}
    kept.signals.trouble = ()
    kept.now_ms += MINUTE
    kept.works()
    assert kept.keeper.state.troubles == {}


def test_a_clock_that_jumps_back_takes_nothing_away_and_does_not_stop_it(kept: Kept) -> None:
    kept.works()
    kept.now_ms -= 10 * MINUTE
    kept.keeper.recompute(NOON, NOON + HOUR_MS)
    assert kept.works() == []
    kept.now_ms += 11 * MINUTE
    assert kept.works() == [(0, "open")]
    kept.now_ms = NOON + 50 * HOUR_MS + 30 * MINUTE
    kept.works()
    kept.now_ms = NOON + 2 * HOUR_MS + 30 * MINUTE  # two days back: that time had not been
    assert kept.works() == [(2, "open"), (1, "closed"), (0, "not computed before")]


def life(attempt: int, started_ms: int, ended_ms: int | None = None) -> RankProcess:
    ending = Ending.LOST if ended_ms is not None else None
    return RankProcess(
        RUN, 0, WriterId(f"w{attempt}"), started_ms, attempt, heard_ms=0, ended_ms=ended_ms, ending=ending
    )


def span(attempt: int, first: int, last: int, from_ms: int, to_ms: int) -> AttemptSpan:
    steps = last - first + 1
    return AttemptSpan(0, attempt, first, last, steps, None, None, 1000 * from_ms, 1000 * to_ms, 0, steps - 1)


def test_a_run_that_does_steps_again_brings_back_the_hours_of_the_lost_ones(kept: Kept) -> None:
    """Two days after its crash: those hours are closed, and would not be looked at again."""
    crashed = NOON + 2 * HOUR_MS + 30 * MINUTE
    kept.known.lives = [life(0, NOON, crashed)]
    kept.known.spans = [span(0, 0, 999, NOON, crashed)]
    kept.now_ms = NOON + 50 * HOUR_MS + 30 * MINUTE
    kept.works()
    asked = kept.known.asked[RUN]
    kept.now_ms += MINUTE
    kept.works()
    assert kept.known.asked[RUN] == asked  # nothing has changed
    kept.known.lives.append(life(1, kept.now_ms))
    kept.known.spans.append(span(1, 0, 99, kept.now_ms, kept.now_ms + MINUTE))
    kept.now_ms += MINUTE
    assert kept.works() == [
        (50, "open"),
        (2, "lost work"),
        (1, "lost work"),
        (0, "lost work"),
    ]


def test_the_thread_works_by_itself_and_stops_when_told() -> None:
    kept = Kept(NOON + 30 * MINUTE)
    booked = threading.Event()
    kept.begin(on_booked=lambda _: booked.set())
    kept.keeper.start()
    assert booked.wait(10)
    kept.keeper.stop()
    assert kept.book.taken() == [(0, "open")]
