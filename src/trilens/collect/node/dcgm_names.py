"""Which answer of NVML stands under which of DCGM's names, in DCGM's units.

DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL is not here: DCGM does not say what it counts, so no reading can be called
the same. NVLink traffic is in DCGM_FI_PROF_NVLINK_* and in trilens_gpu_nvlink_bytes_total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.collect.node.families import Description
from trilens.collect.node.nvml import ALL_LINKS, Field

if TYPE_CHECKING:
    from collections.abc import Callable

_MIB: Final = 1024 * 1024
MEMORY_V2: Final = 0x02000028  # nvmlMemory_v2: unlike the first version it tells what is reserved


class Answer(NamedTuple):
    metric: str
    pick: Callable[[Any], float]


class Question(NamedTuple):
    """nvmlDeviceGet`name`, and what its answer holds."""

    name: str
    arguments: tuple[int, ...]
    answers: tuple[Answer, ...]


QUESTIONS: Final = (
    Question(
        "UtilizationRates",
        (),
        (
            Answer("DCGM_FI_DEV_GPU_UTIL", lambda rates: rates.gpu),
            Answer("DCGM_FI_DEV_MEM_COPY_UTIL", lambda rates: rates.memory),
        ),
    ),
    Question("EncoderUtilization", (), (Answer("DCGM_FI_DEV_ENC_UTIL", lambda pair: pair[0]),)),
    Question("DecoderUtilization", (), (Answer("DCGM_FI_DEV_DEC_UTIL", lambda pair: pair[0]),)),
    Question("ClockInfo", (1,), (Answer("DCGM_FI_DEV_SM_CLOCK", float),)),
    Question("ClockInfo", (2,), (Answer("DCGM_FI_DEV_MEM_CLOCK", float),)),
    Question("Temperature", (0,), (Answer("DCGM_FI_DEV_GPU_TEMP", float),)),
    Question("TemperatureThreshold", (0,), (Answer("DCGM_FI_DEV_SHUTDOWN_TEMP", float),)),
    Question("TemperatureThreshold", (1,), (Answer("DCGM_FI_DEV_SLOWDOWN_TEMP", float),)),
    Question("PowerUsage", (), (Answer("DCGM_FI_DEV_POWER_USAGE", lambda mw: mw / 1000),)),
    Question("EnforcedPowerLimit", (), (Answer("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", lambda mw: mw / 1000),)),
    Question("CurrentClocksEventReasons", (), (Answer("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", float),)),
    Question("PerformanceState", (), (Answer("DCGM_FI_DEV_PSTATE", float),)),
    Question("CurrPcieLinkGeneration", (), (Answer("DCGM_FI_DEV_PCIE_LINK_GEN", float),)),
    Question("CurrPcieLinkWidth", (), (Answer("DCGM_FI_DEV_PCIE_LINK_WIDTH", float),)),
    Question("FanSpeed", (), (Answer("DCGM_FI_DEV_FAN_SPEED", float),)),
)
# Of a MIG device or, where there is none, of the whole GPU.
MEMORY: Final = Question(
    "MemoryInfo",
    (MEMORY_V2,),
    (
        Answer("DCGM_FI_DEV_FB_USED", lambda memory: memory.used // _MIB),
        Answer("DCGM_FI_DEV_FB_FREE", lambda memory: memory.free // _MIB),
        Answer("DCGM_FI_DEV_FB_RESERVED", lambda memory: memory.reserved // _MIB),
    ),
)
# On drivers that do not know the second version. What is reserved counts as used there, as it does in DCGM.
OLD_MEMORY: Final = Question("MemoryInfo", (), MEMORY.answers[:2])

FIELDS: Final = {
    Field(3): "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    Field(4): "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    Field(5): "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    Field(6): "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    Field(29): "DCGM_FI_DEV_RETIRED_SBE",
    Field(30): "DCGM_FI_DEV_RETIRED_DBE",
    Field(31): "DCGM_FI_DEV_RETIRED_PENDING",
    Field(38): "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    Field(45): "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    Field(52): "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    Field(59): "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    Field(74): "DCGM_FI_DEV_POWER_VIOLATION",
    Field(75): "DCGM_FI_DEV_THERMAL_VIOLATION",
    Field(76): "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
    Field(77): "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
    Field(78): "DCGM_FI_DEV_LOW_UTIL_VIOLATION",
    Field(79): "DCGM_FI_DEV_RELIABILITY_VIOLATION",
    Field(82): "DCGM_FI_DEV_MEMORY_TEMP",
    Field(83): "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    Field(94): "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    Field(142): "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    Field(143): "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    Field(144): "DCGM_FI_DEV_ROW_REMAP_PENDING",
    Field(145): "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    Field(230): "trilens_gpu_recovery_action",
}
LINK_COUNT: Final = Field(91)
LINK_BYTES: Final = {Field(138, ALL_LINKS): "transmitted", Field(139, ALL_LINKS): "received"}  # in KiB

# Percent in GPM, a ratio in DCGM.
ACTIVITY: Final = {
    1: "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    2: "DCGM_FI_PROF_SM_ACTIVE",
    3: "DCGM_FI_PROF_SM_OCCUPANCY",
    5: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    10: "DCGM_FI_PROF_DRAM_ACTIVE",
    11: "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    12: "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    13: "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
}
# MiB a second in GPM, bytes a second in DCGM.
TRAFFIC: Final = {20: "DCGM_FI_PROF_PCIE_TX_BYTES", 21: "DCGM_FI_PROF_PCIE_RX_BYTES"}
# GPM answers 0 for these on a GPU without NVLink; they are only asked for where there are links.
LINK_TRAFFIC: Final = {61: "DCGM_FI_PROF_NVLINK_TX_BYTES", 60: "DCGM_FI_PROF_NVLINK_RX_BYTES"}


def as_dcgm(metric: int, value: float) -> float:
    return value / 100 if metric in ACTIVITY else value * _MIB


def _gauge(text: str) -> Description:
    return Description("gauge", text)


def _counter(text: str) -> Description:
    return Description("counter", text)


DESCRIPTIONS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": _gauge("Share of time in which any kernel ran (in %)."),
    "DCGM_FI_DEV_MEM_COPY_UTIL": _gauge("Share of time in which memory was read or written (in %)."),
    "DCGM_FI_DEV_ENC_UTIL": _gauge("Encoder utilization (in %)."),
    "DCGM_FI_DEV_DEC_UTIL": _gauge("Decoder utilization (in %)."),
    "DCGM_FI_DEV_SM_CLOCK": _gauge("SM clock (in MHz)."),
    "DCGM_FI_DEV_MEM_CLOCK": _gauge("Memory clock (in MHz)."),
    "DCGM_FI_DEV_GPU_TEMP": _gauge("GPU temperature (in C)."),
    "DCGM_FI_DEV_MEMORY_TEMP": _gauge("Memory temperature (in C)."),
    "DCGM_FI_DEV_SHUTDOWN_TEMP": _gauge("Temperature at which the GPU shuts down (in C)."),
    "DCGM_FI_DEV_SLOWDOWN_TEMP": _gauge("Temperature at which the GPU slows down (in C)."),
    "DCGM_FI_DEV_POWER_USAGE": _gauge("Power drawn (in W)."),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": _gauge("Power limit in force (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _counter("Energy since the driver was loaded (in mJ)."),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": _gauge("Why clocks are not higher, as a bit mask."),
    "DCGM_FI_DEV_PSTATE": _gauge("Performance state, 0 is the fastest."),
    "DCGM_FI_DEV_PCIE_LINK_GEN": _gauge("PCIe generation the link runs at."),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": _gauge("PCIe lanes the link runs with."),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": _counter("PCIe retries."),
    "DCGM_FI_DEV_FAN_SPEED": _gauge("Fan speed (in %)."),
    "DCGM_FI_DEV_FB_USED": _gauge("Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_FB_FREE": _gauge("Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_FB_RESERVED": _gauge("Framebuffer memory reserved (in MiB)."),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": _counter("Single-bit ECC errors since the driver was loaded."),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _counter("Double-bit ECC errors since the driver was loaded."),
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": _counter("Single-bit ECC errors in the GPU's life."),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": _counter("Double-bit ECC errors in the GPU's life."),
    "DCGM_FI_DEV_RETIRED_SBE": _counter("Pages retired for single-bit errors."),
    "DCGM_FI_DEV_RETIRED_DBE": _counter("Pages retired for double-bit errors."),
    "DCGM_FI_DEV_RETIRED_PENDING": _gauge("Whether pages wait to be retired."),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": _counter("Rows remapped for correctable errors."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _counter("Rows remapped for uncorrectable errors."),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": _gauge("Whether a remapping waits for a reset."),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": _gauge("Whether a remapping has failed."),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": _counter("NVLink flow-control CRC errors."),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": _counter("NVLink data CRC errors."),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": _counter("NVLink retries."),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": _counter("NVLink recoveries."),
    "DCGM_FI_DEV_POWER_VIOLATION": _counter("Time throttled for power (in ns)."),
    "DCGM_FI_DEV_THERMAL_VIOLATION": _counter("Time throttled for heat (in ns)."),
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": _counter("Time throttled by sync boost (in ns)."),
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": _counter("Time throttled by the board's limit (in ns)."),
    "DCGM_FI_DEV_LOW_UTIL_VIOLATION": _counter("Time at low clocks for want of work (in ns)."),
    "DCGM_FI_DEV_RELIABILITY_VIOLATION": _counter("Time throttled for reliability (in ns)."),
    "DCGM_FI_DEV_XID_ERRORS": _gauge("The last Xid in the kernel's log, 0 for none."),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": _gauge("Share of time in which an engine was active."),
    "DCGM_FI_PROF_SM_ACTIVE": _gauge("Share of cycles in which an SM had a warp assigned."),
    "DCGM_FI_PROF_SM_OCCUPANCY": _gauge("Warps resident, as a share of those possible."),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": _gauge("Share of cycles in which the tensor pipe was active."),
    "DCGM_FI_PROF_DRAM_ACTIVE": _gauge("Share of cycles in which device memory sent or received."),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": _gauge("Share of cycles in which the fp64 pipe was active."),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": _gauge("Share of cycles in which the fp32 pipe was active."),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": _gauge("Share of cycles in which the fp16 pipe was active."),
    "DCGM_FI_PROF_PCIE_TX_BYTES": _gauge("Sent over PCIe (in bytes a second)."),
    "DCGM_FI_PROF_PCIE_RX_BYTES": _gauge("Received over PCIe (in bytes a second)."),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": _gauge("Sent over NVLink (in bytes a second)."),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": _gauge("Received over NVLink (in bytes a second)."),
    "trilens_gpu_recovery_action": _gauge(
        "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain peers, 4 drain and reset."
    ),
    "trilens_gpu_nvlink_bytes_total": _counter("Data over all NVLinks of a GPU."),
    "trilens_gpu_answers": _gauge("Whether a GPU that once answered still does."),
    "trilens_node_gpus": _gauge("GPUs that answer."),
}
