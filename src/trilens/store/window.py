"""The recent past of every series in memory: what rules and pages ask for all day.

Samples lie in chunks of 32 of one series, taken from one pool whose size is the memory budget; a series is a
short ring of chunk numbers. Appending a scrape is a few scattered writes, reading a series copies whole
chunks. When the pool is full the oldest chunks go, and each series remembers up to which time it was cut
(`floor`): above its floor the window is complete, below it the engine has to be asked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.series import Floats, SampleBlock, Times, stale_mask
from trilens.store.admission import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes

CHUNK: Final = 32
DEPTH: Final = 64  # chunks a series: 8.5 hours at 15 s
_SPARE: Final = 8  # chunks of a ring that history leaves to what comes in
_SPAN_MS: Final = 1 << 32  # offsets inside a chunk are 32-bit: 49 days
_CHUNK_BYTES: Final = CHUNK * (8 + 4) + 8 + 8 + 1 + 4
_READ_SERIES: Final = 4096  # series copied under one hold of the lock, so that a big read cannot delay intake


class RecentWindow:
    """Thread-safe."""

    def __init__(self, budget_bytes: int) -> None:
        size = max(64, budget_bytes // _CHUNK_BYTES)
        # Pages of these arrays cost memory only once they are written.
        self._values = np.empty((size, CHUNK), dtype=np.float64)
        self._offsets = np.empty((size, CHUNK), dtype=np.uint32)
        self._first = np.zeros(size, dtype=np.int64)  # time of a chunk's first sample
        self._last = np.zeros(size, dtype=np.int64)  # and of its last
        self._used = np.zeros(size, dtype=np.uint8)  # 0: the chunk is free
        self._free = np.arange(size - 1, -1, -1, dtype=np.int32)  # a stack, lowest number on top
        self._free_count = size
        self._ring = np.zeros((1024, DEPTH), dtype=np.int32)
        self._begin = np.zeros(1024, dtype=np.int64)  # ring positions [begin, end), counted without wrapping
        self._end = np.zeros(1024, dtype=np.int64)
        self._floor: Times = np.full(1024, NEVER, dtype=np.int64)
        self._lock = threading.Lock()

    def reserve(self, series: int) -> None:
        """Make room for references below `series`; a new one is complete from the beginning of time."""
        if series <= len(self._floor):
            return
        with self._lock:
            size = max(series, 2 * len(self._floor))
            ring = np.zeros((size, DEPTH), dtype=np.int32)
            ring[: len(self._ring)] = self._ring
            pad = size - len(self._floor)
            self._ring = ring
            self._begin = np.concatenate([self._begin, np.zeros(pad, np.int64)])
            self._end = np.concatenate([self._end, np.zeros(pad, np.int64)])
            self._floor = np.concatenate([self._floor, np.full(pad, NEVER, np.int64)])

    def cut(self, refs: Codes, floor: Times | int) -> None:
        """Declare the window incomplete for these series up to and including a time.

        A floor always moves, at least a little: that is how `prepend` sees that it must not join.
        """
        with self._lock:
            self._floor[refs] = np.maximum(self._floor[refs] + 1, floor)

    def floors(self, refs: Codes) -> Times:
        with self._lock:
            return self._floor[refs]

    def memory(self) -> tuple[int, int]:
        """(bytes in use, budget)."""
        return (len(self._used) - self._free_count) * _CHUNK_BYTES, len(self._used) * _CHUNK_BYTES

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
        """One sample a series, each into the chunk that is open: 31 scrapes of 32. False if one has none."""
        end = self._end[refs]
        if not (end > self._begin[refs]).all():
            return False
        chunk = self._ring.reshape(-1)[refs.astype(np.int64) * DEPTH + (end - 1) % DEPTH]
        used = self._used[chunk]
        offset = t - self._first[chunk]
        if used.max() == CHUNK or offset.max() >= _SPAN_MS:
            return False
        at = chunk.astype(np.int64) * CHUNK + used
        self._values.reshape(-1)[at] = v
        self._offsets.reshape(-1)[at] = offset
        self._used[chunk] = used + 1
        self._last[chunk] = t
        return True

    def _newest_that_fit(
        self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats
    ) -> tuple[Codes, NDArray[np.int64], Times, Floats]:
        """Cut the old end off batches longer than a ring or wider than a chunk's offsets can say."""
        stop = np.cumsum(counts)
        tail = np.minimum(counts, (DEPTH - 1) * CHUNK)
        wide = t[stop - 1] - t[stop - tail] >= _SPAN_MS
        tail[wide] = 1
        cut = tail < counts
        if not cut.any():
            return refs, counts, t, v
        self._forget(refs[cut], t[(stop - tail - 1)[cut]])
        kept = np.repeat(stop - tail, tail) + np.arange(tail.sum()) - np.repeat(np.cumsum(tail) - tail, tail)
        return refs, tail, t[kept], v[kept]

    def _append(self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats) -> None:
        total = len(t)
        group_start = np.cumsum(counts) - counts
        current = self._ring[refs, (self._end[refs] - 1) % DEPTH]
        has_chunk = self._end[refs] > self._begin[refs]
        last_t = t[group_start + counts - 1]
        fits = has_chunk & (last_t - self._first[current] < _SPAN_MS)
        used = np.where(fits, self._used[current], CHUNK).astype(np.int64)
        fresh = (used + counts - 1) // CHUNK  # chunks each series needs beyond its current one
        needed = int(fresh.sum())
        if needed:
            if needed > self._free_count:
                self._evict(needed)
                # The eviction may have taken a series' current chunk.
                gone = self._end[refs] == self._begin[refs]
                if gone.any() or needed > self._free_count:
                    self._retry_after_eviction(refs, counts, t, v, needed)
                    return
            new = self._take(needed)
        else:
            new = np.zeros(0, dtype=np.int32)

        if total == len(refs):  # one sample a series, as a scrape brings them
            slot, chunk = used, current
            new_at = np.cumsum(fresh) - fresh
        else:
            owner = np.repeat(np.arange(len(refs)), counts)
            slot = used[owner] + np.arange(total) - group_start[owner]
            chunk = current[owner]
            new_at = (np.cumsum(fresh) - fresh)[owner]
        hop, column = slot // CHUNK, slot % CHUNK
        beyond = hop > 0
        if needed:
            chunk[beyond] = new[(new_at + hop - 1)[beyond]]
            starts = beyond & (column == 0)
            self._first[chunk[starts]] = t[starts]
            self._link(refs, fresh, new)
        self._values[chunk, column] = v
        self._offsets[chunk, column] = (t - self._first[chunk]).astype(np.uint32)
        self._used[chunk] = column + 1  # assigned in order: the last sample of a chunk decides
        self._last[chunk] = t

    def _retry_after_eviction(
        self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats, needed: int
    ) -> None:
        if needed > self._free_count:  # larger than the whole pool: only the engine holds these samples
            self._forget(refs, t[np.cumsum(counts) - 1])
            return
        self._append(refs, counts, t, v)

    def _take(self, count: int) -> Codes:
        self._free_count -= count
        return self._free[self._free_count : self._free_count + count].copy()

    def _give_back(self, chunks: Codes) -> None:
        self._used[chunks] = 0
        self._free[self._free_count : self._free_count + len(chunks)] = chunks
        self._free_count += len(chunks)

    def _link(self, refs: Codes, fresh: NDArray[np.int64], new: Codes) -> None:
        """Hang new chunks onto their series' rings, dropping the oldest of a ring that is full."""
        growing = fresh > 0
        who, many = refs[growing], fresh[growing]
        while bool((crowded := self._end[who] - self._begin[who] + many > DEPTH).any()):
            self._drop_oldest(who[crowded])
        owner = np.repeat(np.arange(len(who)), many)
        position = self._end[who][owner] + np.arange(len(new)) - (np.cumsum(many) - many)[owner]
        self._ring[who[owner], position % DEPTH] = new
        self._end[who] += many

    def _drop_oldest(self, refs: Codes) -> None:
        chunks = self._ring[refs, self._begin[refs] % DEPTH]
        self._floor[refs] = np.maximum(self._floor[refs], self._last[chunks])
        self._begin[refs] += 1
        self._give_back(chunks)

    def _forget(self, refs: Codes, floor: Times) -> None:
        """Empty these series' rings; from `floor` on the window is complete again."""
        while len(full := refs[self._end[refs] > self._begin[refs]]):
            self._drop_oldest(full)
        self._floor[refs] = np.maximum(self._floor[refs], floor)

    def _evict(self, needed: int) -> None:
        """Free the oldest chunks of all: `needed` or a sixteenth of the pool, so that it happens rarely."""
        in_use = np.flatnonzero(self._used)
        count = min(len(in_use), max(needed - self._free_count, len(self._used) // 16))
        if count == 0:
            return
        cutoff = np.partition(self._last[in_use], count - 1)[count - 1]
        while True:
            held = np.flatnonzero(self._end > self._begin)
            oldest = self._ring[held, self._begin[held] % DEPTH]
            expired = held[self._last[oldest] <= cutoff]
            if len(expired) == 0:
                return
            self._drop_oldest(expired.astype(np.int32))

    def prepend(
        self, refs: Codes, counts: NDArray[np.int64], t: Times, v: Floats, *, above: Times, floor: Times
    ) -> None:
        """History from the engine, below what is held: all samples with floor < t <= above, per series.

        What does not fit is cut at its old end. A series whose floor has moved since `above` was read is
        left alone.
        """
        with self._lock:
            held = self._end[refs] - self._begin[refs]
            room = np.maximum(DEPTH - _SPARE - held, 0) * CHUNK
            kept = np.minimum(counts, room)
            fresh = -(-kept // CHUNK)
            oldest = self._first[self._ring[refs, self._begin[refs] % DEPTH]]
            fits = (self._floor[refs] == above) & (above - floor < _SPAN_MS)
            fits &= (held == 0) | (oldest > above)  # after a cut, what lies below the floor is still held
            fits &= np.cumsum(np.where(fits, fresh, 0)) <= self._free_count - len(self._used) // 16
            stop = np.cumsum(counts)
            cut = kept < counts
            floor = np.where(cut, t[np.where(cut, stop - kept - 1, 0)], floor) if len(t) else floor
            at = np.repeat(stop - np.cumsum(kept), kept) + np.arange(kept.sum())
            at = at[np.repeat(fits, kept)]
            refs, counts, fresh, floor = refs[fits], kept[fits], fresh[fits], floor[fits]
            t, v = t[at], v[at]
            new = self._take(int(fresh.sum()))
            owner = np.repeat(np.arange(len(refs)), counts)
            slot = np.arange(len(t)) - (np.cumsum(counts) - counts)[owner]
            chunk = new[(np.cumsum(fresh) - fresh)[owner] + slot // CHUNK]
            column = slot % CHUNK
            starts = column == 0
            self._first[chunk[starts]] = t[starts]
            self._values[chunk, column] = v
            self._offsets[chunk, column] = (t - self._first[chunk]).astype(np.uint32)
            self._used[chunk] = column + 1
            self._last[chunk] = t
            who = np.repeat(np.arange(len(refs)), fresh)
            self._begin[refs] -= fresh
            position = self._begin[refs][who] + np.arange(len(new)) - (np.cumsum(fresh) - fresh)[who]
            self._ring[refs[who], position % DEPTH] = new
            self._floor[refs] = floor

    # --- reading ---------------------------------------------------------------------------------

    def read(
        self, refs: Codes, start_ms: int, end_ms: int, count: Callable[[int], None] = lambda _: None
    ) -> SampleBlock | None:
        """Samples with start_ms < t <= end_ms, series in the order of `refs`; None where it was cut away.

        `count` hears of the samples piece by piece and may raise to stop a read that grows too large.
        """
        parts: list[tuple[Times, Floats, NDArray[np.int64]]] = []
        for at in range(0, len(refs), _READ_SERIES):
            some = refs[at : at + _READ_SERIES]
            with self._lock:
                if bool((self._floor[some] > start_ms).any()):
                    return None
                parts.append(self._read(some, start_ms, end_ms))
            count(len(parts[-1][0]))
        if not parts:
            return SampleBlock.empty()
        counts = np.concatenate([p[2] for p in parts])
        offsets = np.concatenate(([0], np.cumsum(counts)))
        if len(parts) == 1:
            return SampleBlock(parts[0][0], parts[0][1], offsets)
        return SampleBlock(
            np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), offsets
        )

    def _read(self, refs: Codes, start_ms: int, end_ms: int) -> tuple[Times, Floats, NDArray[np.int64]]:
        chunks, per_series = self._overlapping(refs, start_ms, end_ms)
        if len(chunks) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float64), per_series
        values = self._values[chunks]
        times = self._offsets[chunks] + self._first[chunks][:, None]
        inside = np.arange(CHUNK) < self._used[chunks][:, None]
        edge = (self._first[chunks] <= start_ms) | (self._last[chunks] > end_ms)
        if edge.any():
            inside[edge] &= (times[edge] > start_ms) & (times[edge] <= end_ms)
        in_chunk = inside.sum(axis=1)
        owner = np.repeat(np.arange(len(refs)), per_series)
        counts = np.bincount(owner, weights=in_chunk, minlength=len(refs)).astype(np.int64)
        if bool((in_chunk == CHUNK).all()):
            return times.reshape(-1), values.reshape(-1), counts
        return times[inside], values[inside], counts

    def latest(
        self, refs: Codes, start_ms: int, step_ms: int, count: int, lookback_ms: int
    ) -> tuple[Floats, NDArray[np.bool_]] | None:
        """Each series' last sample at each step and whether it still counts; None where it was cut away.

        Work grows with the answer, not with the samples between two steps.
        """
        values = np.zeros((len(refs), count))
        present = np.zeros((len(refs), count), dtype=bool)
        begin, end = start_ms - lookback_ms, start_ms + (count - 1) * step_ms
        for at in range(0, len(refs), _READ_SERIES):
            some = slice(at, at + _READ_SERIES)
            with self._lock:
                if bool((self._floor[refs[some]] > begin).any()):
                    return None
                chunks, per_series = self._overlapping(refs[some], begin, end)
                if len(chunks):
                    where, found = self._latest(chunks, per_series, start_ms, step_ms, count, lookback_ms)
                    values[some].reshape(-1)[where] = found
                    present[some].reshape(-1)[where] = True
        return values, present

    def _latest(
        self,
        chunks: Codes,
        per_series: NDArray[np.int64],
        start_ms: int,
        step_ms: int,
        count: int,
        lookback: int,
    ) -> tuple[NDArray[np.int64], Floats]:
        """(place in the flattened answer, value) of every step that has one."""
        owner = np.repeat(np.arange(len(per_series)), per_series)
        first = self._first[chunks]
        # A chunk speaks for the steps from its first sample to the next chunk's first.
        speaks_from = np.clip(-((start_ms - first) // step_ms), 0, count)
        speaks_to = np.full(len(chunks), count)
        same_series = owner[1:] == owner[:-1]
        speaks_to[:-1][same_series] = speaks_from[1:][same_series]
        steps = np.maximum(speaks_to - speaks_from, 0)
        pair = np.repeat(np.arange(len(chunks)), steps)
        step = np.arange(len(pair)) - np.repeat(np.cumsum(steps) - steps - speaks_from, steps)
        target = step * step_ms
        target += np.repeat(start_ms - first, steps)
        column, offset = self._columns_at(chunks, pair, target)
        value = self._values.reshape(-1)[np.repeat(chunks.astype(np.int64) * CHUNK, steps) + column]
        counts = target - offset < lookback
        counts &= ~stale_mask(value)
        place = np.repeat(owner * count, steps) + step
        return (place, value) if counts.all() else (place[counts], value[counts])

    def _columns_at(
        self, chunks: Codes, pair: NDArray[np.int64], target: Times
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """For each (chunk, time after its first sample): the last sample by then, and its own time."""
        offsets = self._offsets[chunks]
        top = self._used[chunks].astype(np.int64) - 1
        pace = top / np.maximum(self._last[chunks] - self._first[chunks], 1)
        # Scrapes are regular, so a straight line mostly hits.
        column = (target * pace[pair] + 0.001).astype(np.int64)
        top = top[pair]
        np.minimum(column, top, out=column)
        flat = offsets.reshape(-1)
        at = pair * CHUNK + column
        offset = flat[at]
        wrong = offset > target
        wrong |= (column < top) & (flat[at + (column < top)] <= target)
        if wrong.any():
            passed = offsets[pair[wrong]] <= target[wrong, None]
            passed &= np.arange(CHUNK) <= top[wrong, None]
            column[wrong] = passed.sum(axis=1) - 1
            offset = flat[pair * CHUNK + column]
        return column, offset

    def _overlapping(self, refs: Codes, start_ms: int, end_ms: int) -> tuple[Codes, NDArray[np.int64]]:
        """The chunks that may hold samples of the range, series by series, and how many each series has."""
        begin, end = self._begin[refs], self._end[refs]
        deepest = int((end - begin).max(initial=0))
        depth = min(2, deepest)
        while depth < deepest:  # most reads want only the newest chunks: look back as far as needed
            reach = end - depth
            more = (reach > begin) & (self._last[self._ring[refs, (reach - 1) % DEPTH]] > start_ms)
            if not more.any():
                break
            depth = min(2 * depth, deepest)
        position = end[:, None] - np.arange(depth, 0, -1)
        chunk = self._ring[refs[:, None], position % DEPTH]
        wanted = position >= begin[:, None]
        wanted &= (self._last[chunk] > start_ms) & (self._first[chunk] <= end_ms)
        return chunk[wanted], wanted.sum(axis=1)
