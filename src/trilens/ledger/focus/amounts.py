"""Quantities and prices of the export, exact to the last digit that is shown."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.ledger.focus.columns import COST_SCALE, FINE_SCALE
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FINE: Final = 10**FINE_SCALE
_FINE_PER_QUANTUM: Final = 10 ** (FINE_SCALE - COST_SCALE)
_MOST_HOURS: Final = 2**63 // _FINE - 1  # that fit into 64 bits
# FOCUS takes cost for price x quantity to a billionth; dividing a bill moves a row by less than a quantum.
_SLACK: Final = 0.999


class Priced(NamedTuple):
    """What a node cost in an hour: the price's name, and quanta for a GPU-hour; None when a part had none."""

    name: str
    per_gpu_hour: Fraction | None


def decimals(values: Sequence[int] | NDArray[np.int64], scale: int) -> pa.Array:
    """Whole numbers of the last digit as decimals. Arrow keeps these in 128 bits, the lower 64 first."""
    kind = pa.decimal128(38, scale)
    if not isinstance(values, np.ndarray):
        words = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(words)])
    wide = np.empty((len(values), 2), np.int64)
    wide[:, 0] = values
    wide[:, 1] = values >> 63
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(wide)])


def gpu_hours(gpu_ms: NDArray[np.int64]) -> Sequence[int] | NDArray[np.int64]:
    """In units of the last digit, the half to the even one."""
    if gpu_ms.size and int(gpu_ms.max()) > _MOST_HOURS * HOUR_MS:
        return [round(Fraction(int(ms) * _FINE, HOUR_MS)) for ms in gpu_ms]
    whole, rest = np.divmod(gpu_ms, HOUR_MS)
    part, left = np.divmod(rest * (_FINE // 1000), HOUR_MS // 1000)
    half = HOUR_MS // 2000
    up = (left > half) | ((left == half) & (part % 2 == 1))
    hours: NDArray[np.int64] = whole * _FINE + part + up
    return hours


def unit_prices(
    prices: Sequence[Priced], which: NDArray[Any], gpu_ms: NDArray[np.int64], quanta: NDArray[np.int64]
) -> Sequence[int]:
    """For a GPU-hour, in units of the last digit.

    The node's price of that hour where it gives the row's cost; where it does not, since the price changed in
    that hour, what the row itself cost.
    """
    known = [
        None if one.per_gpu_hour is None else round(one.per_gpu_hour * _FINE_PER_QUANTUM) for one in prices
    ]
    nominal = np.array([np.nan if fine is None else float(fine) for fine in known])[which]
    off = np.abs(nominal * gpu_ms / HOUR_MS / _FINE_PER_QUANTUM - quanta)
    fits = off <= _SLACK * np.maximum(quanta / 10**COST_SCALE, 1)
    return [
        found
        if fit and (found := known[node]) is not None
        else round(Fraction(int(cost) * HOUR_MS * _FINE_PER_QUANTUM, int(ms) or 1))
        for fit, node, ms, cost in zip(
            fits.tolist(), which.tolist(), gpu_ms.tolist(), quanta.tolist(), strict=True
        )
    ]
