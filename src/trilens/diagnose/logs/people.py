"""Which process is which rank, on which host."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs.found import Process
from trilens.diagnose.logs.line import MOST_RANKS, number, rank_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.diagnose.logs.endings import Ending
    from trilens.diagnose.logs.found import Found, Hit, Speaker

_RANK_NAME: Final = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d+)", re.IGNORECASE)
_LOCAL_NAME: Final = re.compile(r"attempt_\d+/(\d+)/(?:stdout|stderr)")  # torchrun --log-dir


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
        self._world: dict[Process, int] = {}  # -> rank
        self._by_pid: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)  # -> (host, rank)
        self._buses: dict[tuple[str, str], int] = {}  # (host, PCI bus) -> rank
        self._hosts: dict[int, str] = {}
        by_source: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        for (source, process), members in found.members.items():
            host, pid, _ = process
            by_source[source].add((host, pid))
            # The largest communicator is the world; within others, ranks have other numbers.
            member = max(members, key=lambda one: one.ranks)
            if member.ranks == found.world or len(members) > 1 or not found.world:
                self._world[process] = member.rank
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
        # Where one lane has several processes, another one of which a single one told may have more as well.
        self._lanes_are_processes = all(len(one) == 1 for lane, one in found.lanes.items() if lane.is_marked)
        # One task of the launcher for each rank, or one for each node: then it tells nothing of the rank.
        self._tasks_are_ranks = all(
            hit.speaker.rank in (None, hit.speaker.task)
            for hit in found.hits.values()
            if hit.speaker.task is not None
        ) and all(
            self._world.get(process, lane.task) == lane.task
            for lane, processes in found.lanes.items()
            for process in processes
            if lane.task is not None
        )

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
        if rank is None and self._tasks_are_ranks:
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
            process = number(pid)
            known = [who for (_, ended), who in self._ended.items() if ended == process]
            rank = known[0].rank if len(known) == 1 else self._by_process(teller.host, process, None)
            return Who(rank, teller.host or (known[0].host if len(known) == 1 else ""))
        if (rank := rank_number(hit.names.get("rank"))) is not None:
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
        named = {process.host for _, process in self._found.members}
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
        return frozenset(range(size if size <= MOST_RANKS else 0))

    @property
    def away(self) -> frozenset[int]:
        """Ranks that there should be, and that said nothing."""
        return self.expected - self.present

    def _host(self, speaker: Speaker) -> str:
        source = self._found.sources[speaker.source]
        host = speaker.host
        if not host and speaker.rank is not None:
            host = self._hosts.get(speaker.rank, "")
        if not host and (speaker.rank is None or self._is_alone(speaker)):
            host = self._host_of_source.get(speaker.source, "")
        if not host and len(names := {process.host for process in self._by_lane(speaker)}) == 1:
            host = next(iter(names))
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
        return rank_number(named[1]) if named else None

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
        ranks = {self._world.get(process) for process in self._by_lane(speaker)}
        if len(ranks) == 1 and self._lanes_are_processes:
            return next(iter(ranks))
        if speaker.group_rank is not None:
            return speaker.group_rank
        if speaker.task is not None and self._tasks_are_ranks:
            return speaker.task
        local = speaker.local
        if local is None and (inside := _LOCAL_NAME.search(self._found.sources[speaker.source].name)):
            local = rank_number(inside[1])
        # With one host only, the rank within the host is the rank.
        return local if local is not None and len(self.hosts) <= 1 else None

    def _by_lane(self, speaker: Speaker) -> Iterable[Process]:
        """Who NCCL says to be where this came from."""
        lane = speaker.lane
        return self._found.lanes.get(lane, ()) if lane.is_marked and speaker.pid is None else ()

    def _by_process(self, host: str, pid: int | None, device: int | None) -> int | None:
        if pid is None:
            return None
        if device is not None and (rank := self._world.get(Process(host, pid, device))) is not None:
            return rank
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
