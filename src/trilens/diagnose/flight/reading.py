"""Dumps as they lie about, to one for each rank: whatever they are called, and whichever cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.flight.wording import has, span
from trilens.diagnose.logs.tracebacks import DUMP, OpenDump
from trilens.model.errors import FlightRecorderError
from trilens.model.flight_recorder import rank_of_file, read_flight_recorder
from trilens.model.rank_names import ranks_name
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.diagnose.logs.tracebacks import Stack
    from trilens.model.flight_recorder import FlightRecorderDump

DUMP_ALL: Final = "dump all ranks at one moment: TORCH_NCCL_DUMP_ON_TIMEOUT=1 has PyTorch do it"
# Ranks are in one collective at one time, give or take its timeout; what is further away is another life.
_SAME_LIFE_NS: Final = 30 * 60 * 10**9


class DumpSource(NamedTuple):
    """A dump to be read. What is known of it before."""

    name: str
    content: bytes
    rank: int | None = None
    t_ms: int | None = None  # when it was taken


@dataclass(slots=True)
class Dumps:
    """What could be read, and what could not."""

    ranks: dict[int, FlightRecorderDump] = field(default_factory=dict)
    stacks: dict[int, Stack] = field(default_factory=dict)
    world: frozenset[int] = frozenset()
    missing: list[Missing] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)


class _Read(NamedTuple):
    """Without its content, which may be large."""

    name: str
    t_ms: int
    dump: FlightRecorderDump
    last_ns: int  # the last that it tells of


def read_dumps(
    sources: Iterable[DumpSource], stacks: Mapping[int, Stack] | None = None, world: int | None = None
) -> Dumps:
    """`world` is how many ranks there are, where somebody knows: ranks that did not dump cannot tell."""
    dumps = Dumps(stacks=dict(stacks or {}))
    read: dict[int, list[_Read]] = {}
    for source in sources:
        rank = source.rank if source.rank is not None else rank_of_file(source.name)
        try:
            dump = read_flight_recorder(source.content)
        except FlightRecorderError as e:
            if rank is not None:
                dumps.unreadable.add(rank)
            dumps.missing.append(
                Missing(f"{source.name} cannot be read: {e}", "dump it again, or copy it again")
            )
            continue
        rank = rank if rank is not None else dump.rank
        if rank is None:
            remedy = "name it by its rank, as nccl_trace_rank_3"
            dumps.missing.append(Missing(f"whose dump {source.name} is", remedy))
            continue
        last_ns = max((one.created_ns or 0 for one in dump.entries), default=0)
        read.setdefault(rank, []).append(_Read(source.name, source.t_ms or 0, dump, last_ns))
    for rank, several in sorted(read.items()):
        several.sort(key=lambda one: (one.t_ms, one.last_ns, one.name))
        if len(several) > 1:
            names = ", ".join(one.name for one in several[:-1])
            what = f"rank {rank} has {len(several)} dumps, of which the last was taken, not {names}"
            dumps.missing.append(Missing(what, "put the dumps of one moment into one folder"))
        dumps.ranks[rank] = several[-1].dump
    dumps.unreadable -= dumps.ranks.keys()
    _leave_out_other_lives(dumps)
    told = {rank for dump in dumps.ranks.values() for group in dump.groups.values() for rank in group.ranks}
    known = told | dumps.ranks.keys() | dumps.unreadable | dumps.stacks.keys()
    highest = max(known, default=-1)  # ranks are numbered from 0 without a gap
    dumps.world = frozenset(range(max(highest + 1, world or 0)))
    _tell_missing(dumps)
    return dumps


def read_stack(text: str) -> Stack | None:
    """Where the program's own thread is, which is the first one; None where it is no dump of stacks."""
    lines = iter(text.splitlines())
    if not any(DUMP in line for line in lines):
        return None
    stack = OpenDump()
    for line in lines:
        if (done := stack.take(line)) is not None:
            return done
    return stack.ended()


def _leave_out_other_lives(dumps: Dumps) -> None:
    """PyTorch writes over the dump of an earlier attempt, but only where the rank dumps again."""
    times: dict[tuple[str, int], dict[int, int]] = {}
    for rank, dump in dumps.ranks.items():
        for one in dump.entries:
            if one.collective_seq is not None and one.created_ns and not one.is_p2p:
                times.setdefault((one.group, one.collective_seq), {}).setdefault(rank, one.created_ns)
    shared: dict[int, list[int]] = {}
    for at in times.values():
        if len(at) > 1:
            middle = median(at.values())
            for rank, created_ns in at.items():
                shared.setdefault(rank, []).append(int(created_ns - middle))
    away = {rank: median(offsets) for rank, offsets in shared.items()}
    odd = sorted(rank for rank, offset in away.items() if abs(offset) > _SAME_LIFE_NS)
    if not odd or 2 * len(odd) >= len(dumps.ranks):
        return
    for rank in odd:
        del dumps.ranks[rank]
        dumps.unreadable.add(rank)
        when = f"{span(abs(away[rank]) / 1e6)} {'before' if away[rank] < 0 else 'after'} the others"
        what = f"rank {rank}'s dump is of another life, or its clock is off: {when} in the same collectives"
        dumps.missing.append(Missing(what, "remove dumps of earlier attempts, or give each a folder"))


def _tell_missing(dumps: Dumps) -> None:
    if absent := sorted(dumps.world - dumps.ranks.keys() - dumps.unreadable):
        what = f"{ranks_name(absent)} did not dump, or the dump is not here"
        dumps.missing.append(
            Missing(
                what,
                "collect the dumps of all nodes; set TORCH_FR_BUFFER_SIZE and TORCH_NCCL_DUMP_ON_TIMEOUT=1",
            )
        )
    empty = sorted(rank for rank, dump in dumps.ranks.items() if not dump.entries)
    if empty:
        what = f"nothing is in the dump{'s' if len(empty) > 1 else ''} of {ranks_name(empty)}"
        dumps.missing.append(Missing(what, "set TORCH_FR_BUFFER_SIZE=2000 for all ranks"))
    if strangers := sorted(rank for rank, dump in dumps.ranks.items() if _is_in_others_groups(rank, dump)):
        who = f"whether {ranks_name(strangers)} {has(strangers)} the right dump"
        what = f"{who}: it has collectives of groups in which, as it says, that rank is not"
        dumps.missing.append(Missing(what, "name each dump by its rank, as nccl_trace_rank_3"))
    versions = sorted({dump.version for dump in dumps.ranks.values()})
    if len(versions) > 1:
        what = f"the dumps are of different versions: {', '.join(versions)}"
        dumps.missing.append(Missing(what, "run the same PyTorch on all ranks"))


def _is_in_others_groups(rank: int, dump: FlightRecorderDump) -> bool:
    groups = (dump.groups.get(name) for name in {one.group for one in dump.entries})
    return any(group is not None and group.ranks and rank not in group.ranks for group in groups)
