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
_STRIP_BYTES: Final = 256  # of an empty one, with its place in the dictionary
_LARGEST_SHARE: Final = 4  # of the budget, that one read may take


def worth_keeping(series: int, start_ms: int, end_ms: int) -> bool:
    return series * (end_ms - start_ms) <= _FEW


class _Read:
    """What was read at once: all samples of some series with since_ms < t <= until_ms."""

    __slots__ = ("bytes", "keys", "left", "since_ms", "t", "until_ms", "v")

    def __init__(self, keys: list[int], block: SampleBlock, since_ms: int, until_ms: int) -> None:
        self.keys = keys
        self.since_ms = since_ms
        self.until_ms = until_ms
        self.t, self.v = block.t.copy(), block.v.copy()  # else all that the engine gave with it stays, too
        self.bytes = _ROW_BYTES * len(block.t) + _STRIP_BYTES * len(keys)
        self.left = 0  # series that have not been read again since


class _Strip(NamedTuple):
    """One series in it."""

    read: _Read
    begin: int
    end: int

    def within(self, start_ms: int, end_ms: int) -> tuple[Times, Floats]:
        t = self.read.t[self.begin : self.end]
        begin, end = np.searchsorted(t, (start_ms, end_ms), side="right").tolist()
        return t[begin:end], self.read.v[self.begin + begin : self.begin + end]


class Strips:
    """Thread-safe. What was read together is kept as one piece, and goes together: rules ask for the same
    thousand series again and again, and as many pieces of memory, each of a kilobyte or two, left holes
    wherever others came and went."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._strips: dict[int, _Strip] = {}  # by id
        self._reads: OrderedDict[_Read, None] = OrderedDict()  # the one used last comes last
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
        strips = []
        with self._lock:
            for key in ids.tolist():
                strip = self._strips.get(key)
                if strip is None or strip.read.since_ms > start_ms or end_ms > strip.read.until_ms:
                    return None
                strips.append(strip)
            for read in dict.fromkeys(strip.read for strip in strips):
                self._reads.move_to_end(read)
        return _joined([strip.within(start_ms, end_ms) for strip in strips])

    def put(
        self, generation: int, ids: NDArray[np.uint64], block: SampleBlock, since_ms: int, until_ms: int
    ) -> None:
        """Keep what was read, unless the past has changed since `generation`."""
        if _ROW_BYTES * len(block.t) * _LARGEST_SHARE > self._budget:
            return
        read = _Read(ids.tolist(), block, since_ms, until_ms)
        bounds = block.offsets.tolist()
        with self._lock:
            if generation != self._generation:
                return
            for key, begin, end in zip(read.keys, bounds[:-1], bounds[1:], strict=True):
                before = self._strips.get(key)
                self._strips[key] = _Strip(read, begin, end)
                read.left += 1
                if before is not None:
                    self._leave(before.read)
            self._reads[read] = None
            self._bytes += read.bytes
            while self._bytes > self._budget:
                self._let_go(next(iter(self._reads)))

    def forget(self) -> None:
        """The past has changed, or is about to."""
        with self._lock:
            self._generation += 1
            self._strips.clear()
            self._reads.clear()
            self._bytes = 0

    def _leave(self, read: _Read) -> None:
        """One of its series."""
        read.left -= 1
        if not read.left and read in self._reads:
            del self._reads[read]
            self._bytes -= read.bytes

    def _let_go(self, read: _Read) -> None:
        del self._reads[read]
        self._bytes -= read.bytes
        for key in read.keys:
            strip = self._strips.get(key)
            if strip is not None and strip.read is read:
                del self._strips[key]


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


def _joined(pieces: list[tuple[Times, Floats]]) -> SampleBlock:
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(t) for t, _ in pieces], out=offsets[1:])
    return SampleBlock(
        np.concatenate([t for t, _ in pieces]), np.concatenate([v for _, v in pieces]), offsets
    )
