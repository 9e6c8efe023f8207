"""A day of a fleet booked hour by hour on one core, and a month of it asked about.

Each piece runs in a process of its own: `python -m bench.ledger fill DATA GPUS` makes the day, `day DATA`
books it and prints JSON, `month DATA REPEATS` makes a month of it and asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from bench import ledger_peer
from bench.ledger_fleet import DAY_MS, HOUR_MS, PRICES, Fleet
from bench.ledger_month import MONTH_DAYS, is_exact, make_months
from trilens.ledger.booking import Booking
from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.prices.book import Prices
from trilens.ledger.prices.file import parse_prices
from trilens.serve.money.cost import CostApi, CostRules
from trilens.serve.money.ledger import LedgerApi
from trilens.serve.money.ledger_keeper import ROWS_AT_ONCE
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.questions import Questions
from trilens.serve.runner import QueryRunner
from trilens.settings.query import QuerySettings
from trilens.store.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.runs import RunRecords
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.ledger_peer import PeerResult
    from trilens.model.ledger import LedgerHour

A_DAY: Final = "a day by namespace"  # what a peer can answer too
_WORKLOADS: Final = "bench-workloads"  # a file beside the data that says how many there are


@dataclass(frozen=True)
class DayResult:
    """Seconds are of CPU, of all threads on one core."""

    gpus: int
    workloads: int
    step_records: int
    samples: int
    rows: int
    wall_s: float
    cpu_s: float
    facts_s: float
    signals_s: float
    writing_s: float
    memory_mb: float  # at most
    node_hours: int
    mismatches: int

    @property
    def allocating_s(self) -> float:
        return self.cpu_s - self.facts_s - self.signals_s - self.writing_s


@dataclass(frozen=True)
class MonthResult:
    rows: int  # of hours
    day_rows: int  # what questions about whole days read
    cold_s: dict[str, float]  # by question, the first time after a start
    warm_s: dict[str, float]  # the median of the next times
    cpu_s: dict[str, float]  # the same, of all threads
    node_hours: int
    mismatches: int


@dataclass(frozen=True)
class LedgerResult:
    days: list[DayResult]  # of ever larger fleets
    month: MonthResult  # of the largest
    peer: PeerResult  # the same day


def run(out: Path, *, gpus: int, repeats: int) -> LedgerResult:
    """Booking has one core alone; what is made before may have all of them."""
    one_core = ("taskset", "-c", str(max(os.sched_getaffinity(0))))
    days = []
    for size in (gpus // 4, gpus // 2, gpus):
        data = out / f"ledger-{size}"
        _child("fill", str(data), str(size))
        days.append(DayResult(**json.loads(_child("day", str(data), before=one_core))))
        print(f"ledger {days[-1]}", flush=True)
    month = MonthResult(**json.loads(_child("month", str(data), str(repeats))))
    peer = ledger_peer.run(out, gpus=gpus, day_ms=_yesterday_ms(), repeats=repeats)
    return LedgerResult(days, month, peer)


def _child(*args: str, before: tuple[str, ...] = ()) -> str:
    command = [*before, sys.executable, "-m", "bench.ledger", *args]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def fill(data: Path, gpus: int) -> None:
    fleet = Fleet(gpus, _yesterday_ms())
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        fleet.write_series(store)
    finally:
        store.close()
    with Engine.open(data) as engine:
        fleet.write(engine)
        RunRecords(engine).commit(fleet.runs())
        fleet.write_steps(engine)
        fleet.write_samples(engine)
    (data / _WORKLOADS).write_text(str(len(fleet.jobs)))


class _Timed:
    """Stands before something and adds up the CPU time of its calls."""

    def __init__(self, what: Any) -> None:
        self._what = what
        self.cpu_s = 0.0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return getattr(self._what, name)(*args, **named)
            finally:
                self.cpu_s += time.process_time() - began

        return timed


def day(data: Path) -> DayResult:
    """As the server's keeper does it, but for what it waits in between."""
    day_ms, now_ms = _yesterday_ms(), time.time_ns() // 1_000_000
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        facts, book = _Timed(store.ledger_facts), _Timed(store.ledger)
        signals = _Timed(LedgerSignals(EmbeddedQueries(store)))
        booking = Booking(facts, signals, KnownLosses(facts, day_ms))
        began, began_cpu, rows = time.perf_counter(), time.process_time(), 0
        held: list[LedgerHour] = []
        for computed in booking.hours(day_ms, day_ms + DAY_MS, _prices(day_ms), now_ms):
            assert not computed.trouble, computed.trouble
            rows += len(computed.hour.rows)
            held.append(computed.hour)
            if sum(len(hour.rows) for hour in held) >= ROWS_AT_ONCE:
                book.write_all(held)
                held = []
        book.write_all(held)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        verified = _Api(store).verified(day_ms, day_ms + DAY_MS)
        gpus = len(store.ledger_facts.facts(day_ms, day_ms + 1).gpus)
    finally:
        store.close()
    with Engine.open(data) as engine:
        counts = {table: _count(engine, table) for table in ("run_steps", "samples")}
    return DayResult(
        gpus,
        int((data / _WORKLOADS).read_text()),
        counts["run_steps"],
        counts["samples"],
        rows,
        wall_s,
        cpu_s,
        facts.cpu_s,
        signals.cpu_s,
        book.cpu_s,
        memory_mb,
        verified["node_hours"],
        len(verified["mismatches"]),
    )


def month(data: Path, repeats: int) -> MonthResult:
    """Asked through the API, which compares with the month before: there are two, the days of both made."""
    day_ms = _yesterday_ms()
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        store.ledger.settle()
    finally:
        store.close()
    with Engine.open(data) as engine:
        make_months(engine, day_ms)
        rows, day_rows = _count(engine, "ledger_rows"), _count(engine, "ledger_days")
        node_hours, mismatches = is_exact(engine)
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        api = _Api(store)
        span = {"from": _iso(day_ms - (MONTH_DAYS - 1) * DAY_MS), "to": _iso(day_ms + DAY_MS)}
        questions: dict[str, tuple[str, dict[str, str]]] = {
            "cost by team and bucket": ("/api/cost", {**span, "by": "team,bucket"}),
            "cost by namespace": ("/api/cost", {**span, "by": "namespace"}),
            "cost by workload": ("/api/cost", {**span, "by": "workload"}),
            "one workload, by bucket": (
                "/api/cost",
                {**span, "by": "bucket", "where": "workload=pytorchjob-00000"},
            ),
            "cost by day": ("/api/cost", {**span, "by": "day"}),
            "cost why": ("/api/cost/why", span),
            A_DAY: ("/api/cost", {"from": _iso(day_ms), "to": span["to"], "by": "namespace"}),
        }
        cold = {what: api.took_s(*asked)[0] for what, asked in questions.items()}
        again = {what: [api.took_s(*asked) for _ in range(repeats)] for what, asked in questions.items()}
        warm = {what: median(wall for wall, _ in took) for what, took in again.items()}
        cpu = {what: median(cpu for _, cpu in took) for what, took in again.items()}
    finally:
        store.close()
    return MonthResult(rows, day_rows, cold, warm, cpu, node_hours, mismatches)


class _Api:
    """The server's own answers, without its sockets."""

    def __init__(self, store: Store) -> None:
        runner = QueryRunner(QuerySettings(timeout=timedelta(minutes=5)))
        questions = Questions(runner, 1 << 20)
        cost = CostApi(store.ledger, store.ledger_facts, CostRules, questions)
        nobody: Any = None  # a keeper: hours are verified without it
        ledger = LedgerApi(store.ledger, nobody, questions)
        self._app = Starlette(
            routes=[
                Route("/api/cost", cost.every),
                Route("/api/cost/why", cost.why),
                Route("/api/ledger/verify", ledger.verify),
            ]
        )

    def verified(self, from_ms: int, to_ms: int) -> dict[str, Any]:
        answer = self._ask("/api/ledger/verify", {"from": _iso(from_ms), "to": _iso(to_ms)})
        found: dict[str, Any] = answer.json()["data"]
        return found

    def took_s(self, path: str, params: dict[str, str]) -> tuple[float, float]:
        """By the clock, and of CPU."""
        began, began_cpu = time.perf_counter(), time.process_time()
        self._ask(path, params)
        return time.perf_counter() - began, time.process_time() - began_cpu

    def _ask(self, path: str, params: dict[str, str]) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
                return await client.get(path, params=params)

        answer = asyncio.run(ask())
        assert answer.status_code == 200, answer.text
        return answer


def _prices(day_ms: int) -> Prices:
    file = parse_prices(PRICES.format(changed=_iso(day_ms + 25 * HOUR_MS // 2)), Path("bench.yaml"))
    return Prices(file.prices, file.currency, file.exchange)


def _yesterday_ms() -> int:
    return (time.time_ns() // 1_000_000 // DAY_MS - 1) * DAY_MS


def _iso(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _count(engine: Engine, table: str) -> int:
    return int(engine.query_arrow(f"SELECT count() AS n FROM {table}")["n"][0].as_py())


def main() -> None:
    what, data, *more = sys.argv[1:]
    if what == "fill":
        fill(Path(data), int(more[0]))
    elif what == "day":
        print(json.dumps(asdict(day(Path(data)))))
    else:
        print(json.dumps(asdict(month(Path(data), int(more[0])))))


if __name__ == "__main__":
    main()
