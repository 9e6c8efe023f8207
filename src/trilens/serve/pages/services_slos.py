"""How the objectives of a service stand, from what the rules of its SLO file have recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.alert.slo.burning import FAST, SLOW, possible
from trilens.serve.pages.services_answers import BurnAnswer, SloAnswer
from trilens.settings.duration import duration_ms, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.alert.slo.burning import Pace
    from trilens.alert.slo.file import Objective

BAD: Final = "trilens:slo_bad:ratio"
LEFT: Final = "trilens:slo_budget_left:ratio"
HOUR: Final = "1h"
_GRAVITY: Final = ("down", "fast", "spent", "slow", "unmeasured", "ok")


def slo_answer(
    objective: Objective, model: str | None, bad: Mapping[str, float], left: float | None
) -> SloAnswer:
    """`bad` is the bad share by window."""
    budget = float(objective.budget)
    window = format_duration(objective.window)
    burn = [BurnAnswer(name, bad[name] / budget) for name in sorted(bad, key=duration_ms)]
    rates = {one.window: one.rate for one in burn}
    return SloAnswer(
        objective.name,
        objective.description,
        objective.indicator,
        objective.threshold.total_seconds() if objective.threshold is not None else None,
        1 - budget,
        window,
        model,
        _state(objective, rates, left),
        1 - bad[window] if window in bad else None,
        left,
        rates.get(HOUR),
        [one for one in burn if one.window != window],
    )


def worst(states: Sequence[str]) -> str:
    return next((state for state in _GRAVITY if state in states), "")


def _state(objective: Objective, rates: Mapping[str, float], left: float | None) -> str:
    if not rates and left is None:
        return "unmeasured"
    if _burns(objective, FAST, rates):
        return "fast"
    if left is not None and left <= 0:
        return "spent"
    return "slow" if _burns(objective, SLOW, rates) else "ok"


def _burns(objective: Objective, paces: Sequence[Pace], rates: Mapping[str, float]) -> bool:
    """As the alerts have it: over the long window, and still over the short one."""
    return any(
        all(
            rates.get(format_duration(window), 0.0) > pace.factor(objective.window)
            for window in (pace.long, pace.short)
        )
        for pace in possible(paces, objective)
    )
