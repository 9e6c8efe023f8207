"""How much slower one is than it was, measured by what its peers do at the same time.

A worker is compared with itself, so a stable spread says nothing; and with its peers, so what comes over all
of them says nothing either. What counts is the median of a window of steps: a few slow ones are no straggler.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WINDOW: Final = 10  # steps: its median stands when four of them are slow for another reason
STRIDE: Final = 5  # a new window each
IN_A_ROW: Final = 2  # windows, to be sure
OVER_AFTER: Final = 4  # windows as before: one that comes and goes is one straggler, and not many
LEAST: Final = 0.10  # ten workers of a production job wander by 5 % over windows of ten steps
WOBBLES: Final = 5.0  # how far outside of what a worker usually wanders: about four standard deviations
_ENDS_AT: Final = 0.5  # of what it takes to be found


def reference(ratios: Floats, group: NDArray[np.intp], groups: int) -> Floats:
    """Of each group the median of those known, the lower one of two: with up to half of them slow it is that
    of the others. NaN for a group in which nothing is known."""
    order = np.lexsort((ratios, group))
    known = ~np.isnan(ratios)
    counts = np.bincount(group[known], minlength=groups)
    first = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))[:-1]])
    at = first + np.maximum((counts - 1) // 2, 0)
    found = np.full(groups, np.nan)
    has = counts > 0
    found[has] = ratios[order][at[has]]
    return found


def limit(wobble: Floats) -> Floats:
    """How much slower is slower, for one that usually wanders so much."""
    least: Floats = np.maximum(LEAST, WOBBLES * wobble)
    return least


def is_over(excess: Floats, wobble: Floats) -> NDArray[np.bool_]:
    """Whether one that was slow no longer is."""
    over: NDArray[np.bool_] = excess < _ENDS_AT * limit(wobble)
    return over


def since(ratios: Floats, excess: float) -> int:
    """From which on it is slow until the end, by so much: where the sum above half of it is highest."""
    above = np.cumsum((np.nan_to_num(ratios, nan=1.0) - 1 - excess / 2)[::-1])
    return len(ratios) - 1 - int(above.argmax())


def span(ratios: Floats, excess: float) -> tuple[int, int]:
    """The first and the last of the stretch in which it is slow."""
    above = np.concatenate([[0.0], np.cumsum(np.nan_to_num(ratios, nan=1.0) - 1 - excess / 2)])
    lowest = np.minimum.accumulate(above)
    last = int((above - lowest)[1:].argmax())
    first = int(above[: last + 1].argmin())
    return first, last
