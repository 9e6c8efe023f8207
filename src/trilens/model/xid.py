"""GPU faults as the kernel reports them: Xids of a GPU, SXids of an NVLink switch.

The table follows NVIDIA's catalogue in what each code asks for, in our own words. Codes that it calls unused
are not in it; one that is not in it is still counted and shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trilens.model.pci import PciAddress


class Asks(StrEnum):
    """What a code asks for at once, by itself."""

    NOTHING = "nothing"  # a record, or it mends itself
    LOOK = "look"  # at what came before or beside it
    APPLICATION = "application"  # the program: fix or restart it; the GPU is fine
    GPU_RESET = "gpu-reset"
    NODE_OUT = "node-out"  # drain and reboot, or repair


class XidMeaning(NamedTuple):
    title: str
    asks: Asks


XIDS: Final[dict[int, XidMeaning]] = {
    8: XidMeaning("the GPU stopped processing", Asks.APPLICATION),
    11: XidMeaning("invalid or corrupted push buffer", Asks.APPLICATION),
    13: XidMeaning("graphics engine exception: often an access out of bounds", Asks.APPLICATION),
    25: XidMeaning("illegal push buffer", Asks.APPLICATION),
    31: XidMeaning("memory page fault: an illegal address was accessed", Asks.APPLICATION),
    32: XidMeaning("invalid or corrupted push buffer", Asks.APPLICATION),
    43: XidMeaning("the GPU stopped processing for a program", Asks.APPLICATION),
    45: XidMeaning("work was removed because of an earlier error", Asks.LOOK),
    46: XidMeaning("the GPU stopped processing", Asks.GPU_RESET),
    48: XidMeaning("double-bit ECC error", Asks.NODE_OUT),
    62: XidMeaning("the internal micro-controller halted", Asks.GPU_RESET),
    63: XidMeaning("a row remapping was recorded", Asks.NOTHING),
    64: XidMeaning("a row remapping could not be recorded", Asks.GPU_RESET),
    68: XidMeaning("video decoder exception", Asks.APPLICATION),
    69: XidMeaning("graphics engine class error", Asks.APPLICATION),
    74: XidMeaning("NVLink error", Asks.LOOK),
    79: XidMeaning("the GPU has fallen off the bus", Asks.NODE_OUT),
    92: XidMeaning("high rate of single-bit ECC errors", Asks.NOTHING),
    94: XidMeaning("contained memory error", Asks.APPLICATION),
    95: XidMeaning("uncontained memory error", Asks.GPU_RESET),
    109: XidMeaning("context switch timed out", Asks.GPU_RESET),
    110: XidMeaning("security fault", Asks.GPU_RESET),
    119: XidMeaning("the GPU's system processor did not answer in time", Asks.GPU_RESET),
    120: XidMeaning("error in the GPU's system processor", Asks.GPU_RESET),
    121: XidMeaning("corrected error on the link to the CPU", Asks.NOTHING),
    136: XidMeaning("link training failed", Asks.GPU_RESET),
    137: XidMeaning("NVLink fault in a program's access to a peer", Asks.APPLICATION),
    140: XidMeaning("unrecovered ECC error", Asks.GPU_RESET),
    143: XidMeaning("GPU initialisation failed", Asks.GPU_RESET),
    144: XidMeaning("NVLink SAW error", Asks.LOOK),
    145: XidMeaning("NVLink RLW error", Asks.LOOK),
    146: XidMeaning("NVLink TLW error", Asks.LOOK),
    147: XidMeaning("NVLink TREX error", Asks.LOOK),
    148: XidMeaning("NVLink power control error", Asks.LOOK),
    149: XidMeaning("NVLink network error", Asks.LOOK),
    150: XidMeaning("NVLink management error", Asks.LOOK),
    151: XidMeaning("key rotation failed", Asks.NODE_OUT),
    154: XidMeaning("the recovery action of the GPU changed", Asks.LOOK),
    155: XidMeaning("NVLink error found by software", Asks.GPU_RESET),
    156: XidMeaning("a resource of the GPU was retired", Asks.GPU_RESET),
    158: XidMeaning("fatal timeout in the GPU", Asks.GPU_RESET),
}
NVLINK_XIDS: Final = frozenset({74, 136, 137, *range(144, 151), 155})


class FaultKind(StrEnum):
    XID = "xid"  # of a GPU
    SXID = "sxid"  # of an NVLink switch
    NVLINK = "nvlink"  # a complaint about a link, without a code


@dataclass(frozen=True, slots=True)
class KernelFault:
    """One line of the kernel's log. What the line does not say is None."""

    kind: FaultKind
    code: int | None
    pci: PciAddress | None
    text: str  # what follows code, pid and name
    pid: int | None = None
    process: str | None = None
    gpu_instance: int | None = None  # MIG
    compute_instance: int | None = None
    switch: int | None = None  # which NVLink switch: nvidia-nvswitch3
    link: int | None = None
    fatal: bool | None = None
