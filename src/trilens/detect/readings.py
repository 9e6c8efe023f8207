"""What GPUs said last, since when they say so, and what each usually says while it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from trilens.detect.scene import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.detect.scene import Place, Telemetry

Values = NDArray[np.float32]  # one for each row
Flags = NDArray[np.bool_]

WORKS: Final = 0.5  # utilisation of a GPU that has work to do
_LATEST: Final = 13  # columns: two readings of an exporter that is asked every 30 s
_FAST_MS: Final = 12_000  # readings at least so often
_LEARNT_FROM: Final = 6  # readings under load, before anything is usual
_FAST: Final = 0.1  # of the way to a reading, with each
_SLOW: Final = 0.01  # slower than trouble comes


class LatestReadings:
    """Of each row the last reading, NaN where there was none within a minute."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._known: dict[Figure, Values] = {}

    def of(self, figure: Figure) -> Values:
        known = self._known.get(figure)
        if known is None:
            values = self._telemetry.figures.get(figure)
            if values is None:
                known = np.full(len(self._telemetry.places), np.nan, np.float32)
            else:
                known = last_told(values[:, -_LATEST:])
            self._known[figure] = known
        return known


def last_told(values: NDArray[np.float32]) -> Values:
    """Of each row, the last that is not NaN."""
    rows, columns = values.shape
    if not columns:
        return np.full(rows, np.nan, np.float32)
    last: Values = values[:, -1].copy()
    missing = np.flatnonzero(np.isnan(last))  # few, where all are asked every 5 s
    if len(missing):
        there = values[missing]
        at = columns - 1 - (~np.isnan(there[:, ::-1])).argmax(axis=1)
        last[missing] = there[np.arange(len(missing)), at]
    return last


def began(is_so: Flags, told: Flags) -> int | None:
    """The first column of those, up to the last one told, at which it was so without a break."""
    columns = np.flatnonzero(told)
    if not len(columns) or not is_so[columns[-1]]:
        return None
    broken = np.flatnonzero(~is_so[columns])
    return int(columns[broken[-1] + 1]) if len(broken) else int(columns[0])


class Usual:
    """What a GPU usually says of one figure while it works for the one that has it now: rows of a scene.

    It follows quickly to the side where no trouble is, slowly to the other one, and what is far below it not
    at all: that is either no work, or trouble.
    """

    def __init__(self, figure: Figure, *, follows_to: float, trouble_is_high: bool = False) -> None:
        self._figure = figure
        self._follows_to = follows_to  # of what is usual: the least reading that says something of it
        self._trouble_is_high = trouble_is_high
        self._places: Sequence[Place] | None = None
        self._rows: dict[tuple[object, ...], int] = {}
        self.levels: NDArray[np.float64] = np.empty(0)
        self.known: NDArray[np.int64] = np.empty(0, np.int64)  # readings that it was learnt from
        self.is_whole: Flags = np.empty(0, bool)  # and no instance of a GPU that others share

    def look(self, telemetry: Telemetry, latest: LatestReadings, but: Flags | None = None) -> None:
        """`but`: rows of which nothing is to be learnt now."""
        is_new = self._align(telemetry.places)
        if is_new.any():
            self._learn_from_history(telemetry, np.flatnonzero(is_new))
        value = latest.of(self._figure).astype(np.float64)
        learns = latest.of(Figure.UTILIZATION) >= WORKS
        learns &= ~np.isnan(value) & ~is_new
        if but is not None:
            learns &= ~but
        first = learns & np.isnan(self.levels)
        self.levels[first] = value[first]
        self.known += learns
        off = value - self.levels
        follows = learns & (value >= self._follows_to * self.levels)
        pace = np.where((off > 0) != self._trouble_is_high, _FAST, _SLOW)
        self.levels += np.where(follows, pace * off, 0.0)

    @property
    def is_known(self) -> Flags:
        enough: Flags = self.known >= _LEARNT_FROM
        return enough

    def _align(self, places: Sequence[Place]) -> Flags:
        if places is self._places:
            return np.zeros(len(places), bool)
        keys = [(place.uuid, place.instance, place.workload, place.pod) for place in places]
        before = np.array([self._rows.get(key, -1) for key in keys], np.intp)
        is_new: Flags = before < 0
        levels, known = np.full(len(places), np.nan), np.zeros(len(places), np.int64)
        if len(self.levels):
            levels = np.where(is_new, np.nan, self.levels[before])
            known = np.where(is_new, 0, self.known[before])
        self._places, self._rows = places, {key: row for row, key in enumerate(keys)}
        self.levels, self.known = levels, known
        self.is_whole = np.array([not place.instance for place in places], bool)
        return is_new

    def _learn_from_history(self, telemetry: Telemetry, rows: NDArray[np.intp]) -> None:
        values = telemetry.figures.get(self._figure)
        runs = telemetry.figures.get(Figure.UTILIZATION)
        if values is None or runs is None or not values.shape[1]:
            return
        history = values[rows]
        counts = (runs[rows] >= WORKS) & ~np.isnan(history)
        told = counts.sum(axis=1)
        in_order = np.sort(np.where(counts, history, -np.inf), axis=1)
        # Of the better side: the other may be trouble that was there before anybody looked.
        above = 3 * told // 4 if self._trouble_is_high else told // 4
        at = in_order.shape[1] - 1 - above
        usual = in_order[np.arange(len(rows)), np.minimum(at, in_order.shape[1] - 1)]
        self.levels[rows] = np.where(told > 0, usual, np.nan)
        self.known[rows] = told


def is_fast(telemetry: Telemetry, row: int) -> bool:
    """Whether it reports more often than an exporter does that is left as it comes."""
    values = telemetry.figures.get(Figure.UTILIZATION)
    if values is None or len(telemetry.times_ms) < 2:
        return False
    told = np.flatnonzero(~np.isnan(values[row]))[-4:]
    if len(told) < 2:
        return False
    times = telemetry.times_ms[told]
    return bool((times[-1] - times[0]) / (len(told) - 1) <= _FAST_MS)
