"""What one rule recorded last: to find the same series again at little cost, and to end those that are gone.

A pass over a large fleet gives the same series as the one before. Their labels are compared as whole arrays
of codes, and only a difference is looked at series by series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.labels import LabelFrame, Symbols
from trilens.model.series import STALE_NAN, AppendOutcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.collect.sink import SampleSink
    from trilens.model.series import Floats, Handles

_UNKNOWN: Final = -1  # a handle that nobody has asked the sink for


class RecordedSeries:
    """Not thread-safe: a group's rules are evaluated one after the other."""

    def __init__(self, alive: LabelFrame | None = None) -> None:
        """`alive` are series that were recorded before a restart, and end unless they are recorded again."""
        self._labels = alive if alive is not None else LabelFrame.empty(Symbols())
        self._handles: Handles = np.full(len(self._labels), _UNKNOWN, np.int64)

    def __len__(self) -> int:
        return len(self._labels)

    def is_same(self, labels: LabelFrame) -> bool:
        """Exactly these series, in this order, were recorded last."""
        known = self._labels
        return (
            known.symbols is labels.symbols
            and known.names == labels.names
            and np.array_equal(known.codes, labels.codes)
        )

    def record(self, sink: SampleSink, labels: LabelFrame, values: Floats, at_ms: int) -> AppendOutcome:
        """`labels` has every series once.

        Raises StoreError with nothing taken; the next call then ends what this one would have ended.
        """
        if self.is_same(labels):
            handles, ended = self._still_held(sink), np.zeros(0, np.int64)
        else:
            handles, ended = self._compared(sink, labels)
        everything = np.concatenate([handles, ended])
        if not len(everything):
            self._labels, self._handles = labels, handles
            return AppendOutcome(0)
        outcome = sink.append(
            everything,
            np.full(len(everything), at_ms, np.int64),
            np.concatenate([values, np.full(len(ended), STALE_NAN)]),
        )
        self._labels, self._handles = labels, handles
        return outcome

    def end(self, sink: SampleSink, at_ms: int) -> None:
        """The rule is no more, and so are its series."""
        self.record(sink, LabelFrame.empty(Symbols()), np.zeros(0), at_ms)

    def _still_held(self, sink: SampleSink) -> Handles:
        """The last handles, anew for series that were forgotten meanwhile."""
        handles = self._handles.copy()
        missing = handles == _UNKNOWN
        if len(handles):
            missing[~missing] = ~sink.held(handles[~missing])
        if missing.any():
            handles[missing] = sink.series_of(self._labels.take(missing))
        return handles

    def _compared(self, sink: SampleSink, labels: LabelFrame) -> tuple[Handles, Handles]:
        """The handles of these series, and of those that are no longer among them."""
        here = self._still_held(sink) if len(self._labels) else self._handles
        before, now = _row_keys(self._labels, labels)
        place = {key: row for row, key in enumerate(before)}
        rows = np.fromiter((place.get(key, -1) for key in now), np.intp, len(now))
        handles = np.where(rows >= 0, here[rows], _UNKNOWN) if len(here) else np.full(len(now), _UNKNOWN)
        if (rows < 0).any():
            handles[rows < 0] = sink.series_of(labels.take(rows < 0))
        gone = np.ones(len(here), bool)
        gone[rows[rows >= 0]] = False
        return handles.astype(np.int64), here[gone]


def _row_keys(before: LabelFrame, now: LabelFrame) -> tuple[list[bytes], list[bytes]]:
    """Each series' labels as bytes that can be compared across the two."""
    symbols = now.symbols
    if not symbols.reads(before.symbols):
        symbols = symbols.fork()
        before = before.coded_by(symbols)
    names = sorted({*before.names, *now.names})
    return _laid_out(before, names), _laid_out(now, names)


def _laid_out(labels: LabelFrame, names: list[str]) -> list[bytes]:
    codes: NDArray[np.int32] = np.zeros((len(labels), len(names)), np.int32)
    for j, name in enumerate(names):
        codes[:, j] = labels.column(name)
    text, width = codes.tobytes(), 4 * len(names)
    return [text[at : at + width] for at in range(0, len(text), width)] if width else [b""] * len(labels)
