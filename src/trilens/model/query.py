"""A query's limits and its way to stop early, handed down from the request to the engine."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.model.errors import QueryCancelled, QueryTimeout, QueryTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class QueryGuard:
    """Checked between pieces of work; whoever holds it may cancel from another thread."""

    def __init__(
        self,
        *,
        timeout_s: float = 120.0,
        max_samples: int = 50_000_000,
        max_series: int = 1_000_000,
    ) -> None:
        self.query_id = f"trilens-{uuid.uuid4().hex}"
        self.timeout_s = timeout_s
        self.max_samples = max_samples
        self.max_series = max_series
        self._deadline = time.monotonic() + timeout_s
        self._samples = 0
        self._cancelled = threading.Event()
        self._stoppers: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    @property
    def samples(self) -> int:
        """Samples and points counted so far."""
        return self._samples

    def check(self) -> None:
        """Raise if the query should stop now."""
        if self._cancelled.is_set():
            raise QueryCancelled("the query was cancelled")
        if self.remaining_s <= 0:
            raise QueryTimeout(f"the query took longer than {self.timeout_s:g} s")

    def take_samples(self, count: int) -> None:
        """Count samples and result points held in memory against the limit."""
        self._samples += count
        if self._samples > self.max_samples:
            raise QueryTooLarge(f"the query needs more than {self.max_samples:,} samples in memory")
        self.check()

    def take_series(self, count: int) -> None:
        if count > self.max_series:
            raise QueryTooLarge(f"the query selects {count:,} series; the limit is {self.max_series:,}")
        self.check()

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            stoppers = list(self._stoppers)
        for stop in stoppers:
            stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While inside, a cancel also calls `stop` (which must be safe from any thread)."""
        with self._lock:
            self._stoppers.append(stop)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._stoppers.remove(stop)
