"""Faults in kernel logs, line by line: a file may be larger than memory, and one fault may fill it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.xid.explain import explain
from trilens.diagnose.xid.stamp import Stamp, read_stamp
from trilens.model.fault_lines import UnreadableFault, read_fault
from trilens.model.pci import PciAddress
from trilens.model.verdict import Missing
from trilens.model.xid import NVLINK_XIDS, RECOVERY_ACTION, FaultKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from trilens.diagnose.xid.explain import Explained
    from trilens.model.xid import KernelFault

_DRIVER: Final = re.compile(r"NVRM|nvidia-nv(?:switch|link)")
_UUID: Final = re.compile(r"GPU at (?P<pci>(?:PCI:)?[0-9a-fA-F:.]+): (?P<uuid>GPU-[0-9a-f-]{36})")
_SERIAL: Final = re.compile(r"GPU Board Serial Number: (?P<serial>\S+)")
_HELD_BACK: Final = re.compile(r"Rate limiting .* for GPU at (?P<pci>(?:PCI:)?[0-9a-fA-F:.]+)")
_SAME_MS: Final = 60_000  # a fault that is told again so soon is the same
_MOST: Final = 10_000  # different ones: what is beyond is counted, and no more
_SUB_CODE_WORDS: Final = 8  # RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000040
_UNREADABLE_SHOWN: Final = 3
_LINE_SHOWN: Final = 500  # characters


class KernelText(NamedTuple):
    """Lines of one log, and whose kernel wrote them, where that is known."""

    name: str
    lines: Iterable[str]
    node: str = ""


class Board(NamedTuple):
    uuid: str
    serial: str


@dataclass(slots=True, eq=False)
class Seen:
    """A fault, as often as it was told within a minute of the last time."""

    fault: KernelFault
    node: str
    clock: Hashable  # times are compared within one: the time of day, or one life of a machine
    at_ms: int | None  # by that clock; None where the line has no time
    t_ms: int | None  # of the day
    has_zone: bool
    file: str
    number: int  # of the line
    line: str
    order: int
    explained: Explained
    times: int = 1
    last_ms: int | None = None
    board: Board | None = None


@dataclass(slots=True)
class KernelLog:
    seen: list[Seen] = field(default_factory=list)
    lines: int = 0
    driver_lines: int = 0
    faults: int = 0
    unreadable: int = 0
    left_out: int = 0
    missing: list[Missing] = field(default_factory=list)


def read_kernel_logs(texts: Iterable[KernelText], now_ms: int) -> KernelLog:
    reader = _Reader(now_ms)
    for text in texts:
        reader.read(text)
    return reader.done()


class _Reader:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._log = KernelLog()
        self._open: dict[Hashable, Seen] = {}
        self._boards: dict[tuple[str, PciAddress], Board] = {}
        self._last_board: tuple[str, PciAddress] | None = None
        self._boots: Counter[str] = Counter()
        self._up_ms: dict[str, int] = {}
        self._unreadable: list[str] = []
        self._held_back: set[str] = set()

    def read(self, text: KernelText) -> None:
        for number, line in enumerate(text.lines, 1):
            self._log.lines += 1
            if "NVRM" not in line and "nvidia-nv" not in line:
                continue  # most lines, and this is quick
            begins = _DRIVER.search(line)
            if begins is None:
                continue
            self._log.driver_lines += 1
            stamp = read_stamp(line[: begins.start()], self._now_ms)
            node = text.node or stamp.host
            fault = read_fault(line)
            if fault is None:
                self._neighbour(node, line)
            elif isinstance(fault, UnreadableFault):
                self._log.unreadable += 1
                if len(self._unreadable) < _UNREADABLE_SHOWN:
                    self._unreadable.append(f"{text.name}:{number}: {fault.text[:_LINE_SHOWN]}")
            else:
                self._take(fault, node, stamp, text.name, number, line)

    def _take(self, fault: KernelFault, node: str, stamp: Stamp, file: str, number: int, line: str) -> None:
        log = self._log
        log.faults += 1
        clock = self._clock(node or file, stamp)
        at_ms = stamp.t_ms if stamp.t_ms is not None else stamp.up_ms
        key = (
            node,
            clock,
            fault.kind,
            fault.code,
            fault.pci,
            fault.pid,
            fault.link,
            fault.switch,
            _what(fault),
        )
        known = self._open.get(key)
        if known is not None and _is_soon(known.last_ms, at_ms):
            known.times += 1
            known.last_ms = at_ms
            return
        if len(log.seen) >= _MOST:
            log.left_out += 1
            return
        seen = Seen(
            fault,
            node,
            clock,
            at_ms,
            stamp.t_ms,
            stamp.has_zone,
            file,
            number,
            line.strip()[:_LINE_SHOWN],
            len(log.seen),
            explain(fault),
            last_ms=at_ms,
        )
        self._open[key] = seen
        log.seen.append(seen)

    def _clock(self, whose: str, stamp: Stamp) -> Hashable:
        if stamp.t_ms is not None:
            return "day"
        if stamp.up_ms is None:
            return whose  # nothing but the order of its lines
        if stamp.up_ms < self._up_ms.get(whose, 0):
            self._boots[whose] += 1  # it was started again
        self._up_ms[whose] = stamp.up_ms
        return whose, self._boots[whose]

    def _neighbour(self, node: str, line: str) -> None:
        """Lines of the driver that say which board it is."""
        if found := _UUID.search(line):
            pci = PciAddress.parse(found["pci"])
            if pci is not None:
                self._last_board = (node, pci)
                self._boards[node, pci] = Board(found["uuid"], "")
        elif (found := _SERIAL.search(line)) and self._last_board is not None:
            self._boards[self._last_board] = self._boards[self._last_board]._replace(serial=found["serial"])
        elif found := _HELD_BACK.search(line):
            self._held_back.add(found["pci"])

    def done(self) -> KernelLog:
        log = self._log
        for one in log.seen:
            if one.fault.pci is not None:
                one.board = self._boards.get((one.node, one.fault.pci))
        log.missing.extend(self._missing())
        return log

    def _missing(self) -> Iterable[Missing]:
        log = self._log
        if not log.lines:
            yield Missing("the log is empty", "journalctl -k -b > kernel.log")
        elif not log.driver_lines:
            yield Missing(
                "no line is of the NVIDIA driver", "hand in the kernel's log: journalctl -k -b, or dmesg -T"
            )
        if self._unreadable:
            shown = "; ".join(self._unreadable)
            yield Missing(
                f"{log.unreadable} lines begin like an Xid and cannot be read: {shown}",
                "hand in whole lines: cut ones and those of other programs are not counted",
            )
        if len(log.seen) > 1 and any(one.at_ms is None for one in log.seen):
            yield Missing(
                "lines have no time, so what came first is told by their order alone",
                "dmesg -T, or journalctl -k",
            )
        for pci in sorted(self._held_back):
            yield Missing(
                f"the driver held lines about {pci} back: there were more than are shown",
                "no other log has them either",
            )
        if log.left_out:
            yield Missing(
                f"{log.left_out} faults beyond the first {_MOST} were counted and not looked at",
                "hand in a shorter time: journalctl -k --since ... --until ...",
            )


def _what(fault: KernelFault) -> str:
    """What tells it from another one with the same code: a sub-code, the driver's advice."""
    if fault.kind is FaultKind.NVLINK or fault.code == RECOVERY_ACTION:
        return fault.text
    return " ".join(fault.text.split()[:_SUB_CODE_WORDS]) if fault.code in NVLINK_XIDS else ""


def _is_soon(last_ms: int | None, at_ms: int | None) -> bool:
    return last_ms is None or at_ms is None or abs(at_ms - last_ms) <= _SAME_MS
