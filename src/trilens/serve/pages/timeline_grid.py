"""The one grid of time that a workload's charts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trilens.model.errors import RequestError

if TYPE_CHECKING:
    from trilens.serve.params import Params

Floats: TypeAlias = NDArray[np.float64]

MOST_POINTS: Final = 600
_USUAL_POINTS: Final = 300
_DAY_MS: Final = 86_400_000
_LONGEST_MS: Final = 400 * _DAY_MS
# Widths that people read, so that who looks a moment later has the same grid.
_WIDTHS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


@dataclass(frozen=True, slots=True)
class Grid:
    """So many slots, each `width_ms` long: slot i is what happened from `start_ms + i * width_ms` on."""

    start_ms: int
    width_ms: int
    slots: int

    @classmethod
    def over(cls, from_ms: int, to_ms: int, points: int) -> Grid:
        """At most so many slots, in whole widths since 1970."""
        for width_s in (*_WIDTHS_S, *range(86_400, _LONGEST_MS // 1000 + 1, 86_400)):
            width_ms = width_s * 1000
            start_ms = from_ms // width_ms * width_ms
            slots = max(1, -(-(to_ms - start_ms) // width_ms))
            if slots <= points:
                return cls(start_ms, width_ms, slots)
        raise RequestError('invalid parameter "points": too few for so long a time')

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.width_ms * self.slots

    @property
    def width_s(self) -> float:
        return self.width_ms / 1000

    @property
    def edges_ms(self) -> NDArray[np.int64]:
        """One more than there are slots."""
        return self.start_ms + self.width_ms * np.arange(self.slots + 1, dtype=np.int64)

    def slot_of(self, t_ms: int) -> int:
        return (t_ms - self.start_ms) // self.width_ms

    def empty(self) -> Floats:
        return np.full(self.slots, np.nan)


def asked_span(params: Params, now_ms: int, lasts_ms: int) -> tuple[int, int]:
    """Of time that has come: a grid of the future would be empty, and never end."""
    from_ms, to_ms = params.span_ms(now_ms, lasts_ms)
    if to_ms - from_ms > _LONGEST_MS:
        raise RequestError('invalid parameter "from": more than 400 days', hint="ask for a shorter time")
    to_ms = min(to_ms, now_ms)
    return min(from_ms, to_ms), to_ms


def asked_grid(params: Params, now_ms: int, lasts_ms: int) -> Grid:
    points = params.count("points") or _USUAL_POINTS
    if not 10 <= points <= MOST_POINTS:
        raise RequestError(f'invalid parameter "points": from 10 to {MOST_POINTS}')
    return Grid.over(*asked_span(params, now_ms, lasts_ms), points)


def told(values: Floats, digits: int = 6) -> list[float | None]:
    """Null where it is not known. So many significant digits: more cannot be drawn, and double the answer."""
    known = np.isfinite(values)
    scale = np.ones(len(values))
    nonzero = known & (values != 0)
    scale[nonzero] = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(values[nonzero]))))
    with np.errstate(invalid="ignore"):
        rounded = np.rint(values * scale) / scale
    return [one if is_known else None for one, is_known in zip(rounded.tolist(), known.tolist(), strict=True)]
