"""How much of the time was of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.model.ledger_sums import Sum


class Goodput(NamedTuple):
    """Shares from 0 to 1; None where there is nothing to divide by."""

    ratio: float | None  # useful, of all time that some signal told of
    told: float | None  # how much of all time some signal told of: the rest may be anything
    throttled: float | None  # of the useful time, with the clocks held down


def goodput(time: Sum) -> Goodput:
    return Goodput(
        _share(time.useful_ms, time.signal_ms),
        _share(time.signal_ms, time.gpu_ms),
        _share(time.throttled_ms, time.useful_ms),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
