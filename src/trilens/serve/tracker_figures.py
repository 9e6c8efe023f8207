"""What Trilens knows of a run and its tracker does not: GPU-hours, how busy the GPUs were and what it cost.

Written at the end of a run, and every few minutes while it runs; only what changed, so that a restart of the
server or a second one writes nothing twice. What is not known is not written.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.ledger.run_cost import RunLife, run_costs
from trilens.lineage.gpu_time import gpu_time
from trilens.model.errors import TrilensError
from trilens.model.ledger import HOUR_MS, as_amount
from trilens.model.run import RunId
from trilens.model.tracked_run import RUN_TAG
from trilens.promql.annotations import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from trilens.collect.trackers.mlflow import MlflowServer
    from trilens.collect.trackers.wandb_api import WandbProject
    from trilens.ledger.source import LedgerBook
    from trilens.lineage.gpu_time import GpuTime
    from trilens.model.run import RankProcess, RunFacts
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.own_queries import OwnQueries, Shown

    Send = Callable[[TrackedRun, Mapping[str, float]], None]

log = logging.getLogger(__name__)

GPU_HOURS: Final = "trilens.gpu_hours"
GPU_UTILIZATION: Final = "trilens.gpu_utilization"
COST: Final = "trilens.cost"  # and the currency: trilens.cost_USD
_EVERY_S: Final = 300.0
_TRIED_MS: Final = 86_400_000  # after a run's end: its program's records may come late, from a spool
_QUERY_S: Final = 30.0
_LOOKED_AT: Final = 500  # moments of a run at which the GPUs are looked at, however long it took
_SHORTEST_STEP_S: Final = 15
_RUNS: Final = 10_000
_RUNS_KNOWN_S: Final = 10.0  # how long what programs said of their trackers is not read again


class Runs(Protocol):
    def runs(self, *, limit: int = 100) -> list[RunFacts]: ...
    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]: ...


class Known(NamedTuple):
    """`cost` is None unless every hour of the run is booked and priced."""

    gpu_hours: float
    utilization: float | None
    is_over: bool
    cost: float | None = None
    currency: str | None = None


class RunFigures:
    """What is known of a tracker's run: by its tag, or by what the program itself said of its tracker."""

    def __init__(self, runs: Runs, queries: OwnQueries, book: LedgerBook | None = None) -> None:
        self._runs = runs
        self._queries = queries
        self._book = book
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()  # each tracker has a thread of its own
        self._told: dict[tuple[str, str], RunId] = {}  # what programs said of their trackers
        self._told_s = -math.inf

    def ask_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queries belong to the server's loop, where the connections to another Prometheus are."""
        self._loop = loop

    def of(self, run: TrackedRun) -> Known | None:
        ours = self._ours(run)
        if ours is None:
            return None
        now_ms = time.time_ns() // 1_000_000
        held = gpu_time(self._runs.processes([ours]), now_ms)
        if held is None or held.silent:
            return None  # a part of the truth would be taken for all of it
        known = Known(round(held.seconds / 3600, 4), self._utilization(held), held.is_over)
        return self._with_cost(known, RunLife(ours, held.from_ms, held.to_ms), now_ms)

    def utilization(self, run: RunId) -> float | None:
        """How busy its GPUs were, of all the time that it held them."""
        held = gpu_time(self._runs.processes([run]), time.time_ns() // 1_000_000)
        return self._utilization(held) if held is not None and not held.silent else None

    def _with_cost(self, known: Known, life: RunLife, now_ms: int) -> Known:
        """The ledger's GPU-hours too: it knows parts of GPUs, and when a pod held one without a process."""
        cost = run_costs(self._book, [life], now_ms).get(life.run) if self._book is not None else None
        if cost is None:
            return known
        known = known._replace(gpu_hours=round(cost.time.gpu_ms / HOUR_MS, 4))
        if cost.quanta is None or cost.time.unpriced_ms:
            return known
        return known._replace(cost=round(float(as_amount(cost.quanta)), 4), currency=cost.currency)

    def _ours(self, run: TrackedRun) -> RunId | None:
        if tagged := run.tags.get(RUN_TAG):
            return RunId(tagged)
        with self._lock:
            if time.monotonic() - self._told_s > _RUNS_KNOWN_S:
                known = self._runs.runs(limit=_RUNS)
                self._told = {(one.system, one.run): facts.run for facts in known for one in facts.trackers}
                self._told_s = time.monotonic()
            return self._told.get((run.tracker.system, run.tracker.run))

    def _utilization(self, held: GpuTime) -> float | None:
        loop = self._loop
        seconds = (held.to_ms - held.from_ms) // 1000
        if loop is None or seconds < 1:
            return None
        names = quote("|".join(map(re.escape, sorted(held.gpus))))
        step = max(_SHORTEST_STEP_S, seconds // _LOOKED_AT)
        query = (
            f"avg(avg_over_time(trilens:gpu_utilization:ratio{{UUID=~{names}}}[{seconds}s:{step}s] "
            f"@ {held.to_ms / 1000:.3f}))"
        )
        try:
            found = _wait(asyncio.run_coroutine_threadsafe(self._ask(query), loop))
        except (TrilensError, TimeoutError) as e:
            log.info("GPU utilisation of a run is not known", extra={"error": str(e)})
            return None
        return round(found[0].value, 4) if found and math.isfinite(found[0].value) else None

    def _ask(self, query: str) -> Coroutine[Any, Any, Sequence[Shown]]:
        async def asked() -> Sequence[Shown]:
            return await self._queries.vector(query)

        return asked()


def _wait(asked: Future[Sequence[Shown]]) -> Sequence[Shown]:
    try:
        return asked.result(_QUERY_S)
    finally:
        asked.cancel()


class WriteBack:
    """Writes what changed, at the end at once, before that now and then."""

    def __init__(self, known: Callable[[TrackedRun], Known | None], send: Send) -> None:
        self._known = known
        self._send = send
        self._written: dict[str, _Written] = {}

    def write(self, run: TrackedRun) -> bool:
        """Whether that was the last: the run is over, for the tracker and for its program."""
        name = run.tracker.run
        before = self._written.get(name, _Written())
        state = "over" if run.state not in ("running", "scheduled") else "running"
        if state == before.state and time.monotonic() - before.at_s < _EVERY_S:
            return False
        known = self._known(run)
        figures = _figures(known)
        if figures and (state, figures) != (before.state, before.figures):
            self._send(run, figures)
        if state == "over" and (_is_long_ago(run) if known is None else known.is_over):
            self._written.pop(name, None)
            return True
        self._written[name] = _Written(time.monotonic(), figures, state)
        return False


class _Written(NamedTuple):
    at_s: float = -math.inf
    figures: Mapping[str, float] = {}
    state: str | None = None


def _figures(known: Known | None) -> dict[str, float]:
    """Nothing of what is not known."""
    if known is None:
        return {}
    told = {
        GPU_HOURS: known.gpu_hours,
        GPU_UTILIZATION: known.utilization,
        f"{COST}_{known.currency}": known.cost,
    }
    return {name: value for name, value in told.items() if value is not None}


def _is_long_ago(run: TrackedRun) -> bool:
    return run.ended_ms is not None and run.ended_ms < time.time_ns() // 1_000_000 - _TRIED_MS


def to_mlflow(server: MlflowServer) -> Send:
    """As tags, which stand on the run's page, and as metrics, by which runs are sorted and compared."""

    def send(run: TrackedRun, figures: Mapping[str, float]) -> None:
        tags = {name: f"{value:.10g}" for name, value in figures.items()}
        if any(run.tags.get(name) != text for name, text in tags.items()):  # or a restart would write again
            server.write(run.tracker.run, tags, figures, time.time_ns() // 1_000_000)

    return send


def to_wandb(project: WandbProject) -> Send:
    """Only at the end: a summary is written as a whole, and while a program runs it writes its own."""

    def send(run: TrackedRun, figures: Mapping[str, float]) -> None:
        if run.state != "running" and any(run.metrics.get(name) != value for name, value in figures.items()):
            project.write(run.tracker.run, figures)

    return send
