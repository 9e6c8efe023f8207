"""`trilens up` as people run it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from servers import free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRILENS = [sys.executable, "-m", "trilens.cli.main"]


def clean_environment(**extra: str) -> dict[str, str]:
    """Without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRILENS_")}
    return {**kept, "COLUMNS": "100", "NO_COLOR": "1", **extra}


def trilens(*arguments: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRILENS, *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(**environ),
        cwd=cwd,
        timeout=60,
        check=False,
    )


@contextmanager
def server(directory: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A ready server on a free port, its data in `directory/data`; its log is `directory/log`."""
    address = f"127.0.0.1:{free_port()}"
    command = [*TRILENS, "up", "--listen", address, "--data", str(directory / "data"), *arguments]
    with running(command, f"http://{address}/readyz", log=directory / "log") as process:
        yield f"http://{address}", process
