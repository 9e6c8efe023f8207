"""What a simulated GPU is doing, and how that looks from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Role:
    """Typical readings of an H100 SXM in this state; the fleet adds its own spread and noise to each GPU.

    `swing` is how far activity follows a slow wave; every `pause_every_s` it falls to almost nothing for
    `pause_s`, as a training job does while it writes a checkpoint.
    """

    name: str
    util: float  # percent
    tensor: float  # 0 to 1
    memory: float  # 0 to 1, of DRAM cycles
    watts: float
    fb_used_mib: float
    link_bytes: float  # a second, over NVLink
    clock_mhz: float = 1980
    celsius: float = 0  # on top of what the power explains
    throttle: int = 0  # DCGM's bitmask of reasons
    swing: float = 0.02
    wave_s: float = 900
    pause_every_s: float = 0
    pause_s: float = 0


IDLE_WATTS: Final = 68.0

TRAIN: Final = Role(
    "train", 99, 0.55, 0.42, 660, 72_400, 3.1e11, throttle=0x4, pause_every_s=1800, pause_s=45
)
# One hot GPU of the same job: slower clocks, and the whole job waits for it.
THROTTLED: Final = Role(
    "throttled", 100, 0.34, 0.27, 480, 72_400, 3.1e11, 1290, 32, 0x40, pause_every_s=1800, pause_s=45
)
# Spinning in a collective that never ends: busy by GPU_UTIL, little above idle by everything else.
HUNG: Final = Role("hung", 100, 0.0, 0.001, 128, 61_200, 0, swing=0.003)
SERVE: Final = Role("serve", 58, 0.19, 0.55, 340, 68_900, 2.0e9, swing=0.35, wave_s=5400)
RESERVED: Final = Role(
    "reserved", 0, 0, 0, IDLE_WATTS + 6, 5_300, 0, clock_mhz=345, throttle=0x1
)  # a forgotten notebook
FREE: Final = Role("free", 0, 0, 0, IDLE_WATTS, 4, 0, clock_mhz=345, throttle=0x1)


@dataclass(frozen=True, slots=True)
class Placement:
    """One GPU's role and, where Kubernetes gave it away, the pod that holds it."""

    role: Role
    namespace: str = ""
    pod: str = ""
    container: str = ""


def place(node: int, gpu: int) -> Placement:
    """Three kinds of node in turn: training, training with a hot GPU, and a mixed bag with a hung job."""
    block, kind = divmod(node, 3)
    if kind < 2:
        role = THROTTLED if (kind, gpu) == (1, 3) else TRAIN
        return Placement(role, "research", f"llm-pretrain-{block}-worker-{kind}", "pytorch")
    if gpu < 4:
        return Placement(HUNG, "research", f"vision-finetune-{block}-worker-0", "pytorch")
    if gpu < 6:
        return Placement(SERVE, "serving", f"chat-{block}-decode-{gpu - 4}", "vllm")
    if gpu == 6:
        return Placement(RESERVED, "notebooks", f"jupyter-ana-{block}", "notebook")
    return Placement(FREE)
