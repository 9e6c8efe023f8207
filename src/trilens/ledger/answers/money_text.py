"""Money as people read it."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

_SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "INR": "₹"}  # no other currency is meant by these here
_WHOLE: Final = frozenset({"JPY", "KRW", "VND", "CLP"})  # have no smaller unit
_CENT: Final = Decimal("0.01")


def money(amount: Decimal, currency: str, *, brief: bool = False) -> str:
    """`$1,638.40`, `CHF 12.00`; `brief` leaves out the cents of what is a hundred or more."""
    whole = currency in _WHOLE or (brief and abs(amount) >= 100)
    step = Decimal(1) if whole else _CENT
    rounded = amount.quantize(step, ROUND_HALF_EVEN)
    if amount and not rounded:
        return (
            f"<{_with_currency('', step, currency)}"
            if amount > 0
            else f">-{_with_currency('', step, currency)}"
        )
    return _with_currency("-" if rounded < 0 else "", abs(rounded), currency)


def unit_price(amount: Decimal, currency: str) -> str:
    """Of one step or one token: three digits that say something, however small it is."""
    if abs(amount) >= 1 or not amount:
        return money(amount, currency)
    digits = amount.quantize(Decimal(1).scaleb(amount.adjusted() - 2))
    return _with_currency("-" if amount < 0 else "", abs(digits), currency)


def _with_currency(sign: str, amount: Decimal, currency: str) -> str:
    symbol = _SYMBOLS.get(currency)
    return f"{sign}{symbol}{amount:,f}" if symbol else f"{currency} {sign}{amount:,f}"
