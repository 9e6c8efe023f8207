"""Folders that a killed row has left with something mounted below them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

_OCTAL: Final = re.compile(r"\\([0-7]{3})")  # how blanks are written there


def remove(folder: Path) -> None:
    """With all that is in it, but nothing of what is only mounted there."""
    for place in _mounted_below(folder):
        subprocess.run(["umount", "-l", place], check=True)
    shutil.rmtree(folder)


def _mounted_below(folder: Path) -> list[str]:
    """The innermost, and of several at one place the uppermost, first."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    places = [_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split()[1]) for line in lines]
    return [place for place in reversed(places) if Path(place).is_relative_to(folder.resolve())]
