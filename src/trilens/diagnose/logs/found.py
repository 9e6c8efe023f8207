"""What logs have that tells of a cause: signs, endings, waits, stacks, and who the processes are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.diagnose.logs.endings import Ending
    from trilens.diagnose.logs.reading import LogSource
    from trilens.diagnose.logs.signs import Sign
    from trilens.diagnose.logs.tracebacks import Raised, Stack
    from trilens.diagnose.logs.watchdog import Wait


class Lane(NamedTuple):
    """The way by which a line came into its log: what launchers and collectors put before it. All that came
    by one lane is of one process, or of the few that it was put before."""

    source: int
    pod: str
    task: int | None
    local: int | None

    @property
    def is_marked(self) -> bool:
        return bool(self.pod) or self.task is not None or self.local is not None


class Process(NamedTuple):
    host: str
    pid: int
    device: int


class Speaker(NamedTuple):
    """Who said something, as far as the line and its log tell."""

    source: int
    rank: int | None = None
    group_rank: int | None = None
    local: int | None = None
    task: int | None = None
    host: str = ""
    pid: int | None = None
    device: int | None = None
    pod: str = ""

    @property
    def lane(self) -> Lane:
        return Lane(self.source, self.pod, self.task, self.local)


@dataclass(slots=True)
class Hit:
    """The first line of a speaker that has a sign."""

    sign: Sign
    speaker: Speaker
    number: int
    text: str
    t_ms: int | None
    names: Mapping[str, str]
    raised: Raised | None = None
    count: int = 1


class ToldEnding(NamedTuple):
    ending: Ending
    speaker: Speaker  # who tells it, not who ended
    number: int
    text: str
    t_ms: int | None


class Member(NamedTuple):
    """A rank of a communicator, as NCCL names it."""

    rank: int
    ranks: int
    comm: str
    bus: str


@dataclass(slots=True)
class Found:
    """In all logs together."""

    sources: list[LogSource] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each source
    hits: dict[tuple[object, ...], Hit] = field(default_factory=dict)
    dropped: int = 0
    endings: list[ToldEnding] = field(default_factory=list)
    waits: dict[Speaker, dict[str, Wait]] = field(default_factory=dict)
    stacks: dict[Speaker, Stack] = field(default_factory=dict)
    unended: list[int] = field(default_factory=list)  # sources that stop within a traceback
    members: dict[tuple[int, Process], set[Member]] = field(default_factory=dict)  # by source and process
    lanes: dict[Lane, set[Process]] = field(default_factory=dict)
    completed: dict[tuple[str, str], int] = field(default_factory=dict)  # (comm, host) -> when it was set up
    addresses: dict[str, str] = field(default_factory=dict)  # of hosts
    versions: dict[tuple[int, str], set[str]] = field(default_factory=dict)  # of NCCL, by log and host
    networks: dict[str, str] = field(default_factory=dict)  # by host
    ranks_seen: set[int] = field(default_factory=set)  # in prefixes
    world: int = 0
    hears_nccl: bool = False
    uses_p2p: bool = False
    uses_net: bool = False  # between ranks
    old_async_name: bool = False
