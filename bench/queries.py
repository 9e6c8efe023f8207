"""What dashboards and alert rules ask, over the simulated fleet's DCGM series."""

from __future__ import annotations

from typing import NamedTuple

HOUR = 3600

UTIL = "DCGM_FI_DEV_GPU_UTIL"
TEMP = "DCGM_FI_DEV_GPU_TEMP"
POWER = "DCGM_FI_DEV_POWER_USAGE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
CLOCK = "DCGM_FI_DEV_SM_CLOCK"
XID = "DCGM_FI_DEV_XID_ERRORS"
REPLAY = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
FB_USED = "DCGM_FI_DEV_FB_USED"
FB_FREE = "DCGM_FI_DEV_FB_FREE"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
NODE = 'Hostname="gpu-node-0007"'

LONG = (UTIL, TEMP, POWER, ENERGY, CLOCK)
"""Metrics with 24 hours of history; the others have six."""


class Query(NamedTuple):
    name: str
    expr: str
    range_s: int = 0  # 0: an instant query
    step_s: int = 0


INSTANT = (
    Query("targets down", "up == 0"),
    Query("eight series", f"{UTIL}{{{NODE}}}"),
    Query("one series", f'{UTIL}{{{NODE}, gpu="3"}}'),
    Query("idle GPUs", f"{UTIL} < 20"),
    Query("hot GPUs", f"{TEMP} > 83"),
    Query("GPUs reporting", f"count({UTIL})"),
    Query("GPUs by model", f"count by (modelName) ({UTIL})"),
    Query("power by namespace", f"sum by (namespace) ({POWER})"),
    Query("utilisation by node", f"avg by (Hostname) ({UTIL})"),
    Query("memory nearly full", f"{FB_USED} / ({FB_USED} + {FB_FREE}) > 0.95"),
    Query("Xid seen", f"{XID} > 0"),
    Query("PCIe replays", f"increase({REPLAY}[10m]) > 0"),
    Query("sustained idle", f"avg_over_time({UTIL}[15m]) < 20"),
    Query("sustained slow clock", f"max_over_time({CLOCK}[30m]) < 1200"),
    Query("watts from energy", f"rate({ENERGY}[5m]) / 1000"),
    Query("fleet watts from energy", f"sum(rate({ENERGY}[5m])) / 1000"),
    Query("top power", f"topk(10, {POWER})"),
    Query("p95 temperature", f"quantile(0.95, {TEMP})"),
    Query("busy but cold (hung)", f"{UTIL} > 95 and on (UUID) {POWER} < 200"),
    Query("gone since", f'absent({UTIL}{{Hostname="gpu-node-9999"}})'),
    Query("changed in an hour", f"changes({XID}[1h]) > 0"),
)

RANGE = (
    Query("panel: 8 series, 1 h", f"{UTIL}{{{NODE}}}", HOUR, 15),
    Query("panel: 8 series, 6 h", f"{TEMP}{{{NODE}}}", 6 * HOUR, 60),
    Query("panel: 8 rates, 6 h", f"rate({ENERGY}{{{NODE}}}[5m]) / 1000", 6 * HOUR, 60),
    Query("panel: 8 p99 over time", f"quantile_over_time(0.99, {UTIL}{{{NODE}}}[10m])", 6 * HOUR, 60),
    Query("fleet utilisation, 6 h", f"avg({UTIL})", 6 * HOUR, 60),
    Query("by namespace, 1 h", f"avg by (namespace) ({UTIL})", HOUR, 15),
    Query("power by node, 6 h", f"sum by (Hostname) ({POWER})", 6 * HOUR, 60),
    Query("hottest by node, 3 h", f"max by (Hostname) ({TEMP})", 3 * HOUR, 30),
    Query("fleet watts, 6 h", f"sum(rate({ENERGY}[5m])) / 1000", 6 * HOUR, 60),
    Query("idle count, 6 h", f"count({UTIL} < 10)", 6 * HOUR, 60),
    Query("smoothed by node, 6 h", f"avg by (Hostname) (avg_over_time({UTIL}[10m]))", 6 * HOUR, 300),
    Query("top nodes, 6 h", f"topk(5, avg by (Hostname) ({POWER}))", 6 * HOUR, 60),
    Query("every GPU, 1 h", f"{UTIL}", HOUR, 60),
    Query("tensor per watt, 3 h", f"avg by (namespace) ({TENSOR} / on (UUID) ({POWER} + 1))", 3 * HOUR, 60),
)

DAY = (
    Query("fleet utilisation, 24 h", f"avg({UTIL})", 24 * HOUR, 300),
    Query("fleet watts, 24 h", f"sum(rate({ENERGY}[5m])) / 1000", 24 * HOUR, 300),
    Query("hottest hour, 24 h", f"max by (Hostname) (max_over_time({TEMP}[1h]))", 24 * HOUR, HOUR),
    Query("panel: 8 series, 24 h", f"{UTIL}{{{NODE}}}", 24 * HOUR, 120),
    Query("power by namespace, 24 h", f"sum by (namespace) ({POWER})", 24 * HOUR, 600),
)

ALL = INSTANT + RANGE + DAY
