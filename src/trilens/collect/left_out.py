"""Why the store left samples of a request out, in words for its sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.model.series import AppendOutcome


def left_out(outcome: AppendOutcome) -> list[str]:
    reasons = []
    if outcome.out_of_order:
        reasons.append(f"{outcome.out_of_order} samples out of order")
    if outcome.duplicate:
        reasons.append(f"{outcome.duplicate} samples with another value for a time that is taken")
    if outcome.too_old:
        reasons.append(
            f"{outcome.too_old} samples too old: more than an hour behind the newest sample of all "
            "(storage.out_of_order_time_window takes them, or trilens backfill)"
        )
    if outcome.too_far_ahead:
        reasons.append(f"{outcome.too_far_ahead} samples more than 10 minutes in the future")
    return reasons
