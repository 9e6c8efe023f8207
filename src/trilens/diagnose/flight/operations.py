"""What two ranks must have in common when they do one operation together, and whether they have.

The outcomes carry the names that PyTorch's own analyser gives them.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trilens.model.flight_recorder import Collective

# A record that ends several operations that were put in at once: it has their state, they have the rest.
ENDS: Final = frozenset({"coalesced", "ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced"})


class Match(StrEnum):
    FULLY_MATCHED = "FULLY_MATCHED"
    COLLECTIVE_TYPE_MISMATCH = "COLLECTIVE_TYPE_MISMATCH"
    SIZE_OR_SYNTAX_MISMATCH = "SIZE_OR_SYNTAX_MISMATCH"
    COLLECTIVE_STATE_MISMATCH = "COLLECTIVE_STATE_MISMATCH"
    COLLECTIVE_DTYPE_MISMATCH = "COLLECTIVE_DTYPE_MISMATCH"
    UNDECIDED = "UNDECIDED"  # two alone cannot tell

    @property
    def fits(self) -> bool:
        """Whether they can do it together. How far each has come says nothing about that."""
        return self in (Match.FULLY_MATCHED, Match.COLLECTIVE_STATE_MISMATCH, Match.UNDECIDED)


class Matched(NamedTuple):
    state: Match
    said: str = ""


class Kind(Enum):
    ALL_REDUCE = "allreduce"
    ALL_GATHER = "allgather"
    REDUCE_SCATTER = "reducescatter"
    ALL_TO_ALL = "alltoall"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    UNEVEN = "v"  # each rank gives as much as it likes
    PLAIN = ""  # of which only the name is known: barrier, split ...


_SAME_INPUT: Final = frozenset(
    {Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.BROADCAST, Kind.REDUCE, Kind.GATHER}
)
_SAME_OUTPUT: Final = frozenset(
    {Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.BROADCAST, Kind.SCATTER}
)
# One that has ended on any rank was entered by all. The others may end for one that only gives.
_WAITS_FOR_ALL: Final = frozenset({Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL})


@cache
def kind_of(operation: str) -> Kind:
    """Every version and backend spells them a little otherwise: _all_gather_base, ALLGATHER ..."""
    name = operation.lower().replace("_", "")
    if operation in ENDS or "barrier" in name:
        return Kind.PLAIN
    for kind in list(Kind)[:-2]:
        if name.startswith(kind.value):
            return Kind.UNEVEN if name.removeprefix(kind.value).startswith("v") else kind
    return Kind.PLAIN


def proves_all_entered(operation: str) -> bool:
    return kind_of(operation) in _WAITS_FOR_ALL or "barrier" in operation.lower()


def elements(sizes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Of each tensor. Its shape is of no concern to the others: 4 x 2 goes with 8."""
    return tuple(prod(shape) for shape in sizes)


def match(a: Collective, b: Collective, size: int | None) -> Matched:
    """What rank b has, against what rank a has in the same place of the same group of `size` ranks."""
    if a.is_p2p or a.operation in ("send", "recv"):
        return _match_pair(a, b)
    if a.operation != b.operation:
        return Matched(Match.COLLECTIVE_TYPE_MISMATCH, f"{b.operation} instead of {a.operation}")
    if a.operation in ENDS:
        return Matched(Match.FULLY_MATCHED)
    kind = kind_of(a.operation)
    if said := _sizes(kind, a, b, size):
        return Matched(Match.SIZE_OR_SYNTAX_MISMATCH, said)
    if kind is not Kind.PLAIN and (said := _dtypes(kind, a, b)):
        return Matched(Match.COLLECTIVE_DTYPE_MISMATCH, said)
    if a.state != b.state:
        return Matched(Match.COLLECTIVE_STATE_MISMATCH, f"{b.state}, not {a.state}")
    return Matched(Match.UNDECIDED if kind is Kind.ALL_TO_ALL else Match.FULLY_MATCHED)


def shapes(sizes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in sizes) or "nothing"


def _match_pair(a: Collective, b: Collective) -> Matched:
    """A send with the receive on the other side."""
    sends, receives = (a, b) if a.operation == "send" else (b, a)
    if (sends.operation, receives.operation) != ("send", "recv") or ends(sends) != ends(receives):
        return Matched(Match.SIZE_OR_SYNTAX_MISMATCH, f"{_call(b)} against {_call(a)}")
    given, taken = elements(sends.input_sizes), elements(receives.output_sizes)
    if given and taken and given != taken:
        said = f"{shapes(sends.input_sizes)} sent, {shapes(receives.output_sizes)} to be received"
        return Matched(Match.SIZE_OR_SYNTAX_MISMATCH, said)
    if sends.input_dtypes and receives.output_dtypes and sends.input_dtypes != receives.output_dtypes:
        said = f"{sends.input_dtypes[0]} sent, {receives.output_dtypes[0]} to be received"
        return Matched(Match.COLLECTIVE_DTYPE_MISMATCH, said)
    return Matched(Match.FULLY_MATCHED)


def ends(one: Collective) -> tuple[int, int] | None:
    """From whom to whom a send or receive goes, as numbers within the group."""
    peers = one.peers or ""
    try:
        if "->" in peers:
            source, _, target = peers.partition("->")
        else:
            target, _, source = peers.partition("<-")
        return int(source), int(target)
    except ValueError:
        return None


def _call(one: Collective) -> str:
    return f"{one.operation} {one.peers}" if one.peers else one.operation


def _sizes(kind: Kind, a: Collective, b: Collective, size: int | None) -> str:
    if kind in _SAME_INPUT and _differ(a.input_sizes, b.input_sizes):
        return f"{shapes(b.input_sizes)} instead of {shapes(a.input_sizes)}"
    if kind in _SAME_OUTPUT and _differ(a.output_sizes, b.output_sizes):
        return f"an output of {shapes(b.output_sizes)} instead of {shapes(a.output_sizes)}"
    if kind is Kind.ALL_REDUCE and _differ(b.input_sizes, b.output_sizes):
        return f"{shapes(b.input_sizes)} into {shapes(b.output_sizes)}"
    given, taken = sum(elements(b.input_sizes)), sum(elements(b.output_sizes))
    if not (size and b.input_sizes and b.output_sizes):
        return ""
    if kind is Kind.ALL_GATHER and given * size != taken:
        return f"{given} elements of each of {size} ranks into {taken}"
    if kind is Kind.REDUCE_SCATTER and taken * size != given:
        return f"{given} elements for {size} ranks into {taken} each"
    return ""


def _differ(one: tuple[tuple[int, ...], ...], other: tuple[tuple[int, ...], ...]) -> bool:
    return bool(one and other) and one != other and elements(one) != elements(other)


def _dtypes(kind: Kind, a: Collective, b: Collective) -> str:
    """Those who give nothing, or take nothing, have none."""
    pairs = []
    if kind not in (Kind.GATHER, Kind.SCATTER, Kind.BROADCAST):
        pairs.append((b.input_dtypes, b.output_dtypes))
        pairs.append((a.input_dtypes, a.output_dtypes))
    if kind not in (Kind.SCATTER, Kind.BROADCAST):
        pairs.append((a.input_dtypes, b.input_dtypes))
    if kind is not Kind.GATHER:
        pairs.append((a.output_dtypes, b.output_dtypes))
    for one, other in pairs:
        if one and other and set(one) != set(other):
            return f"{'/'.join(sorted(set(other)))} instead of {'/'.join(sorted(set(one)))}"
    return ""
