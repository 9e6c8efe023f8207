"""What GPUs say of themselves: which fields of dcgm-exporter are asked, how, and what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.scene import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

COLUMN_MS: Final = 5_000
KEY_LABELS: Final = ("UUID", "GPU_I_ID")

_SENTINELS: Final = (2_147_483_632.0, 140_737_488_355_328.0)  # "not known", each +0 to 15
_NEAR_2_63: Final = 9e18
_ORDINARY_BELOW: Final = 2_147_483_632.0  # of everything but bytes a second


class Field(NamedTuple):
    """One field of DCGM, in whatever unit it has."""

    name: str
    selector: str
    is_bytes: bool = False  # where 2^31 is an ordinary value

    @property
    def query(self) -> str:
        """What was said in the window that ends with each moment, by whoever reports the GPU. A device's
        reading is repeated for every pod that shares it: the highest is it."""
        told = f"last_over_time({self.selector}[{COLUMN_MS // 1000}s])"
        return f'max by (UUID, GPU_I_ID) (label_replace({told}, "UUID", "$1", "gpu_uuid", "(.+)"))'

    def blank(self, values: Values) -> NDArray[np.bool_]:
        """Where DCGM says that it does not know."""
        if not self.is_bytes:
            return values >= _ORDINARY_BELOW
        blank = values >= _NEAR_2_63
        for first in _SENTINELS:
            blank |= (values >= first) & (values < first + 16)
        return blank


_UTIL: Final = Field("utilisation", "DCGM_FI_DEV_GPU_UTIL")
_POWER: Final = Field("power", "DCGM_FI_DEV_POWER_USAGE")
_SM: Final = Field("SM activity", "DCGM_FI_PROF_SM_ACTIVE")
_TENSOR: Final = Field("tensor activity", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")
_NVLINK_TX: Final = Field("NVLink out", "DCGM_FI_PROF_NVLINK_TX_BYTES", is_bytes=True)
_NVLINK_RX: Final = Field("NVLink in", "DCGM_FI_PROF_NVLINK_RX_BYTES", is_bytes=True)
_PCIE_TX: Final = Field("PCIe out", "DCGM_FI_PROF_PCIE_TX_BYTES", is_bytes=True)
_PCIE_RX: Final = Field("PCIe in", "DCGM_FI_PROF_PCIE_RX_BYTES", is_bytes=True)
_TEMPERATURE: Final = Field("temperature", "DCGM_FI_DEV_GPU_TEMP")
_SM_CLOCK: Final = Field("SM clock", "DCGM_FI_DEV_SM_CLOCK")
_USED: Final = Field("memory used", "DCGM_FI_DEV_FB_USED")
_FREE: Final = Field("memory free", "DCGM_FI_DEV_FB_FREE")
_RESERVED: Final = Field("memory reserved", "DCGM_FI_DEV_FB_RESERVED")
_REASONS: Final = Field(
    "clock event reasons", '{__name__=~"DCGM_FI_DEV_(CLOCK_THROTTLE|CLOCKS_EVENT)_REASONS"}'
)
_XID: Final = Field("last Xid", "DCGM_FI_DEV_XID_ERRORS")
_REMAP: Final = Field("row remapping pending", "DCGM_FI_DEV_ROW_REMAP_PENDING")


def _itself(told: Values) -> Values:
    return told


def _sum(*told: Values) -> Values:
    """Of what is known of it; not known where nothing is."""
    known = [~np.isnan(one) for one in told]
    total = np.sum([np.where(there, one, 0.0) for there, one in zip(known, told, strict=True)], axis=0)
    return np.where(np.any(known, axis=0), total, np.nan)


def _memory_share(used: Values, free: Values, reserved: Values) -> Values:
    whole = used + free + np.nan_to_num(reserved)  # not every exporter tells what the driver has reserved
    return np.divide(used, whole, out=np.full_like(whole, np.nan), where=whole > 0)


class Recipe(NamedTuple):
    fields: tuple[Field, ...]
    made_by: Callable[..., Values] = _itself


RECIPES: Final[Mapping[Figure, Recipe]] = {
    Figure.UTILIZATION: Recipe((_UTIL,), lambda told: told / 100),
    Figure.POWER: Recipe((_POWER,)),
    Figure.SM: Recipe((_SM,)),
    Figure.TENSOR: Recipe((_TENSOR,)),
    Figure.NVLINK: Recipe((_NVLINK_TX, _NVLINK_RX), _sum),
    Figure.PCIE: Recipe((_PCIE_TX, _PCIE_RX), _sum),
    Figure.TEMPERATURE: Recipe((_TEMPERATURE,)),
    Figure.SM_CLOCK: Recipe((_SM_CLOCK,), lambda told: told * 1e6),
    Figure.MEMORY_USED: Recipe((_USED, _FREE, _RESERVED), _memory_share),
    Figure.CLOCK_REASONS: Recipe((_REASONS,)),
    Figure.XID: Recipe((_XID,)),
    Figure.ROW_REMAP_PENDING: Recipe((_REMAP,)),
}
FIELDS: Final = tuple(field for recipe in RECIPES.values() for field in recipe.fields)
