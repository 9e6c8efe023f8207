"""Xid, SXid and NVLink lines of the kernel's log, in every spelling that drivers have used."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trilens.model.pci import PciAddress
from trilens.model.xid import NVLINK_XIDS, FaultKind, KernelFault

_PLACE: Final = r"(?:PCI:)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_XID: Final = re.compile(
    rf"NVRM: Xid \((?P<pci>{_PLACE})(?: GPU-I:(?P<gi>\d+))?(?: GPU-CI:(?P<ci>\d+))?[^)]*\): "
    r"(?P<code>\d+)(?:, ?(?P<rest>.*))?"
)
_SXID: Final = re.compile(
    rf"nvidia-nvswitch(?P<switch>\d+): SXid \((?P<pci>{_PLACE})\): (?P<code>\d+)(?:, ?(?P<rest>.*))?"
)
_ANY_XID: Final = re.compile(r"NVRM: Xid\b|nvidia-nvswitch\d+: SXid\b")
_WHOSE: Final = re.compile(
    r"(?:pid=(?:(?P<pid>\d+)|'?<unknown>'?)(?:, ?|$))?(?:name=(?P<name>.*?)(?:, |$))?(?P<text>.*)"
)
_LINK: Final = re.compile(r"\blink (?P<link>-?\d+)", re.IGNORECASE)
_SEVERITY: Final = re.compile(r"\b(?P<non>non-?)?fatal\b", re.IGNORECASE)
_NVLINK: Final = re.compile(
    r"(?:NVRM: |nvidia-nvlink: |nvidia-nvswitch(?P<switch>\d+): )"
    r"(?=.*nvlink|.*\blink \d)(?=.*(?:error|fail|fatal|fault|timeout|timed out|degraded|down\b))(?P<text>.*)",
    re.IGNORECASE,
)
_PLACE_IN_TEXT: Final = re.compile(rf"\b{_PLACE}\b")
_UNKNOWN_NAME: Final = "<unknown>"


class UnreadableFault(NamedTuple):
    """It begins like an Xid or SXid and goes on like nothing known."""

    text: str


def read_fault(line: str) -> KernelFault | UnreadableFault | None:
    """None for the many lines that are about something else."""
    if found := _XID.search(line):
        return _coded(found, FaultKind.XID)
    if found := _SXID.search(line):
        return _coded(found, FaultKind.SXID)
    if _ANY_XID.search(line):
        return UnreadableFault(line.strip())
    if "nvidia-nv" not in line and "NVRM" not in line:
        return None
    if found := _NVLINK.search(line):
        text = found["text"].strip()
        place = _PLACE_IN_TEXT.search(text)
        return KernelFault(
            FaultKind.NVLINK,
            None,
            PciAddress.parse(place[0]) if place else None,
            text,
            switch=_number(found["switch"]),
            link=link_in(text),
            fatal=fatal_in(text),
        )
    return None


def _coded(found: re.Match[str], kind: FaultKind) -> KernelFault:
    code = int(found["code"])
    whose = _WHOSE.fullmatch((found["rest"] or "").strip())
    assert whose is not None  # its last part takes anything
    text = whose["text"].strip()
    about_links = kind is FaultKind.SXID or code in NVLINK_XIDS
    groups = found.groupdict()
    return KernelFault(
        kind,
        code,
        PciAddress.parse(found["pci"]),
        text,
        pid=_number(whose["pid"]),
        process=whose["name"] if whose["name"] != _UNKNOWN_NAME else None,
        gpu_instance=_number(groups.get("gi")),
        compute_instance=_number(groups.get("ci")),
        switch=_number(groups.get("switch")),
        link=link_in(text) if about_links else None,
        fatal=fatal_in(text) if about_links else None,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None else None


def link_in(text: str) -> int | None:
    """The link that the driver names in its words."""
    found = _LINK.search(text)
    return int(found["link"]) if found and int(found["link"]) >= 0 else None  # -1: no link in particular


def fatal_in(text: str) -> bool | None:
    """Whether the driver calls it fatal; None where it does not say."""
    found = _SEVERITY.search(text)
    return found["non"] is None if found else None
