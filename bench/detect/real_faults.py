"""Real processes over gloo, with the SDK, and a real server: one of them is killed, fails, sleeps, is slow or
waits elsewhere. Several times each, one after the other.

    python -m bench.detect.real_faults [TURNS]      # these alone, printed
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from bench.detect.watched import SAID_FROM
from bench.peers import Trilens, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT: Final = Path(__file__).parents[1] / "out" / "real-faults"
TURNS: Final = 3
WORLD: Final = 3
_PROGRAM: Final = Path(__file__).with_name("gloo_rank.py")
_WARM_S: Final = 240.0  # until the fault begins, at the latest


class Wrong(NamedTuple):
    what: str
    told_to: str  # of gloo_rank.py
    kinds: tuple[str, ...]
    patience_s: float = 60.0


class RealOutcome(NamedTuple):
    """Of one run. `named_s` is None where it was not named."""

    what: str
    said: str
    named_s: float | None
    right_rank: bool
    before: int = 0  # findings before anything was wrong


WRONGS: Final = (
    Wrong("kill -9", "kill", ("crash", "stall", "hang")),
    Wrong("it raises an exception", "raise", ("crash",)),
    Wrong("it sleeps", "sleep", ("stall", "hang")),
    Wrong("it holds its GIL", "gil", ("stall", "hang")),
    Wrong("it waits for a message, and not in the collective", "elsewhere", ("stall", "hang")),
    Wrong("it computes 1.5 times longer", "slow", ("straggler",), 300.0),
)


def run(turns: int) -> list[RealOutcome]:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    server = Trilens(OUT / "server", targets=[])
    server.start()
    found = []
    try:
        for turn in range(turns):
            for wrong in WRONGS:
                found.append(_one(wrong, turn, server.url))
                print(f"real: {found[-1]}", file=sys.stderr, flush=True)
    finally:
        server.stop()
    shutil.rmtree(OUT, ignore_errors=True)
    return found


def _one(wrong: Wrong, turn: int, url: str) -> RealOutcome:
    run_id, culprit = f"real-{wrong.told_to}-{turn}", turn % WORLD
    onset_file = OUT / f"{run_id}.onset"
    port = str(free_port())
    environment = {**os.environ, "TRILENS_SERVER": url, "TRILENS_RUN_ID": run_id}
    log = (OUT / f"{run_id}.log").open("wb")
    ranks = [
        subprocess.Popen(
            [
                sys.executable, str(_PROGRAM), str(rank), str(WORLD), port,
                wrong.told_to if rank == culprit else "none", str(onset_file),
            ],
            env=environment, cwd=OUT, stdout=log, stderr=log,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    try:
        onset_s = _onset(wrong, onset_file)
        return outcome(wrong, culprit, onset_s, _findings(url, run_id, onset_s + wrong.patience_s))
    finally:
        for process in ranks:
            process.kill()
            process.wait()
        log.close()


def outcome(wrong: Wrong, culprit: int, onset_s: float, looks: Iterator[list[dict[str, Any]]]) -> RealOutcome:
    """By what was said first that is of a right kind: what is told more exactly later comes too late."""
    before = 0
    for told in looks:
        before = sum(one["detected_ms"] / 1000 < onset_s for one in told)
        for finding in told:
            after_s = finding["detected_ms"] / 1000 - onset_s
            is_said = finding["confidence"] >= SAID_FROM and finding["kind"] in wrong.kinds
            if is_said and after_s >= 0:
                said = f"{finding['kind']} ({finding['cause']})"
                return RealOutcome(wrong.what, said, after_s, finding["rank"] == culprit, before)
    return RealOutcome(wrong.what, "", None, False, before)


def _onset(wrong: Wrong, onset_file: Path) -> float:
    """When it went wrong."""
    deadline = time.monotonic() + _WARM_S
    while time.monotonic() < deadline:
        if onset_file.exists() and (text := onset_file.read_text()):
            return float(text)
        time.sleep(0.5)
    raise RuntimeError(f"{wrong.what}: the training did not get so far")


def _findings(url: str, run: str, until_s: float) -> Iterator[list[dict[str, Any]]]:
    """All there are of a run, again and again; the first to be detected first."""
    while time.time() < until_s:
        asked = {"all": "true", "run": run}
        told = httpx.get(f"{url}/api/findings", params=asked, timeout=30).json()["data"]
        yield sorted(told, key=lambda one: one["detected_ms"])
        time.sleep(1)


def main() -> None:
    from bench.detect.report import real_table

    print(real_table(run(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS)))


if __name__ == "__main__":
    main()
