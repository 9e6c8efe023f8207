"""How processes ended, as their launchers tell: torchrun's agent and its table, srun, mpirun."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final, NamedTuple

SAYS: Final = ("exitcode:", "srun: error:", "exited on signal")
ROWS: Final = ("  host      :", "  rank      :", "  exitcode  :")  # of torchrun's table of what failed

_ROW: Final = re.compile(r"\s*(?P<name>host|rank|exitcode)\s*: (?P<value>.*)$")
_RANK: Final = re.compile(r"(\d{1,9}) \(local_rank: (\d{1,9})\)")
_CODE: Final = re.compile(r"(-?\d{1,9}) \(pid: (\d{1,9})\)")
_AGENT: Final = re.compile(
    r"exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,9})\)"
)
_SRUN: Final = re.compile(
    r"srun: error: (?P<host>\S+): tasks? (?P<task>\d{1,9})[\d,\-]*: "
    r"(?:Exited with exit code (?P<code>\d{1,9})|(?P<word>[A-Z][a-z ]+))"
)
_MPIRUN: Final = re.compile(
    r"process rank (?P<task>\d{1,9}) with PID \d+ on node (?P<host>\S+) exited on signal (?P<signal>\d{1,3})"
)
_WORDS: Final = {
    "Killed": signal.SIGKILL,
    "Terminated": signal.SIGTERM,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Out Of Memory": signal.SIGKILL,
}


class Ending(NamedTuple):
    """`code` is negative for a signal, as Python has it."""

    code: int
    rank: int | None = None
    local: int | None = None
    task: int | None = None
    host: str = ""
    pid: int | None = None

    @property
    def signal(self) -> int | None:
        if self.code < 0:
            return -self.code
        return self.code - 128 if 128 < self.code < 160 else None  # as a shell tells it


@dataclass(slots=True)
class Table:
    """Torchrun's list of what failed: its rows come one by one."""

    host: str = ""
    rank: int | None = None
    local: int | None = None

    def take(self, text: str) -> Ending | None:
        row = _ROW.match(text)
        if row is None:
            return None
        if row["name"] == "host":
            self.host = row["value"].strip()
        elif row["name"] == "rank" and (found := _RANK.match(row["value"])):
            self.rank, self.local = int(found[1]), int(found[2])
        elif row["name"] == "exitcode" and (found := _CODE.match(row["value"])):
            return Ending(int(found[1]), self.rank, self.local, None, self.host, int(found[2]))
        return None


def read_ending(text: str) -> Ending | None:
    """Of a line that tells all of it."""
    if found := _AGENT.search(text):
        return Ending(int(found["code"]), local=int(found["local"]), pid=int(found["pid"]))
    if found := _SRUN.search(text):
        code = int(found["code"]) if found["code"] else -_WORDS.get((found["word"] or "").strip(), 0)
        return Ending(code, task=int(found["task"]), host=found["host"]) if code else None
    if found := _MPIRUN.search(text):
        return Ending(-int(found["signal"]), task=int(found["task"]), host=found["host"])
    return None
