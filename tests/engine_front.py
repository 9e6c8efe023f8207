"""The embedded engine as a ClickHouse server over HTTP, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRONT = Path(__file__).parent / "store" / "http_front.py"


@contextmanager
def engine_front(directory: Path) -> Iterator[str]:
    command = [sys.executable, str(_FRONT), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        port = front.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}"
        front.communicate(timeout=30)
