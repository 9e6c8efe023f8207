"""A simulated cluster in a process of its own, so that what it takes is not taken from who reads it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

from trilens.simulate.over_http.described import Described

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_LEAVE_S: Final = 2.0


class SimulatorFailed(Exception):
    """It did not come up; it has said why on standard error."""


class SimulatorProcess:
    """Starts at once; use as a context manager. It ends with its standard input, however its parent ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """`arguments` are those of `python -m trilens.simulate`."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "trilens.simulate", "--json", "--with-stdin", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the parent, which ends it when nobody reads any more
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def described(self) -> Described:
        """Waits until it answers. Raises SimulatorFailed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SimulatorFailed(f"the simulator ended with exit code {self._process.wait()}")
        return Described.from_json(line)

    def send_records_to(self, server: str) -> None:
        """Training ranks tell this server, at a URL, of their steps from now on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{server}\n")
        self._process.stdin.flush()

    def __enter__(self) -> SimulatorProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
