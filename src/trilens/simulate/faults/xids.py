"""Xids that can be made to happen: what the kernel's log says of each, and what each does."""

from __future__ import annotations

from typing import Final, NamedTuple

_ILLEGAL: Final = "an illegal memory access was encountered"
_ECC: Final = "uncorrectable ECC error encountered"


class Xid(NamedTuple):
    text: str
    kills: bool = False  # the process on it
    error: str = "unspecified launch failure"  # as CUDA tells a process that it kills
    hangs: bool = False  # the job
    breaks: bool = False  # the GPU is not given away until it was reset
    loses: bool = False  # nobody sees the GPU any more
    follows: tuple[int, ...] = ()


XIDS: Final[dict[int, Xid]] = {
    13: Xid(
        "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address", kills=True, error=_ILLEGAL
    ),
    31: Xid(
        "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ "
        "0x7f1c_4a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
        kills=True,
        error=_ILLEGAL,
    ),
    43: Xid("Ch 00000010", kills=True),
    45: Xid("Ch 00000010"),
    48: Xid(
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 3, "
        "subpartition 1.",
        kills=True,
        error=_ECC,
        breaks=True,
        follows=(45,),
    ),
    63: Xid("Row Remapper: New row (0x00000001234567890) marked for remapping, reset gpu to activate."),
    64: Xid("Row Remapper: Failed to record row remapping", breaks=True),
    74: Xid("NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", hangs=True),
    79: Xid("GPU has fallen off the bus.", kills=True, breaks=True, loses=True, follows=(154,)),
    94: Xid("Contained: SM (0x1). RST: No, D-RST: No", kills=True, error=_ECC, follows=(45,)),
    95: Xid("Uncontained: FBHUB (0x2). RST: Yes, D-RST: No", kills=True, error=_ECC, breaks=True),
    119: Xid(
        "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL).",
        hangs=True,
        breaks=True,
    ),
    154: Xid("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
}


UNKNOWN: Final = Xid("Unknown error")
LOST: Final = Xid("", kills=True, breaks=True, loses=True)  # without a word in the log
