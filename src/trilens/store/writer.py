"""One thread that writes: many small batches in, few large inserts out, and a word when they are on disk."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from trilens.model.errors import StoreError, StoreReadOnly
from trilens.store.inserts import (
    CHUNK_ROWS,
    SERIES_CHUNK_ROWS,
    MetricRow,
    SampleBatch,
    insert_samples,
    merged,
    metadata_table,
    samples_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon

log = logging.getLogger(__name__)

_NOTHING: Final = (1 << 63) - 1  # later than any sample
_BACKOFF_S: Final = (0.25, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class WriterOptions:
    flush_rows: int = 500_000  # written at once when so many wait
    flush_s: float = (
        5.0  # or when the oldest has waited so long: each insert costs, and merging its part again
    )
    max_pending_rows: int = 4_000_000  # refused beyond: about 100 MB


@dataclass(frozen=True, slots=True)
class WriterHealth:
    """`read-only`: the disk is full; `failing`: the engine refuses for another reason and is tried again."""

    state: Literal["ok", "read-only", "failing", "closed"]
    reason: str | None
    pending_rows: int
    written_rows: int
    waiting_s: float  # the oldest of those that are not written; 0 where all are


@dataclass(slots=True)
class _Pending:
    """What was submitted and not yet written, in the order it came."""

    batches: list[SampleBatch] = field(default_factory=list)
    chunks: list[pa.Table] = field(default_factory=list)  # of `batches`, once the writing has begun
    series: list[pa.Table] = field(default_factory=list)
    metadata: list[pa.Table] = field(default_factory=list)
    waiters: list[Future[None]] = field(default_factory=list)
    rows: int = 0
    since: float = 0.0
    oldest_ms: int = _NOTHING

    @property
    def empty(self) -> bool:
        return not (self.batches or self.series or self.metadata)


class Writer:
    """Thread-safe.

    Group commit: whoever waits for durability makes the writer go at once, and all that came by then shares
    one insert. Series are written before their samples, so that no sample on disk lacks its labels. A write
    that fails is kept and tried again until it succeeds: what was submitted is never dropped while the
    process lives, and what was acknowledged is on disk.
    """

    def __init__(self, engine: Engine, horizon: Horizon, options: WriterOptions | None = None) -> None:
        self._engine = engine
        self._horizon = horizon
        self._options = options or WriterOptions()
        self._changed = threading.Condition()
        self._pending = _Pending()
        self._in_flight: _Pending | None = None
        self._failure: StoreError | None = None
        self._closing = False
        self._written_rows = 0
        self._thread = threading.Thread(target=self._work, name="store-write", daemon=True)
        self._thread.start()

    def submit(
        self,
        samples: SampleBatch | None = None,
        series: pa.Table | None = None,
        metadata: Sequence[MetricRow] = (),
    ) -> None:
        """Take rows to write soon. Raises, with nothing taken, when the disk is full or too much waits."""
        with self._changed:
            self._refuse_if_unable(0 if samples is None else len(samples.t))
            self.enqueue(samples, series, metadata)

    def enqueue(
        self,
        samples: SampleBatch | None = None,
        series: pa.Table | None = None,
        metadata: Sequence[MetricRow] = (),
    ) -> None:
        """As `submit`, for who has called `check` and cannot take its samples back."""
        # Made here, not in the thread: text that cannot be stored is the submitter's error.
        metadata_rows = metadata_table(metadata) if metadata else None
        with self._changed:
            pending = self._pending
            was_empty = pending.empty
            if was_empty:
                pending.since = time.monotonic()
            if samples is not None and len(samples.t):
                pending.batches.append(samples)
                pending.rows += len(samples.t)
                pending.oldest_ms = min(pending.oldest_ms, int(samples.t.min()))
            if series is not None:
                pending.series.append(series)
            if metadata_rows is not None:
                pending.metadata.append(metadata_rows)
            # Waking the thread for every scrape would cost more than the scrape: it wakes by itself when due.
            if was_empty or pending.rows >= self._options.flush_rows:
                self._changed.notify_all()

    def check(self, rows: int) -> None:
        """Raise what `submit` would raise for so many rows now."""
        with self._changed:
            self._refuse_if_unable(rows)

    def oldest_pending_ms(self) -> int:
        """The time of the oldest sample that is not yet where the engine can see it."""
        with self._changed:
            in_flight = self._in_flight.oldest_ms if self._in_flight is not None else _NOTHING
            return min(self._pending.oldest_ms, in_flight)

    def durable(self) -> Future[None]:
        """Completes when all that was submitted before is on disk; fails at once while that cannot be."""
        future: Future[None] = Future()
        with self._changed:
            if self._failure is not None:
                future.set_exception(self._failure)
            elif not self._pending.empty:
                self._pending.waiters.append(future)
                self._changed.notify_all()
            elif self._in_flight is not None:
                self._in_flight.waiters.append(future)
            else:
                future.set_result(None)
        return future

    def health(self) -> WriterHealth:
        with self._changed:
            rows = self._pending.rows + (self._in_flight.rows if self._in_flight is not None else 0)
            state: Literal["ok", "read-only", "failing", "closed"] = "ok"
            if self._failure is not None:
                state = "read-only" if isinstance(self._failure, StoreReadOnly) else "failing"
            elif self._closing:
                state = "closed"
            reason = str(self._failure) if self._failure is not None else None
            waiting = [one for one in (self._in_flight, self._pending) if one is not None and not one.empty]
            waiting_s = time.monotonic() - waiting[0].since if waiting else 0.0
            return WriterHealth(state, reason, rows, self._written_rows, waiting_s)

    def close(self) -> None:
        """Write what waits, once. Raises StoreError if that fails: it says how much is lost."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        health = self.health()
        if health.pending_rows:
            raise StoreError(f"{health.pending_rows:,} samples could not be written: {health.reason}")

    def _refuse_if_unable(self, rows: int) -> None:
        if self._closing:
            raise StoreError("the store is closed")
        if isinstance(self._failure, StoreReadOnly):
            raise StoreReadOnly(self._failure.message)
        if self._pending.rows + rows > self._options.max_pending_rows:
            because = f": {self._failure.message}" if self._failure is not None else ""
            raise StoreError(f"{self._pending.rows:,} samples wait to be written{because}")

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            if not self._write_until_done(batch):
                return

    def _take(self) -> _Pending | None:
        """The next batch, when it is due; None when closed and all is written."""
        with self._changed:
            while not self._due():
                if self._pending.empty and self._closing:
                    return None
                self._changed.wait(self._wait_s())
            self._in_flight, self._pending = self._pending, _Pending()
            return self._in_flight

    def _due(self) -> bool:
        pending = self._pending
        if pending.empty:
            return False
        return (
            self._closing
            or bool(pending.waiters)
            or pending.rows >= self._options.flush_rows
            or time.monotonic() - pending.since >= self._options.flush_s
        )

    def _wait_s(self) -> float | None:
        if self._pending.empty:
            return None
        return max(0.0, self._pending.since + self._options.flush_s - time.monotonic())

    def _write_until_done(self, batch: _Pending) -> bool:
        attempt = 0
        while True:
            try:
                self._write(batch)
            except Exception as e:
                if not isinstance(e, StoreError):
                    log.exception("writing failed in a way that was not foreseen")
                    e = StoreError(f"writing failed: {e}")
                if not self._note_failure(batch, e, _BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)]):
                    return False
                attempt += 1
            else:
                self._note_success(batch)
                return True

    def _write(self, batch: _Pending) -> None:
        """Rows that went in leave the batch, so that trying again does not write them twice."""
        for table, parts in (("series", batch.series), ("metadata", batch.metadata)):
            if parts:
                parts[:] = [pa.concat_tables(parts)]
                while parts[0].num_rows:
                    chunk = parts[0].slice(0, SERIES_CHUNK_ROWS).combine_chunks()
                    self._engine.insert_arrow(table, chunk)
                    parts[0] = parts[0].slice(SERIES_CHUNK_ROWS)
                del chunk
                parts.clear()
                # Labels of a large cluster come once, and all together: nobody needs so much room again soon.
                pa.default_memory_pool().release_unused()
        if batch.batches:
            rows = samples_table(merged(batch.batches))
            batch.chunks += [rows.slice(at, CHUNK_ROWS) for at in range(0, rows.num_rows, CHUNK_ROWS)]
            batch.batches.clear()
        while batch.chunks:
            chunk = batch.chunks[0]
            insert_samples(self._engine, self._horizon, chunk)
            with self._changed:
                batch.chunks.pop(0)
                batch.rows -= chunk.num_rows
                self._written_rows += chunk.num_rows

    def _note_success(self, batch: _Pending) -> None:
        with self._changed:
            if self._failure is not None:
                log.info("writing works again")
            self._failure = None
            self._in_flight = None
            waiters = batch.waiters
            self._changed.notify_all()
        for waiter in waiters:
            waiter.set_result(None)

    def _note_failure(self, batch: _Pending, error: StoreError, wait_s: float) -> bool:
        """Tell those who wait, then wait a while; False when the store closes meanwhile."""
        with self._changed:
            if self._failure is None:
                log.error("cannot write, and will try again: %s", error)
            self._failure = error
            waiters = [*batch.waiters, *self._pending.waiters]
            batch.waiters.clear()
            self._pending.waiters.clear()
        for waiter in waiters:
            waiter.set_exception(error)
        with self._changed:
            if self._closing:
                return False
            self._changed.wait_for(lambda: self._closing, timeout=wait_s)
            return True
