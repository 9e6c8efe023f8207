"""What one GPU said of itself over a span of time, in few points."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from trilens.serve.own_queries import Times
from trilens.serve.pages.gpu_life_answers import LifeCurves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.serve.own_queries import Matrix

MOST_POINTS: Final = 600
_LEAST_STEP_MS: Final = 30_000  # the slowest usual exporter reports as often
_NOT_KNOWN: Final = 2_147_483_632  # from here on DCGM means "not known"
_MIB_TOLD: Final = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED")


class Asks(Protocol):
    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix: ...


def moments(from_ms: int, to_ms: int) -> Times:
    """Evenly spaced, each a whole number of steps: the same span shows the same points."""
    step_ms = max(_LEAST_STEP_MS, -(-(to_ms - from_ms) // (MOST_POINTS - 1)))
    step_ms = -(-step_ms // 15_000) * 15_000
    start_ms = -(-from_ms // step_ms) * step_ms
    return Times(start_ms, step_ms, max((to_ms - start_ms) // step_ms + 1, 1))


async def life_curves(asked: Asks, uuid: str, times: Times) -> LifeCurves:
    async def ask(metric: str, over: str) -> NDArray[np.float64]:
        window = f"[{times.step_ms // 1000}s]"
        told = " or ".join(f'{over}({metric}{{{label}="{uuid}"}}{window})' for label in ("UUID", "gpu_uuid"))
        found = (await asked.matrix(f"max({told})", times, ())).values
        row = found[0] if len(found) else np.full(times.moments, np.nan)
        return np.where(row >= _NOT_KNOWN, np.nan, row)

    used, free, reserved, busy, celsius, watts = await asyncio.gather(
        *(ask(metric, "max_over_time") for metric in _MIB_TOLD),
        ask("DCGM_FI_DEV_GPU_UTIL", "avg_over_time"),
        ask("DCGM_FI_DEV_GPU_TEMP", "max_over_time"),
        ask("DCGM_FI_DEV_POWER_USAGE", "avg_over_time"),
    )
    whole = used + free + np.nan_to_num(reserved)
    share = np.divide(used, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return LifeCurves(
        [times.start_ms + times.step_ms * at for at in range(times.moments)],
        _told(busy / 100, 3),
        _told(celsius, 0),
        _told(watts, 0),
        _told(share, 3),
    )


def _told(values: NDArray[np.float64], digits: int) -> list[float | None]:
    column: list[float | None] = np.round(values, digits).tolist()
    return column  # NaN becomes null
