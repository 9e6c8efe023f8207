"""The kernel's log second hand, where /dev/kmsg may not be read: the journal, or a logger's file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trilens.collect.node.kernel_log import LogLine
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_LOOK_AGAIN_S: Final = 1.0  # a file gives no sign when it grows


class Journal:
    """`journalctl`, which keeps its own places and times."""

    origin = "journal"

    def __init__(self, program: str = "journalctl") -> None:
        self.lost = 0
        found = shutil.which(program)
        if found is None:
            raise NodeError(f"cannot read the journal: there is no {program} here")
        self._program = found
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def follow(self, after: str | None) -> Iterator[LogLine]:
        place = [f"--after-cursor={after}"] if after else ["--boot"]
        command = [self._program, "--dmesg", "--follow", "--lines=all", "--output=json", "--no-pager", *place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603 - our own words
            self._process = process
            assert process.stdout is not None
            assert process.stderr is not None
            for raw in process.stdout:
                if (line := read_journal_entry(raw)) is not None:
                    yield line
            complaint = process.stderr.read().decode("utf-8", "replace").strip()
        if not self._closed:
            raise NodeError(f"journalctl ended: {complaint or f'exit code {process.returncode}'}")

    def close(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.terminate()


def read_journal_entry(raw: bytes) -> LogLine | None:
    try:
        entry = json.loads(raw)
        message = entry["MESSAGE"]
        # Text that is not UTF-8 comes as a list of bytes.
        text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
        return LogLine(text, int(entry["__REALTIME_TIMESTAMP"]) // 1000, str(entry["__CURSOR"]))
    except (ValueError, KeyError, TypeError):
        return None


class LogFile:
    """A file like /var/log/kern.log, or the output of `dmesg -T`. It may be rotated."""

    def __init__(self, file: Path) -> None:
        self.origin = str(file)
        self.lost = 0
        self._file = file
        self._closed = threading.Event()
        if not file.is_file():
            raise NodeError(f"cannot read the kernel log {file}: there is no such file")

    def follow(self, after: str | None) -> Iterator[LogLine]:
        inode, _, offset = (after or "").partition(":")
        start = int(offset) if offset.isdigit() and inode == str(self._identity()) else 0
        while not self._closed.is_set():
            try:
                stream = self._file.open("rb")
            except FileNotFoundError:  # between the old file and the new one
                self._closed.wait(_LOOK_AGAIN_S)
                continue
            with stream:
                stream.seek(start)
                start = 0
                yield from self._lines(stream)

    def _lines(self, stream: BinaryIO) -> Iterator[LogLine]:
        """Of one file, until it is closed or another one has taken its place."""
        identity = os.fstat(stream.fileno()).st_ino
        while not self._closed.is_set():
            position = stream.tell()
            raw = stream.readline()
            if raw.endswith(b"\n"):
                text = raw.decode("utf-8", "replace").rstrip("\n")
                yield LogLine(text, written_at(text, time.time()), f"{identity}:{stream.tell()}")
                continue
            stream.seek(position)  # the rest of this line is still to come
            if self._identity() != identity or os.fstat(stream.fileno()).st_size < position:
                return
            self._closed.wait(_LOOK_AGAIN_S)

    def _identity(self) -> int | None:
        try:
            return self._file.stat().st_ino
        except FileNotFoundError:
            return None

    def close(self) -> None:
        self._closed.set()


_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))\s")
_DMESG: Final = re.compile(r"\[(?:\w{3} )?(\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_SYSLOG: Final = re.compile(r"(\w{3} +\d+ \d\d:\d\d:\d\d) ")


def written_at(line: str, now_s: float) -> int:
    """Milliseconds, from the stamp that a logger put before the line; now, where there is none."""
    try:
        if found := _ISO.match(line):
            return round(datetime.fromisoformat(found[1]).timestamp() * 1000)
        if found := _DMESG.match(line):
            return round(datetime.strptime(found[1], "%b %d %H:%M:%S %Y").astimezone().timestamp() * 1000)
        if found := _SYSLOG.match(line):
            today = datetime.fromtimestamp(now_s, UTC).astimezone()
            stamp = datetime.strptime(f"{today.year} {found[1]}", "%Y %b %d %H:%M:%S").astimezone()
            if stamp - today > timedelta(days=1):  # it has no year: December, read in January
                stamp = stamp.replace(year=today.year - 1)
            return round(stamp.timestamp() * 1000)
    except ValueError:
        pass  # looked like a date, and is none
    return round(now_s * 1000)
