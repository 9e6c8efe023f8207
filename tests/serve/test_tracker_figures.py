"""Figures of a tracked run: right, when they are written, corrected, and not written when unknown."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ledger_nights import holder, hour, row
from memory_book import MemoryBook
from memory_runs import MemoryRuns
from trilens.model.errors import TrackerError
from trilens.model.ledger import Basis, Bucket, LedgerHour
from trilens.model.run import RankProcess, RunFacts, RunId, Tracker, WriterId
from trilens.model.tracked_run import TrackedRun
from trilens.promql.memory import MemorySource
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.compose import System
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.run_verdicts import OF_VERDICT
from trilens.serve.tracker_figures import LATER_S, SOON_S, Known, RunFigures
from trilens.serve.write_back import WriteBack
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trilens.lineage.gpu_time import GpuTime
    from trilens.serve.tracker_figures import Figure

HOUR_MS = 3_600_000
PATIENCE_S = 60.0
END_MS = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - HOUR_MS
START_MS = END_MS - 2 * HOUR_MS
RUN = RunId("r-1")
TRACKED = TrackedRun(Tracker("mlflow", "m-1", "http://mlflow"), state="finished", ended_ms=END_MS)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def process(rank: int, *gpus: str, ended_ms: int | None = END_MS) -> RankProcess:
    return RankProcess(RUN, rank, WriterId(f"w{rank}"), START_MS, gpus=gpus, ended_ms=ended_ms)


def told(*processes: RankProcess, trackers: tuple[Tracker, ...] = (TRACKED.tracker,)) -> MemoryRuns:
    return MemoryRuns([RunFacts(RUN, START_MS, trackers=trackers)], [*processes])


def utilization(source: MemorySource, gpu: str, first: float, then: float) -> None:
    """An hour each, every 30 s; before and after the run it is idle."""
    for t_ms in range(START_MS - HOUR_MS, END_MS + HOUR_MS, 30_000):
        value = first if t_ms <= START_MS + HOUR_MS else then
        inside = START_MS < t_ms <= END_MS
        labels = {"__name__": "trilens:gpu_utilization:ratio", "UUID": gpu}
        source.add(labels, [(t_ms, value if inside else 0.0)])


def known(runs: MemoryRuns, source: MemorySource, loop: asyncio.AbstractEventLoop) -> Known | None:
    figures = RunFigures(runs, EmbeddedQueries(source), MemoryBook())
    figures.ask_in(AskedLoop(loop))
    return figures.of(TRACKED)


def test_utilisation_is_the_mean_over_the_gpus_and_the_time_of_the_run(
    loop: asyncio.AbstractEventLoop,
) -> None:
    source = MemorySource()
    utilization(source, "GPU-a", 1.0, 0.5)
    utilization(source, "GPU-b", 0.5, 0.0)
    utilization(source, "GPU-of-another", 0.1, 0.1)
    found = known(told(process(0, "GPU-a"), process(1, "GPU-b")), source, loop)
    assert found is not None
    assert (found.figures["trilens.gpu_hours"], found.again_s) == (4.0, SOON_S)
    assert found.figures["trilens.gpu_utilization"] == pytest.approx(0.5, abs=0.01)


def test_how_busy_a_run_was_is_worked_out_once_in_some_minutes(loop: asyncio.AbstractEventLoop) -> None:
    source, asked = MemorySource(), []
    utilization(source, "GPU-a", 1.0, 1.0)
    runs = told(process(0, "GPU-a"))
    figures = RunFigures(runs, EmbeddedQueries(source), MemoryBook())
    figures.ask_in(AskedLoop(loop))
    work_out = figures._utilization
    figures._utilization = lambda held: asked.append(held) or work_out(held)  # type: ignore[method-assign]
    assert figures.utilization(RUN) == figures.utilization(RUN) == pytest.approx(1.0, abs=0.01)
    assert len(asked) == 1


def test_for_how_busy_hundreds_of_gpus_were_nobody_waits(loop: asyncio.AbstractEventLoop) -> None:
    source, asked, go_on = MemorySource(), [], threading.Event()
    gpus = [f"GPU-{number}" for number in range(257)]
    utilization(source, gpus[0], 1.0, 1.0)
    figures = RunFigures(told(process(0, *gpus)), EmbeddedQueries(source), MemoryBook())
    figures.ask_in(AskedLoop(loop))
    work_out = figures._utilization

    def slowly(held: GpuTime | None) -> float | None:
        asked.append(held)
        assert go_on.wait(PATIENCE_S)
        return work_out(held)

    figures._utilization = slowly  # type: ignore[method-assign]
    assert figures.utilization(RUN) is figures.utilization(RUN) is None
    go_on.set()
    ends_s = time.monotonic() + PATIENCE_S
    while (found := figures.utilization(RUN)) is None and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert found == pytest.approx(1.0, abs=0.01)
    assert len(asked) == 1


def test_nobody_measured_the_gpus(loop: asyncio.AbstractEventLoop) -> None:
    found = known(told(process(0, "GPU-a")), MemorySource(), loop)
    assert found == Known({"trilens.gpu_hours": 2.0}, SOON_S)


def test_a_name_of_a_gpu_is_no_query(loop: asyncio.AbstractEventLoop) -> None:
    source = MemorySource()
    utilization(source, "GPU-a", 1.0, 1.0)
    found = known(told(process(0, '.+"}) or vector(1) #')), source, loop)
    assert found == Known({"trilens.gpu_hours": 2.0}, SOON_S)


def test_nothing_is_known_of_a_run_that_told_only_in_part_or_not_at_all(
    loop: asyncio.AbstractEventLoop,
) -> None:
    assert known(told(process(0, "GPU-a"), process(1)), MemorySource(), loop) == Known({}, SOON_S)
    assert known(told(process(0, "GPU-a"), trackers=()), MemorySource(), loop) is None
    assert known(told(), MemorySource(), loop) is None


def booked(at: int, *, upto_ms: int | None = None, price: int | None = 4 * 10**9) -> LedgerHour:
    """Half of two GPUs, a quarter of it stalled."""
    hour_ms = START_MS + at * HOUR_MS
    whose = holder("a", "x", RUN)
    return hour(
        hour_ms,
        row(hour_ms, whose, Bucket.PRODUCTIVE, gpus=2, ms=HOUR_MS * 3 // 8, price=price),
        row(hour_ms, whose, Bucket.STALLED, gpus=2, ms=HOUR_MS // 8, price=price),
        upto_ms=upto_ms,
    )


def ledgers(*hours: LedgerHour, runs: MemoryRuns | None = None) -> Known | None:
    runs = runs if runs is not None else told(process(0, "GPU-a", "GPU-b"))
    return RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(*hours)).of(TRACKED)


BOOKED: dict[str, Figure] = {
    "trilens.gpu_hours": 2.0,
    "trilens.cost": 8.0,
    "trilens.cost_currency": "USD",
    "trilens.cost_wasted": 2.0,
    "trilens.goodput": 0.75,
    "trilens.provisional": "false",
}
NO_MONEY = {name: value for name, value in BOOKED.items() if "cost" not in name}


def test_cost_and_gpu_hours_are_the_ledgers_where_every_hour_is_booked() -> None:
    assert ledgers(booked(0), booked(1)) == Known(BOOKED, LATER_S), "it may still be corrected"
    assert ledgers(booked(0), booked(1), runs=told(process(0))) == Known(BOOKED, LATER_S), (
        "the ledger knows GPUs of which the program did not tell"
    )
    assert ledgers(booked(1)) == Known({"trilens.gpu_hours": 4.0}, SOON_S), "as its processes held them"
    assert ledgers(booked(1), runs=told(process(0))) == Known({}, SOON_S)
    open_hour = booked(1, upto_ms=END_MS - 60_000)
    assert ledgers(booked(0), open_hour) == Known(BOOKED | {"trilens.provisional": "true"}, SOON_S)


def test_goodput_of_time_of_which_nobody_told_is_not_known() -> None:
    untold = replace(booked(1), rows=tuple(one._replace(basis=Basis.NONE) for one in booked(1).rows))
    without = {name: value for name, value in BOOKED.items() if name != "trilens.goodput"}
    assert ledgers(booked(0), untold) == Known(without, LATER_S)


def test_what_has_no_price_has_no_cost_and_its_time_is_known() -> None:
    assert ledgers(booked(0), booked(1, price=None)) == Known(NO_MONEY, LATER_S)


def test_it_is_looked_at_as_long_as_the_ledger_looks_at_its_hours() -> None:
    end_ms = END_MS - 48 * HOUR_MS
    long_ago = replace(process(0, "GPU-a"), started_ms=end_ms - 2 * HOUR_MS, ended_ms=end_ms)
    found = ledgers(booked(-48), booked(-47), runs=told(long_ago))
    assert found == Known(BOOKED, None)


def test_a_tag_names_the_run_too() -> None:
    figures = RunFigures(
        told(process(0, "GPU-a"), trackers=()), EmbeddedQueries(MemorySource()), MemoryBook()
    )
    found = figures.of(replace(TRACKED, tags={"trilens.run": RUN}))
    assert found == Known({"trilens.gpu_hours": 2.0}, SOON_S)


def test_what_only_the_program_or_only_the_tracker_says_may_be_another_s_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = told(process(0, "GPU-a"))
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(), of_both=True)
    tagged = replace(TRACKED, tags={"trilens.run": RUN})
    of_mine = replace(tagged, tracker=Tracker("mlflow", "mine"))
    of_another = replace(TRACKED, tags={"trilens.run": "another"})
    assert figures.of(replace(TRACKED, state="running")) is None
    assert caplog.records == [], "its tag may come yet"
    for one in (TRACKED, of_another, of_mine):
        assert [figures.of(one) for _ in range(2)] == [None, None]
    assert [one.message.partition(": ")[2] for one in caplog.records] == [
        "only the program says which run of its tracker it is",
        "the program of the run that it is tagged with does not say so",
    ], "whose it is finds out why, once"
    assert figures.of(tagged) == Known({"trilens.gpu_hours": 2.0}, SOON_S)


def test_a_run_that_others_came_after_is_known_by_its_tag() -> None:
    runs = told(process(0, "GPU-a"))
    others = (
        RunFacts(RunId(f"r{n}"), START_MS + 1 + n, trackers=(Tracker("mlflow", str(n)),))
        for n in range(10_001)
    )
    runs.facts.extend(others)
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(), of_both=True)
    assert figures.of(replace(TRACKED, tags={"trilens.run": RUN})) is not None


@pytest.mark.parametrize(
    ("told_of", "is_his"),
    [("acme/vision", True), ("acme/nlp", False), ("vision", False), ("", False), ("me/vision", False)],
)
def test_an_id_of_wandb_is_one_only_within_its_project(told_of: str, is_his: bool) -> None:
    runs = told(process(0, "GPU-a"), trackers=(Tracker("wandb", "run-1", told_of),))
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(), of_both=True)
    tracker = Tracker("wandb", "run-1", "https://wandb.example/acme/vision")
    found = figures.of(replace(TRACKED, tracker=tracker, tags={"trilens.run": RUN}))
    assert (found is not None) is is_his


def test_of_the_runs_that_say_they_are_one_the_latest_is_meant() -> None:
    runs = told(process(0, "GPU-a"))
    runs.facts.insert(0, RunFacts(RunId("r-0"), START_MS - 1, trackers=(TRACKED.tracker,)))
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook())
    assert figures.of(TRACKED) == Known({"trilens.gpu_hours": 2.0}, SOON_S)


@pytest.mark.parametrize("token", [None, "a token that all have"])
async def test_programs_are_believed_where_nobody_is_asked_who_he_is(
    tmp_path: Path, token: str | None
) -> None:
    settings = load_settings(overrides={"storage.data_dir": str(tmp_path / "data")}, environ={})
    system = System(settings, token, lambda: settings)
    await system.stop()
    assert system.figures._of_both is (token is not None)


def test_runs_are_not_read_again_for_each_run_of_a_tracker() -> None:
    asked = []

    class Counted(MemoryRuns):
        def told_trackers(self, *, limit: int) -> list[tuple[RunId, tuple[Tracker, ...]]]:
            asked.append(limit)
            return []

    figures = RunFigures(Counted(), EmbeddedQueries(MemorySource()), MemoryBook())
    for number in range(20):
        figures.of(replace(TRACKED, tracker=Tracker("mlflow", str(number))))
    assert len(asked) == 1


class Book:
    """Whom a tracker was told what."""

    def __init__(self, stands: Mapping[str, Figure] | None = None) -> None:
        self.known: Known | None = None
        self.written: list[dict[str, Any]] = []
        self.refuses = False
        self._stands = stands or {}
        self.write_back = WriteBack(lambda _run: self.known, self)

    def stands(self, run: TrackedRun) -> Mapping[str, Figure]:
        return self._stands

    def takes(self, run: TrackedRun) -> bool:
        return True

    def send(self, run: TrackedRun, figures: Mapping[str, Figure | None]) -> None:
        if self.refuses:
            raise TrackerError("no")
        self.written.append(dict(figures))

    def write(self, run: TrackedRun = TRACKED) -> bool:
        return self.write_back.write(run)


def hours(count: float, **more: Figure) -> dict[str, Figure]:
    return {"trilens.gpu_hours": count} | {f"trilens.{name}": value for name, value in more.items()}


def test_figures_are_written_now_and_then_and_once_more_at_the_end() -> None:
    running, book = replace(TRACKED, state="running", ended_ms=None), Book()
    book.known = Known(hours(1.0), 0.0)
    assert not book.write(running)
    book.known = Known(hours(1.1, gpu_utilization=0.5), SOON_S)
    assert not book.write(running)
    assert not book.write(running)
    book.known = Known(hours(1.15), SOON_S)
    assert not book.write(running)
    assert book.written == [hours(1.0), hours(1.1, gpu_utilization=0.5)], "five minutes are not over"
    book.known = Known(hours(1.2), None)
    assert book.write(TRACKED), "at its end at once"
    assert book.written[2:] == [hours(1.2)]


def test_a_program_that_goes_on_after_its_trackers_end_is_written_again() -> None:
    book = Book()
    book.known = Known(hours(1.0), 0.0)
    assert not book.write()
    book.known = Known(hours(2.0), None)
    assert book.write()
    assert book.written == [hours(1.0), hours(2.0)]


def test_what_the_ledger_corrects_is_written_again_and_what_it_does_not_is_not() -> None:
    book = Book()
    for provisional, cost in (("true", 4.0), ("true", 4.0), ("false", 5.0), ("false", 4.0)):
        book.known = Known(hours(1.0, cost=cost, provisional=provisional), 0.0)
        assert not book.write()
    assert [(one["trilens.cost"], one["trilens.provisional"]) for one in book.written] == [
        (4.0, "true"),
        (5.0, "false"),
        (4.0, "false"),
    ]


def test_a_cost_that_is_not_known_any_more_is_taken_back() -> None:
    book = Book()
    book.known = Known(hours(1.0, cost=4.0, cost_currency="USD", gpu_utilization=0.5), 0.0)
    book.write()
    book.known = Known(hours(1.0), 0.0)
    for _ in range(2):
        book.write()
    gone = {"trilens.cost": None, "trilens.cost_currency": None}
    assert book.written[1:] == [hours(1.0) | gone], "once; who measured the GPUs may be away for a moment"


def test_a_verdict_is_taken_back_once_nothing_is_wrong_and_stays_while_nobody_can_be_asked() -> None:
    book = Book()
    wrong = hours(1.0, verdict="dead-gpu: x", verdict_confidence=0.9, verdict_fix="drain n1")
    book.known = Known(wrong, 0.0)
    book.write()
    book.known = Known(hours(1.0), 0.0, OF_VERDICT)
    book.write()
    assert book.written == [wrong]
    book.known = Known(hours(1.0), 0.0)
    for _ in range(2):
        book.write()
    assert book.written[1:] == [hours(1.0) | dict.fromkeys(OF_VERDICT)]


def test_the_verdict_is_asked_of_the_run_with_its_processes_and_state() -> None:
    asked: list[tuple[RunId, int, str | None]] = []
    answers: list[Mapping[str, Figure] | None] = [{"trilens.verdict": "x: y"}, None]

    def verdicts(run: RunId, processes: Any, state: str | None) -> Mapping[str, Figure] | None:
        asked.append((run, len(processes), state))
        return answers.pop(0)

    runs = told(process(0, "GPU-a"), process(1, "GPU-b"))
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(), verdicts)
    known = figures.of(replace(TRACKED, state="failed"))
    assert known is not None
    assert (known.figures["trilens.verdict"], known.unasked) == ("x: y", ())
    known = figures.of(TRACKED)
    assert known is not None
    assert ("trilens.verdict" in known.figures, known.unasked) == (False, OF_VERDICT)
    assert asked == [(RUN, 2, "failed"), (RUN, 2, "finished")]


def test_what_a_tracker_has_already_is_not_written_after_a_restart() -> None:
    book = Book(stands=hours(1.0, cost=4.0, run="run-1"))
    book.known = Known(hours(1.0, cost=4.0), 0.0)
    assert not book.write()
    assert book.written == []
    book.known = Known(hours(1.0, cost=5.0), None)
    assert book.write()
    assert book.written == [hours(1.0, cost=5.0)]


def test_what_is_settled_is_not_worked_out_again_after_a_restart() -> None:
    long_ago = replace(TRACKED, ended_ms=END_MS - 48 * HOUR_MS)
    for stands, run, is_asked in (
        (hours(1.0, cost=4.0, provisional="false"), long_ago, False),
        (hours(1.0, cost=4.0, provisional="false"), TRACKED, True),
        (hours(1.0, cost=4.0, provisional="true"), long_ago, True),
        (hours(1.0, provisional="false"), long_ago, True),
    ):
        book = Book(stands)
        book.known = Known(hours(1.0, cost=5.0, provisional="false"), None)
        assert book.write(run)
        assert len(book.written) == is_asked


def test_what_a_spool_tells_after_the_end_is_written() -> None:
    book, started = Book(), replace(TRACKED, state="running")
    assert not book.write(started)
    book.known = Known(hours(1.0), None)
    assert book.write()
    assert book.written == [hours(1.0)]
    long_ago = replace(TRACKED, ended_ms=END_MS - 48 * HOUR_MS)
    book.known = None
    assert book.write(long_ago), "of a run that nobody here knows, nothing more is to come"
    assert not book.write(), "of one that ended lately it may"


def test_what_the_tracker_did_not_take_is_tried_again() -> None:
    book = Book()
    book.known, book.refuses = Known(hours(1.0), 0.0), True
    for _ in range(2):
        with pytest.raises(TrackerError):
            book.write()
    book.refuses = False
    book.write()
    assert book.written == [hours(1.0)]
