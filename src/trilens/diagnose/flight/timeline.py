"""What each rank put into which group, and in which order: one place on two ranks is one deed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.flight.operations import ENDS, ends, proves_all_entered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.diagnose.flight.reading import Dumps
    from trilens.model.flight_recorder import Collective, FlightRecorderDump, Frame

_DEFAULT: Final = ("0", "default_pg")  # the group that all ranks are in


class GroupKey(NamedTuple):
    """Groups made by splitting share a name: their ranks tell them apart, where the dump lists them."""

    name: str
    ranks: tuple[int, ...]  # () where it does not: gloo's dumps


class Place(NamedTuple):
    """The same on all ranks of a group; of sends and receives on nobody else."""

    seq: int
    nth: int = 0  # of those with one number
    rank: int = -1  # of sends and receives whose they are


@dataclass(frozen=True, slots=True)
class Unit:
    """What a rank puts into a group at once: one operation, or several that were coalesced."""

    rank: int
    group: GroupKey
    place: Place
    entries: tuple[Collective, ...]
    end: Collective  # whose state is that of all of them

    @property
    def is_p2p(self) -> bool:
        return self.end.is_p2p

    @property
    def is_over(self) -> bool:
        return self.end.is_over

    @property
    def record(self) -> int:
        return self.end.record

    @property
    def signature(self) -> tuple[object, ...]:
        return tuple(
            (one.operation, one.input_sizes, one.output_sizes, one.input_dtypes, one.output_dtypes)
            for one in self.entries
        )


@dataclass(slots=True)
class GroupLine:
    """Of one rank in one group."""

    units: dict[Place, Unit] = field(default_factory=dict)
    oldest: int | None = None  # numbers below are no longer remembered
    newest: int | None = None


class Timelines:
    """Of all ranks that dumped."""

    def __init__(self, dumps: Dumps) -> None:
        self.world = dumps.world
        self.dumped = frozenset(dumps.ranks)
        self.lines: dict[int, dict[GroupKey, GroupLine]] = {}
        self.first_pending: dict[int, Unit] = {}  # what each rank waits in; not there where in nothing
        self.pending: defaultdict[int, list[Unit]] = defaultdict(list)
        self.descriptions: dict[GroupKey, str] = {}
        self._wrapped: dict[int, bool] = {}
        self._records: dict[int, bool] = {}
        # Who is in a group, where only some versions say so: those of one name, told by anybody.
        self._listed: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)
        for dump in dumps.ranks.values():
            for name, group in dump.groups.items():
                if group.ranks:
                    self._listed[name].add(group.ranks)
        for rank, dump in dumps.ranks.items():
            self._take(rank, dump)

    def _take(self, rank: int, dump: FlightRecorderDump) -> None:
        keys: dict[str, GroupKey] = {}
        for name, group in dump.groups.items():
            if group.ranks:
                keys[name] = GroupKey(name, group.ranks)
                self.descriptions.setdefault(keys[name], group.description)
        lines: defaultdict[GroupKey, GroupLine] = defaultdict(GroupLine)
        by_group: defaultdict[str, list[Collective]] = defaultdict(list)
        for one in dump.entries:
            by_group[one.group].append(one)
        for name, entries in by_group.items():
            key = keys.setdefault(name, GroupKey(name, self._ranks_of(name, rank)))
            self.descriptions.setdefault(key, entries[0].group_description)
            line = lines[key]
            for unit in _units(rank, key, entries):
                line.units[unit.place] = unit
                if not unit.is_p2p:
                    seq = unit.place.seq
                    line.oldest = seq if line.oldest is None else min(line.oldest, seq)
                    line.newest = seq if line.newest is None else max(line.newest, seq)
                if not unit.is_over:
                    self.pending[rank].append(unit)
        for key in keys.values():  # those that it is in, though it has put nothing in
            lines[key]
        self.lines[rank] = dict(lines)
        self.pending[rank].sort(key=lambda unit: unit.record)
        if self.pending[rank]:
            self.first_pending[rank] = self.pending[rank][0]
        self._records[rank] = bool(dump.entries)
        self._wrapped[rank] = bool(dump.entries) and min(one.record for one in dump.entries) > 0

    def _ranks_of(self, name: str, rank: int) -> tuple[int, ...]:
        told = [ranks for ranks in self._listed.get(name, ()) if rank in ranks]
        return told[0] if len(told) == 1 else ()

    @cached_property
    def _seen_in(self) -> Mapping[GroupKey, frozenset[int]]:
        seen: defaultdict[GroupKey, set[int]] = defaultdict(set)
        for rank, lines in self.lines.items():
            for key in lines:
                seen[key].add(rank)
        return {key: frozenset(ranks) for key, ranks in seen.items()}

    @cached_property
    def _put_in(self) -> Mapping[GroupKey, frozenset[int]]:
        return {
            key: frozenset(rank for rank in ranks if self.lines[rank][key].units)
            for key, ranks in self._seen_in.items()
        }

    @cached_property
    def dumped_earlier(self) -> frozenset[int]:
        """Those who must have gone on since, or did not record it: what they have not entered has ended on
        others."""
        ended: defaultdict[GroupKey, int] = defaultdict(int)
        for lines in self.lines.values():
            for key, line in lines.items():
                for place, unit in line.units.items():
                    if unit.end.state == "completed" and proves_all_entered(unit.entries[0].operation):
                        ended[key] = max(ended[key], place.seq)
        return frozenset(
            rank
            for key, last in ended.items()
            for rank in self.members(key) & self.dumped
            if (newest := self.line(rank, key).newest) is not None or not self._records[rank]
            if (newest or 0) < last
        )

    @property
    def groups(self) -> Sequence[GroupKey]:
        return sorted(self._seen_in)

    def members(self, key: GroupKey) -> frozenset[int]:
        """Who put something in is among them, whatever the dumps list."""
        if key.ranks:
            return self._put_in.get(key, frozenset()).union(key.ranks)
        return self.world if self.is_default(key) else self._seen_in[key]

    def is_default(self, key: GroupKey) -> bool:
        return key.name == _DEFAULT[0] or self.descriptions.get(key) == _DEFAULT[1]

    def knows_members(self, key: GroupKey) -> bool:
        return bool(key.ranks) or self.is_default(key)

    def size(self, key: GroupKey) -> int | None:
        """None where the dumps do not say."""
        return len(key.ranks) or None

    def unit(self, rank: int, key: GroupKey, place: Place) -> Unit | None:
        line = self.lines.get(rank, {}).get(key)
        return line.units.get(place) if line is not None else None

    def line(self, rank: int, key: GroupKey) -> GroupLine:
        return self.lines.get(rank, {}).get(key) or GroupLine()

    def has_forgotten(self, rank: int, key: GroupKey, place: Place) -> bool:
        """Whether it was there and its ring buffer has gone on since."""
        line = self.line(rank, key)
        return self._wrapped.get(rank, False) and line.oldest is not None and place.seq < line.oldest

    def named(self, key: GroupKey) -> str:
        """As PyTorch names it: 0:default_pg."""
        description = self.descriptions.get(key, "")
        return f"{key.name}:{description}" if description not in ("", "undefined") else key.name

    def called(self, key: GroupKey) -> str:
        """In a sentence."""
        description = self.descriptions.get(key, "")
        return f"group {description if description not in ('', 'undefined') else key.name}"

    def peers(self, unit: Unit) -> Iterator[tuple[Collective, int]]:
        """With whom each send and receive of it is, as a rank of the job."""
        ranks = unit.group.ranks or sorted(self.members(unit.group))
        for one in unit.entries:
            pair = ends(one)
            if pair is None:
                continue
            other = pair[1] if one.operation == "send" else pair[0]
            if other < len(ranks):
                yield one, ranks[other]


def own_frame(unit: Unit) -> Frame | None:
    """The program's line that put it in: the innermost that is not PyTorch's."""
    frames = next((one.frames for one in (*unit.entries, unit.end) if one.frames), ())
    return next((one for one in frames if "/torch/" not in one.file), frames[0] if frames else None)


def _units(rank: int, key: GroupKey, entries: Sequence[Collective]) -> Iterator[Unit]:
    taken: defaultdict[tuple[bool, int], int] = defaultdict(int)
    held: list[Collective] = []  # perhaps of one that is ended later

    def made(several: Sequence[Collective], end: Collective) -> Unit:
        seq = (end.p2p_seq if end.is_p2p else end.collective_seq) or 0
        nth = taken[end.is_p2p, seq]
        taken[end.is_p2p, seq] += 1
        return Unit(rank, key, Place(seq, nth, rank if end.is_p2p else -1), tuple(several), end)

    for one in sorted(entries, key=lambda entry: entry.record):
        if held and _number(held[-1]) != _number(one):
            yield from (made([alone], alone) for alone in held)
            held = []
        if one.operation not in ENDS:
            held.append(one)
            continue
        # A plain end is of all with its number; the others know what they are made of.
        begins = 0
        if one.operation != "coalesced" and held:
            begins = next(
                at for at in range(len(held)) if all(two.operation == held[-1].operation for two in held[at:])
            )
        yield from (made([alone], alone) for alone in held[:begins])
        yield made(held[begins:] or [one], one)
        held = []
    yield from (made([alone], alone) for alone in held)


def _number(one: Collective) -> tuple[bool, int | None]:
    return one.is_p2p, one.p2p_seq if one.is_p2p else one.collective_seq
