"""How fast a run goes now, against how fast it went before: its steps, their parts, and what is between."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import RankSteps

SLOWER: Final = 1.2  # times what a step took
_FEWEST: Final = 20  # steps, to say anything
_FIRST: Final = 3  # they prepare things
_PART: Final = 0.25  # of the steps: the fastest such stretch against the last
_PAUSE: Final = 3.0  # steps: a time between two that is longer is a pause
_LONGER: Final = 1.5  # times, for pauses that have grown
_MOST_RANKS: Final = 64  # whose steps are looked at


class Stretch(NamedTuple):
    """Medians of milliseconds of some steps; None where nobody told."""

    step: float
    data: float | None
    sync: float | None
    from_ms: int

    @property
    def own(self) -> float:
        """What it computes itself."""
        return self.step - (self.data or 0.0) - (self.sync or 0.0)


class Pace(NamedTuple):
    """Of one rank: its fastest stretch before, and its last."""

    rank: int
    before: Stretch
    now: Stretch
    pauses: float  # share of the time that goes by between steps, in the last half; 0 where that is as before
    pauses_before: float

    @property
    def ratio(self) -> float:
        return self.now.step / self.before.step if self.before.step > 0 else 1.0

    @property
    def whole_ratio(self) -> float:
        """With the time between steps."""
        share = (1 - self.pauses_before) / (1 - self.pauses) if self.pauses < 1 else 1.0
        return self.ratio * share


def paces(case: Case) -> list[Pace]:
    """Of the ranks that told enough steps, the middle one first."""
    found = [pace for steps in case.file.steps[:_MOST_RANKS] if (pace := _pace(steps)) is not None]
    found.sort(key=lambda one: one.whole_ratio)
    if not found:
        return []
    middle = found.pop(len(found) // 2)
    return [middle, *found]


def _pace(steps: RankSteps) -> Pace | None:
    count = len(steps.ms)
    if count - _FIRST < _FEWEST:
        return None
    width = max(5, int(_PART * (count - _FIRST)))
    places = [range(first, first + width) for first in range(_FIRST, count - width + 1, width)]
    *earlier, _ = places
    last = range(count - width, count)
    if not earlier:
        return None
    earlier = [one for one in earlier if one.stop <= last.start] or earlier[:1]
    fastest = min(earlier, key=lambda one: median(steps.ms[at] for at in one))
    pauses_before, pauses = _pause_shares(steps)
    return Pace(steps.rank, _stretch(steps, fastest), _stretch(steps, last), pauses, pauses_before)


def _stretch(steps: RankSteps, places: range) -> Stretch:
    return Stretch(
        median(steps.ms[at] for at in places),
        _median(steps.data_ms, places),
        _median(steps.sync_ms, places),
        int(steps.end_ms[places.start] - steps.ms[places.start]),
    )


def _median(values: Sequence[float | None], places: range) -> float | None:
    told = [value for at in places if (value := values[at]) is not None]
    return median(told) if 2 * len(told) >= len(places) else None


class _Pauses(NamedTuple):
    share: float  # of the time
    mean: float  # milliseconds


def _pause_shares(steps: RankSteps) -> tuple[float, float]:
    """Of the first half and the last, where both have pauses and those of the last are clearly longer: one
    checkpoint that happens to be in the last steps is none that has become slow."""
    count = len(steps.ms)
    middle = (count + _FIRST) // 2
    before, now = _pauses(steps, range(_FIRST, middle)), _pauses(steps, range(middle, count))
    if before is None or now is None or now.mean < _LONGER * before.mean:
        return 0.0, 0.0
    return before.share, now.share


def _pauses(steps: RankSteps, places: range) -> _Pauses | None:
    """Long gaps between a step's end and the next one's begin."""
    whole = steps.end_ms[places[-1]] - (steps.end_ms[places.start] - steps.ms[places.start])
    gaps = [
        gap
        for at in places[1:]
        if (gap := steps.end_ms[at] - steps.ms[at] - steps.end_ms[at - 1]) > _PAUSE * steps.ms[at]
    ]
    return _Pauses(sum(gaps) / whole, sum(gaps) / len(gaps)) if gaps and whole > 0 else None
