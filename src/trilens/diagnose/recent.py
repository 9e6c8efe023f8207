"""What a series says lately, against what it said before: the last quarter of the time of the case."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case_file import CaseSeries

_LATE: Final = 0.25
_FEWEST: Final = 3  # values, to say what was before


def late(series: CaseSeries) -> Sequence[float]:
    return series.values[-max(1, int(_LATE * len(series.values))) :]


def earlier(series: CaseSeries) -> Sequence[float]:
    return series.values[: -len(late(series))]


def now(series: CaseSeries) -> float:
    """The middle of its last values; it must have some."""
    return median(late(series))


def before(series: CaseSeries) -> float | None:
    told = earlier(series)
    return median(told) if len(told) >= _FEWEST else None
