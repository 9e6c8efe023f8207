"""Bounds of histograms by their text: PromQL compares labels as text, never as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal


def at_most(limit: Decimal) -> str:
    """A pattern (RE2) that matches a bound, as exporters write it, that is no greater than this.

    Among cumulative buckets of such bounds, that with the most in it is the greatest bound.
    """
    whole, _, fraction = f"{limit.normalize():f}".partition(".")
    smaller = "|".join(_smaller(whole))
    alternatives = [
        r"[0-9.]+e-[0-9]+",  # 1e-05: what is so small is always less
        *([rf"(?:{smaller})(?:\.[0-9]+)?"] if smaller else []),
        rf"{whole}(?:\.(?:{'|'.join(_no_greater(fraction))}))?",
    ]
    return "|".join(alternatives)


def _smaller(whole: str) -> Iterator[str]:
    """Whole numbers below this one."""
    if len(whole) > 1:
        yield f"[0-9]{{1,{len(whole) - 1}}}"
    for i, digit in enumerate(whole):
        if digit != "0":
            yield f"{whole[:i]}{_below(digit)}{'[0-9]' * (len(whole) - i - 1)}"


def _no_greater(fraction: str) -> Iterator[str]:
    """Digits after the point."""
    for i, digit in enumerate(fraction):
        if digit != "0":
            yield f"{fraction[:i]}{_below(digit)}[0-9]*"
        if i:
            yield fraction[:i]
    yield f"{fraction}0*"


def _below(digit: str) -> str:
    return f"[0-{int(digit) - 1}]"
