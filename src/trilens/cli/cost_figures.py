"""Money, GPU time, shares and moments of cost in the words that its tables share."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from trilens.ledger.answers.money_text import money

UNKNOWN: Final = "-"
HOUR_MS: Final = 3_600_000
_OF_TIME: Final = ("hour", "day")


def key_text(dimension: str, key: Any, *, none: str = "(none)") -> str:
    if key is None:
        return none
    if dimension in _OF_TIME:
        moment = datetime.fromtimestamp(key / 1000, UTC)
        return moment.strftime("%Y-%m-%d" if dimension == "day" else "%Y-%m-%dT%H:%MZ")
    if isinstance(key, dict):
        parts = (key["cluster"], key["namespace"], key["kind"], key["name"])
        return "/".join(part for part in parts if part)
    return str(key)


def amount_text(amount: str | None, currency: str | None, *, brief: bool = False) -> str:
    return money(Decimal(amount), currency, brief=brief) if amount is not None and currency else UNKNOWN


def is_before_whole(answer: dict[str, Any]) -> bool:
    """All of the period before is booked: what it cost can be divided by."""
    before = answer["hours_before"]
    return before is not None and before["booked"] == before["asked"]


def change_text(now: Decimal | None, before: Decimal | None, currency: str | None, *, is_whole: bool) -> str:
    """The difference, and how much that is of what it was, where all of that is booked."""
    if not currency or now is None:
        return UNKNOWN
    if before is None:
        return "new"
    moved = now - before
    sign = "+" if moved > 0 else ""
    if not before or not is_whole:
        return f"{sign}{money(moved, currency)}"
    return f"{sign}{money(moved, currency)} ({sign}{100 * moved / before:.0f} %)"


def hours_text(gpu_ms: int) -> str:
    hours = gpu_ms / HOUR_MS
    if hours >= 1 or not gpu_ms:
        return f"{hours:,.1f}"
    return f"{hours:.2f}" if hours >= 0.005 else "<0.01"


def share_text(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.1 or not share else f"{100 * share:.1f} %"


def goodput_text(spent: dict[str, Any]) -> str:
    told = "" if spent["told"] == 1 else f" of the {share_text(spent['told'])} that some signal told of"
    return f"goodput {share_text(spent['goodput'])}{told}"


def moment_text(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def span_text(answer: dict[str, Any]) -> str:
    return f"from {moment_text(answer['from_ms'])} to {moment_text(answer['to_ms'])} UTC"


def nothing_booked(answer: dict[str, Any]) -> str:
    return f"nothing{' of that' if answer['hours']['booked'] else ''} is booked for these hours"


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
