"""How much readings and steps differ from one moment to the next while nothing changes.

Fitted to a trace of one H200 (bench/detect/h200: a row a second) and to the step times of ten workers of a
production job (alibaba/clusterdata gpu-v2020, job 2). `tools/fit-gpu-noise` prints these figures.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class GpuNoise(NamedTuple):
    """Standard deviations, as a share of the reading where nothing else is said."""

    watts: float  # while it trains
    idle_watts: float  # while a process has it and nothing runs
    celsius: float  # in degrees
    utilization: float  # of a GPU that is always busy
    part_utilization: float  # of one that is busy in turns, times the root of busy times idle
    sm: float
    tensor: float
    dram: float
    pcie: float
    capped_clock: float  # of the SM clock while power is capped


class StepNoise(NamedTuple):
    step: float  # of the length of a step, all ranks together
    long_steps: float  # how many of them are much longer,
    longer_by: float  # and by how much
    rank: float  # of what one rank computes in a step, from step to step
    spread: float  # of the ranks' usual pace, in a job with a stable spread


class GpuLevels(NamedTuple):
    """Where readings stand."""

    context: float  # of the power between idle and the most: a process has it and nothing runs
    spinning: float  # the same, of a kernel that waits for another
    block: float  # of the SMs: those that one block of a kernel holds
    capped_clock: float  # of the highest SM clock, while power is capped


NOISE: Final = GpuNoise(
    watts=0.004178, idle_watts=0.0003321, celsius=0.5582, utilization=0.01083, part_utilization=0.623,
    sm=0.004325, tensor=0.005137, dram=0.009704, pcie=0.0795, capped_clock=0.02358,
)  # fmt: skip
STEPS: Final = StepNoise(step=0.008173, long_steps=0.001639, longer_by=0.1554, rank=0.01515, spread=0.08354)
LEVELS: Final = GpuLevels(context=0.07252, spinning=0.07286, block=0.00758, capped_clock=0.9318)
