"""The kernel's log, line by line, each with the time it was written and a place to go on from."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.collect.node.boot_clock import BootClock
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

KMSG: Final = Path("/dev/kmsg")
_RECORD_BYTES: Final = 8192  # the kernel never writes a larger one; a smaller buffer would lose it
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")


class LogLine(NamedTuple):
    text: str
    t_ms: int
    position: str  # what `follow` takes to go on after this line


class KernelLog(Protocol):
    origin: str  # "kmsg", "journal", or the file
    lost: int  # records that were gone before they could be read

    def follow(self, after: str | None) -> Iterator[LogLine]:
        """All lines after a position, or all there are; waits for more until it is closed."""
        ...

    def close(self) -> None: ...


class Kmsg:
    """/dev/kmsg: one record a read, numbered since boot. Old ones are overwritten when the buffer is full."""

    origin = "kmsg"

    def __init__(
        self, device: Path = KMSG, boot_id: str | None = None, clock: BootClock | None = None
    ) -> None:
        self.lost = 0
        self._boot_id = boot_id if boot_id is not None else read_boot_id(Path("/proc"))
        self._clock = clock or BootClock()
        try:
            self._device = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            hint = "run the agent as root, or with the capability CAP_SYSLOG"
            raise NodeError(f"cannot read {device}: {e.strerror}", hint=hint) from e
        self._woken, self._waker = socket.socketpair()

    def follow(self, after: str | None) -> Iterator[LogLine]:
        boot_id, _, sequence = (after or "").rpartition(":")
        # A record is taken once it lies after this one. Another boot has other numbers.
        last = int(sequence) if boot_id == self._boot_id and sequence.isdigit() else None
        waiting = select.poll()
        waiting.register(self._device, select.POLLIN)
        waiting.register(self._woken, select.POLLIN)
        fresh = False  # whether the next record is one that was waited for
        try:
            while True:
                record = self._read()
                if record is None:
                    if any(descriptor != self._device for descriptor, _ in waiting.poll()):
                        return
                    fresh = True
                    continue
                number, boot_us, text = record
                if fresh:
                    self._clock.learn(boot_us)
                    fresh = False
                if last is not None and number <= last:
                    continue
                if last is not None:
                    self.lost += number - last - 1
                last = number
                yield LogLine(text, self._clock.wall_ms(boot_us), f"{self._boot_id}:{number}")
        finally:
            os.close(self._device)
            self._woken.close()
            self._waker.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self._waker.send(b"x")

    def _read(self) -> tuple[int, int, str] | None:
        """(number, microseconds since boot, text); None when there is none yet."""
        while True:
            try:
                return read_record(os.read(self._device, _RECORD_BYTES))
            except BlockingIOError:
                return None
            except BrokenPipeError:
                continue  # the next one was overwritten; the numbers will show how many are gone


def read_boot_id(proc: Path) -> str:
    """What tells one boot from another; empty where the kernel does not say."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_record(raw: bytes) -> tuple[int, int, str]:
    """`6,339,5140900,-;text`, then lines of properties that begin with a space."""
    head, _, body = raw.partition(b";")
    fields = head.split(b",")
    text = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), body.partition(b"\n")[0])
    return int(fields[1]), int(fields[2]), text.decode("utf-8", "replace")
