"""Figures by minute, of which some are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINUTE_MS: Final = 60_000
LASTS: Final = 5  # for so many minutes what was last said holds: an exporter misses a scrape or two


def as_last_said(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of minutes, NaN where nothing was said: there the last word holds, for as long as it does."""
    if not np.isnan(values).any():
        return values
    column = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, column), axis=1)
    held = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    return np.where((last >= 0) & (column - last <= LASTS), held, np.nan)


def added_up(each: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the first axis, as far as anything was said."""
    said = ~np.isnan(each)
    return np.where(said.any(axis=0), np.where(said, each, 0.0).sum(axis=0), np.nan)
