"""A cause of money spent on nothing as one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trilens.ledger.answers.money_text import money
from trilens.model.ledger import HOUR_MS, Bucket, as_amount

if TYPE_CHECKING:
    from trilens.ledger.answers.cause_texts import Cause
    from trilens.model.ledger_sums import Episode, Window

_DAY_MS: Final = 24 * HOUR_MS


def cause_sentence(cause: Cause, window: Window) -> str:
    """Who, what, since when, how many GPUs for how long, and what that cost. Moments are of UTC."""
    one = cause.episode
    said = cause.text
    if cause.times > 1:
        said += f", {cause.times:,} times"
    if one.since_ms is not None and one.bucket is not Bucket.RECOMPUTE:  # lost work does not go on
        said += f" since {moment(one.since_ms, window)}"
    gpus = "1 GPU" if one.gpus == 1 else f"{one.gpus:,} GPUs"
    if one.bucket is Bucket.UNALLOCATED:  # how many, changes all the time
        lasted = f"{gpus} on average, {one.gpu_ms / HOUR_MS:,.1f} GPU-hours"
    else:
        lasted = f"{gpus}, {_length(one.gpu_ms / max(one.gpus, 1) / HOUR_MS)}"
    return ", ".join([f"{_whose(one)}: {said}", lasted, _amount(one)])


def moment(t_ms: int, window: Window) -> str:
    """The day too, unless it can only be one."""
    at = datetime.fromtimestamp(t_ms / 1000, UTC)
    is_plain = window.to_ms - window.from_ms <= _DAY_MS and t_ms >= window.from_ms
    return at.strftime("%H:%M" if is_plain else "%Y-%m-%d %H:%M")


def _whose(one: Episode) -> str:
    if one.workload is None:
        return f"fleet ({one.cluster})" if one.cluster else "fleet"
    team = f" (team {one.team})" if one.team else ""
    return f"{one.workload.name}{team}"


def _length(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 0.95 else f"{max(1, round(hours * 60))} min"


def _amount(one: Episode) -> str:
    priced = money(as_amount(one.quanta), one.currency, brief=True) if one.currency else None
    if one.unpriced_ms:
        without = f"{one.unpriced_ms / HOUR_MS:,.1f} GPU-hours without a price"
        return f"{priced} and {without}" if priced else without
    return priced or "without a price"
