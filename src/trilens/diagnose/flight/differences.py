"""Where the ranks of a group did not put in the same: which ranks differ, and in what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.flight.flight_verdict import Reason, Step
from trilens.diagnose.flight.operations import Kind, Match, elements, kind_of, match

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.diagnose.flight.operations import Matched
    from trilens.diagnose.flight.timeline import GroupKey, Place, Timelines, Unit
    from trilens.model.flight_recorder import Collective

_REASONS: Final = {
    Match.COLLECTIVE_TYPE_MISMATCH: Reason.MISMATCHED_COLLECTIVE,
    Match.SIZE_OR_SYNTAX_MISMATCH: Reason.MISMATCHED_SHAPE,
    Match.COLLECTIVE_DTYPE_MISMATCH: Reason.MISMATCHED_DTYPE,
}


class Difference(NamedTuple):
    reason: Reason
    culprits: tuple[int, ...]
    is_tie: bool  # as many have the one as the other: who is wrong, nobody can tell
    said: str
    usual: Unit  # what most put in
    odd: Unit
    entry: Collective  # of the usual one, the operation that differs


def places(lines: Timelines, key: GroupKey) -> list[Place]:
    """Of a group, in the order in which its ranks came to them; without sends and receives."""
    found = {place for rank in lines.dumped for place in lines.line(rank, key).units if place.rank < 0}
    return sorted(found)


def at_place(lines: Timelines, key: GroupKey, place: Place) -> list[Unit]:
    ranks = sorted(lines.members(key) & lines.dumped)
    return [unit for rank in ranks if (unit := lines.unit(rank, key, place)) is not None]


def difference(lines: Timelines, key: GroupKey, place: Place) -> Difference | None:
    units = at_place(lines, key, place)
    if len(units) < 2:
        return None
    size = lines.size(key)
    classes: list[list[Unit]] = []
    by_signature: dict[tuple[object, ...], list[Unit]] = {}
    for unit in units:
        known = by_signature.get(unit.signature)
        if known is None:
            known = next((one for one in classes if compare(one[0], unit, size)[0].state.fits), None)
            if known is None:
                known = []
                classes.append(known)
            by_signature[unit.signature] = known
        known.append(unit)
    if len(classes) == 1:
        return _uneven_exchange(lines, key, units) or _wrong_by_itself(units, size)
    classes.sort(key=lambda one: -len(one))
    usual, odd = classes[0][0], classes[1][0]
    is_tie = len(classes[0]) == len(classes[1])
    found, at = compare(usual, odd, size)
    wrong = classes if is_tie else classes[1:]
    culprits = tuple(sorted(unit.rank for one in wrong for unit in one))
    reason = _REASONS[found.state]
    if reason is Reason.MISMATCHED_COLLECTIVE and _swapped(lines, key, place, usual, odd):
        reason = Reason.MISMATCHED_ORDER
    return Difference(reason, culprits, is_tie, found.said, usual, odd, usual.entries[at])


def first_difference(lines: Timelines, key: GroupKey) -> tuple[Place, Difference] | None:
    for place in places(lines, key):
        if (found := difference(lines, key, place)) is not None:
            return place, found
    return None


def compare(a: Unit, b: Unit, size: int | None) -> tuple[Matched, int]:
    """The first of their operations that differs, and which it is."""
    if len(a.entries) != len(b.entries):
        at = min(len(a.entries), len(b.entries)) - 1
        if a.end.operation == b.end.operation:
            said = f"{len(b.entries)} coalesced instead of {len(a.entries)}"
            return match(a.end, a.end, size)._replace(state=Match.SIZE_OR_SYNTAX_MISMATCH, said=said), at
        return match(a.end, b.end, size), at
    for at, (one, other) in enumerate(zip(a.entries, b.entries, strict=True)):
        found = match(one, other, size)
        if not found.state.fits:
            return found, at
    return match(a.end, b.end, size) if len(a.entries) > 1 else found, 0


def steps(lines: Timelines) -> Iterator[Step]:
    """All that the groups did, in order, each with whether its ranks did the same."""
    for key in lines.groups:
        for place in places(lines, key):
            units = at_place(lines, key, place)
            told = difference(lines, key, place)
            there = {unit.rank for unit in units}
            absent = tuple(
                rank
                for rank in sorted(lines.members(key) & lines.dumped - there)
                if not lines.has_forgotten(rank, key, place)
            )
            # A whole one is named by its end, as it has the state of all; one that differs by what does.
            entry = told.entry if told else units[0].entries[0] if absent else units[0].end
            name = f"{entry.backend}:{entry.operation}"
            yield Step(lines.named(key), place.seq, entry.record, name, told is None, absent)


def left_out(lines: Timelines, found: Difference, key: GroupKey, place: Place) -> bool:
    """Whether the odd ones put in what the others put in next: as if they had left this one out."""
    after = lines.unit(found.usual.rank, key, place._replace(seq=place.seq + 1, nth=0))
    return after is not None and after.signature == found.odd.signature != found.usual.signature


def _swapped(lines: Timelines, key: GroupKey, place: Place, usual: Unit, odd: Unit) -> bool:
    after = place._replace(seq=place.seq + 1, nth=0)
    one, other = lines.unit(usual.rank, key, after), lines.unit(odd.rank, key, after)
    return bool(one and other and one.signature == odd.signature and other.signature == usual.signature)


def _uneven_exchange(lines: Timelines, key: GroupKey, units: Sequence[Unit]) -> Difference | None:
    """In an all-to-all each may give and take what it likes, but all together as much as they take."""
    first = units[0].entries[0]
    if kind_of(first.operation) is not Kind.ALL_TO_ALL or {unit.rank for unit in units} != lines.members(key):
        return None
    entries = [one for unit in units for one in unit.entries]
    if not all(one.input_sizes and one.output_sizes for one in entries):
        return None
    given = sum(sum(elements(one.input_sizes)) for one in entries)
    taken = sum(sum(elements(one.output_sizes)) for one in entries)
    if given == taken:
        return None
    ranks = tuple(unit.rank for unit in units)
    said = f"{given} elements given, {taken} to be taken"
    return Difference(Reason.MISMATCHED_SHAPE, ranks, True, said, units[0], units[-1], first)


def _wrong_by_itself(units: Sequence[Unit], size: int | None) -> Difference | None:
    found, at = compare(units[0], units[0], size)
    if found.state.fits:
        return None
    ranks = tuple(unit.rank for unit in units)
    entry = units[0].entries[at]
    return Difference(_REASONS[found.state], ranks, True, found.said, units[0], units[0], entry)
