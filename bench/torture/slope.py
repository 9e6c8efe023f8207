"""Whether memory grows: a line through what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST: Final = 5  # points
_FLAT_SHARE: Final = 0.02  # of what there is: pages that come and go are no growth


class Slope(NamedTuple):
    """Over `seconds`, from `first_mb` to `last_mb` along the line."""

    seconds: float
    first_mb: float
    last_mb: float

    @property
    def mb_an_hour(self) -> float:
        return (self.last_mb - self.first_mb) / self.seconds * 3_600

    @property
    def is_flat(self) -> bool:
        return self.last_mb - self.first_mb <= _FLAT_SHARE * self.first_mb

    def __str__(self) -> str:
        return (
            f"{self.last_mb - self.first_mb:+.1f} MB of {self.first_mb:,.0f} in {self.seconds:,.0f} s "
            f"({self.mb_an_hour:+,.0f} MB/h)"
        )


def slope_of(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Least squares over (seconds, MB); None of too few points."""
    if len(points) < _LEAST:
        return None
    t_s, mb = np.array(points).T
    rise, at_zero = np.polyfit(t_s, mb, 1)
    return Slope(float(t_s[-1] - t_s[0]), float(at_zero + rise * t_s[0]), float(at_zero + rise * t_s[-1]))
