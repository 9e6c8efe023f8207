"""Who waits for whom: from what a rank waits in, over the groups, to those who wait for nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trilens.diagnose.flight.differences import Difference, at_place, difference
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.operations import ends, match

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.flight.timeline import GroupKey, Place, Timelines, Unit
    from trilens.model.flight_recorder import Collective


class Deed(NamedTuple):
    """An operation of a group; of sends and receives, one rank's side of it."""

    group: GroupKey
    place: Place


@dataclass(slots=True)
class Wait:
    """A deed that is not over on some ranks, and who is not in it."""

    deed: Deed
    unit: Unit  # of one of those who wait
    waiting: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)  # wait in nothing, and have not come to it
    silent: set[int] = field(default_factory=set)  # did not dump, or before it
    elsewhere: dict[int, Deed] = field(default_factory=dict)  # wait in something else
    older: set[int] = field(default_factory=set)  # of the silent: those whose dump is of an earlier moment
    difference: Difference | None = None
    has_no_peer: bool = False  # of a send or receive: the dump does not say with whom it is
    behind: tuple[int, ...] = ()  # in it, but their GPUs are not where the others' are

    @property
    def reason(self) -> Reason | None:
        """Why it does not end; None where the others do not come because of something else."""
        if self.difference is not None:
            return self.difference.reason
        if self.absent:
            return Reason.NEVER_ENTERED
        if self.silent:
            return Reason.DID_NOT_DUMP
        if self.has_no_peer:
            return Reason.UNKNOWN
        if self.elsewhere:
            return None
        return Reason.GPU_BEHIND if self.behind else Reason.ALL_SAME

    @property
    def culprits(self) -> tuple[int, ...]:
        if self.difference is not None:
            return self.difference.culprits
        if self.absent or self.silent:
            return tuple(sorted(self.absent or self.silent))
        return self.behind


class Root(NamedTuple):
    wait: Wait
    way: tuple[Deed, ...]  # from what was asked about to it, both included
    ranks: int  # that wait because of it


def find_waits(lines: Timelines) -> dict[Deed, Wait]:
    """What ranks wait in, each in the first of its own that is not over: the later ones come after it."""
    waits: dict[Deed, Wait] = {}
    for rank, unit in sorted(lines.first_pending.items()):
        deed = Deed(unit.group, unit.place)
        waits.setdefault(deed, Wait(deed, unit)).waiting.add(rank)
    for wait in waits.values():
        if wait.unit.is_p2p:
            _look_at_pair(lines, wait)
        else:
            _look_at_group(lines, wait)
    return waits


def find_roots(waits: Mapping[Deed, Wait]) -> list[Root]:
    """Those with a cause of their own, that of most ranks first."""
    found: dict[Deed, tuple[tuple[Deed, ...], set[int]]] = {}
    for start in sorted(waits, key=lambda deed: (-len(waits[deed].waiting), deed)):
        for deed, way in _reached(waits, start).items():
            if waits[deed].reason is not None:
                found.setdefault(deed, (way, set()))[1].update(waits[start].waiting)
    roots = [Root(waits[deed], way, len(ranks)) for deed, (way, ranks) in found.items()]
    return sorted(roots, key=lambda root: (_weak(root.wait), -root.ranks))


def find_circle(waits: Mapping[Deed, Wait]) -> Sequence[Wait]:
    """Deeds each of which waits for the next and the last for the first; none where there is a root."""
    for start in sorted(waits):
        way: list[Deed] = []
        deed: Deed | None = start
        while deed is not None and deed not in way:
            way.append(deed)
            deed = next(iter(sorted(set(waits[deed].elsewhere.values()))), None)
        if deed is not None:
            return [waits[one] for one in way[way.index(deed) :]]
    return ()


def _reached(waits: Mapping[Deed, Wait], start: Deed) -> dict[Deed, tuple[Deed, ...]]:
    ways: dict[Deed, tuple[Deed, ...]] = {start: (start,)}
    left = [start]
    while left:
        deed = left.pop()
        if waits[deed].difference is not None:
            continue  # whoever is not in it has his reason
        for after in waits[deed].elsewhere.values():
            if after not in ways:
                ways[after] = (*ways[deed], after)
                left.append(after)
    return ways


def _weak(wait: Wait) -> int:
    """What is known of those who told comes before what is not of those who did not."""
    return {Reason.UNKNOWN: 3, Reason.ALL_SAME: 2, Reason.DID_NOT_DUMP: 1}.get(
        wait.reason or Reason.ALL_SAME, 0
    )


def _look_at_group(lines: Timelines, wait: Wait) -> None:
    key, place = wait.deed
    units = at_place(lines, key, place)
    there = {unit.rank for unit in units}
    wait.difference = difference(lines, key, place)
    for rank in lines.members(key) - there:
        if rank not in lines.dumped:
            wait.silent.add(rank)
        elif not lines.has_forgotten(rank, key, place):
            _away(lines, wait, rank)
    for unit in units:  # entered, but after something that is not over
        first = lines.first_pending.get(unit.rank)
        if first is not None and first.record < unit.record and not unit.is_over:
            wait.elsewhere[unit.rank] = Deed(first.group, first.place)
    if not lines.knows_members(key) and not wait.absent | wait.silent | wait.elsewhere.keys():
        # Gloo does not say who else is in it: whoever waits in nothing may be.
        wait.absent = {*lines.dumped} - lines.first_pending.keys() - there
    states = {unit.rank: unit.end.state for unit in units}
    if len(set(states.values())) > 1 and wait.unit.end.backend != "gloo":
        least = "scheduled" if "scheduled" in states.values() else "started"
        wait.behind = tuple(rank for rank, state in states.items() if state == least)


def _look_at_pair(lines: Timelines, wait: Wait) -> None:
    unit = wait.unit
    peers = list(lines.peers(unit))
    wait.has_no_peer = not peers
    for entry, peer in peers:
        if peer not in lines.dumped:
            wait.silent.add(peer)
            continue
        other = _counterpart(lines, unit, entry, peer)
        if other is not None:
            theirs, answer = other
            found = match(entry, answer, None)
            if not found.state.fits:
                wait.difference = _pair_difference(unit, theirs, entry, found.said, found.state.value)
            first = lines.first_pending[peer]
            if first.record < theirs.record:
                wait.elsewhere[peer] = Deed(first.group, first.place)
        elif not _was_answered(lines, unit, entry, peer):
            _away(lines, wait, peer)


def _away(lines: Timelines, wait: Wait, rank: int) -> None:
    first = lines.first_pending.get(rank)
    if rank in lines.dumped_earlier:
        wait.silent.add(rank)
        wait.older.add(rank)
    elif first is None:
        wait.absent.add(rank)
    else:
        wait.elsewhere[rank] = Deed(first.group, first.place)


def _counterpart(
    lines: Timelines, unit: Unit, entry: Collective, peer: int
) -> tuple[Unit, Collective] | None:
    wanted = "recv" if entry.operation == "send" else "send"
    for theirs in lines.pending.get(peer, ()):
        if theirs.is_p2p and theirs.group == unit.group:
            for one in theirs.entries:
                if one.operation == wanted and ends(one) == ends(entry):
                    return theirs, one
    return None


def _was_answered(lines: Timelines, unit: Unit, entry: Collective, peer: int) -> bool:
    """A small send may be over long before it is received: then there are more of them than were awaited."""

    def calls(rank: int, operation: str) -> list[int]:
        units = sorted(lines.line(rank, unit.group).units.values(), key=lambda one: one.record)
        return [
            one.record
            for several in units
            if several.is_p2p
            for one in several.entries
            if one.operation == operation and ends(one) == ends(entry)
        ]

    mine = calls(unit.rank, entry.operation)
    theirs = calls(peer, "recv" if entry.operation == "send" else "send")
    return entry.record in mine and len(theirs) > mine.index(entry.record)


def _pair_difference(unit: Unit, theirs: Unit, entry: Collective, said: str, state: str) -> Difference:
    reason = Reason.MISMATCHED_DTYPE if "DTYPE" in state else Reason.MISMATCHED_SHAPE
    culprits = tuple(sorted((unit.rank, theirs.rank)))
    return Difference(reason, culprits, True, said, unit, theirs, entry)
