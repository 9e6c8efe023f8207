"""Fields of DCGM that rules read, as dcgm-exporter's counters file names them.

A line there is `FIELD, type, help`. Many are left out of the file that comes with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Counter(NamedTuple):
    kind: str
    help: str


_GAUGES: Final = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock (MHz)",
    "DCGM_FI_DEV_MEM_CLOCK": "memory clock (MHz)",
    "DCGM_FI_DEV_MEMORY_TEMP": "memory temperature (C)",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (C)",
    "DCGM_FI_DEV_POWER_USAGE": "power draw (W)",
    "DCGM_FI_DEV_GPU_UTIL": "time in which a kernel ran (%)",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "time in which memory was read or written (%)",
    "DCGM_FI_DEV_XID_ERRORS": "code of the last Xid",
    "DCGM_FI_DEV_FB_FREE": "framebuffer free (MiB)",
    "DCGM_FI_DEV_FB_USED": "framebuffer used (MiB)",
    "DCGM_FI_DEV_FB_RESERVED": "framebuffer reserved (MiB)",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "whether a row could not be remapped",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "whether a row waits to be remapped",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "why clocks are held down (bit mask)",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "why clocks are held down (bit mask), before DCGM 4",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "time in which the engine was active (ratio)",
    "DCGM_FI_PROF_SM_ACTIVE": "cycles in which an SM had a warp (ratio)",
    "DCGM_FI_PROF_SM_OCCUPANCY": "warps on an SM (ratio)",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "cycles in which the tensor pipe was active (ratio)",
    "DCGM_FI_PROF_DRAM_ACTIVE": "cycles in which memory sent or received (ratio)",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "bytes sent over PCIe (a second)",
    "DCGM_FI_PROF_PCIE_RX_BYTES": "bytes received over PCIe (a second)",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "bytes sent over NVLink (a second)",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "bytes received over NVLink (a second)",
}
_COUNTERS: Final = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "energy since boot (mJ)",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "PCIe retries",
    "DCGM_FI_DEV_POWER_VIOLATION": "time held down for power (ns)",
    "DCGM_FI_DEV_THERMAL_VIOLATION": "time held down for heat (ns)",
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": "time held down for sync boost (ns)",
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": "time held down for the board's limit (ns)",
    "DCGM_FI_DEV_LOW_UTIL_VIOLATION": "time held down for low utilization (ns)",
    "DCGM_FI_DEV_RELIABILITY_VIOLATION": "time held down for reliability (ns)",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "single-bit errors since the driver was loaded",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "double-bit errors since the driver was loaded",
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": "single-bit errors, ever",
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": "double-bit errors, ever",
    "DCGM_FI_DEV_RETIRED_SBE": "pages retired for single-bit errors",
    "DCGM_FI_DEV_RETIRED_DBE": "pages retired for double-bit errors",
    "DCGM_FI_DEV_RETIRED_PENDING": "pages that wait to be retired",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "rows remapped for uncorrectable errors",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "rows remapped for correctable errors",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "NVLink flow-control CRC errors",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "NVLink data CRC errors",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "NVLink retries",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "NVLink recoveries",
    "DCGM_EXP_XID_ERRORS_COUNT": "Xids in a sliding window",
    "DCGM_EXP_CLOCK_EVENTS_COUNT": "clock events in a sliding window",
    "DCGM_EXP_GPU_HEALTH_STATUS": "health as DCGM sees it",
}

COUNTERS: Final[dict[str, Counter]] = {
    **{name: Counter("gauge", text) for name, text in _GAUGES.items()},
    **{name: Counter("counter", text) for name, text in _COUNTERS.items()},
}


def counters_line(field: str) -> str:
    """The line to add; a field that is not known here is guessed to be a gauge."""
    known = COUNTERS.get(field, Counter("gauge", field))
    return f"{field}, {known.kind}, {known.help}"
