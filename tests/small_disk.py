"""A disk that is easily full."""

from __future__ import annotations

import errno
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of 48 MiB at `directory`, or skip where none may be mounted."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(directory)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def enlarge(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=256m", str(directory)], check=True)


def fill(disk: Path) -> Path:
    """To the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError as e:
            assert e.errno == errno.ENOSPC
    return ballast
