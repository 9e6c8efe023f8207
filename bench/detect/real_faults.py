"""Real processes over gloo, with the SDK, and a real server: one of them is killed, sleeps, or is slow."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from bench.peers import Trilens

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT: Final = Path(__file__).parents[1] / "out" / "real-faults"
WORLD: Final = 3
CULPRIT: Final = 1
_PROGRAM: Final = Path(__file__).with_name("gloo_rank.py")
_WARM_S: Final = 180.0  # until the fault begins, at the latest


class Wrong(NamedTuple):
    what: str
    told_to: str  # of gloo_rank.py; "kill" is done from here
    kinds: tuple[str, ...]
    patience_s: float


class RealOutcome(NamedTuple):
    what: str
    said: str
    named_s: float | None
    right_rank: bool


WRONGS: Final = (
    Wrong("kill -9 of a rank", "kill", ("crash", "stall", "hang"), 60),
    Wrong("a rank sleeps", "sleep", ("stall", "hang"), 60),
    Wrong("a rank holds its GIL", "gil", ("stall", "hang"), 60),
    Wrong("a rank computes 1.5 times longer", "slow", ("straggler",), 300),
)


def run() -> list[RealOutcome]:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    found = []
    for wrong in WRONGS:
        server = Trilens(OUT / wrong.told_to, targets=[])
        server.start()
        try:
            found.append(_one(wrong, server.url))
        finally:
            server.stop()
    shutil.rmtree(OUT, ignore_errors=True)
    return found


def _one(wrong: Wrong, url: str) -> RealOutcome:
    onset_file = OUT / f"{wrong.told_to}.onset"
    port = str(_free_port())
    environment = {**os.environ, "TRILENS_SERVER": url, "TRILENS_RUN_ID": f"real-{wrong.told_to}"}
    ranks = [
        subprocess.Popen(
            [
                sys.executable, str(_PROGRAM), str(rank), str(WORLD), port,
                wrong.told_to if rank == CULPRIT and wrong.told_to != "kill" else "none", str(onset_file),
            ],
            env=environment, cwd=OUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    try:
        onset_s = _begin(wrong, ranks[CULPRIT], url, onset_file)
        for finding in _findings(url, onset_s + wrong.patience_s):
            detected_s = finding["detected_ms"] / 1000
            if finding["kind"] in wrong.kinds and detected_s >= onset_s:
                said = f"{finding['kind']} ({finding['cause']})"
                return RealOutcome(wrong.what, said, detected_s - onset_s, finding["rank"] == CULPRIT)
        return RealOutcome(wrong.what, "", None, False)
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def _begin(wrong: Wrong, culprit: subprocess.Popen[bytes], url: str, onset_file: Path) -> float:
    """When it went wrong."""
    deadline = time.monotonic() + _WARM_S
    while time.monotonic() < deadline:
        if wrong.told_to == "kill":
            answer = httpx.get(f"{url}/api/runs", timeout=30).json()
            if _steps(answer) >= 50:
                culprit.send_signal(signal.SIGKILL)
                return time.time()
        elif onset_file.exists() and (text := onset_file.read_text()):
            return float(text)
        time.sleep(0.5)
    raise RuntimeError(f"{wrong.what}: the training did not get so far")


def _steps(answer: dict[str, Any]) -> int:
    return max((one["step"] or 0 for one in answer["data"]["runs"]), default=0)


def _findings(url: str, until_s: float) -> Iterator[dict[str, Any]]:
    """Each as often as it is there, the first to be detected first."""
    while time.time() < until_s:
        told = httpx.get(f"{url}/api/findings", params={"all": "true"}, timeout=30).json()["data"]
        yield from sorted(told, key=lambda one: one["detected_ms"])
        time.sleep(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
