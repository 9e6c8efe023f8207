"""Whether a wheel of the same files comes out the same, byte for byte, wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.release.dependencies import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

# Made before, and not kept in git.
MADE: Final = ("src/trilens/serve/web/dist", "src/trilens/serve/rehearsal/night")
_SCRIPT: Final = (
    "import os, sys; os.umask(int(sys.argv[1], 8)); "
    "from hatchling.builders.wheel import WheelBuilder; "
    "print(next(WheelBuilder('.').build(directory=sys.argv[2])))"
)


class Surroundings(NamedTuple):
    """Of a build: what must not be seen in the wheel."""

    umask: int
    changed_s: int  # when all files were last changed
    zone: str


ONE: Final = Surroundings(0o022, 1_600_000_000, "UTC")
OTHER: Final = Surroundings(0o077, 1_700_000_000, "Asia/Tokyo")


def files_of_a_wheel() -> list[Path]:
    """All that git has, and what was made before; relative to the root."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    kept = [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    made = [file.relative_to(ROOT) for name in MADE for file in (ROOT / name).rglob("*") if file.is_file()]
    return sorted({*kept, *made})


def built(files: Iterable[Path], folder: Path, around: Surroundings, epoch_s: int, root: Path = ROOT) -> Path:
    """A wheel of a copy of these files, made in `folder`. Raises RuntimeError where none comes out."""
    copy, out = folder / "copy", folder / "out"
    for file in files:
        there = copy / file
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, there)
        executable = os.access(root / file, os.X_OK)
        there.chmod((0o777 if executable else 0o666) & ~around.umask)
        os.utime(there, (around.changed_s, around.changed_s))
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s), "TZ": around.zone}
    done = subprocess.run(  # noqa: S603 - our own script, in this Python
        [sys.executable, "-c", _SCRIPT, f"{around.umask:o}", str(out)],
        cwd=copy,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip())


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two wheels, a line each; nothing where they are the same bytes."""
    if digest(one) == digest(other):
        return []
    first, second = _entries(one), _entries(other)
    told = [f"{name}: in one only" for name in sorted(first.keys() ^ second.keys())]
    shared = sorted(first.keys() & second.keys())
    told += [f"{name}: {first[name]} and {second[name]}" for name in shared if first[name] != second[name]]
    return told or ["the order of the files"]


def _entries(wheel: Path) -> dict[str, tuple[str, str, str]]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            one.filename: (
                hashlib.sha256(archive.read(one)).hexdigest()[:12],
                f"{one.external_attr >> 16:o}",
                "{}-{}-{} {}:{}:{}".format(*one.date_time),
            )
            for one in archive.infolist()
        }
