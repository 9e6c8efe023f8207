"""The environment of a program that `trilens run` starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAIN_PROCESS: Final = "TRILENS_ATTACH_PID"  # of the program itself; those that it starts inherit the variable


def attached_environment(
    entry: Path, given: Mapping[str, str | None], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Ours, with `entry` first where Python looks for modules, and what was given.

    The program takes the place of this process and so has its process id.
    """
    environ = os.environ if environ is None else environ
    before = environ.get("PYTHONPATH")
    # An empty entry is the folder that the program is started in; an empty variable is none at all.
    paths = [path for path in before.split(os.pathsep) if path != str(entry)] if before else []
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join([str(entry), *paths]),
        MAIN_PROCESS: str(os.getpid()),
        **{name: value for name, value in given.items() if value is not None},
    }
