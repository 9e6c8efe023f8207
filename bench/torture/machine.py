"""The machine under the server fails: its disk, its clock, its file descriptors. It recovers, and says why
where something is refused.

The disk is full for real: a small tmpfs. It is read-only by a mount over itself, slow by strace, which holds
each call for a while, and the clock is libfaketime's.
"""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import httpx

from acknowledged_writes import Writer
from bench.torture.row import MISSES, Outcome, Row
from bench.torture.tally import Tally
from sample_now import write_now
from servers import free_port, running, until
from small_disk import fill, small_disk
from trilens_process import TRILENS, trilens

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from bench.torture.row import Wanted

_FAKETIME: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_SLOW_MS: Final = 50
_TOLD_SLOW_S: Final = 0.03  # own_disk_sync_seconds, from where on an alert and the doctor say so
# Not every kind of machine has those with a question mark.
_DISK_CALLS: Final = (
    "fsync",
    "fdatasync",
    "?rename",
    "renameat",
    "?renameat2",
    "?mkdir",
    "mkdirat",
    "syncfs",
)
_JUMPS: Final = ("+1h", "-1h", "+2d", "-10m")
_DESCRIPTORS: Final = 512
_OF_OURS: Final = 4 * _DESCRIPTORS  # each connection takes one here too
_BATCHES: Final = 20
_TIMEOUT_S: Final = 120.0

_Times: TypeAlias = (
    "Generator[dict[str, int], None, None]"  # after each time that was looked at, what is to be counted
)


class _DiskWaits(NamedTuple):
    """What the server tells of its disk, from its start."""

    times: float
    seconds: float

    def since(self, before: _DiskWaits) -> float:
        """The mean wait in between; 0 while nothing new is told."""
        times = self.times - before.times
        return (self.seconds - before.seconds) / times if times else 0.0


def _summed(told: str, what: str) -> float:
    values = re.findall(rf"^trilens_store_disk_{what}_total\{{.*\}} (.*)$", told, re.M)
    return sum(map(float, values))


class _Server:
    """A running server with a writer that knows what was acknowledged."""

    def __init__(self, url: str, log: Path, pid: int) -> None:
        self.url = url
        self.pid = pid
        self._log = log
        self.writer = Writer(0)
        self._counted = 0
        self.client = httpx.Client(base_url=url, timeout=_TIMEOUT_S)

    def takes(self) -> bool:
        return self.writer.batch(self.client).status_code == 204

    def write_some(self) -> None:
        for _ in range(_BATCHES):
            until(self.takes, "nothing is taken though nothing is wrong")

    def check(self) -> None:
        lost = self.writer.missing(self.url)
        assert not lost, f"acknowledged writes are lost: {lost}"

    def newly_taken(self) -> int:
        """Acknowledged writes that were not counted yet."""
        before, self._counted = self._counted, len(self.writer.acknowledged)
        return self._counted - before

    def readiness(self) -> str:
        return self.client.get("/readyz").text

    def disk_waits(self) -> _DiskWaits:
        told = self.client.get("/metrics").text
        return _DiskWaits(_summed(told, "syncs"), _summed(told, "sync_seconds"))

    def await_slowness(self, before: _DiskWaits) -> None:
        until(lambda: self.disk_waits().since(before) > _TOLD_SLOW_S, "nobody says that the disk is slow")

    def logged(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def _server(folder: Path, *before: str, data: Path | None = None, **environ: Any) -> Iterator[_Server]:
    address, log = f"127.0.0.1:{free_port()}", folder / "log"
    command = [*before, *TRILENS, "up", "--listen", address, "--data", str(data or folder / "data")]
    with running(command, f"http://{address}/readyz", log=log, **environ) as process:
        yield _Server(f"http://{address}", log, process.pid)


@contextmanager
def _kept(disk: Path, place: Path) -> Iterator[None]:
    """What is on a disk that goes with its mount, where something was missed."""
    try:
        yield
    except MISSES:
        shutil.copytree(disk, place, ignore=shutil.ignore_patterns("ballast"))
        raise


def _full(folder: Path, numbers: range) -> _Times:
    with (
        small_disk(folder / "small") as disk,
        _kept(disk, folder / "kept"),
        _server(folder, data=disk / "data") as server,
    ):
        for _ in numbers:
            server.write_some()
            ballast = fill(disk)
            until(lambda: not server.takes(), "a full disk refuses nothing")
            server.check()
            assert "space" in server.readiness(), server.readiness()
            ballast.unlink()
            until(server.takes, "nothing is taken though there is room again")
            server.check()
            refused = {answer.status_code for answer in server.writer.refused}
            assert refused == {503}, refused
            yield {"writes": server.newly_taken()}


def _read_only(folder: Path, numbers: range) -> _Times:
    with _server(folder) as server:
        for _ in numbers:
            server.write_some()
            with _unwritable(folder / "data"):
                until(lambda: not server.takes(), "a read-only disk refuses nothing")
                server.check()
                assert "ead-only" in server.readiness(), server.readiness()
            until(server.takes, "nothing is taken though the disk can be written again")
            server.check()
            yield {"writes": server.newly_taken()}


@contextmanager
def _unwritable(folder: Path) -> Iterator[None]:
    """The same folder mounted over itself, read-only. It is made so at another place first: a mount on which
    files are open for writing cannot be."""
    aside = folder.with_name("aside")
    aside.mkdir(exist_ok=True)
    with ExitStack() as mounts:
        _mount(mounts, "--bind", folder, aside)
        subprocess.run(["mount", "-o", "remount,ro,bind", aside], check=True)
        _mount(mounts, "--bind", aside, folder)
        yield


def _mount(mounts: ExitStack, option: str, what: Path, place: Path) -> None:
    subprocess.run(["mount", option, what, place], check=True)
    mounts.callback(lambda: subprocess.run(["umount", "-l", place], check=True))


def _slow(folder: Path, numbers: range) -> _Times:
    with _server(folder) as server:
        for number in numbers:
            trace = folder / f"strace-{number}"
            with _delayed(server.pid, trace):
                before = server.disk_waits()
                server.write_some()
                server.check()
                if number == numbers[-1]:  # it is told each minute
                    server.await_slowness(before)
            until(server.takes, "nothing is taken on a disk that is fast again")
            server.check()
            late = trace.read_text(encoding="utf-8", errors="replace").count("(DELAYED)")
            if not late:
                raise RuntimeError(f"strace has delayed nothing; see {trace}")
            yield {"writes": server.newly_taken(), "late": late}


@contextmanager
def _delayed(pid: int, trace: Path) -> Iterator[None]:
    """What a process asks of its disk takes longer: strace holds each call for so long."""
    calls = ",".join(_DISK_CALLS)
    command = ["strace", "-qq", "-f", "-o", str(trace), "-p", str(pid)]
    delay = f"inject={calls}:delay_enter={1000 * _SLOW_MS}"
    with subprocess.Popen([*command, "-e", f"trace={calls}", "-e", delay]) as tracer:
        try:
            until(lambda: tracer.poll() is not None or _is_traced(pid), "strace does not attach")
            yield
            if tracer.poll() is not None:
                raise RuntimeError(f"strace could not slow it down: it ended with {tracer.returncode}")
        finally:
            tracer.terminate()


def _is_traced(pid: int) -> bool:
    """Every thread of it: they are attached to one after the other."""
    for file in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            if "TracerPid:\t0\n" in file.read_text(encoding="utf-8"):
                return False
    return True


def _clock(folder: Path, numbers: range) -> _Times:
    found = [Path(place) / "faketime" / "libfaketime.so.1" for place in _FAKETIME]
    library = next((file for file in found if file.exists()), None)
    if library is None:
        raise RuntimeError("needs libfaketime: Debian's package faketime")
    offset = folder / "offset"
    offset.write_text("+0\n", encoding="utf-8")
    environ: dict[str, Any] = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with _server(folder, **environ) as server:
        fresh = _Fresh(server)
        for number in numbers:
            jump = _JUMPS[number % len(_JUMPS)]
            until(fresh.takes, "nothing is taken to begin with")
            offset.write_text(f"{jump}\n", encoding="utf-8")
            until(lambda: _says_clock(server), f"nobody says that the clock jumped {jump}")
            for path in ("/readyz", "/api/runs", "/api/incidents"):
                assert server.client.get(path).status_code == 200, f"{path} fails after a jump of {jump}"
            offset.write_text("+0\n", encoding="utf-8")
            until(lambda: not _says_clock(server), "it is still said to be wrong")
            until(fresh.takes, f"nothing is taken after a jump of {jump} and back")
            fresh.check()
            yield {"writes": fresh.newly_taken()}


class _Fresh:
    """Samples of now, by the clock that is right."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.acknowledged = 0
        self._counted = 0

    def takes(self) -> bool:
        answer = write_now(self._server.url, "fresh", float(self.acknowledged))
        self.acknowledged += answer.status_code == 204
        return answer.status_code == 204

    def check(self) -> None:
        asked = {"query": "count_over_time(fresh[1d])", "time": f"{time.time():.3f}"}
        found = self._server.client.get("/api/v1/query", params=asked).json()["data"]["result"]
        there = int(found[0]["value"][1]) if found else 0
        assert there == self.acknowledged, f"{self.acknowledged} samples were acknowledged, {there} are there"

    def newly_taken(self) -> int:
        before, self._counted = self._counted, self.acknowledged
        return self._counted - before


def _says_clock(server: _Server) -> bool:
    said = trilens("doctor", "--server", server.url)
    return "the server's clock is" in said.stdout + said.stderr


def _descriptors(folder: Path, numbers: range) -> _Times:
    _may_open(_OF_OURS)
    limit = f"--nofile={_DESCRIPTORS}:{_DESCRIPTORS}"
    with _server(folder, "prlimit", limit) as server:
        port = int(server.url.rpartition(":")[2])
        for _ in numbers:
            server.write_some()
            before = len(server.logged())
            with ExitStack() as held:
                for _ in range(2 * _DESCRIPTORS):
                    held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                until(lambda at=before: "oo many open files" in server.logged()[at:], "nobody says so")  # type: ignore[misc]
            until(lambda: _takes_anew(server), "nothing is taken though descriptors are free again")
            server.check()
            yield {"writes": server.newly_taken()}


def _may_open(files: int) -> None:
    """In this process, which is not what is tried."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _takes_anew(server: _Server) -> bool:
    """Over a new connection: the one before may have been given up."""
    server.client.close()
    server.client = httpx.Client(base_url=server.url, timeout=_TIMEOUT_S)
    try:
        return server.takes()
    except httpx.HTTPError:
        return False


class _Machine(NamedTuple):
    name: str
    what: str
    goal: str
    meet: Callable[[Path, range], _Times]
    times: int
    told: str  # with what was counted


def _run(machine: _Machine, wanted: Wanted) -> Outcome:
    tally = Tally(wanted)
    if not tally.is_over:
        with tally.session() as session:
            numbers = range(session.begin, session.begin + session.left)
            with closing(machine.meet(session.folder, numbers)) as met:
                for counted in met:
                    session.done_once()
                    for name, count in counted.items():
                        session.add(name, count)
                    session.keep()
    return Outcome(True, tally.times, machine.told.format_map(tally.counts))


_LOST: Final = "{writes:,} writes acknowledged, none lost"
_RECOVERED: Final = "said, recovered, nothing acknowledged lost"
_MACHINES: Final = (
    _Machine("disk-full", "the disk is full, and has room again", _RECOVERED, _full, 20, _LOST),
    _Machine(
        "disk-read-only", "the disk cannot be written, and can again", _RECOVERED, _read_only, 20, _LOST
    ),
    _Machine(
        "disk-slow",
        f"every sync, rename and new folder takes {_SLOW_MS} ms longer",
        "works on, nothing acknowledged lost",
        _slow,
        20,
        f"{{late:,}} calls {_SLOW_MS} ms late: {_LOST}",
    ),
    _Machine(
        "clock",
        "the server's clock jumps forward and back",
        _RECOVERED,
        _clock,
        8,
        f"jumps ({', '.join(_JUMPS)} in turn) and back: {_LOST}",
    ),
    _Machine(
        "descriptors",
        "file descriptors run out",
        _RECOVERED,
        _descriptors,
        10,
        f"{2 * _DESCRIPTORS:,} connections with {_DESCRIPTORS} descriptors, said in the log: {_LOST}",
    ),
)
MACHINE_ROWS: Final = tuple(
    Row(one.name, one.what, one.goal, one.times, "times", partial(_run, one)) for one in _MACHINES
)
