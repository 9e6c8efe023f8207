"""Sub-codes of the NVLink Xids 144 to 150: the unit, its error status, and what follows (nvlink.yml)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.packaged_yaml import packaged_yaml
from trilens.model.xid import GRAVEST_FIRST, Asks, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.model.xid import KernelFault

_LINE: Final = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]*)\s+(?P<non>non-?)?fatal\s+XC\d+\s+i\d+\s+Link\s+-?\d+\s*"
    r"(?:\((?P<words>(?:0x[0-9a-f]{8}\b ?)*))?",
    re.IGNORECASE,
)
_REASON_SHIFT: Final = 20  # bits 20 to 25 of the first word: why a link went down
_REASON_MASK: Final = 0x3F
_WIDTHS: Final = (10, 7)  # of the unit's number in the first word, in older and newer drivers
_PEER: Final = "peer"


@dataclass(frozen=True, slots=True)
class NvlinkError:
    """A line of NVIDIA's table."""

    xid: int
    unit: str
    names: frozenset[str]  # of the unit, in all drivers
    about: str
    numbers: tuple[int, int]  # of the unit, in older and newer drivers
    status: int
    reason: int | None  # of a link that went down
    by: str  # hardware, software, either, firmware, nobody
    severity: str  # nonfatal, fatal, link-fatal
    asks: Asks  # look: what the 154 after it says
    then: Asks | None  # when work does not go on
    later: str
    here: tuple[str, ...]  # what follows on this GPU
    there: tuple[str, ...]  # and on the others
    blames_peer: bool  # the other end of the link began it


class SubCode(NamedTuple):
    """What a line of 144 to 150 says beside its code."""

    unit: str
    is_fatal: bool  # as the line has it
    status: int | None  # None where the line is cut
    reason: int | None
    errors: tuple[NvlinkError, ...]  # several where several bits of the status are set; none: not documented

    @property
    def asks(self) -> Asks:
        if not self.errors:
            return Asks.GPU_RESET if self.is_fatal else Asks.LOOK
        return min((one.asks for one in self.errors), key=GRAVEST_FIRST.index)

    @property
    def blames_peer(self) -> bool:
        return any(one.blames_peer for one in self.errors)


@cache
def nvlink_errors() -> tuple[NvlinkError, ...]:
    return tuple(_errors(packaged_yaml("trilens.model", "nvlink.yml")))


def sub_code(fault: KernelFault) -> SubCode | None:
    """None where the line has none."""
    if fault.kind is not FaultKind.XID or fault.code not in sub_coded():
        return None
    found = _LINE.search(fault.text)
    if found is None:
        return None
    words = [int(word, 16) for word in (found["words"] or "").split()]
    first = words[0] if words else None
    status = words[1] if len(words) > 1 else None
    of_unit = _of_unit(fault.code, found["unit"], first)
    reason = None if first is None else (first >> _REASON_SHIFT) & _REASON_MASK
    if not any(one.reason is not None for one in of_unit):
        reason = None  # this unit has none
    fitting = [one for one in of_unit if one.reason == reason]
    return SubCode(found["unit"], found["non"] is None, status, reason, _with_status(fitting, status))


@cache
def sub_coded() -> frozenset[int]:
    """Of these Xids what they ask for stands in the rest of their line."""
    return frozenset(one.xid for one in nvlink_errors())


def _of_unit(xid: int | None, name: str, first: int | None) -> Sequence[NvlinkError]:
    """Two pipes of a unit may go by one name; the number tells them apart in newer drivers."""
    names = set(name.upper().split("/"))
    named = [one for one in nvlink_errors() if one.xid == xid and names & one.names]
    exact = [one for one in named if one.unit in names]
    numbered = [one for one in named if first is not None and _has_number(one, first)]
    chosen = exact or numbered or named
    return [one for one in chosen if one.unit == chosen[0].unit] if chosen else ()


def _has_number(error: NvlinkError, first: int) -> bool:
    return any(
        first & ((1 << width) - 1) == number for width, number in zip(_WIDTHS, error.numbers, strict=True)
    )


def _with_status(errors: Sequence[NvlinkError], status: int | None) -> tuple[NvlinkError, ...]:
    if status is None:
        return tuple(errors) if len(errors) == 1 else ()
    if exact := [one for one in errors if one.status == status]:
        return tuple(exact)
    if any(one.status & (one.status - 1) or not one.status for one in errors):
        return ()  # numbers, not bits
    return tuple(one for one in errors if status & one.status)


def _errors(told: Mapping[str, Any]) -> Iterator[NvlinkError]:
    effects, later = told["effects"], told["later"]
    for unit, of_unit in told["units"].items():
        older, newer = of_unit["bits"]
        for one in of_unit["errors"]:
            yield NvlinkError(
                of_unit["xid"],
                unit,
                frozenset({unit, *of_unit.get("also", ())}),
                of_unit["about"],
                (older, newer),
                one["status"],
                one.get("reason"),
                one["by"],
                one["severity"],
                Asks(one["asks"]),
                Asks(one["then"]) if "then" in one else None,
                later[one["later"]],
                tuple(effects[name] for name in one["here"]),
                tuple(effects[name] for name in one["there"]),
                one["later"] == _PEER,
            )
