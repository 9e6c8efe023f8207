"""The recent past of every series in memory: what rules and pages ask for all day.

Samples lie in chunks of 16 of one series, taken from one pool whose size is the memory budget; a series knows
its newest and its oldest chunk, and the chunks know their neighbours, so a series that lives for a minute
costs one chunk and a few bytes. Appending a scrape is a few scattered writes, reading a series copies whole
chunks. When the pool is full the oldest chunks go, and each series remembers up to which time it was cut
(`floor`): above its floor the window is complete, below it the engine has to be asked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.series import Floats, SampleBlock, Times
from trilens.store.admission import NEVER
from trilens.store.arrays import grown
from trilens.store.chunks import CHUNK, CHUNK_BYTES, SPAN_MS, ChunkPool
from trilens.store.window_reads import latest_at, overlapping, samples_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.labels import Codes

DEPTH: Final = 128  # chunks a series: 8.5 hours at 15 s
_SPARE: Final = 8  # of these, what history leaves to what comes in
_NOTHING_HELD: Final = 1 << 62  # the floor of a series that has left: only the engine knows it
_MOST: Final = 0.99
_READ_SERIES: Final = 4096  # series copied under one hold of the lock, so that a big read cannot delay intake


class RecentWindow:
    """Thread-safe."""

    def __init__(self, budget_bytes: int) -> None:
        self._pool = ChunkPool(budget_bytes)
        self._newest = np.zeros(1024, dtype=np.int32)  # chunk numbers, of series that hold any
        self._oldest = np.zeros(1024, dtype=np.int32)
        self._held = np.zeros(1024, dtype=np.int16)  # how many chunks
        self._floor: Times = np.full(1024, NEVER, dtype=np.int64)
        self._lock = threading.Lock()

    def reserve(self, series: int) -> None:
        """Make room for references below `series`; a new one is complete from the beginning of time."""
        if series <= len(self._floor):
            return
        with self._lock:
            size = max(series, 2 * len(self._floor))
            self._newest = grown(self._newest, size)
            self._oldest = grown(self._oldest, size)
            self._held = grown(self._held, size)
            self._floor = grown(self._floor, size, NEVER)

    def cut(self, refs: Codes, floor: Times | int) -> None:
        """Declare the window incomplete for these series up to and including a time.

        A floor always moves, at least a little: that is how `prepend` sees that it must not join.
        """
        with self._lock:
            self._floor[refs] = np.maximum(self._floor[refs] + 1, floor)

    def leave(self, refs: Codes) -> None:
        """These series leave memory: who still reads them is sent to the engine."""
        with self._lock:
            self._empty(refs)
            self._floor[refs] = _NOTHING_HELD

    def enter(self, refs: Codes | int, floor: Times | int) -> None:
        """Other series take these references; of theirs the window will have all after `floor`."""
        with self._lock:
            self._floor[refs] = floor

    def floors(self, refs: Codes) -> Times:
        with self._lock:
            return self._floor[refs]

    def memory(self) -> tuple[int, int]:
        """(bytes in use, budget)."""
        return (self._pool.size - self._pool.free_count) * CHUNK_BYTES, self._pool.size * CHUNK_BYTES

    def complete_since(self) -> int:
        """From when on it has all samples of the series that it holds, but for one in a hundred of them: a
        late sample is no sign that it is too small. NEVER where there is room: it may be filled yet."""
        with self._lock:
            floors = self._floor[self._held > 0]
        used, budget = self.memory()
        if used < budget // 2:
            return NEVER
        return int(np.partition(floors, at := int(_MOST * (len(floors) - 1)))[at])

    # --- writing ---------------------------------------------------------------------------------

    def append(self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats) -> None:
        """Newer samples, grouped by series (`counts` each), time ascending in each group."""
        if len(refs) == 0:
            return
        with self._lock:
            if len(t) > len(refs):
                refs, counts, t, v = self._newest_that_fit(refs, counts, t, v)
            elif self._append_in_place(refs, t, v):
                return
            self._append(refs, counts, t, v)

    def _append_in_place(self, refs: Codes, t: Times, v: Floats) -> bool:
        """One sample a series, each into the chunk that is open: 15 scrapes of 16. False if one has none."""
        if not self._held[refs].all():
            return False
        pool = self._pool
        chunk = self._newest[refs]
        used = pool.used[chunk]
        offset = t - pool.first[chunk]
        if used.max() == CHUNK or offset.max() >= SPAN_MS:
            return False
        at = chunk.astype(np.int64) * CHUNK + used
        pool.values.reshape(-1)[at] = v
        pool.offsets.reshape(-1)[at] = offset
        pool.used[chunk] = used + 1
        pool.last[chunk] = t
        return True

    def _newest_that_fit(
        self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats
    ) -> tuple[Codes, NDArray[np.int64], Times, Floats]:
        """Cut the old end off batches longer than a series may hold or wider than offsets can say."""
        stop = np.cumsum(counts)
        tail = np.minimum(counts, (DEPTH - 1) * CHUNK)
        wide = t[stop - 1] - t[stop - tail] >= SPAN_MS
        tail[wide] = 1
        cut = tail < counts
        if not cut.any():
            return refs, counts, t, v
        self._forget(refs[cut], t[(stop - tail - 1)[cut]])
        kept = np.repeat(stop - tail, tail) + np.arange(tail.sum()) - np.repeat(np.cumsum(tail) - tail, tail)
        return refs, tail, t[kept], v[kept]

    def _append(self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats) -> None:
        pool = self._pool
        total = len(t)
        group_start = np.cumsum(counts) - counts
        current = self._newest[refs]
        last_t = t[group_start + counts - 1]
        fits = (self._held[refs] > 0) & (last_t - pool.first[current] < SPAN_MS)
        used = np.where(fits, pool.used[current], CHUNK).astype(np.int64)
        fresh = (used + counts - 1) // CHUNK  # chunks each series needs beyond its current one
        needed = int(fresh.sum())
        if needed > pool.free_count:
            self._evict(needed)
            if needed > pool.free_count:  # larger than the whole pool: only the engine holds these samples
                self._forget(refs, last_t)
            else:  # the eviction may have taken a series' current chunk
                self._append(refs, counts, t, v)
            return
        new = pool.take(needed)
        if total == len(refs):  # one sample a series, as a scrape brings them
            slot, chunk = used, current
            new_at = np.cumsum(fresh) - fresh
        else:
            owner = np.repeat(np.arange(len(refs)), counts)
            slot = used[owner] + np.arange(total) - group_start[owner]
            chunk = current[owner]
            new_at = (np.cumsum(fresh) - fresh)[owner]
        hop, column = slot // CHUNK, slot % CHUNK
        if needed:
            beyond = hop > 0
            chunk[beyond] = new[(new_at + hop - 1)[beyond]]
            starts = beyond & (column == 0)
            pool.first[chunk[starts]] = t[starts]
            growing = fresh > 0
            self._hang_on(refs[growing], fresh[growing], new)
        pool.write(chunk, column, t, v)

    def _hang_on(self, refs: Codes, fresh: NDArray[np.int64], new: Codes) -> None:
        """New chunks at the newer end of their series, which drop their oldest when they hold too many."""
        while bool((crowded := self._held[refs] + fresh > DEPTH).any()):
            self._drop_oldest(refs[crowded])
        firsts, lasts = self._chain(fresh, new)
        had = self._held[refs] > 0
        self._pool.link(self._newest[refs[had]], firsts[had])
        self._oldest[refs[~had]] = firsts[~had]
        self._newest[refs] = lasts
        self._held[refs] += fresh.astype(np.int16)

    def _chain(self, fresh: NDArray[np.int64], new: Codes) -> tuple[Codes, Codes]:
        """Link each series' new chunks among themselves; their first and last ones."""
        stop = np.cumsum(fresh)
        self._pool.link(new[:-1], new[1:])  # also across series: the ends are linked anew, or never followed
        return new[stop - fresh], new[stop - 1]

    def _drop_oldest(self, refs: Codes) -> None:
        chunks = self._oldest[refs]
        self._floor[refs] = np.maximum(self._floor[refs], self._pool.last[chunks])
        self._oldest[refs] = self._pool.newer[chunks]
        self._held[refs] -= 1
        self._pool.give_back(chunks)

    def _empty(self, refs: Codes) -> None:
        while len(full := refs[self._held[refs] > 0]):
            self._drop_oldest(full)

    def _forget(self, refs: Codes, floor: Times) -> None:
        """Drop all that these series hold; from `floor` on the window is complete again."""
        self._empty(refs)
        self._floor[refs] = np.maximum(self._floor[refs], floor)

    def _evict(self, needed: int) -> None:
        """Free the oldest chunks of all: `needed` or a sixteenth of the pool, so that it happens rarely."""
        pool = self._pool
        in_use = np.flatnonzero(pool.used)
        count = min(len(in_use), max(needed - pool.free_count, pool.size // 16))
        if count == 0:
            return
        cutoff = np.partition(pool.last[in_use], count - 1)[count - 1]
        while True:
            held = np.flatnonzero(self._held).astype(np.int32)
            expired = held[pool.last[self._oldest[held]] <= cutoff]
            if len(expired) == 0:
                return
            self._drop_oldest(expired)

    def prepend(
        self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats, *, above: Times, floor: Times
    ) -> None:
        """History from the engine, below what is held: all samples with floor < t <= above, per series.

        What does not fit is cut at its old end. A series whose floor has moved since `above` was read is
        left alone.
        """
        with self._lock:
            pool = self._pool
            held = self._held[refs]
            kept = np.minimum(counts, np.maximum(DEPTH - _SPARE - held, 0) * CHUNK)
            fresh = -(-kept // CHUNK)
            fits = (self._floor[refs] == above) & (above - floor < SPAN_MS)
            # After a cut, what lies below the floor is still held.
            fits &= (held == 0) | (pool.first[self._oldest[refs]] > above)
            fits &= np.cumsum(np.where(fits, fresh, 0)) <= pool.free_count - pool.size // 16
            stop = np.cumsum(counts)
            cut = kept < counts
            floor = np.where(cut, t[np.where(cut, stop - kept - 1, 0)], floor) if len(t) else floor
            at = np.repeat(stop - np.cumsum(kept), kept) + np.arange(kept.sum())
            at = at[np.repeat(fits, kept)]
            self._floor[refs[fits]] = floor[fits]
            some = fits & (kept > 0)
            self._put_below(refs[some], kept[some], fresh[some], t[at], v[at])

    def _put_below(
        self, refs: Codes, counts: NDArray[np.int64], fresh: NDArray[np.int64], t: Times, v: Floats
    ) -> None:
        new = self._pool.take(int(fresh.sum()))
        owner = np.repeat(np.arange(len(refs)), counts)
        slot = np.arange(len(t)) - (np.cumsum(counts) - counts)[owner]
        chunk = new[(np.cumsum(fresh) - fresh)[owner] + slot // CHUNK]
        column = slot % CHUNK
        starts = column == 0
        self._pool.first[chunk[starts]] = t[starts]
        self._pool.write(chunk, column, t, v)
        firsts, lasts = self._chain(fresh, new)
        had = self._held[refs] > 0
        self._pool.link(lasts[had], self._oldest[refs[had]])
        self._newest[refs[~had]] = lasts[~had]
        self._oldest[refs] = firsts
        self._held[refs] += fresh.astype(np.int16)

    # --- reading ---------------------------------------------------------------------------------

    def read(
        self, refs: Codes, start_ms: int, end_ms: int, count: Callable[[int], None] = lambda _: None
    ) -> SampleBlock | None:
        """Samples with start_ms < t <= end_ms, series in the order of `refs`; None where it was cut away.

        `count` hears of the samples piece by piece and may raise to stop a read that grows too large.
        """
        parts: list[tuple[Times, Floats, NDArray[np.int64]]] = []
        if len(refs) > _READ_SERIES and int(self.floors(refs).max()) > start_ms:
            return None  # before anything is counted
        for at in range(0, len(refs), _READ_SERIES):
            with self._lock:
                chunks = self._chunks(refs[at : at + _READ_SERIES], start_ms, end_ms)
                if chunks is None:
                    return None
                parts.append(samples_between(self._pool, *chunks, start_ms, end_ms))
            count(len(parts[-1][0]))
        if not parts:
            return SampleBlock.empty()
        # One piece, which is what most reads are, need not be copied.
        times, values, counts = (
            parts[0] if len(parts) == 1 else (np.concatenate(column) for column in zip(*parts, strict=True))
        )
        return SampleBlock(times, values, np.concatenate(([0], np.cumsum(counts))))

    def latest(
        self, refs: Codes, start_ms: int, step_ms: int, count: int, lookback_ms: int
    ) -> tuple[Floats, NDArray[np.bool_]] | None:
        """Each series' last sample at each step and whether it still counts; None where it was cut away."""
        values = np.zeros((len(refs), count))
        present = np.zeros((len(refs), count), dtype=bool)
        begin, end = start_ms - lookback_ms, start_ms + (count - 1) * step_ms
        for at in range(0, len(refs), _READ_SERIES):
            some = slice(at, at + _READ_SERIES)
            with self._lock:
                chunks = self._chunks(refs[some], begin, end)
                if chunks is None:
                    return None
                if len(chunks[0]):
                    where, found = latest_at(self._pool, *chunks, start_ms, step_ms, count, lookback_ms)
                    values[some].reshape(-1)[where] = found
                    present[some].reshape(-1)[where] = True
        return values, present

    def _chunks(self, refs: Codes, start_ms: int, end_ms: int) -> tuple[Codes, NDArray[np.int64]] | None:
        if bool((self._floor[refs] > start_ms).any()):
            return None
        return overlapping(self._pool, self._newest[refs], self._held[refs], start_ms, end_ms)
