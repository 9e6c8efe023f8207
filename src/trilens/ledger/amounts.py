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

import numpy as np

from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

_MAIN: Final = "gpu"
_WIDE: Final = 1 << 62  # what a signed number of 64 bits surely holds


def divided(total: int, weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """`total` in the proportion of `weights`, none of which is negative; without any weight nothing is given.

    Computed in 64 bits where nothing in it can be larger: total × running = (whole + rest / sum) × running,
    so that only `rest` is multiplied, which is smaller than the sum of the weights.
    """
    if not len(weights):
        return np.zeros(0, np.int64)
    whole_sum = sum(weights.tolist())
    if not whole_sum:
        return np.zeros(len(weights), np.int64)
    whole, rest = divmod(total, whole_sum)
    if abs(total) >= _WIDE or whole_sum >= _WIDE or rest * whole_sum >= _WIDE:
        return np.array(parts_of(total, weights.tolist()), np.int64)
    running: NDArray[np.int64] = np.cumsum(weights, dtype=np.int64)
    ends: NDArray[np.int64] = whole * running + (rest * running) // whole_sum
    ends[1:] -= ends[:-1].copy()
    return ends


def parts_of(total: int, weights: Sequence[int]) -> list[int]:
    """The same for a few numbers of any size."""
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
    exact = [Fraction(per_hour[name]) for name in names]
    scale = lcm(*(one.denominator for one in exact))
    return dict(zip(names, parts_of(quanta, [int(one * scale) for one in exact]), strict=True))
