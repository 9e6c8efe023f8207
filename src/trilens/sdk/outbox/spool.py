"""What one process has told and the server has not taken yet, oldest first.

Every batch is a line in a file before anybody tries to send it, whether a server is there or not. Where the
disk does not take it, it waits in memory; the order is kept through both.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from trilens.sdk.guard import describe
from trilens.sdk.outbox.folder import find_folders, make_folder, take_folder
from trilens.sdk.outbox.segment import FileSegment, MemorySegment

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.folder import About, WriterFolder
    from trilens.sdk.outbox.line import Line

_MAX_SEGMENT_BYTES: Final = 1024 * 1024  # about one request
_MIN_SEGMENT_BYTES: Final = 16 * 1024
_TRY_DISK_AGAIN_S: Final = 30.0


class Spool:
    """`append` by one thread, `oldest` and `forget` by another."""

    def __init__(self, root: Path, about: About, guard: Guard, *, disk_bytes: int, memory_bytes: int) -> None:
        self._root = root
        self._about = about
        self._guard = guard
        self._disk_bytes = disk_bytes
        self._memory_bytes = memory_bytes
        self._segment_bytes = max(_MIN_SEGMENT_BYTES, min(_MAX_SEGMENT_BYTES, disk_bytes // 16))
        self._lock = threading.Lock()
        self._segments: deque[FileSegment | MemorySegment] = deque()
        self._folder: WriterFolder | None = None
        self._made = 0  # segments, for their names
        self._disk_again_s = 0.0  # when the disk is tried again, by the monotonic clock
        self.is_closed = False
        _alive.add(self)

    @property
    def bytes_left(self) -> int:
        with self._lock:
            return sum(segment.bytes_left for segment in self._segments)

    @property
    def bytes_in_memory(self) -> int:
        with self._lock:
            return sum(s.bytes_left for s in self._segments if isinstance(s, MemorySegment))

    def append(self, line: Line) -> None:
        with self._lock:
            if self.is_closed:
                self._guard.lost("records", why="told after the end")
            elif not self._on_disk(line):
                self._in_memory(line)

    def oldest(self, limit_bytes: int) -> list[Line]:
        while True:
            with self._lock:
                segment = next((s for s in self._segments if s.bytes_left > 0), None)
            if segment is None:
                return []
            try:
                lines = segment.oldest(limit_bytes)
            except OSError as error:
                self._give_up(segment, error)
                continue
            if lines:
                return lines
            self._pass_over(segment)

    def forget(self, seq: int) -> None:
        """The server has taken all batches up to this one, or will never take them."""
        with self._lock:
            while self._segments:
                segment = self._segments[0]
                segment.forget(seq)
                if segment.bytes_left > 0:
                    return
                if isinstance(segment, FileSegment) and segment.is_open:
                    return  # the one being written: the last
                segment.remove()
                self._segments.popleft()

    def close(self) -> None:
        """What the server has not taken stays on disk for the next process; what only memory has is lost."""
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
            for segment in self._segments:
                if isinstance(segment, FileSegment):
                    segment.seal()
                elif lost := segment.remove():
                    self._guard.lost("records", lost, why="the program ended before the server took them")
            if self._folder is None:
                return
            if any(segment.bytes_left > 0 for segment in self._segments):
                self._folder.release()
            else:
                self._folder.remove()

    def let_go(self) -> None:
        """In a forked child: the files and the lock are the parent's. No lock is taken, another thread may
        have held it when the process was forked."""
        self.is_closed = True
        for segment in self._segments:
            if isinstance(segment, FileSegment):
                segment.seal()
        if self._folder is not None:
            self._folder.release()

    def _on_disk(self, line: Line) -> bool:
        if time.monotonic() < self._disk_again_s:
            return False
        try:
            self._segment_for(len(line.text)).append(line)
        except OSError as error:
            self._disk_again_s = time.monotonic() + _TRY_DISK_AGAIN_S
            self._guard.lost("spool", why=f"{describe(error)}; records wait in memory instead")
            return False
        return True

    def _segment_for(self, size: int) -> FileSegment:
        last = self._segments[-1] if self._segments else None
        if isinstance(last, FileSegment) and last.is_open:
            if last.bytes_left == 0 or last.bytes_left + size <= self._segment_bytes:
                return last
            last.seal()
        if self._folder is None:
            self._folder = make_folder(self._root, self._about)
        self._make_room()
        segment = FileSegment(self._folder.new_segment_path(self._made), is_new=True)
        self._made += 1
        self._segments.append(segment)
        return segment

    def _in_memory(self, line: Line) -> None:
        last = self._segments[-1] if self._segments else None
        if not isinstance(last, MemorySegment):
            last = MemorySegment()
            self._segments.append(last)
        last.append(line)
        size = sum(s.bytes_left for s in self._segments if isinstance(s, MemorySegment))
        for segment in self._segments:
            while size > self._memory_bytes and isinstance(segment, MemorySegment) and segment.bytes_left:
                before = segment.bytes_left
                segment.drop_oldest()
                size -= before - segment.bytes_left
                self._guard.lost("records", why="neither disk nor server took it, and memory is bounded")

    def _make_room(self) -> None:
        """For one more segment. What dead processes left goes first, then the oldest of our own, down to an
        equal share for each that lives: nobody removes what another living process has yet to send."""
        found = find_folders(self._root)
        over = sum(one.bytes_there for one in found) + self._segment_bytes - self._disk_bytes
        if over <= 0:
            return
        living = [one for one in found if one.is_alive]
        for one in found:
            if over > 0 and one not in living:
                over -= self._shorten(one.path, over)
        share = self._disk_bytes // max(1, len(living)) - self._segment_bytes
        own = sum(s.bytes_left for s in self._segments if isinstance(s, FileSegment))
        for segment in [s for s in self._segments if isinstance(s, FileSegment)]:
            if over <= 0 or own <= share:
                return
            over -= segment.bytes_left
            own -= segment.bytes_left
            self._segments.remove(segment)
            self._guard.lost("records", segment.remove(), why=self._full())

    def _shorten(self, path: Path, wanted_bytes: int) -> int:
        folder = take_folder(path)
        if folder is None:  # somebody sends it at this moment
            return 0
        freed = 0
        paths = folder.segment_paths()
        for segment_path in list(paths):
            if freed >= wanted_bytes:
                break
            with contextlib.suppress(OSError):
                segment = FileSegment(segment_path)
                freed += segment.bytes_left
                self._guard.lost("records", segment.remove(), why=self._full())
                paths.remove(segment_path)
        if paths:
            folder.release()
        else:
            folder.remove()
        return freed

    def _full(self) -> str:
        return f"the spool in {self._root} has reached {self._disk_bytes} bytes: the oldest go first"

    def _give_up(self, segment: FileSegment | MemorySegment, error: OSError) -> None:
        with self._lock:
            if segment in self._segments:  # else it has been removed to make room, and counted there
                self._segments.remove(segment)
                self._guard.lost("records", max(1, segment.remove()), why=describe(error))

    def _pass_over(self, segment: FileSegment | MemorySegment) -> None:
        """It holds nothing but what a failing disk made of a line."""
        with self._lock:
            segment.forget(-1)


_alive: weakref.WeakSet[Spool] = weakref.WeakSet()


def _let_go_of_all() -> None:
    for spool in tuple(_alive):
        spool.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)
