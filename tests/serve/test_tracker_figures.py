"""GPU-hours and utilisation of a tracked run: right, when they are written, and not written when unknown."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledger_nights import holder, hour, row
from memory_book import MemoryBook
from memory_runs import MemoryRuns
from trilens.model.errors import TrackerError
from trilens.model.ledger import Bucket
from trilens.model.run import RankProcess, RunFacts, RunId, Tracker, WriterId
from trilens.model.tracked_run import TrackedRun
from trilens.promql.memory import MemorySource
from trilens.serve import tracker_figures
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.tracker_figures import Known, RunFigures, WriteBack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOUR_MS = 3_600_000
END_MS = time.time_ns() // 1_000_000 - HOUR_MS
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
    figures = RunFigures(runs, EmbeddedQueries(source))
    figures.ask_in(loop)
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
    assert (found.gpu_hours, found.is_over) == (4.0, True)
    assert found.utilization == pytest.approx(0.5, abs=0.01)


def test_nobody_measured_the_gpus(loop: asyncio.AbstractEventLoop) -> None:
    assert known(told(process(0, "GPU-a")), MemorySource(), loop) == Known(2.0, None, True)


def test_a_name_of_a_gpu_is_no_query(loop: asyncio.AbstractEventLoop) -> None:
    source = MemorySource()
    utilization(source, "GPU-a", 1.0, 1.0)
    found = known(told(process(0, '.+"}) or vector(1) #')), source, loop)
    assert found == Known(2.0, None, True)


def test_nothing_is_known_of_a_run_that_told_only_in_part_or_not_at_all(
    loop: asyncio.AbstractEventLoop,
) -> None:
    assert known(told(process(0, "GPU-a"), process(1)), MemorySource(), loop) is None
    assert known(told(process(0, "GPU-a"), trackers=()), MemorySource(), loop) is None


def test_what_it_cost_is_the_ledgers_where_every_hour_is_booked() -> None:
    first = START_MS // HOUR_MS * HOUR_MS
    hours = [
        hour(at, row(at, holder("a", "x", RUN), Bucket.PRODUCTIVE, gpus=2, ms=HOUR_MS // 2))
        for at in range(first, END_MS, HOUR_MS)
    ]
    runs = told(process(0, "GPU-a"))
    figures = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(*hours))
    booked = len(hours)
    assert figures.of(TRACKED) == Known(float(booked), None, True, 4.0 * booked, "USD")
    in_part = RunFigures(runs, EmbeddedQueries(MemorySource()), MemoryBook(*hours[1:]))
    assert in_part.of(TRACKED) == Known(2.0, None, True)
    sent: list[Mapping[str, float]] = []
    WriteBack(figures.of, lambda _run, told: sent.append(told)).write(TRACKED)
    assert sent == [{"trilens.gpu_hours": float(booked), "trilens.cost_USD": 4.0 * booked}]


def test_a_tag_names_the_run_too() -> None:
    figures = RunFigures(told(process(0, "GPU-a"), trackers=()), EmbeddedQueries(MemorySource()))
    assert figures.of(replace(TRACKED, tags={"trilens.run": RUN})) == Known(2.0, None, True)


def test_runs_are_not_read_again_for_each_run_of_a_tracker() -> None:
    asked = []

    class Counted(MemoryRuns):
        def runs(self, **wanted: object) -> list[RunFacts]:  # type: ignore[override]
            asked.append(wanted)
            return []

    figures = RunFigures(Counted(), EmbeddedQueries(MemorySource()))
    for number in range(20):
        figures.of(replace(TRACKED, tracker=Tracker("mlflow", str(number))))
    assert len(asked) == 1


class Book:
    """Whom a tracker was told what."""

    def __init__(self) -> None:
        self.known: Known | None = None
        self.written: list[dict[str, float]] = []
        self.write_back = WriteBack(lambda _run: self.known, self._send)

    def _send(self, run: TrackedRun, figures: Mapping[str, float]) -> None:
        self.written.append(dict(figures))

    def write(self, run: TrackedRun = TRACKED) -> bool:
        return self.write_back.write(run)


def test_figures_are_written_now_and_then_and_once_more_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    running, book = replace(TRACKED, state="running", ended_ms=None), Book()
    book.known = Known(1.0, None, False)
    assert not book.write(running)
    book.known = Known(1.1, 0.5, False)
    assert not book.write(running)
    assert book.written == [{"trilens.gpu_hours": 1.0}], "five minutes are not over"
    monkeypatch.setattr(tracker_figures, "_EVERY_S", 0.0)
    assert not book.write(running)
    assert not book.write(running)
    assert book.written[1:] == [{"trilens.gpu_hours": 1.1, "trilens.gpu_utilization": 0.5}], "once"
    book.known = Known(1.2, 0.5, True)
    assert book.write(TRACKED)
    assert len(book.written) == 3


def test_a_program_that_goes_on_after_its_trackers_end_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracker_figures, "_EVERY_S", 0.0)
    book = Book()
    book.known = Known(1.0, None, False)
    assert not book.write()
    book.known = Known(2.0, None, True)
    assert book.write()
    assert [figures["trilens.gpu_hours"] for figures in book.written] == [1.0, 2.0]


def test_what_a_spool_tells_after_the_end_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_figures, "_EVERY_S", 0.0)
    book = Book()
    assert not book.write()
    book.known = Known(1.0, None, True)
    assert book.write()
    assert book.written == [{"trilens.gpu_hours": 1.0}]
    long_ago = replace(TRACKED, ended_ms=END_MS - 48 * HOUR_MS)
    book.known = None
    assert book.write(long_ago), "of a run that nobody here knows, nothing more is to come"


def test_what_the_tracker_did_not_take_is_tried_again() -> None:
    def refuse(_run: TrackedRun, _figures: Mapping[str, float]) -> None:
        raise TrackerError("no")

    write_back = WriteBack(lambda _run: Known(1.0, None, True), refuse)
    for _ in range(2):
        with pytest.raises(TrackerError):
            write_back.write(TRACKED)
