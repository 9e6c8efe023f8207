"""Figures as short as a cell has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.cli.times import show_length
from trilens.ledger.answers.money_text import money

if TYPE_CHECKING:
    from decimal import Decimal

UNKNOWN: Final = "-"
_SHORTENED: Final = 100_000


def money_cell(amount: Decimal | None, currency: str | None) -> str:
    """Whole thousands of what is a hundred thousand or more."""
    if amount is None or currency is None:
        return UNKNOWN
    if amount < _SHORTENED:
        return money(amount, currency, brief=True)
    return f"{money(amount / 1000, currency, brief=True)}k"


def share_cell(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.0f}%"


def length_cell(seconds: float | None) -> str:
    """Seconds count where there are no minutes."""
    if seconds is None:
        return UNKNOWN
    return show_length(seconds if seconds < 60 else seconds - seconds % 60)


def brief_cell(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.3g}s" if seconds >= 1 else f"{1000 * seconds:.3g}ms"


def number_cell(number: float | None, unit: str = "") -> str:
    return UNKNOWN if number is None else f"{number:.0f}{unit}"


def plain(text: str) -> str:
    """Names come from programs: none of them steers the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
