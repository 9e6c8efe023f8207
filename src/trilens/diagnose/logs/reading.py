"""A log, line by line, to what it has that tells of a cause. What is kept does not grow with the log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs import endings, tracebacks, watchdog
from trilens.diagnose.logs.line import Line, read_line
from trilens.diagnose.logs.signs import Kind, Sign, all_signs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.diagnose.logs.endings import Ending
    from trilens.diagnose.logs.tracebacks import OpenTraceback, Raised, Stack
    from trilens.diagnose.logs.watchdog import Wait

_BATCH: Final = 4_096  # lines that are looked through at once for the words of the signs
_LOOK_BACK: Final = 30  # lines before one without a time, for the nearest that has one
_MAX_HITS: Final = 50_000
_MAX_LINE: Final = 8_000  # characters that are looked at
_SHOWN: Final = 400  # characters of a line that are kept
_RAISED: Final = 0.88  # how sure it is that an exception that is no sign is the cause
_RAISED_BETWEEN: Final = 0.45  # ... one that says no more than that ranks could not do something together
_RAISED_AFTER: Final = 0.2  # ... one that is raised because another process has ended
_MAX_TRACEBACK: Final = 2_000  # lines: what is longer is something else

_INFO: Final = " NCCL INFO "
_COMM: Final = re.compile(
    r"rank (?P<rank>\d+) n[rR]anks (?P<ranks>\d+)"
    r"(?:.*busId (?P<bus>[0-9a-f]+))?(?:.*commId (?P<comm>0x[0-9a-f]+))?"
)
_BOOTSTRAP: Final = re.compile(r"Bootstrap ?: Using (?:\[0\])?(?P<interface>[^\s:]+):(?P<address>[^\s<]+)<")
_VERSION: Final = re.compile(r"NCCL version (?P<version>\d+\.\d+(?:\.\d+)?)")
_NETWORK: Final = re.compile(r"Using network (?P<network>[\w ]+)")
_WORLD: Final = re.compile(
    r"(?:world[_ ]size|WORLD_SIZE)\s*[=:]\s*(?P<size>\d+)|(?P<came>\d+)/(?P<all>\d+) clients"
)
_BUS: Final = re.compile(r"Xid \(PCI:(?:[0-9a-f]{4,8}:)?(?P<bus>[0-9a-f]{2}:[0-9a-f]{2})", re.IGNORECASE)
_INFO_FACTS: Final = ("anks ", "Bootstrap", "NCCL version", "Using network", " via P2P")
_FACTS: Final = ("NCCL version", "orld_size", "WORLD_SIZE", "clients joined", "NCCL_ASYNC_ERROR_HANDLING")
_CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")
_IGNORED: Final = "Exception ignored in"
_RESTARTS: Final = "will restart worker group"  # of torchrun: all processes are started again
# Words that a line must have to be looked at for more than signs, where nothing has begun before it.
_STATEFUL: Final = (
    tracebacks.BEGINS, tracebacks.DUMP, *endings.SAYS, *endings.ROWS, *watchdog.SAYS, *_CHAINED, _IGNORED,
    _RESTARTS,
)  # fmt: skip


class LogSource(NamedTuple):
    """A log to be read. What is known of who wrote it, before a line of it is read."""

    name: str
    lines: Iterable[str]
    rank: int | None = None
    host: str = ""
    is_cut: bool = False  # there was more before it


class Speaker(NamedTuple):
    """Who said something, as far as the line and its log tell."""

    source: int
    rank: int | None = None
    group_rank: int | None = None
    local: int | None = None
    task: int | None = None
    host: str = ""
    pid: int | None = None
    device: int | None = None
    pod: str = ""


@dataclass(slots=True)
class Hit:
    """The first line of a speaker that has a sign."""

    sign: Sign
    speaker: Speaker
    number: int
    text: str
    t_ms: int | None
    names: Mapping[str, str]
    raised: Raised | None = None
    count: int = 1


class ToldEnding(NamedTuple):
    ending: Ending
    speaker: Speaker  # who tells it, not who ended
    number: int
    text: str
    t_ms: int | None


class Member(NamedTuple):
    """A rank of a communicator, as NCCL names it."""

    rank: int
    ranks: int
    comm: str
    bus: str


@dataclass(slots=True)
class Found:
    """What all logs have."""

    sources: list[LogSource] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of each source
    hits: dict[tuple[object, ...], Hit] = field(default_factory=dict)
    dropped: int = 0
    endings: list[ToldEnding] = field(default_factory=list)
    waits: dict[Speaker, dict[str, Wait]] = field(default_factory=dict)
    stacks: dict[Speaker, Stack] = field(default_factory=dict)
    members: dict[tuple[int, str, int, int], set[Member]] = field(default_factory=dict)
    completed: dict[tuple[str, str], int] = field(default_factory=dict)  # (comm, host) -> when it was set up
    addresses: dict[str, str] = field(default_factory=dict)  # of hosts
    versions: dict[tuple[int, str], set[str]] = field(default_factory=dict)  # of NCCL, by log and host
    networks: dict[str, str] = field(default_factory=dict)  # by host
    ranks_seen: set[int] = field(default_factory=set)  # in prefixes
    world: int = 0
    nccl_lines: int = 0
    uses_p2p: bool = False
    old_async_name: bool = False


def read_logs(sources: Iterable[LogSource]) -> Found:
    found = Found()
    for source in sources:
        found.sources.append(source._replace(lines=()))
        _Reading(found, len(found.sources) - 1).read(source.lines)
    return found


class _Reading:
    """Of one log."""

    def __init__(self, found: Found, source: int) -> None:
        self._found = found
        self._source = source
        self._open: dict[tuple[object, ...], OpenTraceback] = {}
        self._chained: dict[tuple[object, ...], bool] = {}
        self._ignored: set[tuple[object, ...]] = set()
        self._tables: dict[tuple[object, ...], endings.Table] = {}
        self._dump: tuple[Speaker, tracebacks.OpenDump] | None = None
        self._t_ms: int | None = None  # of the last line with a time
        self._batch: list[str] = []
        self._before = 0  # lines in the batches before this one
        self._earlier: list[Hit] = []  # of the attempt before

    def read(self, lines: Iterable[str]) -> None:
        left = iter(lines)
        while batch := list(islice(left, _BATCH)):
            self._batch = [line if len(line) <= _MAX_LINE else line[:_MAX_LINE] for line in batch]
            self._read_batch()
            self._before += len(batch)
        if self._dump is not None:
            self._found.stacks.setdefault(self._dump[0], self._dump[1].ended())
        if not any(hit.speaker.source == self._source for hit in self._found.hits.values()):
            self._found.hits.update({("earlier", id(hit)): hit for hit in self._earlier})
        self._found.lines.append(self._before)

    def _read_batch(self) -> None:
        joined = "\n".join([line for line in self._batch if _INFO not in line])
        present = [sign for sign in all_signs() if sign.has in joined]
        in_info = [sign for sign in all_signs() if sign.info]
        stateful = [word for word in _STATEFUL if word in joined]
        facts = [word for word in _FACTS if word in joined]
        for at, raw in enumerate(self._batch):
            if raw.startswith("[rank"):
                self._see_rank(raw)
            if _INFO in raw:
                self._info(at, raw, in_info)
            elif self._open or self._dump or any(word in raw for word in stateful):
                self._whole_line(at, raw, present, facts)
            else:
                self._plain(at, raw, present, facts)

    def _see_rank(self, raw: str) -> None:
        number = raw[5 : raw.find("]", 5, 12)]
        if number.isdigit():
            self._found.ranks_seen.add(int(number))

    def _info(self, at: int, raw: str, signs: list[Sign]) -> None:
        """Most lines of a log with NCCL_DEBUG=INFO are of no use here, and there are very many."""
        self._found.nccl_lines += 1
        if not any(word in raw for word in _INFO_FACTS):
            for sign in signs:
                if sign.has in raw:
                    self._sign(at, read_line(raw), sign, raw)
            return
        line = read_line(raw)
        self._learn(line)
        for sign in signs:
            if sign.has in raw:
                self._sign(at, line, sign, raw)

    def _learn(self, line: Line) -> None:
        found = self._found
        if len(found.members) >= _MAX_HITS:  # a log of that many processes is none
            return
        if line.pid is not None and (told := _COMM.search(line.text)):
            key = (self._source, line.host, line.pid, line.device or 0)
            member = Member(int(told["rank"]), int(told["ranks"]), told["comm"] or "", told["bus"] or "")
            found.members.setdefault(key, set()).add(member)
            found.world = max(found.world, member.ranks)
            if "Init COMPLETE" in line.text and line.t_ms is not None and member.comm:
                found.completed.setdefault((member.comm, line.host), line.t_ms)
        elif told := _BOOTSTRAP.search(line.text):
            found.addresses[told["address"]] = line.host
        elif told := _NETWORK.search(line.text):
            found.networks[line.host] = told["network"].strip()
        elif told := _VERSION.search(line.text):
            found.versions.setdefault((self._source, line.host), set()).add(told["version"])
        elif " via P2P" in line.text:
            found.uses_p2p = True

    def _plain(self, at: int, raw: str, signs: list[Sign], facts: list[str]) -> None:
        line: Line | None = None
        for sign in signs:
            if sign.has in raw:
                line = line or read_line(raw)
                if self._sign(at, line, sign, raw):
                    break
        if any(word in raw for word in facts):
            self._plain_facts(line or read_line(raw), raw)

    def _plain_facts(self, line: Line, raw: str) -> None:
        found = self._found
        if told := _VERSION.search(raw):
            found.versions.setdefault((self._source, line.host), set()).add(told["version"])
        if told := _WORLD.search(raw):
            found.world = max(found.world, int(told["size"] or told["all"]))
        if "TORCH_NCCL_ASYNC_ERROR_HANDLING instead" in raw:
            found.old_async_name = True

    def _whole_line(self, at: int, raw: str, signs: list[Sign], facts: list[str]) -> None:
        """Of a part of the log with something that goes over several lines."""
        if raw.startswith("frame #"):  # of a C++ stack: there are many, and they say nothing
            return
        line = read_line(raw)
        # Whose lines these are; what a line says of its speaker in its midst, the next one need not say.
        who = self._speaker(line)._replace(group_rank=None, device=None)
        if self._in_dump(line, who):
            return
        if self._in_traceback(at, line, who, signs, raw):
            return
        if _RESTARTS in line.text:
            self._start_again()
            return
        if tracebacks.BEGINS in line.text:
            self._open[who] = tracebacks.OpenTraceback()
            return
        if tracebacks.DUMP in line.text and who not in self._found.stacks:
            self._dump = (who, tracebacks.OpenDump())
            return
        if any(line.text.startswith(words) for words in _CHAINED):
            self._chained[who] = True
        elif line.text.startswith(_IGNORED):
            self._ignored.add(who)
        self._endings(at, line, who, raw)
        if any(word in line.text for word in watchdog.SAYS):
            self._wait(line)
        self._plain(at, raw, signs, facts)

    def _start_again(self) -> None:
        """What was said so far is of an attempt that is over: the last one counts, if it says anything."""
        found = self._found
        own = {key: hit for key, hit in found.hits.items() if hit.speaker.source == self._source}
        self._earlier = list(own.values()) or self._earlier
        for key in own:
            del found.hits[key]
        found.endings = [one for one in found.endings if one.speaker.source != self._source]
        for kept in (found.waits, found.stacks):
            for speaker in [one for one in kept if one.source == self._source]:
                del kept[speaker]

    def _in_dump(self, line: Line, who: Speaker) -> bool:
        if self._dump is None or self._dump[0] != who:
            return False
        stack = self._dump[1].take(line.text)
        if stack is not None:
            self._found.stacks.setdefault(who, stack)
            self._dump = None
        return stack is None

    def _in_traceback(self, at: int, line: Line, who: Speaker, signs: list[Sign], raw: str) -> bool:
        traceback = self._open.get(who)
        if traceback is None:
            return False
        goes_on = traceback.take(line.text)
        if goes_on is True:
            if traceback.lines > _MAX_TRACEBACK:
                del self._open[who]
            return True
        del self._open[who]
        if goes_on is False:
            return False
        if who in self._ignored:
            self._ignored.discard(who)
            return True
        chained = self._chained.pop(who, False)
        if any(word in line.text for word in watchdog.SAYS):
            self._wait(line)
        for sign in signs:
            if sign.has in line.text and self._sign(at, line, sign, raw, goes_on):
                return True
        sign = _of_exception(goes_on, chained=chained)
        error = goes_on.name + (f": {goes_on.message}" if goes_on.message else "")
        frame = str(goes_on.frame) if goes_on.frame else ""
        self._keep(at, line, sign, raw, {"error": error[:_SHOWN], "frame": frame}, goes_on)
        return True

    def _endings(self, at: int, line: Line, who: Speaker, raw: str) -> None:
        told = endings.read_ending(line.text)
        if told is None and any(row in line.text for row in endings.ROWS):
            told = self._tables.setdefault(who, endings.Table()).take(line.text)
        if told is not None and len(self._found.endings) < _MAX_HITS:
            t_ms = line.t_ms if line.t_ms is not None else self._near(at)
            self._found.endings.append(
                ToldEnding(told, who, self._before + at + 1, raw[:_SHOWN].strip(), t_ms)
            )

    def _wait(self, line: Line) -> None:
        wait = watchdog.read_wait(line.text, line.group)
        if wait is None or len(self._found.waits) >= _MAX_HITS:
            return
        by_group = self._found.waits.setdefault(self._speaker(line), {})
        # One line names the collective, the next one its group: they belong together by the number.
        if not wait.group:
            same = [one for one in by_group.values() if one.seq is not None and one.seq == wait.seq]
            key = same[0].group if same else f"?{wait.seq}"
            by_group[key] = same[0].with_more(wait) if same else wait
        else:
            known = by_group.get(wait.group)
            named = by_group.pop(f"?{wait.seq}", None)
            wait = known.with_more(wait) if known else wait
            by_group[wait.group] = wait.with_more(named) if named else wait

    def _sign(self, at: int, line: Line, sign: Sign, raw: str, raised: Raised | None = None) -> bool:
        names: dict[str, str] = {}
        if sign.match is not None:
            # Without the prefixes, where it may begin; with them, where NCCL says in which file it was.
            told = sign.match.search(line.text) or sign.match.search(raw)
            if told is None:
                return False
            names = {name: value for name, value in told.groupdict().items() if value}
        if bus := _BUS.search(line.text):
            names["bus"] = bus["bus"].lower()
        if raised is not None:
            names.setdefault("error", f"{raised.name}: {raised.message}"[:_SHOWN])
            names.setdefault("frame", str(raised.frame) if raised.frame else "")
        self._keep(at, line, sign, raw, names, raised)
        return True

    def _keep(
        self, at: int, line: Line, sign: Sign, raw: str, names: dict[str, str], raised: Raised | None
    ) -> None:
        who = self._speaker(line)
        key = (
            sign.cause,
            sign.has,
            sign.kind,
            raised and raised.type,
            who,
            names.get("peer"),
            names.get("bus"),
        )
        hits = self._found.hits
        if known := hits.get(key):
            known.count += 1
        elif len(hits) >= _MAX_HITS:
            self._found.dropped += 1
        else:
            t_ms = line.t_ms if line.t_ms is not None else self._near(at)
            if line.level == "WARN":
                self._found.nccl_lines += 1
            text = raw[:_SHOWN].strip()
            hits[key] = Hit(sign, who, self._before + at + 1, text, t_ms, names, raised)
        if line.t_ms is not None:
            self._t_ms = line.t_ms

    def _near(self, at: int) -> int | None:
        """When a line without a time was said: with the last one before it that has one."""
        for back in range(at - 1, max(at - _LOOK_BACK, -1), -1):
            t_ms = read_line(self._batch[back]).t_ms
            if t_ms is not None:
                return t_ms
        return self._t_ms

    def _speaker(self, line: Line) -> Speaker:
        group_rank = line.group_rank if line.rank is None else None
        return Speaker(
            self._source,
            line.rank,
            group_rank,
            line.local,
            line.task,
            line.host,
            line.pid,
            line.device,
            line.pod,
        )


def _of_exception(raised: Raised, *, chained: bool) -> Sign:
    if chained or raised.name in tracebacks.FOLLOWS:
        return Sign("aborted", "", None, _RAISED_AFTER, Kind.FOLLOWS, False, raised.type)
    sure = _RAISED_BETWEEN if raised.in_collective else _RAISED
    return Sign("exception", "", None, sure, Kind.ROOT, False, raised.type)
