"""Follows the kernel's log in a thread and writes faults into the ledger, with whom they hit."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trilens.collect.node.kernel_log import Kmsg
from trilens.collect.node.kernel_log_files import Journal, LogFile
from trilens.model.errors import NodeError
from trilens.model.fault_lines import UnreadableFault, read_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.collect.node.fault_ledger import FaultLedger
    from trilens.collect.node.kernel_log import KernelLog, LogLine
    from trilens.model.xid import KernelFault

log = logging.getLogger(__name__)

_TRY_AGAIN_S: Final = 30.0


def open_kernel_log(choice: str) -> KernelLog:
    """`choice` is the setting agent.kernel_log, anything but `off`."""
    if choice == "kmsg":
        return Kmsg()
    if choice == "journal":
        return Journal()
    if choice != "auto":
        return LogFile(Path(choice))
    try:
        return Kmsg()
    except NodeError as not_allowed:
        try:
            return Journal()
        except NodeError as e:
            raise NodeError(f"{not_allowed.message}; {e.message}", hint=not_allowed.hint) from e


class FaultWatch:
    def __init__(
        self,
        open_log: Callable[[], KernelLog],
        ledger: FaultLedger,
        whom: Callable[[KernelFault, int], Mapping[str, Any]],
    ) -> None:
        self._open = open_log
        self._ledger = ledger
        self._whom = whom
        self._stopping = threading.Event()
        self._log: KernelLog | None = None
        self._thread = threading.Thread(target=self._run, name="trilens-kernel-log", daemon=True)
        self.origin: str | None = None  # what is read now
        self.problem: str | None = None  # why it cannot be

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._log is not None:
            self._log.close()
        self._thread.join(timeout=5)
        self._ledger.save()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._log = self._open()
                if self._stopping.is_set():
                    self._log.close()
                self.origin, self.problem = self._log.origin, None
                log.info("reading the kernel log", extra={"origin": self.origin})
                self._follow(self._log)
            except (NodeError, OSError) as e:
                self._fail(str(e))
            except Exception as e:
                log.exception("could not go on reading the kernel log")
                self._fail(repr(e))

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("cannot read the kernel log", extra={"reason": problem})
        self.origin, self.problem = None, problem
        self._stopping.wait(_TRY_AGAIN_S)

    def _follow(self, source: KernelLog) -> None:
        lost = 0
        for line in source.follow(self._ledger.position(source.origin)):
            if source.lost > lost:
                self._ledger.record_lost(source.lost - lost)
                lost = source.lost
            self._take(source.origin, line)

    def _take(self, origin: str, line: LogLine) -> None:
        fault = read_fault(line.text)
        if fault is None:
            self._ledger.passed(origin, line.position)
        elif isinstance(fault, UnreadableFault):
            log.warning("a line about a GPU fault that cannot be read", extra={"line": fault.text})
            self._ledger.record_unreadable(origin, line.position)
        else:
            whom = self._whom(fault, line.t_ms)
            self._ledger.record(origin, line.position, line.t_ms, fault, whom)
            log.warning(
                "GPU fault",
                extra={
                    "kind": fault.kind,
                    "code": fault.code,
                    "pci": fault.pci,
                    "pid": fault.pid,
                    "program": fault.process,
                    "text": fault.text,
                },
            )
