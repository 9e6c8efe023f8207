"""The fleet in an hour: which nodes were there, with which GPUs, and which of these could not be held."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger import causes
from trilens.ledger.allocation import doubts
from trilens.ledger.allocation.times import both, joined, without
from trilens.model.machine import Machine, MachineState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.allocation.holdings import Holding
    from trilens.ledger.allocation.times import Times
    from trilens.model.gpu import GpuInterval
    from trilens.model.ledger_facts import Facts
    from trilens.model.machine import MachineInterval

# GPUs are looked at every 15 seconds: one that is missed by a look or two is not lost.
LOST_AFTER_MS: Final = 60_000

Place = tuple[str, str]  # cluster and node


class Outage(NamedTuple):
    """Time in which a GPU could not be held, or is to be held by nobody new."""

    from_ms: int
    to_ms: int
    cause: str
    since_ms: int | None
    is_for_free_ones: bool = False  # who holds it goes on


class Standing(NamedTuple):
    """A node as one machine, with one number of GPUs."""

    from_ms: int
    to_ms: int
    machine: Machine
    gpus: int
    has_more: bool  # than the machine says


@dataclass(slots=True)
class Device:
    """A GPU of a node; or, without a UUID, `count` of them that nobody has seen."""

    uuid: str
    model: str
    times: Times  # when the node has it
    outages: list[Outage] = field(default_factory=list)
    count: int = 1


@dataclass(slots=True)
class Node:
    cluster: str
    name: str
    standings: list[Standing]
    devices: list[Device]  # by UUID, those without one last


class Fleet(NamedTuple):
    nodes: list[Node]  # by cluster and name
    doubts: dict[str, int]  # about time that is not in it, by code: milliseconds


@dataclass(slots=True)
class _Seen:
    """A GPU on a node: when it reported there, or was held there without a report."""

    model: str
    reported: list[tuple[int, int]]
    held: list[tuple[int, int]]

    @property
    def first_ms(self) -> int:
        return min(begin for begin, _ in (*self.reported, *self.held))


class _Sightings:
    """Which GPUs were seen on which node."""

    def __init__(
        self, from_ms: int, to_ms: int, machines: Iterable[Place], holdings: Sequence[Holding]
    ) -> None:
        self.always = [(from_ms, to_ms)]
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._holdings = holdings
        self._machines = set(machines)
        self._by_name: dict[str, Place | None] = {}
        for place in self._machines:
            self._by_name[place[1]] = None if place[1] in self._by_name else place
        self.on: defaultdict[Place, dict[str, _Seen]] = defaultdict(dict)
        self.places: dict[str, list[Place]] = {}
        self._moved: set[str] = set()

    def report(self, interval: GpuInterval) -> None:
        gpu, begin, end = interval
        if begin < self._from_ms:
            begin = self._from_ms
        if end is None or end > self._to_ms:
            end = self._to_ms
        if begin >= end:
            return
        seen = self._seen(self._place(gpu.cluster, gpu.node), gpu.key.uuid)
        seen.reported.append((begin, end))
        if gpu.model > seen.model:
            seen.model = gpu.model

    def hold(self, holding: Holding) -> None:
        """A GPU that does not report is on the node of the pod that holds it."""
        place = self._place(holding.member.pod.cluster, holding.node)
        self._seen(place, holding.gpu.uuid).held.append((holding.from_ms, holding.to_ms))

    def _seen(self, place: Place, uuid: str) -> _Seen:
        on_node = self.on[place]
        seen = on_node.get(uuid)
        if seen is None:
            seen = on_node[uuid] = _Seen("", [], [])
            places = self.places.setdefault(uuid, [])
            places.append(place)
            if len(places) > 1:
                self._moved.add(uuid)
        return seen

    def _place(self, cluster: str, node: str) -> Place:
        """Where its cluster is not known, the node of that name is meant if only one cluster has it."""
        if not cluster and ("", node) not in self._machines:
            return self._by_name.get(node) or ("", node)
        return cluster, node

    def moved(self, place: Place) -> dict[str, Times]:
        """When the node has those of its GPUs that another node has before or after; it always has others."""
        found: dict[str, Times] = {}
        for uuid in self._moved & self.on[place].keys():
            moves = sorted((self.on[one][uuid].first_ms, one) for one in self.places[uuid])
            ends = [*(at_ms for at_ms, _ in moves[1:]), self._to_ms]
            begins = [self._from_ms, *ends[:-1]]
            found[uuid] = joined(
                (begin, end) for begin, end, (_, at) in zip(begins, ends, moves, strict=True) if at == place
            )
        return found

    def active(self, place: Place, uuid: str) -> Times:
        """When a GPU of the node reported there, or was held wherever."""
        return joined([*self.on[place][uuid].reported, *self._held.get(uuid, ())])

    @cached_property
    def _held(self) -> Mapping[str, list[tuple[int, int]]]:
        held: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for holding in self._holdings:
            held[holding.gpu.uuid].append((holding.from_ms, holding.to_ms))
        return held


def fleet_of(facts: Facts, holdings: Sequence[Holding], from_ms: int, to_ms: int) -> Fleet:
    told: defaultdict[str, int] = defaultdict(int)
    machines: defaultdict[Place, list[MachineInterval]] = defaultdict(list)
    for interval in facts.machines:
        machines[interval.machine.cluster, interval.machine.node].append(interval)
    seen = _Sightings(from_ms, to_ms, machines, holdings)
    for gpu in facts.gpus:
        if gpu.to_ms is not None and gpu.to_ms < gpu.from_ms:
            told[doubts.CLOCK_JUMPED] += gpu.from_ms - gpu.to_ms
        else:
            seen.report(gpu)
    reporting = set(seen.places)
    for holding in holdings:
        if holding.node and holding.gpu.uuid not in reporting:
            seen.hold(holding)
    nodes: list[Node] = []
    for place in sorted(machines.keys() | seen.on.keys()):
        stood = (
            _one_after_the_other(machines[place], from_ms, to_ms, told)
            if place in machines
            else _while_it_reports(place, seen.on[place])
        )
        node = _node(place, stood, seen) if stood else None
        if node is not None:
            nodes.append(node)
        elif stood:
            told[doubts.GPUS_UNKNOWN] += sum(one.to_ms - one.from_ms for one in stood)
    return Fleet(nodes, told)


class _Stood(NamedTuple):
    from_ms: int
    to_ms: int
    since_ms: int  # maybe before the hour
    machine: Machine


def _one_after_the_other(
    intervals: list[MachineInterval], from_ms: int, to_ms: int, told: defaultdict[str, int]
) -> list[_Stood]:
    """A machine is what was told last."""
    found: list[_Stood] = []
    if len(intervals) > 1:
        intervals = sorted(intervals, key=lambda one: (one.from_ms, repr(one)))
    for machine, since_ms, end in intervals:
        if end is not None and end < since_ms:
            told[doubts.CLOCK_JUMPED] += since_ms - end
            continue
        if found and found[-1].to_ms > since_ms:
            found[-1] = found[-1]._replace(to_ms=max(since_ms, found[-1].from_ms))
        begin, until = max(since_ms, from_ms), to_ms if end is None else min(end, to_ms)
        if begin < until:
            found.append(_Stood(begin, until, since_ms, machine))
    return [one for one in found if one.from_ms < one.to_ms]


def _while_it_reports(place: Place, gpus: Mapping[str, _Seen]) -> list[_Stood]:
    cluster, node = place
    model = next((seen.model for _, seen in sorted(gpus.items()) if seen.model), "")
    machine = Machine(cluster, node, gpu_model=model)
    times = joined(time for seen in gpus.values() for time in seen.reported)
    return [_Stood(begin, end, begin, machine) for begin, end in times]


def _node(place: Place, stood: list[_Stood], seen: _Sightings) -> Node | None:
    """None for one that has no GPUs."""
    there = joined((one.from_ms, one.to_ms) for one in stood)
    gpus, moved = seen.on[place], seen.moved(place)
    names = sorted(gpus)
    model = next((one.machine.gpu_model for one in stood if one.machine.gpu_model), "")
    has_all = all(one.machine.gpus is None or one.machine.gpus >= len(names) for one in stood)
    if has_all and all(_is_within(there[0][0], there[-1][1], own) for own in moved.values()):
        counts = [len(names) if one.machine.gpus is None else one.machine.gpus for one in stood]
        standings = [
            Standing(one.from_ms, one.to_ms, one.machine, count, False)
            for one, count in zip(stood, counts, strict=True)
            if count
        ]
        devices = [Device(uuid, gpus[uuid].model or model, there) for uuid in names]
        devices += [
            Device("", model, [(one.from_ms, one.to_ms)], count=one.gpus - len(names))
            for one in standings
            if one.gpus > len(names)
        ]
    else:
        times = {uuid: moved.get(uuid, seen.always) for uuid in names}
        standings, devices = _counted(stood, times, {uuid: seen.active(place, uuid) for uuid in names})
        for device in devices:
            device.model = gpus[device.uuid].model or model
        standings = [one for one in standings if one.gpus]
        devices += _unseen(standings, devices, model)
    if not standings:
        return None
    _tell_outages(stood, devices, gpus, there)
    return Node(*place, standings, devices)


def _counted(
    stood: list[_Stood], times: Mapping[str, Times], reported_or_held: Mapping[str, Times]
) -> tuple[list[Standing], list[Device]]:
    """Where more GPUs were seen than a node has: those that report or are held at a time are there, then
    those that did so before, as many as the node says that it has. `times` are by UUID, in order."""
    active = {uuid: both(reported_or_held[uuid], times[uuid]) for uuid in times}
    standings: list[Standing] = []
    had: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in stood:
        cuts = {one.from_ms, one.to_ms}
        for uuid in times:
            for time in (*active[uuid], *times[uuid]):
                cuts.update(t for t in time if one.from_ms < t < one.to_ms)
        for begin, end in pairwise(sorted(cuts)):
            here = [uuid for uuid in times if _covers(times[uuid], begin)]
            now = [uuid for uuid in here if _covers(active[uuid], begin)]
            quiet = sorted(
                (uuid for uuid in here if not _covers(active[uuid], begin)),
                key=lambda uuid: (-_last_before(active[uuid], begin), uuid),
            )
            count = len(here) if one.machine.gpus is None else max(one.machine.gpus, len(now))
            for uuid in [*now, *quiet[: count - len(now)]]:
                had[uuid].append((begin, end))
            has_more = one.machine.gpus is not None and count > one.machine.gpus
            standings.append(Standing(begin, end, one.machine, count, has_more))
    devices = [Device(uuid, "", joined(had[uuid])) for uuid in times if had[uuid]]
    return _merged(standings), devices


def _covers(times: Times, at_ms: int) -> bool:
    return any(begin <= at_ms < end for begin, end in times)


def _last_before(times: Times, at_ms: int) -> int:
    return max((end for _, end in times if end <= at_ms), default=-1)


def _merged(standings: list[Standing]) -> list[Standing]:
    found: list[Standing] = []
    for one in standings:
        last = found[-1] if found else None
        if last is not None and last.to_ms == one.from_ms and last[2:] == one[2:]:
            found[-1] = last._replace(to_ms=one.to_ms)
        else:
            found.append(one)
    return found


def _unseen(standings: list[Standing], devices: list[Device], model: str) -> list[Device]:
    """What a node says that it has, and nobody has seen."""
    found: list[Device] = []
    for one in standings:
        cuts = {one.from_ms, one.to_ms}
        for device in devices:
            for time in device.times:
                cuts.update(t for t in time if one.from_ms < t < one.to_ms)
        for begin, end in pairwise(sorted(cuts)):
            missing = one.gpus - sum(_covers(device.times, begin) for device in devices)
            if missing > 0:
                found.append(Device("", model, [(begin, end)], count=missing))
    return found


def _is_within(from_ms: int, to_ms: int, times: Times) -> bool:
    return any(begin <= from_ms and end >= to_ms for begin, end in times)


def _tell_outages(
    stood: list[_Stood], devices: list[Device], gpus: Mapping[str, _Seen], there: Times
) -> None:
    of_node = [
        Outage(one.from_ms, one.to_ms, causes.NOT_READY, one.since_ms)
        for one in stood
        if one.machine.state is MachineState.NOT_READY
    ]
    cordoned = [
        Outage(one.from_ms, one.to_ms, causes.CORDONED, one.since_ms, is_for_free_ones=True)
        for one in stood
        if one.machine.state is MachineState.CORDONED
    ]
    first, last = there[0][0], there[-1][1]
    reported = {device.uuid: gpus[device.uuid].reported if device.uuid else [] for device in devices}
    quiet = {
        uuid
        for uuid, times in reported.items()
        if len(times) != 1 or times[0][0] > first or times[0][1] < last
    }
    if not (of_node or quiet or cordoned):
        return
    anyone = joined(time for times in reported.values() for time in times)
    for device in devices:
        if of_node:
            device.outages += of_node
        if device.uuid in quiet:
            own = joined(reported[device.uuid])
            missing = without(both(device.times, anyone), own)
            device.outages += [
                Outage(begin, end, causes.GPU_LOST, begin if own else None)
                for begin, end in missing
                if end - begin >= LOST_AFTER_MS
            ]
        if cordoned:
            device.outages += cordoned
