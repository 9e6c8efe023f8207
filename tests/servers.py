"""Real servers that tests run beside Trilens, and data that nobody here wrote.

What is missing is said in one line and skipped; with CI=true a missing server fails, so that a green run
there means that everything was tried.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_START_S = 120.0  # a busy machine takes its time
_TOLD_CHARS = 8000
_FIRST_PORT, _PORTS_EACH = 12_000, 4_000
_PR_SET_PDEATHSIG = 1
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it
_LOGS: dict[int, Path] = {}  # of the servers that run, by their process


def require_server(name: str) -> str:
    """The path of an installed server (`prometheus`, `victoria-metrics`, ...), or skip."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not installed")
    assert path is not None
    return path


def corpus(*parts: str) -> Path:
    """Where a folder or file of the shared corpora would lie."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpora"
    return Path(os.environ.get("TRILENS_CORPORA") or beside).joinpath(*parts)


def require_corpus(*parts: str) -> Path:
    """The same, or skip."""
    path = corpus(*parts)
    if not path.exists():
        pytest.skip(f"no corpus {'/'.join(parts)}: set TRILENS_CORPORA to where the corpora lie")
    return path


def _ports() -> Iterator[int]:
    """For each process of xdist others, and below those that the kernel gives out by itself: between the
    moment a port is found free and the one in which its server listens, seconds later, no other takes it."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST_PORT + worker % 5 * _PORTS_EACH
    begin = os.getpid() % _PORTS_EACH  # tests of two checkouts may run side by side
    return itertools.cycle(first + (begin + number) % _PORTS_EACH for number in range(_PORTS_EACH))


_FREE_PORTS = _ports()


def free_port() -> int:
    for port in _FREE_PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("cycles have no end")


def end_with_the_tests() -> None:
    """In a new process: Ctrl-C kills the processes of xdist, and none of them ends what it began."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def running(
    command: list[str], ready_url: str, *, log: Path, start_s: float = _START_S, **environ: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process that answers 200 at `ready_url`; ended when the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
            preexec_fn=end_with_the_tests,
        )
    _LOGS[process.pid] = log
    try:
        _wait_until_ready(process, ready_url, log, start_s)
        yield process
    finally:
        del _LOGS[process.pid]
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def logs_of_running() -> list[tuple[str, str]]:
    """The end of each one's, for whoever reads of a test that failed beside it."""
    return [
        (f"log of process {pid}: {log}", log.read_text(errors="replace")[-_TOLD_CHARS:])
        for pid, log in _LOGS.items()
    ]


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path, start_s: float) -> None:
    # Another program gives no event to wait for, so ask again until it answers.
    deadline = time.monotonic() + start_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    pytest.fail(f"{process.args!r} did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def until(
    condition: Callable[[], bool], what: str | Callable[[], str], *, patience_s: float = _START_S
) -> None:
    """For another process, which gives no event to wait for. `what` is lacking, as it is told in the end."""
    deadline = time.monotonic() + patience_s
    while True:
        asked_s = time.monotonic()
        if condition():
            return
        answered_s = time.monotonic()
        assert answered_s < deadline, what() if callable(what) else what
        # Asking by a command takes a core that what is waited for could use: one part asking, two parts rest.
        time.sleep(max(0.05, 2 * (answered_s - asked_s)))


def missing(what: str) -> None:
    """Skip the test, or fail it where everything must be tried."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)
