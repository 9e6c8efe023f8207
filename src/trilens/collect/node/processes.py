"""What /proc tells about a process that uses a GPU: whose it is, and its place in a distributed job."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model import launch
from trilens.model.cgroups import NOBODYS, Belonging, read_cgroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_COMMAND_CHARACTERS: Final = 300
_ENVIRONMENT_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Process:
    """What cannot be read, because it is another user's or has ended, is None or empty."""

    pid: int
    name: str
    started_ms: int
    parent: int
    process_group: int
    session: int
    group_leader: tuple[str, int] | None = None  # name and start of the process that the group is named after
    user: str | None = None
    command: str = ""
    belonging: Belonging = NOBODYS
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        return launch.first_number(self.environment, launch.RANK)

    @property
    def local_rank(self) -> int | None:
        return launch.first_number(self.environment, launch.LOCAL_RANK)

    @property
    def world_size(self) -> int | None:
        return launch.first_number(self.environment, launch.WORLD_SIZE)

    @property
    def slurm_job(self) -> str | None:
        return self.environment.get("SLURM_JOB_ID") or self.belonging.slurm_job

    def as_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "name": self.name,
            "started_ms": self.started_ms,
            "process_group": self.process_group,
            "session": self.session,
            "user": self.user,
            "command": self.command,
            "pod_uid": self.belonging.pod_uid,
            "container_id": self.belonging.container_id,
            "slurm_job": self.slurm_job,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "environment": dict(self.environment),
        }


class _Stat(NamedTuple):
    name: str
    started_ms: int
    parent: int
    process_group: int
    session: int


class ProcessTable:
    def __init__(self, proc: Path, redact: Callable[[str], str] = str) -> None:
        self._proc = proc
        self._redact = redact
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._users: dict[int, str] = {}

    def read(self, pid: int) -> Process | None:
        """None when there is no such process (any more)."""
        folder = self._proc / str(pid)
        try:
            stat = self._stat(pid)
            uid = folder.stat().st_uid
        except (OSError, ValueError, IndexError):
            return None
        leader: _Stat | None = stat
        if stat.process_group != pid:
            try:
                leader = self._stat(stat.process_group)
            except (OSError, ValueError, IndexError):
                leader = None
        return Process(
            pid,
            stat.name,
            stat.started_ms,
            parent=stat.parent,
            process_group=stat.process_group,
            session=stat.session,
            group_leader=(leader.name, leader.started_ms) if leader else None,
            user=self._user(uid),
            command=self._command(folder),
            belonging=read_cgroup(_text(folder / "cgroup")),
            environment=_environment(folder),
        )

    def runs(self, name: str) -> bool:
        """Whether any process is called so; names are cut at 15 characters by the kernel."""
        wanted = name[:15]
        try:
            pids = [entry.name for entry in os.scandir(self._proc) if entry.name.isdigit()]
        except OSError:
            return False
        return any(_text(self._proc / pid / "comm").rstrip("\n") == wanted for pid in pids)

    def _stat(self, pid: int) -> _Stat:
        text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        name = text[text.index("(") + 1 : text.rindex(")")]  # it may hold spaces and parentheses itself
        fields = text[text.rindex(")") + 1 :].split()  # from the state on
        started_ms = self._boot_ms() + round(int(fields[19]) * self._tick_s * 1000)
        return _Stat(name, started_ms, int(fields[1]), int(fields[2]), int(fields[3]))

    def _boot_ms(self) -> int:
        for line in (self._proc / "stat").read_text(encoding="utf-8").splitlines():
            if line.startswith("btime "):
                return int(line.split()[1]) * 1000
        raise ValueError("no btime in /proc/stat")

    def _command(self, folder: Path) -> str:
        parts = _text(folder / "cmdline").split("\0")
        return self._redact(" ".join(part for part in parts if part))[:_COMMAND_CHARACTERS]

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:  # of a container, or of a directory service that cannot be asked from here
                self._users[uid] = str(uid)
        return self._users[uid]


def _environment(folder: Path) -> dict[str, str]:
    try:
        with (folder / "environ").open("rb") as stream:
            entries = stream.read(_ENVIRONMENT_BYTES).split(b"\0")
    except OSError:
        return {}
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if name in launch.PLACING_VARIABLES}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
