"""Who said a line, and when: what launchers, collectors and NCCL write before what was said.

Prefixes come in any number and order: `[pod/train-1/main] [default3]:[rank11]:[E817 17:40:34.2 x.cpp:7] ...`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container

# Many times have no year: 1972 stands for "unknown", and has a 29th of February.
NO_YEAR: Final = 1972
MOST_RANKS: Final = 100_000  # a number beyond it is not that of ranks

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_MONTHS: Final = {
    name: at
    for at, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_CLOCK: Final = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d+))?"
_DATE: Final = r"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)"
_NCCL: Final = re.compile(
    r"(?P<host>[^\s:]{1,255}):(?P<pid>\d{1,9}):\d{1,9} \[(?P<device>-?\d{1,9})\] "
    r"(?:\S+:\d+ )?(?:NCCL )?(?P<level>INFO|WARN)\b ?"
)
_PREFIXES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[pod/(?P<pod>[^/\]]+)/[^\]]+\] ?",  # kubectl logs --prefix
        # stern; only before what is a prefix itself, or any two words would be a pod and a container
        r"(?P<pod>(?=[a-z0-9.]+-)[a-z0-9.-]{3,253}) [a-z0-9-]{1,63} (?=\[|\d{4}-|[\w.-]+:\d+:\d+ \[)",
        rf"\[?{_DATE}[T ]{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)?\]?:?(?: std(?:out|err) [FP])? ?",
        r"\[(?P<weekday>\w{3}) (?P<name>[A-Z][a-z]{2}) +(?P<day>\d+) (?P<hour>\d\d):(?P<minute>\d\d):"
        r"(?P<second>\d\d) (?P<year>\d{4})\] ?",  # dmesg -T
        r"(?P<name>[A-Z][a-z]{2}) +(?P<day>\d+) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d) "
        r"(?P<host>\S+) (?=kernel:)",  # syslog
        r"\[(?P<seconds_up>\d+\.\d{6})\] ?",  # dmesg, since the start: no time of day
        # mpirun --timestamp-output, which Open MPI writes before its tag
        r"\w{3} (?P<name>[A-Z][a-z]{2}) +(?P<day>\d+) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d) "
        r"(?P<year>\d{4})(?=[\[<])",
        r"\[[\w.@-]*,(?P<task>\d{1,6})\]<std(?:out|err)>: ?",  # mpirun --tag-output, prterun's with its name
        r"\(\w+(?: rank=(?P<rank>\d+)| \w+)? pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:]+))?\) ?",  # Ray, vLLM
        rf"(?:ERROR|WARNING|INFO) (?P<month>\d\d)-(?P<day>\d\d) {_CLOCK} \[?[\w.]+:\d+\] ?",  # vLLM
        r"\[rank(?P<rank>\d+)\]: ?",  # PyTorch
        r"\[[A-Za-z_]+(?P<local>\d+)(?:\|\d+)?\]: ?",  # torchrun: role and local rank
        # glog as PyTorch writes it, in C++ and in Python. The day has two digits, the month one or two.
        rf"\[?[EWIF](?:(?P<month>\d\d?)(?P<day>\d\d) {_CLOCK} )(?:\d+ )?\S+:\d+\] ?",
        r"\[[EWIF] \S+:\d+\] ?",
        r" {0,3}(?P<task>\d{1,5}): (?=\S| )",  # srun --label, as wide as its largest one
        r"\[\d+\] (?=\[|[\w.-]+:\d+:\d+ \[)",  # a viewer's line number
    )
)
# pdsh and DeepSpeed write the host's name before a line; so that a word with a colon is not one, it needs a
# digit, and something after it that is a prefix itself.
_HOST: Final = re.compile(
    r"(?P<host>(?=[\w.-]*\d)[\w.-]+): (?=\[|[\w.-]+:\d+:\d+ \[|Traceback |  File |\s*$)"
)
_WORD: Final = re.compile(r"(?P<host>[\w.-]+): ?")
# What PyTorch calls itself in the line. In a group other than the first it is the rank within the group.
_GROUP: Final = re.compile(
    r"\[PG (?:ID )?(?P<group>\d+)(?: PG GUID (?P<guid>\d+))? ?(?:\((?P<name>[^)]*)\) ?)?Rank (?P<rank>\d+)\]"
)
_RANK: Final = re.compile(r"\[Rank (?P<rank>\d+)\]")
_MOST_DIGITS: Final = 18
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Line(NamedTuple):
    """What is known of who said it is what the line itself tells; None and "" where it does not."""

    text: str  # without what was before it, indented as it was
    t_ms: int | None = None
    rank: int | None = None
    group_rank: int | None = None  # within `group`
    group: str = ""  # of processes; "" where it is not said
    local: int | None = None  # rank within its node
    task: int | None = None  # number that the launcher gave it: a rank, or a node's
    host: str = ""
    pid: int | None = None
    device: int | None = None
    level: str = ""  # NCCL's own lines: INFO, WARN
    pod: str = ""


def last_written(raw: str) -> str:
    """What is left where progress bars wrote over each other; also without the end of a line of Windows."""
    return raw.rstrip("\r").rpartition("\r")[2] if "\r" in raw else raw


def number(text: str | None) -> int | None:
    """None also for more digits than any number has that is counted here: that is something else."""
    is_number = text is not None and len(text) <= _MOST_DIGITS and text.removeprefix("-").isdecimal()
    return int(text) if text is not None and is_number else None


def rank_number(text: str | None) -> int | None:
    rank = number(text)
    return rank if rank is not None and 0 <= rank < MOST_RANKS else None


def bare(raw: str) -> str:
    """Without colours, without the wrapping of a container runtime, and without what was written over."""
    raw = last_written(raw)
    if raw.startswith('{"log":'):
        try:
            told = json.loads(raw)
            raw = f"{told.get('time', '')} {told['log']}".rstrip("\n")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # cut off, or something else: as it is
    return _ANSI.sub("", raw) if "\x1b" in raw else raw


def printable(text: str) -> str:
    """A log may have anything in it, and what is shown of it goes to somebody's terminal."""
    return (
        text
        if text.isprintable()
        else "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in text)
    )


def read_line(raw: str, hosts: Container[str] = ()) -> Line:
    """`hosts` are known to be hosts: as the first word of a line they are who said it."""
    rest = bare(raw)
    found: dict[str, str] = {}
    t_ms: int | None = None
    while True:
        match = _before(rest, hosts)
        if match is None:
            break
        told = {name: value for name, value in match.groupdict().items() if value is not None}
        if t_ms is None and "hour" in told:  # the outermost: that of who collected it
            t_ms = _moment(told)
        for name, value in told.items():
            found.setdefault(name, value)
        rest = rest[match.end() :]
    said = _NCCL.search(rest) if "WARN" in rest or "INFO" in rest else None
    if said is not None:
        found.update(said.groupdict())
        rest = rest[said.end() :]
    group = _GROUP.search(rest)
    within = group or _RANK.search(rest)
    return Line(
        rest,
        t_ms,
        rank_number(found.get("rank")),
        rank_number(within["rank"]) if within else None,
        (group["guid"] or group["group"]) if group else "",
        rank_number(found.get("local")),
        rank_number(found.get("task")),
        found.get("host", ""),
        number(found.get("pid")),
        number(found.get("device")),
        found.get("level", ""),
        found.get("pod", ""),
    )


def _before(rest: str, hosts: Container[str]) -> re.Match[str] | None:
    for prefix in _PREFIXES:
        if match := prefix.match(rest):
            return match
    if _NCCL.match(rest):  # its own host comes with it
        return None
    if match := _HOST.match(rest):
        return match
    word = _WORD.match(rest)
    return word if word is not None and word["host"] in hosts else None


def _moment(told: dict[str, str]) -> int | None:
    month = _MONTHS.get(told.get("name", ""), 0) or int(told.get("month", 0))
    zone = told.get("zone", "Z")
    try:
        at = datetime(
            int(told.get("year", NO_YEAR)),
            month,
            int(told["day"]),
            int(told["hour"]),
            int(told["minute"]),
            int(told["second"]),
            tzinfo=UTC if zone == "Z" else datetime.strptime(zone, "%z").tzinfo,
        )
    except (ValueError, OverflowError):  # digits that are no date
        return None
    part = int((told.get("part") or "0")[:3].ljust(3, "0"))
    return round((at - _UNIX_EPOCH).total_seconds()) * 1000 + part
