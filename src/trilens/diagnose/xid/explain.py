"""What one fault means and asks for, with all that its line says: sub-codes, a switch's verdict, the driver's
advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.xid.sxid import first_sxid, last_sxid, sxid
from trilens.model.nvlink import sub_code
from trilens.model.xid import RECOVERY_ACTION, XIDS, Asks, Fault, FaultKind

if TYPE_CHECKING:
    from trilens.model.nvlink import SubCode
    from trilens.model.xid import KernelFault

_ADVICE: Final = re.compile(r"\bto 0x[0-9a-f]+ \((?P<action>[^)]+)\)", re.IGNORECASE)
_ADVISED: Final = {
    "none": Asks.NOTHING,
    "gpu reset required": Asks.GPU_RESET,
    "drain and reset": Asks.GPU_RESET,
    "node reboot required": Asks.NODE_OUT,
    "drain p2p": Asks.LOOK,
}
_NOW: Final = {
    Asks.NOTHING: "Nothing.",
    Asks.LOOK: "Do what the 154 after it says; where there is none, look at the links of the GPU.",
    Asks.GPU_RESET: "Take the GPU out of use, end what runs on it and reset it.",
    Asks.NODE_OUT: "Cordon the node, restart its jobs elsewhere, drain and reboot it.",
}
_NEAREST: Final = 3


class Explained(NamedTuple):
    title: str
    means: str
    fault: Fault
    asks: Asks
    now: str
    later: str
    is_documented: bool
    sub: SubCode | None = None


class Documented(NamedTuple):
    """Which codes there are, for one that is not among them."""

    xids: tuple[int, int]
    sxids: tuple[int, int]
    nearest: tuple[int, ...]


def documented(code: int) -> Documented:
    near = sorted(sorted(XIDS, key=lambda one: abs(one - code))[:_NEAREST])
    return Documented((min(XIDS), max(XIDS)), (first_sxid(), last_sxid()), tuple(near))


def explain(fault: KernelFault) -> Explained:
    if fault.kind is FaultKind.NVLINK:
        asks = Asks.GPU_RESET if fault.fatal else Asks.LOOK
        means = "The driver complains about a link, and gives no code."
        later = "nvidia-smi nvlink -e on all GPUs of the node, and the fabric manager's log."
        return Explained("a complaint about an NVLink", means, Fault.LINK, asks, _NOW[asks], later, True)
    assert fault.code is not None  # all others have one
    if fault.kind is FaultKind.SXID:
        return _of_switch(fault.code, fault.fatal)
    known = XIDS.get(fault.code)
    if known is None:
        return _unknown(fault.code)
    asks, now, later = known.asks, known.now, known.later
    sub = sub_code(fault)
    if sub is not None:
        asks = sub.asks
        now = _NOW[asks] + _if_it_goes_on(sub)
        later = " ".join(dict.fromkeys(one.later for one in sub.errors)) or later
    elif fault.code == RECOVERY_ACTION:
        advice = _ADVICE.search(fault.text)
        asks = _ADVISED.get(advice["action"].lower(), asks) if advice else asks
        now = _NOW[asks] if advice else now
    return Explained(known.title, known.means, known.fault, asks, now, later, known.family != "unused", sub)


def _if_it_goes_on(sub: SubCode) -> str:
    return " Reset the GPU if work does not go on." if any(one.then for one in sub.errors) else ""


def _of_switch(code: int, is_fatal: bool | None) -> Explained:
    known = sxid(code, is_fatal)
    if known is None:
        return _unknown(code)
    means = f"An NVLink switch of the machine tells it of {known.about}."
    return Explained(known.title, means, Fault.LINK, known.asks, known.now, known.later, known.is_documented)


def _unknown(code: int) -> Explained:
    known = documented(code)
    means = (
        f"Documented are Xids {known.xids[0]} to {known.xids[1]}, and SXids of switches "
        f"{known.sxids[0]} to {known.sxids[1]}. A newer driver may have more."
    )
    now = "Look at the lines around it, and at the release notes of the driver."
    later = "If it comes again, hand the output of nvidia-bug-report.sh to NVIDIA's support."
    return Explained("a code that is not documented", means, Fault.UNCLEAR, Asks.LOOK, now, later, False)
