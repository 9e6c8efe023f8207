"""How fast a run goes: the pace of its last steps, with all that lay between them, as validations,
checkpoints and waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.run_sums import StepTime

LOOKS_BACK: Final = 200  # steps


class Pace(NamedTuple):
    """Seconds a step; samples and tokens are one rank's."""

    step_s: float
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
    return Pace(
        spent_s / advanced,
        _rate([one.samples for one in steps[:-1]], spent_s),
        _rate([one.tokens for one in steps[:-1]], spent_s),
    )


def _rate(counts: Sequence[int | None], spent_s: float) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / spent_s if len(known) == len(counts) else None
