"""Files of Python stacks, written by faulthandler even while something holds the interpreter's lock.

faulthandler's timer is C code with a thread of its own: it needs no lock to write where Python's threads are.
It is set again and again; when nobody can set it any more, because the lock is held, it writes. The process
itself cannot send anything then. So the file lies in a folder of the spool, and is sent by whoever can:
another rank of the run on this machine, the process once it runs again, or the next process of the run there.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import re
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KEPT_S: Final = 7 * 24 * 3600
_SETTLED_S: Final = 1.0  # after the last write: the dump is whole
_NAME: Final = re.compile(r"(?P<run>[^@]+)@(?P<host>.+)\.rank(?P<rank>\d+)\.pid(?P<pid>\d+)\.txt")


class Found(NamedTuple):
    rank: int
    pid: int
    stacks: bytes


class StacksFile:
    """That of this process. Where the folder cannot be written it is in memory, and lost with the process."""

    def __init__(self, folder: Path, run: str, rank: int) -> None:
        self._folder = folder
        self._run = run
        # A folder may be shared by machines, as homes are: each looks after its own files.
        self._path = folder / f"{run}@{_host()}.rank{rank}.pid{os.getpid()}.txt"
        # A timer must never be set for a file that is closed: its number is used again.
        self._lock = threading.Lock()
        self._file: int | None = None
        self._in_folder = False
        self._open()
        _living.add(self)

    def arm(self, seconds: float) -> None:
        """To be set again before then. A process has one such timer: it replaces one of the program's own."""
        with self._lock:
            if self._file is not None:
                faulthandler.dump_traceback_later(seconds, file=self._file)

    def dump(self) -> bytes:
        """Where every Python thread is now, the program's first one at the top."""
        with self._lock:
            if self._file is None:
                return b""
            self._clear(self._file)
            faulthandler.dump_traceback(file=self._file, all_threads=True)
            # faulthandler begins with the thread that asks, which is ours, and goes on from the newest.
            threads = self._content(self._file).strip().split(b"\n\n")
            return b"\n\n".join(reversed(threads)) + b"\n"

    def take(self) -> bytes:
        """What the timer wrote while nobody could set it again; empty also where another rank has sent it."""
        with self._lock:
            if self._file is None:
                return b""
            stacks = self._content(self._file)
            if stacks and self._in_folder and not self._path.exists():
                self._close()
                self._open()
                return b""
            return stacks

    def before_fork(self) -> None:
        """A child would wait for ever, at its end, for a thread of the timer's that it does not have."""
        self._lock.acquire()
        if self._file is not None:
            faulthandler.cancel_dump_traceback_later()

    def after_fork(self, *, in_child: bool) -> None:
        """The watchdog of the parent sets the timer again soon; the child has none, and no file."""
        if in_child and self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._close()
            if self._in_folder:
                self._path.unlink(missing_ok=True)

    def _open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._in_folder = True
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as long as this process lives
        except OSError:
            self._file = os.memfd_create("trilens-stacks", os.MFD_CLOEXEC)
            self._in_folder = False

    def _close(self) -> None:
        if self._file is not None:
            faulthandler.cancel_dump_traceback_later()
            os.close(self._file)
            self._file = None

    def _content(self, file: int) -> bytes:
        stacks = os.pread(file, os.fstat(file).st_size, 0)
        self._clear(file)
        return stacks

    @staticmethod
    def _clear(file: int) -> None:
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)

    def of_others(self) -> Iterator[Found]:
        """Stacks of other processes of this run on this machine. Each is handed out once, to one process."""
        now_s = time.time()
        for path in _files(self._folder):
            named = _NAME.fullmatch(path.name)
            if named is None or path == self._path or (named["run"], named["host"]) != (self._run, _host()):
                continue
            stacks = _take_over(path, now_s)
            if stacks:
                yield Found(int(named["rank"]), int(named["pid"]), stacks)

    def clear_old(self) -> None:
        """What processes left that died without stacks, and what nobody came for in a week."""
        now_s = time.time()
        for path in _files(self._folder):
            named = _NAME.fullmatch(path.name)
            try:
                told = path.stat()
                is_ours = named is not None and named["host"] == _host()
                if now_s - told.st_mtime > _KEPT_S or (is_ours and not told.st_size and _has_died(path)):
                    path.unlink(missing_ok=True)
            except OSError:
                continue


def _host() -> str:
    return socket.gethostname()


def _has_died(path: Path) -> bool:
    """Whether no process holds it any more. The number in its name would not tell: containers count alone."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _take_over(path: Path, now_s: float) -> bytes:
    taken = path.with_name(f"{path.name}.sent-by-{os.getpid()}")
    try:
        told = path.stat()
        if not told.st_size or now_s - told.st_mtime < _SETTLED_S:
            return b""
        path.rename(taken)  # only one process can
        stacks = taken.read_bytes()
        taken.unlink()
    except OSError:
        return b""
    return stacks


_living: Final[weakref.WeakSet[StacksFile]] = weakref.WeakSet()
_forking: Final[list[StacksFile]] = []


def _before_fork() -> None:
    _forking.extend(_living)
    for file in _forking:
        file.before_fork()


def _after_fork(*, in_child: bool) -> None:
    while _forking:
        _forking.pop().after_fork(in_child=in_child)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(in_child=False),
    after_in_child=lambda: _after_fork(in_child=True),
)
