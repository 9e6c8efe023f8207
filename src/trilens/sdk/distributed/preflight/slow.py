"""Which of many measurements are slow: against the median of their own kind, without a table of hardware.

Slow is what is both far below the median and outside the usual spread: a job whose links all differ a little
has no slow one.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

SLOW_SHARE: Final = 0.75  # of the median
_SPREAD: Final = 3 * 1.4826  # medians of deviations to three standard deviations
_LEAST_LINKS: Final = 3

Unit = TypeVar("Unit", int, str)


def slow_ones(speeds: Mapping[Unit, float]) -> dict[Unit, float]:
    """Each with its share of the median."""
    if len(speeds) < 2:
        return {}
    # Of two, one is the measure of the other: their median would hide half of the difference.
    usual = max(speeds.values()) if len(speeds) == 2 else median(speeds.values())
    spread = 0.0 if len(speeds) == 2 else median(abs(speed - usual) for speed in speeds.values())
    return {
        unit: speed / usual
        for unit, speed in speeds.items()
        if speed < SLOW_SHARE * usual and usual - speed > _SPREAD * spread
    }


def slow_ends(links: Mapping[tuple[Unit, Unit], float]) -> dict[Unit, float]:
    """Those whose best link is slow: then it is not the other end's fault. Of two ends nobody can tell."""
    best: dict[Unit, float] = {}
    for (a, b), speed in links.items():
        best[a] = max(speed, best.get(a, 0.0))
        best[b] = max(speed, best.get(b, 0.0))
    return slow_ones(best) if len(best) > 2 else {}


def slow_links(links: Mapping[tuple[Unit, Unit], float]) -> dict[tuple[Unit, Unit], float]:
    """Slow between two that are fast with others."""
    slow = slow_ends(links)
    sound = {ends: speed for ends, speed in links.items() if not slow.keys() & set(ends)}
    if len(sound) < _LEAST_LINKS:
        return {}
    usual = median(sound.values())
    spread = median(abs(speed - usual) for speed in sound.values())
    return {
        ends: speed / usual
        for ends, speed in sound.items()
        if speed < SLOW_SHARE * usual and usual - speed > _SPREAD * spread
    }
