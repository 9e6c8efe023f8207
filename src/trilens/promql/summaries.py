"""Range functions computed from summaries of windows instead of samples, where that is exact.

A range that is made of whole windows needs none of its samples for these functions: the largest of the
windows' largest values is the largest of all, and rate() looks only at the first and the last sample, at how
many there are, and at the resets between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from trilens.promql.rate import Ends, stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trilens.model.series import Floats, Summaries
    from trilens.promql.vector import Bools, Grid


_CELLS: Final = 1 << 22  # windows of steps of series that are laid out at once: about 40 MB a column
_ENDS: Final = ("count", "first_t", "first", "last_t", "last")

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "instant": ("count", "last", "ended"),
    "last_over_time": ("count", "last"),
    "first_over_time": ("count", "first"),
    "count_over_time": ("count",),
    "present_over_time": ("count",),
    "sum_over_time": ("count", "sum"),
    "avg_over_time": ("count", "sum"),
    "min_over_time": ("count", "min"),
    "max_over_time": ("count", "max"),
    "delta": _ENDS,
    "rate": (*_ENDS, "reset_sum"),
    "increase": (*_ENDS, "reset_sum"),
}
"""The functions that can be computed so, and the columns that each needs."""


class Spans:
    """The windows of each step: `self["last"][i, k]` are the last values of series i's windows at step k."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], width_ms: int, grid: Grid, range_ms: int) -> None:
        self._columns = columns
        self._width = range_ms // width_ms
        self._stride = max(1, grid.step // width_ms)
        self.grid = grid
        self.range_ms = range_ms
        self.filled: Bools = np.greater(self["count"], 0)
        self.present: Bools = self.filled.any(axis=2)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.of(self._columns[name])

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        view = sliding_window_view(column, self._width, axis=1)[:, :: self._stride]
        return view[:, : self.grid.count]

    def column(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def first_filled(self, name: str) -> NDArray[Any]:
        return self._at(name, self.filled.argmax(axis=2))

    def last_filled(self, name: str) -> NDArray[Any]:
        return self._at(name, self._width - 1 - self.filled[:, :, ::-1].argmax(axis=2))

    def _at(self, name: str, place: NDArray[np.intp]) -> NDArray[Any]:
        found: NDArray[Any] = np.take_along_axis(self[name], place[:, :, None], axis=2)[:, :, 0]
        return found


def evaluate(function: str, of: Summaries, grid: Grid, range_ms: int) -> tuple[Floats, Bools]:
    """`function` must be one of COLUMNS and `of` hold its columns."""
    compute = _FUNCTIONS[function]
    series = len(of.columns["count"])
    # Every window of every step is looked at, side by side: some series at a time, so that it fits.
    some = max(1, _CELLS // max(1, grid.count * (range_ms // of.width_ms)))
    if series <= some:
        return compute(Spans(of.columns, of.width_ms, grid, range_ms))
    parts = [
        compute(Spans({n: c[at : at + some] for n, c in of.columns.items()}, of.width_ms, grid, range_ms))
        for at in range(0, series, some)
    ]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _instant(s: Spans) -> tuple[Floats, Bools]:
    """The last sample counts unless the series has ended since: a marker may also stand in a later window."""
    said = s.filled | (s["ended"] != 0)
    newest = s.filled.shape[2] - 1 - said[:, :, ::-1].argmax(axis=2)
    ended = np.take_along_axis(s["ended"], newest[:, :, None], axis=2)[:, :, 0] != 0
    return s.last_filled("last"), s.present & ~ended


def _last(s: Spans) -> tuple[Floats, Bools]:
    return s.last_filled("last"), s.present


def _first(s: Spans) -> tuple[Floats, Bools]:
    return s.first_filled("first"), s.present


def _count(s: Spans) -> tuple[Floats, Bools]:
    return s["count"].sum(axis=2).astype(np.float64), s.present


def _present(s: Spans) -> tuple[Floats, Bools]:
    return np.ones(s.present.shape), s.present


def _sum(s: Spans) -> tuple[Floats, Bools]:
    return np.where(s.filled, s["sum"], 0.0).sum(axis=2), s.present


def _mean(s: Spans) -> tuple[Floats, Bools]:
    return _sum(s)[0] / np.maximum(s["count"].sum(axis=2), 1), s.present


def _smallest(s: Spans) -> tuple[Floats, Bools]:
    return np.where(s.filled, s["min"], np.inf).min(axis=2), s.present


def _largest(s: Spans) -> tuple[Floats, Bools]:
    return np.where(s.filled, s["max"], -np.inf).max(axis=2), s.present


def _extrapolated(*, counter: bool, per_second: bool) -> Callable[[Spans], tuple[Floats, Bools]]:
    def compute(s: Spans) -> tuple[Floats, Bools]:
        counts = s["count"].sum(axis=2, dtype=np.int64)
        v_first = s.first_filled("first")
        ends = Ends(s.first_filled("first_t"), s.last_filled("last_t"), v_first, counts - 1)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            change = s.last_filled("last") - v_first
            if counter:
                change += _reset_sums(s)
            stretch(change, ends, s.grid.times, s.range_ms, counter)
            if per_second:
                change /= s.range_ms / 1000.0
        return change, counts >= 2

    return compute


def _reset_sums(s: Spans) -> Floats:
    """Resets inside the windows, and between one window and the next that has samples."""
    filled = s.column("count") > 0
    last = s.column("last")
    index = np.where(filled, np.arange(filled.shape[1]), -1)
    before = np.full_like(index, -1)
    before[:, 1:] = np.maximum.accumulate(index, axis=1)[:, :-1]
    reached = np.take_along_axis(last, np.maximum(before, 0), axis=1)
    fell = filled & (before >= 0) & (s.column("first") < reached)
    inside: Floats = np.where(s.filled, s["reset_sum"], 0.0).sum(axis=2)
    if not fell.any():
        return inside
    between = s.of(np.where(fell, reached, 0.0))
    later = np.arange(between.shape[2]) > s.filled.argmax(axis=2)[:, :, None]
    total: Floats = inside + np.where(later, between, 0.0).sum(axis=2)
    return total


_FUNCTIONS: Final[dict[str, Callable[[Spans], tuple[Floats, Bools]]]] = {
    "instant": _instant,
    "last_over_time": _last,
    "first_over_time": _first,
    "count_over_time": _count,
    "present_over_time": _present,
    "sum_over_time": _sum,
    "avg_over_time": _mean,
    "min_over_time": _smallest,
    "max_over_time": _largest,
    "delta": _extrapolated(counter=False, per_second=False),
    "rate": _extrapolated(counter=True, per_second=True),
    "increase": _extrapolated(counter=True, per_second=False),
}
