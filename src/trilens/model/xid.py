"""GPU faults as the kernel reports them: Xids of a GPU, SXids of an NVLink switch.

xids.yml beside it has the catalogue, in our own words; it follows NVIDIA's in what each code asks for. All
that goes by an Xid's meaning (alerts, detectors, incidents, the ledger, `trilens xid`) takes it from here. A
code that is not in it is still counted and shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trilens.model.packaged_yaml import packaged_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.pci import PciAddress


class Asks(StrEnum):
    """What a code asks for at once, by itself."""

    NOTHING = "nothing"  # a record, or it mends itself
    LOOK = "look"  # at what came before or beside it
    APPLICATION = "application"  # the program: fix or restart it; the GPU is fine
    GPU_RESET = "gpu-reset"
    NODE_OUT = "node-out"  # drain and reboot, or repair


GRAVEST_FIRST: Final = (Asks.NODE_OUT, Asks.GPU_RESET, Asks.LOOK, Asks.APPLICATION, Asks.NOTHING)


class Fault(StrEnum):
    """Whose a code mostly is."""

    APPLICATION = "application"
    DRIVER = "driver"
    HARDWARE = "hardware"
    LINK = "link"
    UNCLEAR = "unclear"
    NONE = "none"  # nothing is wrong


class Cordon(StrEnum):
    """Whether new work may come to the node. Kubernetes cannot close a single GPU."""

    YES = "yes"
    UNTIL_RESET = "until-reset"  # of the GPU
    NO = "no"


_CORDONS: Final = {Asks.NODE_OUT: Cordon.YES, Asks.GPU_RESET: Cordon.UNTIL_RESET}


def cordon_for(asks: Asks) -> Cordon:
    """By class, and by nothing else: a program's fault never closes a node."""
    return _CORDONS.get(asks, Cordon.NO)


@dataclass(frozen=True, slots=True)
class XidMeaning:
    title: str
    asks: Asks
    name: str = ""  # the driver's own
    means: str = ""
    fault: Fault = Fault.UNCLEAR
    now: str = ""  # what to do at once
    later: str = ""  # what to look at when there is time
    follows: frozenset[int] = frozenset()  # these, when it comes after one of them
    follows_any: bool = False  # it never comes first
    follows_sxids: bool = False
    family: str = ""  # of codes that say the same of another unit

    @property
    def cordon(self) -> Cordon:
        return cordon_for(self.asks)


def _catalogue() -> dict[int, XidMeaning]:
    told = packaged_yaml("trilens.model", "xids.yml")
    return {
        code: _meaning({**told["families"].get(one.get("family"), {}), **one})
        for code, one in told["xids"].items()
    }


def _meaning(told: Mapping[str, Any]) -> XidMeaning:
    follows = told.get("follows", [])
    return XidMeaning(
        title=told["title"].format(unit=told.get("unit")),
        asks=Asks(told["asks"]),
        name=told["name"],
        means=told["means"],
        fault=Fault(told["fault"]),
        now=told["now"],
        later=told["later"],
        follows=frozenset(one for one in follows if isinstance(one, int)),
        follows_any=follows == "any",
        follows_sxids="sxid" in follows,
        family=told.get("family", ""),
    )


XIDS: Final[Mapping[int, XidMeaning]] = _catalogue()
CLEANUP: Final = 45  # of a program's work, on every GPU that it had
RECOVERY_ACTION: Final = 154  # what the driver says that the GPU now needs
FOLLOWERS: Final = frozenset(code for code, one in XIDS.items() if one.follows_any)  # alone they say nothing
# The driver names them so; ALI is the training of an NVLink.
NVLINK_XIDS: Final = frozenset(
    code for code, one in XIDS.items() if one.name.startswith(("NVLINK_", "ALI_")) and one.family != "unused"
)


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
