"""Readings that cannot be true, or that say nothing: which rows have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trilens.detect.scene import Figure
from trilens.model.xid import XIDS, Asks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.detect.reporting import Reporting
    from trilens.detect.scene import Place, Scene, Telemetry

Rows = NDArray[np.bool_]  # one for each place
_Values = NDArray[np.float32]

_BUSY: Final = 0.5  # utilisation
_LOADED: Final = 0.5  # of the most power that any GPU of the model takes: as trilens:gpu_profiling_stuck:bool
_RUNS: Final = 0.05
_LIVELY: Final = (Figure.SM, Figure.TENSOR, Figure.PCIE, Figure.NVLINK)  # never twice the same under load
_LATCHED_SHARE: Final = 12  # readings in one column of so many, at least: an exporter asked every minute


class _Span(NamedTuple):
    """How many readings within how many columns settle it, of those that report so often."""

    every_ms: float  # at most
    columns: int
    readings: int

    @property
    def cut(self) -> slice:
        return slice(-self.columns, None)


# Readings every 5 s, every 15 or 30 s as exporters come, and every minute.
_SLOW: Final = (_Span(40_000, 36, 5), _Span(np.inf, 72, 5))
_STUCK: Final = (_Span(12_000, 8, 6), *_SLOW)
_FROZEN: Final = (_Span(12_000, 24, 16), *_SLOW)


def profiling_stuck(telemetry: Telemetry, reporting: Reporting) -> Rows:
    """Counters at 0 while kernels run and the power is that of work."""
    figures = telemetry.figures
    runs, power = figures.get(Figure.UTILIZATION), figures.get(Figure.POWER)
    sm, tensor = figures.get(Figure.SM), figures.get(Figure.TENSOR)
    if runs is None or power is None or (sm is None and tensor is None):
        return np.zeros(len(telemetry.places), bool)

    def is_stuck(span: _Span) -> Rows:
        told = runs[:, span.cut]
        stuck = _said(told) >= span.readings
        stuck &= np.fmin.reduce(told, axis=1) >= _BUSY
        rows = np.flatnonzero(stuck)
        rows = rows[_counts_nothing(sm, tensor, rows, span)]
        stuck[:] = False
        if len(rows):
            least = np.fmin.reduce(power[rows][:, span.cut], axis=1)
            stuck[rows] = least >= _LOADED * _most_power(telemetry.places, power)[rows]
        return stuck

    return _by_pace(is_stuck, _STUCK, reporting)


def frozen(telemetry: Telemetry, reporting: Reporting) -> Rows:
    """Nothing moves by a bit on a GPU that runs."""
    figures = telemetry.figures
    power, runs = figures.get(Figure.POWER), figures.get(Figure.UTILIZATION)
    lively = [figures[figure] for figure in _LIVELY if figure in figures]
    if power is None or runs is None or not lively:
        return np.zeros(len(telemetry.places), bool)

    def is_frozen(span: _Span) -> Rows:
        told = power[:, span.cut]
        still: Rows = (np.fmin.reduce(told, axis=1) == np.fmax.reduce(told, axis=1)) & (
            _said(told) >= span.readings
        )
        rows = np.flatnonzero(still)  # few, or none: the rest is looked at for these alone
        rows = rows[np.fmin.reduce(runs[rows][:, span.cut], axis=1, initial=np.inf) > _RUNS]
        moves, shows = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        for values in lively:
            here = values[rows][:, span.cut]
            most = np.fmax.reduce(here, axis=1)
            moves |= np.fmin.reduce(here, axis=1) < most
            shows |= most > 0
        still[:] = False
        still[rows] = ~moves & shows
        return still

    return _by_pace(is_frozen, _FROZEN, reporting)


def blank(telemetry: Telemetry) -> Rows:
    """DCGM does not know what it knew before: what a GPU never had, it cannot lose."""
    found = np.zeros(len(telemetry.places), bool)
    for figure, unknown in telemetry.blanks.items():
        values = telemetry.figures.get(figure)
        if values is not None:
            rows = np.flatnonzero(unknown)
            found[rows] |= ~np.isnan(values[rows]).all(axis=1)
    return found


_GRAVE: Final = np.array(
    [code for code, xid in XIDS.items() if xid.asks in (Asks.GPU_RESET, Asks.NODE_OUT)], np.float32
)


def latched_xid(scene: Scene) -> Rows:
    """Held all the window long. Only codes for which somebody would be woken; those of programs abound."""
    values = scene.telemetry.figures.get(Figure.XID)
    if values is None:
        return np.zeros(len(scene.telemetry.places), bool)
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    held: Rows = (low == high) & (low > 0) & np.isin(low, _GRAVE)
    held &= _said(values) >= values.shape[1] // _LATCHED_SHARE
    told = {(event.uuid, event.code) for event in scene.events}
    for row in np.flatnonzero(held).tolist():
        if (scene.telemetry.places[row].uuid, int(low[row])) in told:
            held[row] = False
    return held


def _counts_nothing(
    sm: _Values | None, tensor: _Values | None, rows: NDArray[np.intp], span: _Span
) -> NDArray[np.bool_]:
    """Of these rows. Without SM activity, work that needs no tensor cores looks alike, unless some did."""
    nothing = np.ones(len(rows), bool)
    for values in (sm, tensor):
        if values is not None:
            here = values[rows][:, span.cut]
            nothing &= (_said(here) >= span.readings) & (np.fmax.reduce(here, axis=1) == 0)
    if sm is None and tensor is not None:
        nothing &= np.fmax.reduce(tensor[rows], axis=1) > 0
    return nothing


def _most_power(places: Sequence[Place], power: _Values) -> _Values:
    """That any GPU of the same model took in the window."""
    codes: dict[str, int] = {}
    of_row = np.array([codes.setdefault(place.model, len(codes)) for place in places], np.intp)
    most = np.zeros(len(codes), np.float32)
    np.maximum.at(most, of_row, np.nan_to_num(np.fmax.reduce(power, axis=1)))
    found: _Values = most[of_row]
    return found


def _said(values: _Values) -> NDArray[np.intp]:
    said: NDArray[np.intp] = (~np.isnan(values)).sum(axis=1)
    return said


def _by_pace(is_so: Callable[[_Span], Rows], spans: Sequence[_Span], reporting: Reporting) -> Rows:
    """Each row by the first span that is for those that report as often as it does."""
    found = np.zeros(len(reporting.every_ms), bool)
    left = reporting.readings > 1
    for span in spans:
        here = left & (reporting.every_ms <= span.every_ms)
        if here.any():
            found |= here & is_so(span)
            left &= ~here
    return found
