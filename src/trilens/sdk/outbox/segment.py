"""A stretch of lines that wait: in a file, or in memory where the disk does not take them."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from trilens.sdk.outbox.line import Content, split

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.sdk.outbox.line import Line

_READ_BYTES: Final = 1024 * 1024


class Segment(Protocol):
    @property
    def bytes_left(self) -> int: ...

    def oldest(self, limit_bytes: int) -> list[Line]:
        """About as many as the limit allows, and at least one where there is one."""

    def forget(self, seq: int) -> int:
        """All lines up to this one; answers how many were passed over that are no batches."""

    def remove(self) -> int:
        """Answers how many lines were in it."""


class MemorySegment:
    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self.bytes_left = 0

    def append(self, line: Line) -> None:
        self._lines.append(line)
        self.bytes_left += len(line.text)

    def oldest(self, limit_bytes: int) -> list[Line]:
        taken: list[Line] = []
        size = 0
        for line in tuple(self._lines):
            size += len(line.text)
            if taken and size > limit_bytes:
                break
            taken.append(line)
        return taken

    def forget(self, seq: int) -> int:
        while self._lines and self._lines[0].seq <= seq:
            self.drop_oldest()
        return 0

    def drop_oldest(self) -> None:
        self.bytes_left -= len(self._lines.popleft().text)

    def remove(self) -> int:
        count = len(self._lines)
        self._lines.clear()
        self.bytes_left = 0
        return count


class FileSegment:
    """What is appended is in the page cache when `append` returns: a killed process has not lost it."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.path = path
        self._start = 0  # what lies before was taken by the server
        self._descriptor: int | None = None
        if is_new:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
        self._size = 0 if is_new else path.stat().st_size

    @property
    def bytes_left(self) -> int:
        return self._size - self._start

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def append(self, line: Line) -> None:
        """OSError when the disk does not take all of it: then it is as if it had not been told."""
        assert self._descriptor is not None
        rest = memoryview(line.text)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            self.seal()
            raise
        self._size += len(line.text)

    def seal(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def oldest(self, limit_bytes: int) -> list[Line]:
        """OSError when the file is gone."""
        return self._content(limit_bytes).lines

    def forget(self, seq: int) -> int:
        torn = 0
        while self.bytes_left > 0:
            try:
                content = self._content(_READ_BYTES)
            except OSError:  # removed to make room
                self._start = self._size
                break
            taken = [found for found in content.found if found.line.seq <= seq]
            if len(taken) < len(content.found):
                if taken:
                    self._start += taken[-1].end
                    torn += taken[-1].torn
                return torn
            torn += content.torn
            # A file that is shorter than it was holds nothing more.
            self._start = self._start + content.end if content.end else self._size
        if self._descriptor is not None:  # used again: a server that is there costs no new file a second
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                self._start = self._size = 0
        return torn

    def remove(self) -> int:
        count = 0
        with contextlib.suppress(OSError):
            count = self._read(self.bytes_left).count(b"\n")
        self.seal()
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._start = self._size
        return count

    def _content(self, limit_bytes: int) -> Content:
        wanted = limit_bytes
        while True:
            text = self._read(wanted)
            is_all = len(text) < wanted or len(text) >= self.bytes_left
            content = split(text, is_all=is_all)
            if content.found and wanted > limit_bytes:  # a line longer than the limit is given alone
                first = content.found[0]
                return Content([first], first.end, first.torn)
            if content.found or is_all:
                return content
            wanted *= 4

    def _read(self, limit_bytes: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self._start)
            return file.read(max(0, min(limit_bytes, self.bytes_left)))
