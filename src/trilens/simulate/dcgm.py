"""The metric families that dcgm-exporter writes, in the order in which the fleet computes them."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """A metric as dcgm-exporter writes it; `whole` says whether its values are integers."""

    name: str
    kind: str
    help: str
    whole: bool = True


FAMILIES: tuple[Family, ...] = (
    Family("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    Family("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    Family("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    Family("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    Family("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", whole=False),
    Family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    Family("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
    Family("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    Family("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."),
    Family("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."),
    Family("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."),
    Family("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    Family("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    Family("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    Family("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."),
    Family("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "Total NVLink bandwidth counters of all lanes."),
    Family("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for uncorrectable errors."),
    Family("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for correctable errors."),
    Family("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
    Family("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Why the clocks are held back (bitmask)."),
    Family(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", whole=False
    ),
    Family("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has a warp assigned.", whole=False),
    Family(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor pipe is active.", whole=False
    ),
    Family(
        "DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the memory interface is active.", whole=False
    ),
    Family("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Bytes a second sent over PCIe."),
    Family("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Bytes a second received over PCIe."),
)

# What a site adds to the exporter's counters file when it wants to know why a GPU is slow or ill.
ADDED_FAMILIES: tuple[Family, ...] = (
    Family("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors."),
    Family("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
    Family("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling because of heat (in ns)."),
    Family("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "Bytes a second sent over NVLink."),
    Family("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "Bytes a second received over NVLink."),
)
