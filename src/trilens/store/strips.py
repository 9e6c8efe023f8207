"""The past of a few series, kept as it was read: what a page with a long range asks for at every refresh.

A read from the engine costs ten milliseconds however little it brings. The recent window spares that for the
last hours; a panel of eight series over a day pays it only once, and then again when the window has moved on.
Only samples that can no longer change are kept, and whatever does change the past forgets them all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.errors import QueryTooLarge
from trilens.model.series import SampleBlock
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.labels import Codes
    from trilens.model.series import Floats, Times
    from trilens.store.admission import Admission
    from trilens.store.residents import Residents
    from trilens.store.writer import Writer

# Series x time: the work above a larger read outweighs the read, and it would push out all the rest.
_FEW: Final = 64 * DAY_MS
_AHEAD_MS: Final = 3_600_000  # read beyond what was asked for, so that the next refreshes find it
_AHEAD_SHARE: Final = 4  # but no more than this part of what was asked for
_ROW_BYTES: Final = 16
_STRIP_BYTES: Final = 448  # of an empty one, with its place in the dictionary
_LARGEST_SHARE: Final = 4  # of the budget, that one read may take


def worth_keeping(series: int, start_ms: int, end_ms: int) -> bool:
    return series * (end_ms - start_ms) <= _FEW


class _Strip(NamedTuple):
    """All samples of one series with since_ms < t <= until_ms."""

    since_ms: int
    until_ms: int
    t: Times
    v: Floats

    @property
    def bytes(self) -> int:
        return _ROW_BYTES * len(self.t) + _STRIP_BYTES


class Strips:
    """Thread-safe."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._strips: OrderedDict[int, _Strip] = OrderedDict()  # by id; the one used last comes last
        self._bytes = 0
        self._generation = 0
        self._lock = threading.Lock()

    @property
    def generation(self) -> int:
        """To be taken before the samples are read that are then put."""
        return self._generation

    @property
    def bytes(self) -> int:
        return self._bytes

    def get(self, ids: NDArray[np.uint64], start_ms: int, end_ms: int) -> SampleBlock | None:
        """The samples with start_ms < t <= end_ms, if they are held of every one of these series."""
        keys = ids.tolist()
        with self._lock:
            held = [self._strips.get(key) for key in keys]
            strips = [s for s in held if s is not None and s.since_ms <= start_ms and end_ms <= s.until_ms]
            if len(strips) < len(keys):
                return None
            for key in keys:
                self._strips.move_to_end(key)
        return _joined([_within(strip, start_ms, end_ms) for strip in strips])

    def put(
        self, generation: int, ids: NDArray[np.uint64], block: SampleBlock, since_ms: int, until_ms: int
    ) -> None:
        """Keep what was read, unless the past has changed since `generation`."""
        if _ROW_BYTES * len(block.t) * _LARGEST_SHARE > self._budget:
            return
        bounds = block.offsets.tolist()
        with self._lock:
            if generation != self._generation:
                return
            for key, begin, end in zip(ids.tolist(), bounds[:-1], bounds[1:], strict=True):
                # Copies: a slice would keep the whole read alive as long as one of its series is asked for.
                strip = _Strip(since_ms, until_ms, block.t[begin:end].copy(), block.v[begin:end].copy())
                self._remove(key)
                self._strips[key] = strip
                self._bytes += strip.bytes
            while self._bytes > self._budget:
                self._remove(next(iter(self._strips)))

    def forget(self) -> None:
        """The past has changed, or is about to."""
        with self._lock:
            self._generation += 1
            self._strips.clear()
            self._bytes = 0

    def _remove(self, key: int) -> None:
        strip = self._strips.pop(key, None)
        if strip is not None:
            self._bytes -= strip.bytes


class StripReader:
    """Raw samples of few series: from the strips, or from the engine and then kept."""

    def __init__(self, strips: Strips, residents: Residents, admission: Admission, writer: Writer) -> None:
        self._strips = strips
        self._residents = residents
        self._admission = admission
        self._writer = writer

    def read(
        self,
        refs: Codes,
        ids: NDArray[np.uint64],
        start_ms: int,
        end_ms: int,
        raw: Callable[[int], SampleBlock],
    ) -> SampleBlock:
        """Samples with start_ms < t <= end_ms; `raw` reads them from the engine up to a time."""
        held = self._strips.get(ids, start_ms, end_ms)
        if held is not None:
            return held
        generation = self._strips.generation
        ahead_ms = min(_AHEAD_MS, (end_ms - start_ms) // _AHEAD_SHARE)
        until_ms = min(self._unchanging_until(refs), end_ms + ahead_ms)
        if until_ms < end_ms:
            return raw(end_ms)
        try:
            block = raw(until_ms)
        except QueryTooLarge:  # perhaps only because of what nobody asked for
            return raw(end_ms)
        self._strips.put(generation, ids, block, start_ms, until_ms)
        return up_to(block, end_ms)

    def _unchanging_until(self, refs: Codes) -> int:
        """No fresh sample of these series may still come at or before this time, and all are on disk."""
        with self._residents.lock:  # whoever appends notes a sample before it hands it to the writer
            closed = np.maximum(self._admission.newest_t[refs], self._admission.settled_ms)
            return min(int(closed.min()), self._writer.oldest_pending_ms() - 1)


def up_to(block: SampleBlock, end_ms: int) -> SampleBlock:
    """The samples with t <= end_ms."""
    keep = block.t <= end_ms
    if keep.all():
        return block
    before = np.concatenate(([0], np.cumsum(keep)))
    return SampleBlock(block.t[keep], block.v[keep], before[block.offsets])


def _within(strip: _Strip, start_ms: int, end_ms: int) -> tuple[Times, Floats]:
    begin, end = np.searchsorted(strip.t, (start_ms, end_ms), side="right").tolist()
    return strip.t[begin:end], strip.v[begin:end]


def _joined(pieces: list[tuple[Times, Floats]]) -> SampleBlock:
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(t) for t, _ in pieces], out=offsets[1:])
    return SampleBlock(
        np.concatenate([t for t, _ in pieces]), np.concatenate([v for _, v in pieces]), offsets
    )
