"""What runs were worth: how far a metric came, what that cost, and what was spent after it had stopped.

Of a value that was logged at every step, each hundredth of the run counts with its median: one lucky batch
is no best value.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.run import RunId, ValidationRecord
    from trilens.model.run_curve import Curve

LEAST_GAIN: Final = 0.01  # a new best counts when it beats the last one that did by more than this share
_LEAST_AFTER: Final = 3  # so many values without one, and
_LEAST_SHARE: Final = 0.1  # so much of the run's time, are more than a pause
_STRETCHES: Final = 100
_MORE_IS_BETTER: Final = re.compile(
    r"(^|[^a-z])(acc|accuracy|f1|auc|auroc|bleu|rouge|reward|return|score|map|recall|precision|iou|dice|psnr"
    r"|ssim|r2|win|win_?rate|success|top_?\d|pass)([^a-z]|$)",
    re.IGNORECASE,
)


class Point(NamedTuple):
    t_ms: int
    step: int
    value: float


class Course(NamedTuple):
    """A metric of a run over time, finite values only. `of` is "validation" or "step"."""

    metric: str
    of: str
    maximize: bool
    points: tuple[Point, ...]

    @property
    def final(self) -> Point | None:
        return self.points[-1] if self.points else None

    @property
    def best(self) -> Point | None:
        """The first of equally good ones."""
        if not self.points:
            return None
        return (max if self.maximize else min)(self.points, key=lambda one: one.value)

    @property
    def improvement_percent(self) -> float | None:
        """From the first value to the best, in percent of the first; None with fewer than two."""
        best = self.best
        if best is None or len(self.points) < 2 or not self.points[0].value:
            return None
        first = self.points[0].value
        return abs(best.value - first) / abs(first) * 100


class Stopped(NamedTuple):
    """The last value that was better than the last such one by more than `least_gain` of it; `values` came
    after."""

    at: Point
    values: int
    least_gain: float


def wants_more(metric: str) -> bool:
    """By its name: accuracy and the like; all others are better when they are less."""
    return _MORE_IS_BETTER.search(metric) is not None


def default_metric(validated: Iterable[str], stepped: Iterable[str]) -> str | None:
    """A loss of the validations, else any of theirs, else a loss of the steps."""
    of_validations, of_steps = sorted(set(validated)), sorted(set(stepped))
    losses = [name for name in of_validations if name.endswith("loss")]
    if "loss" in of_validations:
        return "loss"
    if losses or of_validations:
        return [*losses, *of_validations][0]
    if "loss" in of_steps:
        return "loss"
    return next((name for name in of_steps if name.endswith("loss")), None)


def validated_course(
    metric: str, validations: Sequence[ValidationRecord], *, maximize: bool | None = None
) -> Course:
    """Of the lowest rank that told it: validations of all ranks are of the same model."""
    told = [one for one in validations if metric in one.values]
    rank = min((one.rank for one in told), default=0)
    points = [
        Point(one.t_ms, one.step, one.values[metric])
        for one in sorted(told, key=lambda one: (one.t_ms, one.step))
        if one.rank == rank and math.isfinite(one.values[metric])
    ]
    return Course(metric, "validation", wants_more(metric) if maximize is None else maximize, tuple(points))


def stepped_course(metric: str, curve: Curve, *, maximize: bool | None = None) -> Course:
    order = np.argsort(curve.t_us, kind="stable")
    order = order[np.isfinite(curve.mean[order])]
    points = []
    for stretch in np.array_split(order, min(_STRETCHES, max(1, len(order)))):
        if len(stretch):
            last = stretch[-1]
            value = float(np.median(curve.mean[stretch]))
            points.append(Point(int(curve.t_us[last]) // 1000, int(curve.step[last]), value))
    return Course(metric, "step", wants_more(metric) if maximize is None else maximize, tuple(points))


def stopped_improving(course: Course, ended_ms: int, *, least_gain: float | None = None) -> Stopped | None:
    """None while it still does, or when too little came after to tell."""
    least_gain = LEAST_GAIN if least_gain is None else least_gain
    if not course.points:
        return None
    counted, at = course.points[0], 0
    for place, point in enumerate(course.points):
        gain = point.value - counted.value if course.maximize else counted.value - point.value
        if gain > least_gain * abs(counted.value):
            counted, at = point, place
    after = len(course.points) - 1 - at
    lasted_ms = ended_ms - course.points[0].t_ms
    if after < _LEAST_AFTER or ended_ms - counted.t_ms < _LEAST_SHARE * lasted_ms:
        return None
    return Stopped(counted, after, least_gain)


def pareto_front(runs: Mapping[RunId, tuple[int, float]], *, maximize: bool) -> set[RunId]:
    """Of (cost, metric): those for which no other run is as good in both, and better in one."""
    front: set[RunId] = set()
    best: float | None = None
    sign = -1.0 if maximize else 1.0
    ordered = sorted(runs.items(), key=lambda one: (one[1][0], sign * one[1][1]))
    cheapest_equal: tuple[int, float] | None = None
    for run, (cost, value) in ordered:
        if best is None or sign * value < best:
            best, cheapest_equal = sign * value, (cost, value)
            front.add(run)
        elif (cost, value) == cheapest_equal:
            front.add(run)  # the very same in both
    return front
