"""A log, line by line, to what it has that tells of a cause. What is kept does not grow with the log."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs import endings, job_facts, shapes, tracebacks, watchdog
from trilens.diagnose.logs.found import Found, Hit, Speaker, ToldEnding
from trilens.diagnose.logs.line import bare, last_written, printable, read_line
from trilens.diagnose.logs.signs import Kind, Sign, letters_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.diagnose.logs.line import Line
    from trilens.diagnose.logs.shapes import Shapes, Worth
    from trilens.diagnose.logs.tracebacks import OpenTraceback, Raised

_BATCH: Final = 4_096  # lines that are looked through at once
_LOOK_BACK: Final = 30  # lines before one without a time, for the nearest that has one
_MAX_HITS: Final = 50_000
_MAX_HOSTS: Final = 10_000
_MAX_LINE: Final = 8_000  # characters that are looked at
_SHOWN: Final = 400  # characters of a line that are kept
_RAISED: Final = 0.78  # its traceback says what it raised, not why: a full disk or a bad batch raises too
_RAISED_BETWEEN: Final = 0.45  # ... one that says no more than that ranks could not do something together
_RAISED_AFTER: Final = 0.2  # ... one that is raised because another process has ended
_MAX_TRACEBACK: Final = 2_000  # lines: what is longer is something else
_MAX_OPEN: Final = 5_000  # lines of anybody after which a traceback that has not ended will not

_BUS: Final = re.compile(r"Xid \(PCI:(?:[0-9a-f]{4,8}:)?(?P<bus>[0-9a-f]{2}:[0-9a-f]{2})", re.IGNORECASE)


class LogSource(NamedTuple):
    """A log to be read. What is known of who wrote it, before a line of it is read."""

    name: str
    lines: Iterable[str]
    rank: int | None = None
    host: str = ""
    is_cut: bool = False  # there was more before it


def read_logs(sources: Iterable[LogSource]) -> Found:
    found = Found()
    known = shapes.Shapes()
    for source in sources:
        found.sources.append(source._replace(lines=()))
        _Reading(found, known).read(source.lines)
    found.hears_nccl = found.hears_nccl or known.have_nccl
    return found


class _Reading:
    """Of one log."""

    def __init__(self, found: Found, known: Shapes) -> None:
        self._found = found
        self._shapes = known
        self._source = len(found.sources) - 1
        self._open: dict[Speaker, OpenTraceback] = {}
        self._chained: set[Speaker] = set()
        self._ignored: set[Speaker] = set()
        self._tables: dict[Speaker, endings.Table] = {}
        self._dump: tuple[Speaker, tracebacks.OpenDump] | None = None
        self._hosts: set[str] = set()  # that were named: from then on they are known as prefixes
        self._number = 0  # of the line that is looked at
        self._before: deque[str] = deque(maxlen=_LOOK_BACK)
        self._t_ms: int | None = None  # of the last line with a time
        self._earlier: list[Hit] = []  # of the attempt before

    def read(self, lines: Iterable[str]) -> None:
        number = 0
        left = iter(lines)
        while batch := list(islice(left, _BATCH)):
            batch = [line if len(line) <= _MAX_LINE else last_written(line)[:_MAX_LINE] for line in batch]
            for line, worth in zip(batch, self._shapes.worth(batch), strict=True):
                number += 1
                if line.startswith("[rank"):
                    self._see_rank(line)
                if worth is not None or self._open or self._dump is not None:
                    self._number = number
                    self._look(line, worth or shapes.Worth())
                self._before.append(line)
        self._end(number)

    def _end(self, number: int) -> None:
        found = self._found
        if self._dump is not None:
            found.stacks.setdefault(self._dump[0], self._dump[1].ended())
        if any(number - one.begun <= _MAX_TRACEBACK for one in self._open.values()):
            found.unended.append(self._source)
        if not any(hit.speaker.source == self._source for hit in found.hits.values()):
            found.hits.update({("earlier", id(hit)): hit for hit in self._earlier})
        found.lines.append(number)

    def _see_rank(self, raw: str) -> None:
        number = raw[5 : raw.find("]", 5, 12)]
        if number.isdecimal():
            self._found.ranks_seen.add(int(number))

    def _look(self, raw: str, worth: Worth) -> None:
        if shapes.INFO in raw:
            self._info(raw, worth)
        elif self._open or self._dump is not None or worth.begins:
            self._whole_line(raw, worth)
        else:
            self._plain(raw, worth)

    def _read_line(self, raw: str) -> Line:
        line = read_line(raw, self._hosts)
        if line.host and len(self._hosts) < _MAX_HOSTS:
            self._hosts.add(line.host)
        return line

    def _info(self, raw: str, worth: Worth) -> None:
        """Most lines of a log with NCCL_DEBUG=INFO are of no use here, and there are very many."""
        if job_facts.needs_no_reading(self._found, raw) or not (worth.facts or worth.signs):
            return
        line = self._read_line(raw)
        if worth.facts:
            job_facts.learn_of_nccl(self._found, line, self._speaker(line))
        letters = letters_of(raw)
        for sign in worth.signs:
            if sign.letters in letters:
                self._sign(line, sign, raw)

    def _plain(self, raw: str, worth: Worth) -> None:
        line: Line | None = None
        letters = letters_of(raw) if worth.signs else ""
        for sign in worth.signs:
            if sign.letters in letters:
                line = line or self._read_line(raw)
                if self._sign(line, sign, raw):
                    break
        if worth.facts:
            job_facts.learn(self._found, line or self._read_line(raw), self._source, raw)

    def _whole_line(self, raw: str, worth: Worth) -> None:
        """Of a part of the log with something that goes over several lines."""
        if raw.startswith("frame #"):  # of a C++ stack: there are many, and they say nothing
            return
        line = self._read_line(raw)
        # Whose lines these are; what a line says of its speaker in its midst, the next one need not say.
        who = self._speaker(line)._replace(group_rank=None, device=None)
        if self._in_dump(line, who):
            return
        if self._in_traceback(line, who, worth.signs, raw):
            return
        if worth.begins and self._begins(line, who, raw):
            return
        self._plain(raw, worth)

    def _begins(self, line: Line, who: Speaker, raw: str) -> bool:
        """Whether the line is the first of several, which is all that it says then."""
        if shapes.RESTARTS in line.text:
            self._start_again()
            return True
        if tracebacks.BEGINS in line.text:
            self._open[who] = tracebacks.OpenTraceback(self._number)
            return True
        if tracebacks.DUMP in line.text and who not in self._found.stacks:
            self._dump = (who, tracebacks.OpenDump())
            return True
        if line.text.startswith(shapes.CHAINED):
            self._chained.add(who)
        elif line.text.startswith(shapes.IGNORED):
            self._ignored.add(who)
        self._endings(line, who, raw)
        if any(word in line.text for word in watchdog.SAYS):
            self._wait(line)
        return False

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

    def _in_traceback(self, line: Line, who: Speaker, signs: tuple[Sign, ...], raw: str) -> bool:
        for other in [one for one, open_ in self._open.items() if self._number - open_.begun > _MAX_OPEN]:
            del self._open[other]  # or all that comes after it would be read with care
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
        chained = who in self._chained
        self._chained.discard(who)
        if any(word in line.text for word in watchdog.SAYS):
            self._wait(line)
        letters = letters_of(line.text)
        for sign in signs:
            if sign.letters in letters and self._sign(line, sign, raw, goes_on):
                return True
        sign = _of_exception(goes_on, chained=chained)
        error = goes_on.name + (f": {goes_on.message}" if goes_on.message else "")
        frame = str(goes_on.frame) if goes_on.frame else ""
        self._keep(line, sign, raw, {"error": error[:_SHOWN], "frame": frame}, goes_on)
        return True

    def _endings(self, line: Line, who: Speaker, raw: str) -> None:
        told = endings.read_ending(line.text)
        if told is None and any(row in line.text for row in endings.ROWS):
            told = self._tables.setdefault(who, endings.Table()).take(line.text)
        if told is not None and len(self._found.endings) < _MAX_HITS:
            self._found.endings.append(ToldEnding(told, who, self._number, _shown(raw), self._moment(line)))

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

    def _sign(self, line: Line, sign: Sign, raw: str, raised: Raised | None = None) -> bool:
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
        self._keep(line, sign, raw, names, raised)
        return True

    def _keep(self, line: Line, sign: Sign, raw: str, names: dict[str, str], raised: Raised | None) -> None:
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
            if line.level == "WARN":
                self._found.hears_nccl = True
            said = {name: printable(value) for name, value in names.items()}
            hits[key] = Hit(sign, who, self._number, _shown(raw), self._moment(line), said, raised)
        if line.t_ms is not None:
            self._t_ms = line.t_ms

    def _moment(self, line: Line) -> int | None:
        """Where a line has no time, it was said with the last one before it that has one."""
        if line.t_ms is not None:
            return line.t_ms
        for raw in reversed(self._before):
            t_ms = read_line(raw, self._hosts).t_ms
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


def _shown(raw: str) -> str:
    return printable(bare(raw)[:_SHOWN].strip())


def _of_exception(raised: Raised, *, chained: bool) -> Sign:
    if chained or raised.name in tracebacks.FOLLOWS:
        return Sign("aborted", "", "", None, _RAISED_AFTER, Kind.FOLLOWS, False, raised.type)
    sure = _RAISED_BETWEEN if raised.in_collective else _RAISED
    return Sign("exception", "", "", None, sure, Kind.ROOT, False, raised.type)
