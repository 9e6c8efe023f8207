"""Whole numbers divided so that no quantum and no millisecond is lost, and none is made.

The rule of the running sum: each gets what the total comes to up to its end, rounded down, less what it comes
to up to its beginning. The parts add up to the total whatever the weights are.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import TYPE_CHECKING, Final

from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

_MAIN: Final = "gpu"


def parts_of(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in the proportion of `weights`, none of which is negative; without any weight nothing is given.
    Numbers may be of any size."""
    if len(weights) == 1:
        return [total] if weights[0] else [0]
    whole_sum = sum(weights)
    if not whole_sum:
        return [0] * len(weights)
    ends = [total * running // whole_sum for running in accumulate(weights)]
    return [end - before for end, before in zip(ends, (0, *ends), strict=False)]


@lru_cache(maxsize=1024)  # nodes of one kind cost the same
def price_of(per_hour: Decimal, ms: int, count: Fraction = Fraction(1)) -> int:
    """In quanta, exact however large it is; half a quantum goes to the even one."""
    return round(Fraction(per_hour) * count * ms * QUANTA_PER_UNIT / HOUR_MS)


def components_of(quanta: int, per_hour: Mapping[str, Decimal]) -> dict[str, int]:
    """What each component is of a bill: they add up to it. One of a whole node counts as its GPUs'."""
    if not any(per_hour.values()):
        return {_MAIN: quanta}
    names = sorted(per_hour)
    weights = _whole(tuple(per_hour[name] for name in names))
    return dict(zip(names, parts_of(quanta, weights), strict=True))


@lru_cache(maxsize=1024)
def _whole(amounts: tuple[Decimal, ...]) -> list[int]:
    """Whole numbers in the same proportion."""
    exact = [Fraction(amount) for amount in amounts]
    scale = lcm(*(one.denominator for one in exact))
    return [int(one * scale) for one in exact]
