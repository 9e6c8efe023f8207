"""One process at a time in a data directory, and a clear word on who it is.

The lock itself is the kernel's (flock), so it is gone the moment its holder is, kill -9 included. The text in
the file only says who holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trilens.model.errors import DataDirInUse, StoreError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME: Final = "trilens.lock"
_OWNER_ALONE: Final = 0o600


class DirectoryLock:
    """Held from construction until `release()`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / LOCK_NAME
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, _OWNER_ALONE)
        except OSError as e:
            raise StoreError(f"cannot open {self.path}: {e.strerror}") from e
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            holder = _describe(os.pread(self._fd, 4096, 0))
            os.close(self._fd)
            raise DataDirInUse(f"{directory} is in use by {holder}") from e
        with suppress(OSError):  # somebody else's: whoever may write it may hold it
            os.fchmod(self._fd, _OWNER_ALONE)
        self._write(
            {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )

    def release(self) -> None:
        """Safe to call twice. The file stays: were it removed, two processes could lock two of one name."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def _write(self, holder: dict[str, str | int]) -> None:
        text = json.dumps(holder).encode() + b"\n"
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text, 0)
        except OSError:
            pass  # a full disk: the lock holds all the same, it only cannot say by whom


def _describe(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
