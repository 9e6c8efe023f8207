"""Every operation of the HTTP API, by its own OpenAPI schema, with schemathesis: against a running demo.

No answer may be a server's error, and each must be what the schema says. What was wrong is kept in the JSON
report of each session, its requests as curl commands in schemathesis.log.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil

from bench.peers import free_port
from bench.torture.row import Outcome, Row
from bench.torture.slope import Slope, slope_of
from servers import end_with_the_tests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from bench.torture.row import Wanted

_LENGTH_S: Final = 600.0
_GPUS: Final = "64"
_READY_S: Final = 300.0
_SESSION_S: Final = 120.0  # then what was found is kept
_STUCK_S: Final = 300.0  # after its time is over: each answer may take a minute
_LEAVE_S: Final = 60.0
_LOOK_S: Final = 5.0
_AGE_S: Final = 900.0  # at first: a demo that nobody asks fills what it remembers, too
_RECENT: Final = re.compile(r"^trilens_store_recent_bytes (\S+)$", re.MULTILINE)
_WARM: Final = 0.4  # of the time after that, until caches are full
_CHECKS: Final = "not_a_server_error,response_schema_conformance,content_type_conformance"


def _run(wanted: Wanted) -> Outcome:
    if wanted.length - _spent_s(wanted.folder) > 1:
        with _demo(wanted.folder) as (url, server):
            time.sleep(_AGE_S * min(1.0, wanted.length / _LENGTH_S))
            with Memory(server, url, wanted.folder):
                while (left_s := wanted.length - _spent_s(wanted.folder)) > 1:
                    _session(url, wanted.folder, min(left_s, _SESSION_S))
                    if not server.is_running() or server.status() == psutil.STATUS_ZOMBIE:
                        return Outcome(False, _spent_s(wanted.folder), "the server ended")
    sessions = _sessions(wanted.folder)
    failures = sorted({_name(one) for told in sessions for one in told["failures"]})
    cases = sum(told["test_cases"]["generated"] for told in sessions)
    tested = max((told["operations"]["tested"] for told in sessions), default=0)
    total = max((told["operations"]["total"] for told in sessions), default=0)
    errors = sum(len(told["errors"]) for told in sessions)
    grows = memory_of(wanted.folder)
    told = (
        f"{cases:,} requests to {tested} of {total} operations; answers that are wrong: "
        f"{', '.join(failures) or 'none'}; requests that failed: {errors}; memory of the server: "
        f"{grows or 'too short to tell'}"
    )
    is_flat = grows.is_flat if grows is not None else wanted.length < _LENGTH_S
    passed = not failures and not errors and tested == total and is_flat
    return Outcome(passed, _spent_s(wanted.folder), told)


class Memory:
    """Of a server, every few seconds, in a file of its own for each server: without pages of files, which the
    system may take back, and without the recent window, which has a bound of its own and takes hours to come
    to it at a demo's few series. Use as a context manager."""

    def __init__(self, server: psutil.Process, url: str, folder: Path) -> None:
        self._server = server
        self._url = url
        self._file = folder / f"memory-{time.time_ns()}.json"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        began_s, points = time.monotonic(), []
        with suppress(psutil.NoSuchProcess):  # whoever asks it sees that
            while not self._over.wait(_LOOK_S):
                try:
                    told = httpx.get(f"{self._url}/metrics", timeout=60).text
                except httpx.TransportError:  # there are others that ask
                    continue
                memory, recent = self._server.memory_info(), _RECENT.search(told)
                if recent is not None:
                    own = memory.rss - memory.shared - float(recent[1])
                    points.append((time.monotonic() - began_s, own / 1e6))
                    self._file.write_text(json.dumps(points), encoding="utf-8")


def memory_of(folder: Path) -> Slope | None:
    """Of the server that lived longest, without what warms up."""
    every = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("memory-*.json")]
    longest: list[tuple[float, float]] = max(every, key=len, default=[])
    return slope_of([(t_s, mb) for t_s, mb in longest if t_s > _WARM * longest[-1][0]])


def _session(url: str, folder: Path, seconds: float) -> None:
    report = folder / f"session-{time.time_ns()}.json"
    command = [
        str(Path(sys.executable).parent / "st"),
        "run",
        f"{url}/api/openapi.json",
        f"--max-time={max(1, round(seconds))}",
        "--phases=coverage,fuzzing",
        f"--checks={_CHECKS}",
        "--continue-on-failure",
        "--no-color",
        "--warnings=off",
        "--suppress-health-check=all",
        "--request-timeout=60",
        f"--wait-for-schema={_LEAVE_S:.0f}",
        "--report=json",
        f"--report-json-path={report}",
    ]
    with (folder / "schemathesis.log").open("ab") as log:
        within_s = seconds + _STUCK_S
        subprocess.run(command, stdout=log, stderr=log, cwd=folder, check=False, timeout=within_s)
    if not report.exists():
        raise RuntimeError(f"schemathesis did not run; see {folder / 'schemathesis.log'}")
    if json.loads(report.read_text(encoding="utf-8"))["operations"] is None:
        report.unlink()  # nothing was asked, which the next session would stumble over
        raise AssertionError(f"the schema could not be had; see {folder / 'schemathesis.log'}")


@contextmanager
def _demo(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A server that has something to tell of everything."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "trilens.cli.main", "demo", f"--gpus={_GPUS}", f"--listen={address}"]
    with (folder / "demo.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_the_tests)
    try:
        ends_s = time.monotonic() + _READY_S
        while not _is_ready(f"http://{address}/readyz"):
            if time.monotonic() > ends_s or process.poll() is not None:
                raise RuntimeError(f"the demo did not start; see {folder / 'demo.log'}")
            time.sleep(0.5)
        yield f"http://{address}", psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _sessions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("session-*.json"))]


def _spent_s(folder: Path) -> float:
    return sum(float(told["running_time"]) for told in _sessions(folder))


def _name(failure: dict[str, Any]) -> str:
    return ", ".join(failure.get("operations", ())) + f" {failure['title']}"


HTTP_API: Final = Row(
    "fuzz-api",
    "every operation of the OpenAPI schema, of a running demo",
    "no 5xx, each answer as its schema says, memory flat",
    _LENGTH_S,
    "s",
    _run,
)
