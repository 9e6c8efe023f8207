"""Where the spools of this machine lie: a folder for each writer, locked as long as its process lives."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ABOUT: Final = "about.json"
_LOCK: Final = "lock"
_SEGMENTS: Final = "*.ndjson"


class About(NamedTuple):
    """What has to be known to send what a dead process left."""

    run: str
    rank: int
    writer: str
    server: str
    started_ms: int
    host: str
    pid: int


class WriterFolder:
    """Held by whoever made an object of this: the writer itself, or one who sends what it left."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    def segment_paths(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.path.glob(_SEGMENTS))

    def new_segment_path(self, number: int) -> Path:
        return self.path / f"{number:012}.ndjson"

    def release(self) -> None:
        """Closing, not unlocking: in a forked child the parent's lock must stay."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            for path in (*self.segment_paths(), self.path / _ABOUT, self.path / _LOCK):
                path.unlink(missing_ok=True)
            self.path.rmdir()
        self.release()


class Found(NamedTuple):
    """A writer's folder as it lies there, locked or not."""

    path: Path
    about: About
    bytes_there: int
    changed_s: float  # when something was last written to it

    @property
    def is_alive(self) -> bool:
        """Whether its process lives, or somebody sends what it left. Asking takes its lock for a moment, so
        it is not done without need: whoever wants to send it must find it free."""
        taken = take_folder(self.path)
        if taken is None:
            return self.path.exists()
        taken.release()
        return False


def make_folder(root: Path, about: About) -> WriterFolder:
    """OSError when the disk does not take it."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_strangers(root)
    # Under a name nobody looks for until it is locked, so that nobody takes it for a dead one's. It is there
    # already when the disk was full at the first try.
    unready = root / f".{about.writer}"
    unready.mkdir(mode=0o700, exist_ok=True)
    lock = _try_lock(unready / _LOCK, create=True)
    if lock is None:
        raise OSError(errno.EAGAIN, "the new folder is locked already", str(unready))
    try:
        (unready / _ABOUT).write_text(json.dumps(about._asdict()), encoding="utf-8")
        return WriterFolder(unready.rename(root / about.writer), lock)
    except OSError:
        os.close(lock)
        raise


def _refuse_strangers(root: Path) -> None:
    """Where everybody may make folders (/tmp), another user may have made this one, to read what we write."""
    is_shared = root.parent.stat().st_mode & stat.S_IWOTH
    if is_shared and root.lstat().st_uid not in (0, os.getuid()):
        raise PermissionError(errno.EPERM, "the folder belongs to another user", str(root))


def take_folder(path: Path) -> WriterFolder | None:
    """None while its process lives, or somebody else sends it."""
    try:
        lock = _try_lock(path / _LOCK, create=False)
    except OSError:
        return None
    return None if lock is None else WriterFolder(path, lock)


def find_folders(root: Path) -> list[Found]:
    """Those that changed longest ago first. A folder that does not say whose it is, is none."""
    return sorted(_found(root), key=lambda found: found.changed_s)


def this_host() -> str:
    return socket.gethostname()


def _found(root: Path) -> Iterator[Found]:
    try:
        paths = [path for path in root.iterdir() if not path.name.startswith(".")]
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError, ValueError, TypeError):  # it has just gone, or is not ours
            about = _read_about(path / _ABOUT)
            files = [segment.stat() for segment in path.glob(_SEGMENTS)]
            changed_s = max((file.st_mtime for file in files), default=path.stat().st_mtime)
            yield Found(path, about, sum(file.st_size for file in files), changed_s)


def _read_about(path: Path) -> About:
    """TypeError or ValueError when it is not one of ours."""
    about = About(**json.loads(path.read_text(encoding="utf-8")))
    texts = (about.run, about.writer, about.server, about.host)
    numbers = (about.rank, about.started_ms, about.pid)
    if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int) for one in numbers):
        raise TypeError(path)
    return about


def _try_lock(path: Path, *, create: bool) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor
