"""Queries run in a bounded pool of threads, and stop when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.model.errors import QueryCancelled, TooManyRequests, TrilensError
from trilens.model.identity import LOCAL
from trilens.model.query import QueryGuard
from trilens.serve.leaving import client_gone
from trilens.serve.routes import IDENTITY
from trilens.serve.shares import Shares
from trilens.serve.side_by_side import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

    from trilens.model.identity import Identity
    from trilens.serve.shares import Share
    from trilens.settings.query import QuerySettings

log = logging.getLogger(__name__)

T = TypeVar("T")

_AGAIN_S: Final = 5


class QueryRunner:
    """Of its threads one identity has three quarters at the most, so that whoever asks for much, or for what
    takes long, leaves some to others. Where nobody is asked who they are, everybody shares all."""

    def __init__(self, limits: QuerySettings) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.concurrency, thread_name_prefix="query")
        self._running: set[QueryGuard] = set()
        self._waiting: set[Callable[[], None]] = set()  # of what nobody waits for
        self._shares = Shares(self._pool, max(1, limits.concurrency * 3 // 4), limits.per_identity)
        self._stopping = False
        self.side_by_side = SideBySide()

    @property
    def running(self) -> int:
        """Queries that wait or run."""
        waiting = len(self._waiting)  # first: what begins to run meanwhile is counted twice, not left out
        return waiting + len(self._running)

    def guard(self, timeout_ms: int | None = None) -> QueryGuard:
        """The configured limits; a request may ask for less time, not for more."""
        timeout_s = self._limits.timeout.total_seconds()
        if timeout_ms is not None:
            timeout_s = min(timeout_s, timeout_ms / 1000)
        return QueryGuard(
            timeout_s=timeout_s, max_samples=self._limits.max_samples, max_series=self._limits.max_series
        )

    async def run(self, request: Request, guard: QueryGuard, work: Callable[[], T]) -> T:
        """The result of `work`, which must check `guard`; the request's body must have been read."""
        if self._stopping:
            raise QueryCancelled("the server is shutting down")

        def checked() -> T:
            guard.check()  # its time may be over, or its client gone, before a thread was free
            try:
                return work()
            except StopIteration as e:  # a future cannot carry it: whoever awaits it would wait for ever
                raise RuntimeError("a query ended by StopIteration, which is a defect") from e

        with self._share(request.scope.get(IDENTITY)) as share:
            self._running.add(guard)
            watcher = asyncio.ensure_future(_cancel_when_gone(request, guard))
            try:
                running = self._pool.submit(checked) if share is None else await share.submit(checked)
                return await asyncio.wrap_future(running)
            except asyncio.CancelledError:
                guard.cancel()  # nobody waits for it any more
                raise
            finally:
                watcher.cancel()
                self._running.discard(guard)

    @contextmanager
    def _share(self, identity: Identity | None) -> Iterator[Share | None]:
        """None where nobody is told from others."""
        if identity is None or identity is LOCAL:
            yield None
            return
        with self._shares.of(f"{identity.how} {identity.name}") as share:
            if share is None:
                raise TooManyRequests(
                    f"{identity.name} has {self._limits.per_identity:,} queries that run or wait",
                    retry_after_s=_AGAIN_S,
                )
            yield share

    def later(self, work: Callable[[QueryGuard], None]) -> None:
        """In a thread of the pool, with nobody waiting for it: what goes wrong is only logged."""
        if self._stopping:
            return

        def alone() -> None:
            guard = self.guard()  # from now on: all threads may have been busy for longer than it allows
            self._running.add(guard)
            self._waiting.discard(alone)
            try:
                if not self._stopping:
                    work(guard)
            except TrilensError as e:
                log.warning("what nobody waited for failed", extra={"error": str(e)})
            except Exception:
                log.exception("what nobody waited for failed")
            finally:
                self._running.discard(guard)

        self._waiting.add(alone)
        self._pool.submit(alone)

    def cancel_all(self) -> None:
        """From now on nothing starts, and what runs is told to stop."""
        self._stopping = True
        for guard in list(self._running):
            guard.cancel()

    def close(self) -> None:
        self.cancel_all()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.side_by_side.close()


async def _cancel_when_gone(request: Request, guard: QueryGuard) -> None:
    await client_gone(request)
    guard.cancel()
