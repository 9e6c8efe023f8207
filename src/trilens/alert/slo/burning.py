"""How fast an error budget may burn: windows and factors of Google's SRE workbook (chapter 5, "multiwindow,
multi-burn-rate alerts"), which are made for 30 days."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.slo.file import Objective


class Pace(NamedTuple):
    """Too fast where both windows say so: the long one that it matters, the short one that it goes on."""

    share: Decimal  # of the budget that is gone within the long window
    long: timedelta
    short: timedelta

    def factor(self, window: timedelta) -> Decimal:
        """How many times as fast as would use up the budget just at the end of the window."""
        return (self.share * (window // timedelta(hours=1)) / (self.long // timedelta(hours=1))).normalize()


_H: Final = timedelta(hours=1)
FAST: Final = (
    Pace(Decimal("0.02"), _H, timedelta(minutes=5)),  # 14.4 in 30 days
    Pace(Decimal("0.05"), 6 * _H, timedelta(minutes=30)),  # 6
)
SLOW: Final = (
    Pace(Decimal("0.10"), 24 * _H, 2 * _H),  # 3
    Pace(Decimal("0.10"), 72 * _H, 6 * _H),  # 1
)


def possible(paces: Sequence[Pace], objective: Objective) -> list[Pace]:
    """Without those that no service can reach, as more than all of it had to be bad, nor those that are no
    faster than allowed."""
    return [
        pace
        for pace in paces
        if pace.factor(objective.window) >= 1 and pace.factor(objective.window) * objective.budget < 1
    ]
