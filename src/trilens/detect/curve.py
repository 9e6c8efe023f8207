"""A curve of values, one a step, and how it leaves what is usual for it. NaN is a step that told none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RECENT: Final = 10  # values that are measured by those before: most spikes are over, or on their way back
BEFORE: Final = 200
FEWEST: Final = 20  # values before, to know what is usual: as many make a stretch
NOISES: Final = 8.0  # standard deviations of its own noise,
RISE: Final = 0.3  # and so much more than it was: 2.1 becomes 2.7
EXPLODES: Final = 20.0  # times the usual gradient norm
VANISHES: Final = 1e-3  # of the usual gradient norm
NOTHING: Final = 1e-7  # a gradient norm that moves no weight, whatever was usual
NOT_NUMBERS: Final = 3  # steps in a row: mixed precision skips one now and then
_COMES_BACK: Final = 0.9  # of what is above, from the older to the newer half: less is on its way back
_SIGMA: Final = 1.4826  # from the median distance to the standard deviation


class Band(NamedTuple):
    """What is usual, and above what it is not."""

    usual: float
    limit: float


class Departure(NamedTuple):
    at: int  # of the values: with which it began
    band: Band
    value: float  # the middle of what is now


def band_of(before: Floats) -> Band | None:
    """By the lowest stretch of these, so that what climbs slowly is measured by where it came from; the noise
    by how far neighbours are apart, so that what falls is not taken for noisy."""
    known = before[np.isfinite(before)]
    blocks = len(known) // FEWEST
    if not blocks:
        return None
    usual = float(np.median(known[-blocks * FEWEST :].reshape(blocks, FEWEST), axis=1).min())
    noise = _SIGMA * float(np.median(np.abs(np.diff(known)))) / np.sqrt(2)
    return Band(usual, usual + max(NOISES * noise, RISE * abs(usual)))


def rises(values: Floats, band: Band | None = None) -> Departure | None:
    """Whether the last values are all above the band, and not on their way back."""
    told = np.flatnonzero(~np.isnan(values))
    if len(told) < RECENT:
        return None
    recent = values[told[-RECENT:]]
    band = band or band_of(values[told[-RECENT - BEFORE : -RECENT]])
    if band is None or not (recent > band.limit).all():
        return None
    older, newer = np.median(recent[: RECENT // 2]), np.median(recent[RECENT // 2 :])
    if newer - band.usual < _COMES_BACK * (older - band.usual):
        return None
    return Departure(_began(values, told, values > band.limit), band, float(newer))


def explodes(norms: Floats) -> Departure | None:
    return _leaves(norms, lambda usual: norms > EXPLODES * usual, RECENT // 2)


def vanishes(norms: Floats) -> Departure | None:
    return _leaves(norms, lambda usual: norms < max(VANISHES * usual, NOTHING), RECENT)


def not_numbers(values: Floats) -> int | None:
    """With which its values ceased to be numbers, or to be told; None where the last ones are."""
    is_number = np.isfinite(values)
    numbers = np.flatnonzero(is_number)
    first = int(numbers[-1]) + 1 if len(numbers) else 0
    usual_gap = float(np.median(np.diff(numbers))) if len(numbers) > 1 else 1.0
    return first if len(values) - first >= max(NOT_NUMBERS, NOT_NUMBERS * usual_gap) else None


def is_back(values: Floats, band: Band) -> bool:
    """Whether the last values are usual again, half of the way at least."""
    recent = values[~np.isnan(values)][-RECENT // 2 :]
    return bool(len(recent)) and float(np.median(recent)) < (band.usual + band.limit) / 2


def _leaves(values: Floats, is_out: Callable[[float], NDArray[np.bool_]], needed: int) -> Departure | None:
    told = np.flatnonzero(~np.isnan(values))
    before = values[told[-RECENT - BEFORE : -needed]]
    band = band_of(before)
    if band is None or len(told) < needed:
        return None
    out = is_out(band.usual)
    if not out[told[-needed:]].all():
        return None
    return Departure(_began(values, told, out), band, float(np.median(values[told[-needed:]])))


def _began(values: Floats, told: NDArray[np.intp], is_out: NDArray[np.bool_]) -> int:
    inside = told[~is_out[told]]
    return int(told[np.searchsorted(told, inside[-1]) + 1]) if len(inside) else int(told[0])
