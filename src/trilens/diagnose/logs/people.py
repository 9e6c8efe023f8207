"""Which process is which rank, on which host, and how far apart the clocks of hosts are."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePath
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs.line import NO_YEAR

if TYPE_CHECKING:
    from trilens.diagnose.logs.endings import Ending
    from trilens.diagnose.logs.reading import Found, Hit, Speaker

_RANK_NAME: Final = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d+)", re.IGNORECASE)
_LOCAL_NAME: Final = re.compile(r"attempt_\d+/(\d+)/(?:stdout|stderr)")  # torchrun --log-dir
_MOST_RANKS: Final = 100_000  # a number beyond it is not that of ranks
_SKEW_MS: Final = 2_000  # clocks that are nearer than this are taken for the same
_MS_A_DAY: Final = 24 * 3_600 * 1_000


class Who(NamedTuple):
    rank: int | None = None
    host: str = ""

    def __str__(self) -> str:
        if self.rank is not None:
            return f"rank {self.rank} on {self.host}" if self.host else f"rank {self.rank}"
        return f"a rank on {self.host}" if self.host else "a rank"


class People:
    def __init__(self, found: Found) -> None:
        self._found = found
        self._world: dict[tuple[str, int, int], int] = {}  # (host, pid, device) -> rank
        self._by_pid: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)  # -> (host, rank)
        self._buses: dict[tuple[str, str], int] = {}  # (host, PCI bus) -> rank
        self._hosts: dict[int, str] = {}
        by_source: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        for (source, host, pid, device), members in found.members.items():
            by_source[source].add((host, pid))
            # The largest communicator is the world; within others, ranks have other numbers.
            member = max(members, key=lambda one: one.ranks)
            if member.ranks == found.world or len(members) > 1 or not found.world:
                self._world[(host, pid, device)] = member.rank
                self._by_pid[pid].add((host, member.rank))
                self._hosts.setdefault(member.rank, host)
                if member.bus:
                    self._buses[(host, member.bus)] = member.rank
        for hit in found.hits.values():
            if hit.speaker.pid is not None and hit.speaker.host:
                by_source[hit.speaker.source].add((hit.speaker.host, hit.speaker.pid))
        self._ended: dict[tuple[int, int], Who] = {}  # (log, pid) -> who
        for told in found.endings:  # torchrun's table knows ranks, hosts and process ids
            ending = told.ending
            if ending.rank is not None and ending.host:
                self._hosts.setdefault(ending.rank, ending.host)
                if ending.pid is not None:
                    self._ended[(told.speaker.source, ending.pid)] = Who(ending.rank, ending.host)
        self._only: dict[int, tuple[str, int]] = {
            source: next(iter(processes)) for source, processes in by_source.items() if len(processes) == 1
        }
        self._host_of_source: dict[int, str] = {}
        self._node_of: dict[str, str] = {}  # what a container calls its host -> what its collector does
        for source, processes in by_source.items():
            names = {host for host, _ in processes}
            if len(names) == 1:
                self._host_of_source[source] = host = next(iter(names))
                if found.sources[source].host:
                    self._node_of[host] = found.sources[source].host

    def who(self, speaker: Speaker) -> Who:
        host = self._host(speaker)
        rank = self._rank(speaker, host)
        return Who(rank, host or (self._hosts.get(rank, "") if rank is not None else ""))

    def of_ending(self, ending: Ending, teller: Speaker) -> Who:
        if ending.pid is not None and (known := self._ended.get((teller.source, ending.pid))):
            return known
        host = ending.host or self._host(teller)
        rank = ending.rank
        if rank is None and ending.pid is not None:
            rank = self._by_process(host, ending.pid, None)
        if rank is None:
            rank = ending.task
        if rank is None and len(self.hosts) <= 1:
            rank = ending.local
        return Who(rank, host or (self._hosts.get(rank, "") if rank is not None else ""))

    def of_hit(self, hit: Hit) -> Who:
        """Whom a line is about: who says it, or who is named in it."""
        teller = self.who(hit.speaker)
        if (bus := hit.names.get("bus")) is not None:  # of the kernel: it knows GPUs, not ranks
            return Who(self._by_bus(teller.host, bus), teller.host)
        if (pid := hit.names.get("pid")) is not None:  # of the kernel as well
            known = [who for (_, number), who in self._ended.items() if number == int(pid)]
            rank = known[0].rank if len(known) == 1 else self._by_process(teller.host, int(pid), None)
            return Who(rank, teller.host or (known[0].host if len(known) == 1 else ""))
        if (named := hit.names.get("rank")) is not None:
            rank = int(named)
            return Who(rank, self._hosts.get(rank, teller.host if teller.rank == rank else ""))
        return teller

    def host_at(self, address: str) -> str:
        """The host that has an address, or whose name it is; the address itself where nobody knows."""
        return self._found.addresses.get(address, address)

    def on_host(self, host: str, local: int) -> int | None:
        """The rank of a device on a host."""
        return next(
            (rank for (at, _, device), rank in self._world.items() if at == host and device == local), None
        )

    @cached_property
    def hosts(self) -> frozenset[str]:
        named = {host for _, host, _, _ in self._found.members}
        named |= {self.host_at(hit.speaker.host) for hit in self._found.hits.values() if hit.speaker.host}
        named |= {
            source.host
            for at, source in enumerate(self._found.sources)
            if source.host and at not in self._host_of_source and source.host not in self._node_of.values()
        }
        return frozenset(named)

    @cached_property
    def present(self) -> frozenset[int]:
        """Ranks that said anything."""
        found = self._found
        told = {*found.ranks_seen, *self._world.values()}
        told |= {rank for at in range(len(found.sources)) if (rank := self._source_rank(at)) is not None}
        for speaker in [*(hit.speaker for hit in found.hits.values()), *found.waits, *found.stacks]:
            rank = self.who(speaker).rank
            if rank is not None:
                told.add(rank)
        return frozenset(told)

    @cached_property
    def expected(self) -> frozenset[int]:
        """Ranks that there should be."""
        size = max(self._found.world, max(self.present, default=-1) + 1)
        return frozenset(range(size if size <= _MOST_RANKS else 0))

    def _host(self, speaker: Speaker) -> str:
        source = self._found.sources[speaker.source]
        host = speaker.host
        if not host and speaker.rank is not None:
            host = self._hosts.get(speaker.rank, "")
        if not host and (speaker.rank is None or self._is_alone(speaker)):
            host = self._host_of_source.get(speaker.source, "")
        return self.host_at(host or source.host or speaker.pod)

    def _is_alone(self, speaker: Speaker) -> bool:
        """Whether a log is of this rank only: a line of NCCL in a log of many tells nothing of the others."""
        only = self._only.get(speaker.source)
        own = self._source_rank(speaker.source)
        return only is not None and speaker.rank in (own, self._by_process(*only, None))

    def _source_rank(self, at: int) -> int | None:
        source = self._found.sources[at]
        if source.rank is not None:
            return source.rank
        named = _RANK_NAME.search(PurePath(source.name).name)
        return int(named[1]) if named else None

    def _rank(self, speaker: Speaker, host: str) -> int | None:
        if speaker.rank is not None:
            return speaker.rank
        if speaker.pid is not None:
            rank = self._by_process(host, speaker.pid, speaker.device)
            if rank is not None:
                return rank
        own = self._source_rank(speaker.source)
        if own is not None:
            return own
        only = self._only.get(speaker.source)
        if only is not None and (rank := self._by_process(*only, None)) is not None:
            return rank
        if speaker.group_rank is not None:
            return speaker.group_rank
        if speaker.task is not None:
            return speaker.task
        local = speaker.local
        if local is None and (inside := _LOCAL_NAME.search(self._found.sources[speaker.source].name)):
            local = int(inside[1])
        # With one host only, the rank within the host is the rank.
        return local if local is not None and len(self.hosts) <= 1 else None

    def _by_process(self, host: str, pid: int, device: int | None) -> int | None:
        if device is not None and (host, pid, device) in self._world:
            return self._world[(host, pid, device)]
        ranks = {rank for at, rank in self._by_pid.get(pid, ()) if not host or at == host}
        return next(iter(ranks)) if len(ranks) == 1 else None

    def _by_bus(self, host: str, bus: str) -> int | None:
        """NCCL writes 0000:4e:00.0 as 4e000."""
        number = bus.replace(":", "").lstrip("0") + "0"
        there = {at: rank for (at, known), rank in self._buses.items() if known == number}
        ranks = {rank for at, rank in there.items() if host in ("", at, self._node_of.get(at))}
        if not ranks:  # the kernel's name of the host is not always the container's
            ranks = set(there.values())
        return next(iter(ranks)) if len(ranks) == 1 else None


class Clocks:
    """Moments of different hosts made comparable, as far as that is possible."""

    def __init__(self, found: Found) -> None:
        times = [hit.t_ms for hit in found.hits.values() if hit.t_ms is not None]
        years = {year for t_ms in times if (year := _year(t_ms)) != NO_YEAR}
        # Lines without a year are of the same one as those with it.
        self._year = min(years) if years else None
        self.offsets = _offsets(found)

    def moment(self, t_ms: int | None, host: str) -> int | None:
        if t_ms is None:
            return None
        if self._year is not None and _year(t_ms) == NO_YEAR:
            at = datetime.fromtimestamp(t_ms / 1000, UTC)
            try:
                moved = at.replace(year=self._year)
            except ValueError:  # a 29th of February
                moved = at.replace(year=self._year, day=28)
            t_ms += round((moved - at).total_seconds() * 1000)
        return t_ms - self.offsets.get(host, 0)

    def known_moment(self, t_ms: int | None) -> int | None:
        """With its year, or not at all: what is shown as a time must be one."""
        return None if t_ms is None or _year(t_ms) == NO_YEAR else t_ms

    def same(self, one: str, other: str) -> bool:
        """Whether two hosts' times can be compared to the second."""
        return one == other or (one in self.offsets and other in self.offsets)


def _year(t_ms: int) -> int:
    return datetime.fromtimestamp(t_ms / 1000, UTC).year


def _offsets(found: Found) -> dict[str, int]:
    """By how much the clock of each host is ahead. All ranks of a communicator are done setting it up at the
    same moment: what they take for that moment tells."""
    by_comm: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (comm, host), t_ms in found.completed.items():
        by_comm[comm][host] = t_ms
    offsets: defaultdict[str, list[float]] = defaultdict(list)
    for times in by_comm.values():
        if len(times) < 2:
            continue
        middle = median(times.values())
        for host, t_ms in times.items():
            offsets[host].append(t_ms - middle)
    settled = {host: round(median(told)) for host, told in offsets.items()}
    return {
        host: offset if _SKEW_MS < abs(offset) < _MS_A_DAY * 400 else 0 for host, offset in settled.items()
    }
