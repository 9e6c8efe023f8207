"""One target fuzzed for as long as it is to be: three forms one after the other, resumed where they were.

Everything is in the folder of its row: what was learnt (corpus-*), what was found (findings), and
progress.jsonl, a line for each second of each process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from bench.torture.slope import Slope, slope_of
from servers import end_with_the_tests

if TYPE_CHECKING:
    from pathlib import Path

_SHARES: Final = {"bytes": 0.45, "shaped": 0.4, "soak": 0.15}
_PROGRAMS: Final = {"bytes": "session", "shaped": "session", "soak": "soak"}
_SHORTEST_S: Final = 2.0
_STUCK_S: Final = 120.0  # after its time is over
_MOST_CRASHES: Final = 5  # each next one would be the same
_WARM: Final = 0.3  # of a soak, until caches are full


@dataclass(frozen=True)
class FuzzOutcome:
    seconds: float
    inputs: int
    taken: int  # of these; the others were refused as they should be
    corpus: int
    slowest_s: float
    findings: tuple[str, ...]
    crashes: int  # of the whole process, or a hang that only its end could end
    memory: Slope | None  # of the longest soak, without what warms up

    @property
    def passed(self) -> bool:
        return not self.findings and not self.crashes and (self.memory is None or self.memory.is_flat)


def fuzz(name: str, folder: Path, seconds: float) -> FuzzOutcome:
    """What is there of an earlier one counts."""
    folder.mkdir(parents=True, exist_ok=True)
    for form, share in _SHARES.items():
        while (left_s := share * seconds - _spent_s(folder, form)) >= min(_SHORTEST_S, share * seconds / 2):
            if _crashes(folder) >= _MOST_CRASHES:
                return outcome(folder)
            if not _session(name, form, folder, left_s):
                _note_crash(folder, form)
    return outcome(folder)


def _session(name: str, form: str, folder: Path, seconds: float) -> bool:
    """False where it did not end by itself and well."""
    program = f"bench.torture.fuzz.{_PROGRAMS[form]}"
    command = [sys.executable, "-m", program, name, form, str(folder), f"{seconds:.1f}"]
    with (folder / f"{form}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_the_tests)
        try:
            return process.wait(seconds + _STUCK_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()


def _note_crash(folder: Path, form: str) -> None:
    latest = folder / f"latest-{form}"
    if not latest.exists():
        raise RuntimeError(f"the fuzzer does not start; its logs are in {folder}")
    with (folder / "crashes").open("a", encoding="utf-8") as file:
        file.write(f"{form}\n")
    latest.rename(folder / "findings" / f"crash-{_crashes(folder)}.input")


def _crashes(folder: Path) -> int:
    file = folder / "crashes"
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


def _progress(folder: Path) -> list[dict[str, Any]]:
    file = folder / "progress.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _sessions(folder: Path) -> list[list[dict[str, Any]]]:
    return [[*told] for _, told in groupby(_progress(folder), key=lambda one: (one["form"], one["process"]))]


def _spent_s(folder: Path, form: str) -> float:
    return sum(float(told[-1]["t_s"]) for told in _sessions(folder) if told[-1]["form"] == form)


def outcome(folder: Path) -> FuzzOutcome:
    sessions = _sessions(folder)
    last = [told[-1] for told in sessions]
    soaks = [told for told in sessions if told[-1]["form"] == "soak"]
    longest = max(soaks, key=len, default=[])
    warm = [one for one in longest if one["t_s"] > _WARM * longest[-1]["t_s"]]
    return FuzzOutcome(
        sum(one["t_s"] for one in last),
        sum(one["inputs"] for one in last),
        sum(one["taken"] for one in last),
        sum(1 for form in _SHARES for file in folder.glob(f"corpus-{form}/*")),
        max((one["slowest_s"] for one in last), default=0.0),
        tuple(sorted(file.stem for file in (folder / "findings").glob("*") if file.suffix != ".input")),
        _crashes(folder),
        slope_of([(one["t_s"], one["rss_mb"]) for one in warm]),
    )
