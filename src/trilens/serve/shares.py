"""Threads that many share: whoever takes much of them, or takes them for long, leaves some to others."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")


class Share:
    """What one may take. Of one event loop."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int) -> None:
        self._pool = pool
        self._threads = asyncio.Semaphore(threads)
        self.asked = 0  # whose answer somebody awaits
        self.running = 0  # in a thread, which goes on for a while where nobody awaits it any more

    async def submit(self, work: Callable[[], T]) -> Future[T]:
        """Once one of his threads is free: one is as long as it runs, whether that is awaited or not."""
        await self._threads.acquire()
        loop = asyncio.get_running_loop()
        running = self._pool.submit(work)
        self.running += 1

        def give_back() -> None:
            self.running -= 1
            self._threads.release()

        def ended(_: Future[T]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(give_back)

        running.add_done_callback(ended)
        return running


class Shares:
    """Of one event loop. Only of those who ask now, or have asked lately, something is kept."""

    def __init__(self, pool: ThreadPoolExecutor, threads_of_one: int, most_of_one: int) -> None:
        """`most_of_one` is how much of what one asked may wait or run."""
        self._pool = pool
        self._threads_of_one = threads_of_one
        self._most_of_one = most_of_one
        self._shares: dict[str, Share] = {}

    @property
    def asked(self) -> int:
        return sum(one.asked for one in self._shares.values())

    @contextmanager
    def of(self, who: str) -> Iterator[Share | None]:
        """For one question; None where he has asked for all that he may."""
        self._shares = {name: one for name, one in self._shares.items() if one.asked or one.running}
        share = self._shares.setdefault(who, Share(self._pool, self._threads_of_one))
        if share.asked >= self._most_of_one:
            yield None
            return
        share.asked += 1
        try:
            yield share
        finally:
            share.asked -= 1
