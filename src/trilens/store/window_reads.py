"""Reading the recent window: whole series, or the last sample at each step. The caller holds the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.model.series import Floats, Times, stale_mask
from trilens.store.chunks import CHUNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.store.chunks import ChunkPool


def overlapping(
    pool: ChunkPool, newest: Codes, held: NDArray[np.int16], start_ms: int, end_ms: int
) -> tuple[Codes, NDArray[np.int64]]:
    """The chunks that may hold samples of (start, end], series by series, and how many each series has.

    Most reads want only the newest chunks, so the walk goes back from there, all series together.
    """
    chunk = newest
    columns: list[Codes] = []
    wanted: list[NDArray[np.bool_]] = []
    for depth in range(int(held.max(initial=0))):
        first = pool.first[chunk]
        columns.append(chunk)
        wanted.append((held > depth) & (pool.last[chunk] > start_ms) & (first <= end_ms))
        if not ((held > depth + 1) & (first > start_ms)).any():
            break
        chunk = pool.older[chunk]
    if not columns:
        return np.zeros(0, np.int32), np.zeros(len(newest), np.int64)
    picked = np.stack(wanted[::-1], axis=1)
    return np.stack(columns[::-1], axis=1)[picked], picked.sum(axis=1)


def samples_between(
    pool: ChunkPool, chunks: Codes, per_series: NDArray[np.int64], start_ms: int, end_ms: int
) -> tuple[Times, Floats, NDArray[np.int64]]:
    """Times and values of (start, end], series by series, and how many each series has."""
    if len(chunks) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.float64), per_series
    values = pool.values[chunks]
    times = pool.offsets[chunks] + pool.first[chunks][:, None]
    inside = np.arange(CHUNK) < pool.used[chunks][:, None]
    edge = (pool.first[chunks] <= start_ms) | (pool.last[chunks] > end_ms)
    if edge.any():
        inside[edge] &= (times[edge] > start_ms) & (times[edge] <= end_ms)
    in_chunk = inside.sum(axis=1)
    owner = np.repeat(np.arange(len(per_series)), per_series)
    counts = np.bincount(owner, weights=in_chunk, minlength=len(per_series)).astype(np.int64)
    if bool((in_chunk == CHUNK).all()):
        return times.reshape(-1), values.reshape(-1), counts
    return times[inside], values[inside], counts


def latest_at(
    pool: ChunkPool,
    chunks: Codes,
    per_series: NDArray[np.int64],
    start_ms: int,
    step_ms: int,
    count: int,
    lookback_ms: int,
) -> tuple[NDArray[np.int64], Floats]:
    """(place in the flattened answer, value) of every step that has one.

    Work grows with the answer, not with the samples between two steps.
    """
    owner = np.repeat(np.arange(len(per_series)), per_series)
    first = pool.first[chunks]
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
    column, offset = _columns_at(pool, chunks, pair, target)
    value = pool.values.reshape(-1)[np.repeat(chunks.astype(np.int64) * CHUNK, steps) + column]
    counts = target - offset < lookback_ms
    counts &= ~stale_mask(value)
    place = np.repeat(owner * count, steps) + step
    return (place, value) if counts.all() else (place[counts], value[counts])


def _columns_at(
    pool: ChunkPool, chunks: Codes, pair: NDArray[np.int64], target: Times
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """For each (chunk, time after its first sample): the last sample by then, and its own time."""
    offsets = pool.offsets[chunks]
    top = pool.used[chunks].astype(np.int64) - 1
    pace = top / np.maximum(pool.last[chunks] - pool.first[chunks], 1)
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
