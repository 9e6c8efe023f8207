"""What Trilens knows of a run and its tracker does not: GPU-hours and how busy the GPUs were, written back.

Written at the end of a run, and every few minutes while it runs; only what changed, so that a restart of the
server or a second one writes nothing twice. What is not known is not written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.lineage.gpu_time import gpu_time
from trilens.model.errors import TrilensError
from trilens.model.run import RunId
from trilens.model.tracked_run import RUN_TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from trilens.collect.trackers.mlflow import MlflowServer
    from trilens.collect.trackers.wandb_api import WandbProject
    from trilens.lineage.gpu_time import GpuTime
    from trilens.model.run import RankProcess, RunFacts
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.own_queries import OwnQueries, Shown

    Send = Callable[[TrackedRun, Mapping[str, float]], None]

log = logging.getLogger(__name__)

GPU_HOURS: Final = "trilens.gpu_hours"
GPU_UTILIZATION: Final = "trilens.gpu_utilization"
_EVERY_S: Final = 300.0
_QUERY_S: Final = 30.0
_RUNS: Final = 10_000


class Runs(Protocol):
    def runs(self, *, limit: int = 100) -> list[RunFacts]: ...
    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]: ...


class Known(NamedTuple):
    gpu_hours: float
    utilization: float | None


class RunFigures:
    """What is known of a tracker's run: by its tag, or by what the program itself said of its tracker."""

    def __init__(self, runs: Runs, queries: OwnQueries) -> None:
        self._runs = runs
        self._queries = queries
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queries belong to the server's loop, where the connections to another Prometheus are."""
        self._loop = loop

    def of(self, run: TrackedRun) -> Known | None:
        ours = self._ours(run)
        if ours is None:
            return None
        held = gpu_time(self._runs.processes([ours]), time.time_ns() // 1_000_000)
        if held is None or held.silent:
            return None  # a part of the truth would be taken for all of it
        return Known(round(held.seconds / 3600, 4), self._utilization(held))

    def _ours(self, run: TrackedRun) -> RunId | None:
        if tagged := run.tags.get(RUN_TAG):
            return RunId(tagged)
        wanted = (run.tracker.system, run.tracker.run)
        for facts in self._runs.runs(limit=_RUNS):
            if any((tracker.system, tracker.run) == wanted for tracker in facts.trackers):
                return facts.run
        return None

    def _utilization(self, held: GpuTime) -> float | None:
        loop = self._loop
        seconds = (held.to_ms - held.from_ms) // 1000
        if loop is None or seconds < 1:
            return None
        names = "|".join(sorted(held.gpus))
        query = (
            f'avg(avg_over_time(trilens:gpu_utilization:ratio{{UUID=~"{names}"}}[{seconds}s] '
            f"@ {held.to_ms / 1000:.3f}))"
        )
        try:
            found = _wait(asyncio.run_coroutine_threadsafe(self._ask(query), loop))
        except (TrilensError, TimeoutError) as e:
            log.info("GPU utilisation of a run is not known", extra={"error": str(e)})
            return None
        return round(found[0].value, 4) if found else None

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

    def write(self, run: TrackedRun) -> None:
        before = self._written.get(run.tracker.run, _Written())
        is_over = run.state not in ("running", "scheduled")
        if before.is_last or (not is_over and time.monotonic() - before.at_s < _EVERY_S):
            return
        known = self._known(run)
        if known is not None and known != before.known:
            figures = {GPU_HOURS: known.gpu_hours}
            if known.utilization is not None:
                figures[GPU_UTILIZATION] = known.utilization
            self._send(run, figures)
        self._written[run.tracker.run] = _Written(time.monotonic(), known, is_over)


class _Written(NamedTuple):
    at_s: float = -_EVERY_S
    known: Known | None = None
    is_last: bool = False


def to_mlflow(server: MlflowServer) -> Send:
    """As tags, which stand on the run's page, and as metrics, by which runs are sorted and compared."""

    def send(run: TrackedRun, figures: Mapping[str, float]) -> None:
        tags = {name: f"{value:g}" for name, value in figures.items()}
        if any(run.tags.get(name) != text for name, text in tags.items()):  # or a restart would write again
            server.write(run.tracker.run, tags, figures, time.time_ns() // 1_000_000)

    return send


def to_wandb(project: WandbProject) -> Send:
    """Only at the end: a summary is written as a whole, and while a program runs it writes its own."""

    def send(run: TrackedRun, figures: Mapping[str, float]) -> None:
        if run.state != "running" and any(run.metrics.get(name) != value for name, value in figures.items()):
            project.write(run.tracker.run, figures)

    return send
