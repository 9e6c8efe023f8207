"""How fast a run goes, and when it will be done if it goes on so.

The pace is that of its last steps, with all that lay between them: validations, checkpoints, waiting. How
sure that is comes from the pace of ten groups of these steps, one after the other, so that steps that are
slow together do not count as many.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.run_sums import StepTime

LOOKS_BACK: Final = 200  # steps
_GROUPS: Final = 10
_ERRORS: Final = 2.26  # so many standard errors of ten means hold 95 in 100


class Pace(NamedTuple):
    """Seconds a step; low and high are None with too few steps to tell. Samples and tokens are one rank's."""

    step_s: float
    low_s: float | None
    high_s: float | None
    samples_per_second: float | None
    tokens_per_second: float | None


def pace(steps: Sequence[StepTime]) -> Pace | None:
    """Of one life of a rank, in order; None where there are too few."""
    if len(steps) < 2:
        return None
    # From start to start: the pause after the last step is not over, so its own length is left out.
    spent_s = (steps[-1].start_us - steps[0].start_us) / 1e6
    advanced = steps[-1].step - steps[0].step
    if spent_s <= 0 or advanced <= 0:
        return None
    step_s = spent_s / advanced
    low_s, high_s = _bounds(steps, step_s)
    return Pace(
        step_s,
        low_s,
        high_s,
        _rate([one.samples for one in steps[:-1]], spent_s),
        _rate([one.tokens for one in steps[:-1]], spent_s),
    )


def _bounds(steps: Sequence[StepTime], step_s: float) -> tuple[float | None, float | None]:
    size = (len(steps) - 1) // _GROUPS
    if size < 2:
        return None, None
    newest = steps[len(steps) - 1 - size * _GROUPS :]
    means = []
    for at in range(0, size * _GROUPS, size):
        first, last = newest[at], newest[at + size]
        means.append((last.start_us - first.start_us) / 1e6 / max(1, last.step - first.step))
    error = _ERRORS * statistics.stdev(means) / math.sqrt(_GROUPS)
    return max(0.0, step_s - error), step_s + error


def _rate(counts: Sequence[int | None], spent_s: float) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / spent_s if len(known) == len(counts) else None
