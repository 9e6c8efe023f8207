"""/api/v1/import/jobs and /api/v1/import/usage: GPU time of before Trilens, from tables."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol

from trilens.model.errors import RequestError
from trilens.model.imported_lines import check_source, read_jobs, read_usage
from trilens.model.ledger import HOUR_MS
from trilens.serve.envelope import reply
from trilens.serve.params import Params, read_body
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from datetime import timedelta

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.imported import ImportedJob, UsagePoint


class ImportStore(Protocol):
    def put_jobs(self, jobs: Sequence[ImportedJob]) -> list[int]:
        """On disk on return; the hours that differ now from what was known."""

    def put_usage(self, points: Sequence[UsagePoint]) -> list[int]:
        """On disk on return; the hours that differ now from what was known."""


class ImportsApi:
    """`retention` is how long the ledger keeps hours; `touched` is told which of them differ."""

    def __init__(
        self,
        store: ImportStore,
        touched: Callable[[Sequence[int]], None],
        retention: timedelta,
        threads: ThreadPoolExecutor,
        max_body: int,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._touched = touched
        self._kept_ms = round(retention.total_seconds() * 1000)
        self._clock_ms = clock_ms
        self._threads = threads
        self._max_body = max_body

    async def jobs(self, request: Request) -> Response:
        params = Params(request.query_params.multi_items())
        store, source, cluster = self._store, *_whose(params)
        first_line = params.count("first_line") or 1
        body = await read_body(request, self._max_body)
        request.scope[DETAIL] = f"{source} of {cluster}, from line {first_line}, {len(body):,} bytes"

        def take() -> dict[str, Any]:
            oldest_ms = self._clock_ms() - self._kept_ms
            told = read_jobs(body, source, cluster, first_line=first_line)
            kept = [job for job in told if job.end_ms is None or job.end_ms > oldest_ms]
            return self._answer(len(told), len(kept), store.put_jobs(kept) if kept else [])

        return reply(request, await self._in_thread(take))

    async def usage(self, request: Request) -> Response:
        params = Params(request.query_params.multi_items())
        store, source, cluster = self._store, *_whose(params)
        model, team = params.first("model"), params.first("team") or None
        first_line = params.count("first_line") or 1
        body = await read_body(request, self._max_body)
        request.scope[DETAIL] = f"{source} of {cluster}, from line {first_line}, {len(body):,} bytes"

        def take() -> dict[str, Any]:
            oldest_ms = self._clock_ms() - self._kept_ms
            told = read_usage(body, source, cluster, model=model, team=team, first_line=first_line)
            kept = [point for point in told if point.t_ms + point.ms > oldest_ms]
            return self._answer(len(told), len(kept), store.put_usage(kept) if kept else [])

        return reply(request, await self._in_thread(take))

    async def _in_thread(self, take: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, take)

    def _answer(self, told: int, kept: int, hours: Sequence[int]) -> dict[str, Any]:
        if hours:
            self._touched(hours)
        return {"rows": kept, "expired": told - kept, "changed": _stretches(hours)}


def _stretches(hours: Sequence[int]) -> list[tuple[int, int]]:
    """From when to when: a month that changed is one pair, not 744 numbers."""
    joined: list[tuple[int, int]] = []
    for hour in sorted(hours):
        if joined and joined[-1][1] == hour:
            joined[-1] = (joined[-1][0], hour + HOUR_MS)
        else:
            joined.append((hour, hour + HOUR_MS))
    return joined


def _whose(params: Params) -> tuple[str, str]:
    source, cluster = params.first("source"), params.first("cluster")
    if not source or not cluster:
        missing = "cluster" if source else "source"
        raise RequestError(
            f'missing parameter "{missing}"', hint="an import has a name (source) and is of a cluster"
        )
    return check_source(source), cluster
