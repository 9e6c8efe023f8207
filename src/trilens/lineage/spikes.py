"""Steps at which a value jumped up or was not finite.

A point is a spike where it lies above the median of the points before it in its attempt by more than
`THRESHOLD` spreads. The spread is the median distance from that median, scaled to the deviation of a normal
distribution, and at least a hundredth of the median: a flat curve must not make every ripple a spike. Medians
are not moved by the spikes themselves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from trilens.model.run_curve import Curve, Floats
    from trilens.model.run_sums import CurvePoint

TRAILING: Final = 64  # points that a point is compared with
FEWEST: Final = 8  # with fewer, nothing can be said
THRESHOLD: Final = 6.0
_NORMAL: Final = 1.4826  # the median distance of a normal distribution times this is its deviation
_FLAT: Final = 0.01
_TINY: Final = float(np.finfo(np.float64).tiny)
_AT_ONCE: Final = 4_096  # windows that fit a processor's cache
_APART: Final = 3  # spikes with fewer points between them are one


class Spike(NamedTuple):
    """`step` is where it began, `peak` its worst point; `median` and `spreads` are None where it is one for
    not being finite."""

    attempt: int
    step: int
    last_step: int
    peak: CurvePoint
    median: float | None
    spreads: float | None  # by how many of them the peak lies above the median

    @property
    def is_finite(self) -> bool:
        return self.spreads is not None


class _Outlier(NamedTuple):
    at: int  # its place in the attempt
    median: float | None
    spreads: float | None


def spikes(curve: Curve) -> list[Spike]:
    """By attempt and step."""
    found: list[Spike] = []
    for attempt in np.unique(curve.attempt).tolist():
        places = np.flatnonzero(curve.attempt == attempt)
        group: list[_Outlier] = []
        for one in _outliers(curve.worst[places]):
            if group and one.at - group[-1].at > _APART:
                found.append(_spike(curve, places, group))
                group = []
            group.append(one)
        if group:
            found.append(_spike(curve, places, group))
    return found


def _outliers(values: Floats) -> list[_Outlier]:
    is_finite = np.isfinite(values)
    finite = np.flatnonzero(is_finite)
    found = [_Outlier(int(finite[i]), median, spreads) for i, median, spreads in _jumps(values[finite])]
    found += [_Outlier(at, None, None) for at in np.flatnonzero(~is_finite).tolist()]
    return sorted(found, key=lambda one: one.at)


def _jumps(values: Floats) -> Iterable[tuple[int, float, float]]:
    """Places, the medians before them, and by how many spreads they lie above."""
    for i in range(FEWEST, min(TRAILING, len(values))):
        yield from _above(i, values[i : i + 1], values[None, :i])
    if len(values) > TRAILING:
        before = np.lib.stride_tricks.sliding_window_view(values, TRAILING)[:-1]
        for first in range(0, len(before), _AT_ONCE):
            windows = before[first : first + _AT_ONCE]
            at = first + TRAILING
            yield from _above(at, values[at : at + len(windows)], windows)


def _above(at: int, values: Floats, before: Floats) -> Iterable[tuple[int, float, float]]:
    medians = _medians(before)
    distances = _medians(np.abs(before - medians[:, None]))
    spreads = (values - medians) / np.maximum(_NORMAL * distances, np.maximum(_FLAT * abs(medians), _TINY))
    for i in np.flatnonzero(spreads > THRESHOLD).tolist():
        yield at + i, float(medians[i]), float(spreads[i])


def _medians(rows: Floats) -> Floats:
    """Of each row. numpy sorts with vector instructions: nine times as fast as its own median."""
    middle = rows.shape[1] // 2
    ordered = np.sort(rows, axis=1)
    even: Floats = (ordered[:, middle - 1] + ordered[:, middle]) / 2
    return ordered[:, middle] if rows.shape[1] % 2 else even


def _spike(curve: Curve, places: npt.NDArray[np.intp], group: Sequence[_Outlier]) -> Spike:
    peak = max(group, key=lambda one: math.inf if one.spreads is None else one.spreads)
    first, last, worst = (curve.point(int(places[one.at])) for one in (group[0], group[-1], peak))
    return Spike(first.attempt, first.step, last.step, worst, peak.median, peak.spreads)
