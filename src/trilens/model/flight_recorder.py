"""What PyTorch's flight recorder remembers of a rank's collectives, read from its dump.

A dump is a pickle (read as plain data only, `plain_pickle.py`) or JSON. Versions 2.1 to 2.10 differ in which
fields they have and whether a number is a number or its text; what a dump does not say is None.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.errors import FlightRecorderError, UnsafePickle
from trilens.model.plain_pickle import MAX_BYTES, check_extent, read_plain_pickle

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANK_AT_END: Final = re.compile(r"(?<!\d)(\d{1,6})(?:\.(?:json|pkl|pickle|pt|bin|dump|trace|txt))?$")
# What PyTorch writes is well within these; a dump that is not is no dump, and would be much work.
_MOST_RANKS: Final = 1_000_000
_MOST_DIMENSIONS: Final = 64
_LONGEST: Final = 500  # characters of a name
_MOST: Final = 1 << 63
_BOM: Final = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective, or one send or receive, that the rank put into a process group."""

    record: int
    group: str
    group_description: str
    backend: str  # nccl, ncclx, gloo ...
    operation: str  # all_reduce, send ...
    peers: str | None  # of a send "1->2", of a receive "3<-0": ranks inside the group
    state: str  # scheduled, started, completed
    is_p2p: bool
    collective_seq: int | None = None
    p2p_seq: int | None = None
    op: int | None = None
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    created_ns: int | None = None
    started_ns: int | None = None
    completed_ns: int | None = None
    timeout_ms: int | None = None
    retired: bool | None = None  # gloo leaves the state at scheduled and says only this
    frames: tuple[Frame, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state == "completed" or bool(self.retired)


class Group(NamedTuple):
    name: str
    description: str
    ranks: tuple[int, ...]


class GroupProgress(NamedTuple):
    """The last collective of a group that was put in, began and ended."""

    enqueued: int | None
    started: int | None
    completed: int | None


@dataclass(frozen=True, slots=True)
class FlightRecorderDump:
    version: str
    library_version: str | None = None  # of NCCL, where it says so
    groups: Mapping[str, Group] = field(default_factory=dict)
    progress: Mapping[str, GroupProgress] = field(default_factory=dict)
    entries: tuple[Collective, ...] = ()
    rank: int | None = None  # only in dumps that somebody has put it into


class GroupStanding(NamedTuple):
    """How far a rank has come in one of its process groups, in a few words: the rest is in the dump."""

    group: str
    description: str
    first: int | None  # of the group's ranks: several groups may have one name, each for some of the ranks
    size: int
    entered: int  # the last collective that it has put in; 0 for none
    pending: int | None  # the first of them that has not ended
    operation: str  # of that one

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> GroupStanding | None:
        """From a note's data, which anybody may have written."""
        numbers = [told.get(name) for name in ("first", "size", "entered", "pending")]
        if any(type(number) is not int and number is not None for number in numbers):
            return None
        first, size, entered, pending = numbers
        words = (str(told.get(name) or "") for name in ("group", "description", "operation"))
        group, description, operation = words
        return cls(group, description, first, size or 0, entered or 0, pending, operation)


def rank_of_file(name: str) -> int | None:
    """Dump files carry the rank at the end, whatever stands before it: nccl_trace_rank_node7_3, rank3.json.
    A number with more digits is a date or the like."""
    found = _RANK_AT_END.search(name)
    return int(found[1]) if found else None


def read_flight_recorder(content: bytes) -> FlightRecorderDump:
    """FlightRecorderError when it is not a dump, UnsafePickle when it is a pickle of more than plain data."""
    dump = _decoded(content)
    if not isinstance(dump, dict) or "version" not in dump:
        raise FlightRecorderError("not a flight recorder's dump: it has no version")
    frames: dict[int, Frame] = {}  # most entries come from the same few lines, and the dump has each once
    try:
        return FlightRecorderDump(
            version=_name(dump["version"]),
            library_version=_text(dump, "comm_lib_version") or _text(dump, "nccl_version") or None,
            groups={_name(name): _group(_name(name), told) for name, told in _pairs(dump, "pg_config")},
            progress={_name(name): _progress(told) for name, told in _pairs(dump, "pg_status")},
            entries=tuple(_collective(entry, frames) for entry in dump.get("entries") or ()),
            rank=_rank(dump["rank"]) if _number(dump, "rank", least=0) is not None else None,
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as e:
        raise FlightRecorderError(f"a flight recorder's dump that cannot be read: {e!r}") from e


def standings(dump: FlightRecorderDump) -> list[GroupStanding]:
    """Of each group that the rank is in. Sends and receives have no order that all ranks share."""
    entered: dict[str, int] = {}
    pending: dict[str, Collective] = {}
    for entry in dump.entries:
        if entry.is_p2p or entry.collective_seq is None:
            continue
        entered[entry.group] = max(entered.get(entry.group, 0), entry.collective_seq)
        waits = pending.get(entry.group)
        if not entry.is_over and (waits is None or entry.collective_seq < (waits.collective_seq or 0)):
            pending[entry.group] = entry
    found = []
    for name in sorted({*dump.groups, *entered}):
        group, progress, waits = dump.groups.get(name), dump.progress.get(name), pending.get(name)
        ranks = group.ranks if group is not None else ()
        found.append(
            GroupStanding(
                name,
                group.description if group is not None else "",
                min(ranks, default=None),
                len(ranks),
                # The status has a count that gloo's sends raise too: it is for where nothing else is left.
                entered.get(name) or (progress.enqueued if progress is not None else None) or 0,
                waits.collective_seq if waits is not None else None,
                waits.operation if waits is not None else "",
            )
        )
    return found


def _decoded(content: bytes) -> object:
    if not content:
        raise FlightRecorderError("a flight recorder's dump of no bytes")
    content = content.removeprefix(_BOM)
    if content.lstrip()[:1] != b"{":
        return read_plain_pickle(content)
    if len(content) > MAX_BYTES:
        raise UnsafePickle(f"a dump of {len(content)} bytes; at most {MAX_BYTES} are read")
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise FlightRecorderError(f"neither a pickle nor JSON: {e}") from e
    check_extent(value)
    return value


def _collective(entry: Any, frames: dict[int, Frame]) -> Collective:
    if not isinstance(entry, dict):
        raise TypeError(f"an entry that is {type(entry).__name__}")
    backend, _, call = _name(entry["profiling_name"]).rpartition(":")
    operation, _, peers = call.partition(" ")
    group, description = entry["process_group"]
    return Collective(
        record=_bounded(entry["record_id"]),
        group=_name(group),
        group_description=_name(description),
        backend=backend,
        operation=operation,
        peers=peers or None,
        state=_name(entry["state"]),
        is_p2p=bool(entry.get("is_p2p", operation in ("send", "recv"))),
        collective_seq=_number(entry, "collective_seq_id"),
        p2p_seq=_number(entry, "p2p_seq_id"),
        op=_number(entry, "op_id"),
        input_sizes=_sizes(entry, "input_sizes"),
        output_sizes=_sizes(entry, "output_sizes"),
        input_dtypes=_names(entry, "input_dtypes"),
        output_dtypes=_names(entry, "output_dtypes"),
        created_ns=_moment(entry, "time_created_ns"),
        started_ns=_moment(entry, "time_discovered_started_ns"),
        completed_ns=_moment(entry, "time_discovered_completed_ns"),
        timeout_ms=_number(entry, "timeout_ms"),
        retired=entry.get("retired"),
        frames=tuple(frames.get(id(one)) or _frame(one, frames) for one in entry.get("frames") or ()),
    )


def _frame(told: Any, known: dict[int, Frame]) -> Frame:
    frame = known[id(told)] = Frame(_name(told["name"]), _name(told["filename"]), _bounded(told["line"]))
    return frame


def _group(name: str, told: Any) -> Group:
    ranks = told.get("ranks") or ()
    if isinstance(ranks, str):  # "[0, 1]"
        ranks = re.findall(r"\d+", ranks)
    return Group(_name(told.get("name", name)), _name(told.get("desc", "")), tuple(map(_rank, ranks)))


def _progress(told: Any) -> GroupProgress:
    return GroupProgress(
        *(_number(told, f"last_{what}_collective", least=0) for what in ("enqueued", "started", "completed"))
    )


def _pairs(dump: dict[Any, Any], key: str) -> list[tuple[Any, Any]]:
    return list((dump.get(key) or {}).items())


def _text(told: dict[Any, Any], key: str) -> str:
    return _name(told.get(key) or "")


def _name(told: object) -> str:
    """As it can be shown anywhere: names may be as long as their author likes, and have any characters."""
    name = str(told)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}..."
    return name if name.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in name)


def _bounded(told: Any) -> int:
    number = int(told)
    if not -_MOST <= number < _MOST:
        raise ValueError("a number of more than 64 bits")
    return number


def _rank(told: Any) -> int:
    rank = int(told)
    if not 0 <= rank < _MOST_RANKS:
        raise ValueError("a rank that nobody can have")
    return rank


def _number(told: dict[Any, Any], key: str, *, least: int | None = None) -> int | None:
    """-1 stands for "none yet" where `least` is 0."""
    value = told.get(key)
    number = None if value is None else _bounded(value)
    return None if number is None or (least is not None and number < least) else number


def _moment(entry: dict[Any, Any], key: str) -> int | None:
    """JSON dumps have 0 where the pickle has None."""
    return _number(entry, key) or None


def _sizes(entry: dict[Any, Any], key: str) -> tuple[tuple[int, ...], ...]:
    shapes = tuple([tuple(map(_bounded, shape)) for shape in entry.get(key) or ()])
    if any(len(shape) > _MOST_DIMENSIONS for shape in shapes):
        raise ValueError("a tensor of more dimensions than there are")
    return shapes


def _names(entry: dict[Any, Any], key: str) -> tuple[str, ...]:
    told = entry.get(key) or ()
    return (_name(told),) if isinstance(told, str) else tuple([_name(one) for one in told])
