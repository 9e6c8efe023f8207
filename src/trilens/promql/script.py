"""Prometheus's evaluation scripts (`load`, `eval`, `clear`) read into commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import promql_parser

from trilens.model.errors import PromQLScriptError, TrilensError
from trilens.model.series import STALE_NAN
from trilens.promql.parse import selectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


HISTOGRAM: Final[Literal["histogram"]] = "histogram"
Point: TypeAlias = float | Literal["histogram"] | None
"""A value, a native histogram whose details are not read, or nothing at that time."""


@dataclass(frozen=True, slots=True)
class Described:
    """One series of a script: its labels and a value for each interval."""

    labels: dict[str, str]
    points: list[Point]
    start_timestamps: bool = False


@dataclass(frozen=True, slots=True)
class Clear:
    pass


@dataclass(frozen=True, slots=True)
class Load:
    line: int
    interval_ms: int
    series: list[Described]
    also_native: bool  # the classic buckets are also loaded as native histograms with custom buckets


@dataclass(frozen=True, slots=True)
class Remark:
    """What a failure, warning or info should say."""

    text: str = ""
    is_pattern: bool = False

    def fits(self, message: str) -> bool:
        if self.is_pattern:
            return re.search(self.text, message) is not None
        return self.text in message


@dataclass(slots=True)
class Eval:
    file: str
    line: int
    query: str
    start_ms: int
    end_ms: int
    step_ms: int  # 0 for an instant query
    fail: Remark | None = None
    warn: list[Remark] = field(default_factory=list)
    info: list[Remark] = field(default_factory=list)
    no_warn: bool = False
    no_info: bool = False
    ordered: bool = False
    text: str | None = None
    scalar: float | None = None
    raw_ms: tuple[int, int, int] | None = None  # the times of the raw samples that are expected
    series: list[Described] = field(default_factory=list)


Command: TypeAlias = Clear | Load | Eval

_EVAL: Final = re.compile(
    r"eval(?:_(?P<old>fail|warn|ordered|info))?\s+"
    r"(?:instant\s+at\s+(?P<at>\S+)|range\s+from\s+(?P<start>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))"
    r"\s+(?P<query>.+)"
)
_EXPECT: Final = re.compile(r"expect\s+(\w+)\s*(?:(msg|regex):\s*(.*)|(.*))")
_RAW: Final = re.compile(r"vector\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)")


def read(path: Path) -> Iterator[Command]:
    return read_text(path.read_text(encoding="utf-8"), path.name)


def read_text(text: str, file: str) -> Iterator[Command]:
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    at = 0
    while at < len(lines):
        head, number = lines[at], at + 1
        at += 1
        if not head:
            continue
        body = []
        if not head.startswith("clear"):
            while at < len(lines) and lines[at]:
                body.append(lines[at])
                at += 1
        try:
            yield _command(head, body, file, number)
        except (ValueError, TrilensError) as e:
            raise PromQLScriptError(f"{file}:{number}: {e}") from e


def _command(head: str, body: list[str], file: str, line: int) -> Command:
    word, _, rest = head.partition(" ")
    if word == "clear":
        return Clear()
    if word in ("load", "load_with_nhcb"):
        return Load(line, milliseconds(rest), [_series(x) for x in body], word == "load_with_nhcb")
    found = _EVAL.fullmatch(head)
    if found is None:
        raise PromQLScriptError(f"no command: {head!r}")
    if found["at"] is not None:
        start = end = milliseconds(found["at"])
        step = 0
    else:
        start, end, step = (milliseconds(found[x]) for x in ("start", "end", "step"))
    command = Eval(file, line, found["query"], start, end, step)
    match found["old"]:
        case "fail":
            command.fail = Remark()
        case "warn":
            command.warn.append(Remark())
        case "info":
            command.info.append(Remark())
        case "ordered":
            command.ordered = True
    for text in body:
        _read_expectation(command, text)
    return command


def _read_expectation(command: Eval, text: str) -> None:
    found = _EXPECT.fullmatch(text)
    if found is None:
        number = _number(text)
        if number is None:
            command.series.append(_series(text))
        else:
            command.scalar = number
        return
    what, kind, said, rest = found.groups()
    remark = Remark(said or "", kind == "regex")
    match what:
        case "fail":
            command.fail = remark
        case "warn":
            command.warn.append(remark)
        case "info":
            command.info.append(remark)
        case "no_warn":
            command.no_warn = True
        case "no_info":
            command.no_info = True
        case "ordered":
            command.ordered = True
        case "string":
            command.text = promql_parser.parse(rest).val  # type: ignore[attr-defined]
        case "range":
            times = _RAW.fullmatch(rest)
            if times is None:
                raise PromQLScriptError(f"not a range vector: {text!r}")
            start, end, step = (milliseconds(x) for x in times.groups())
            command.raw_ms = (start, end, step)
        case _:
            raise PromQLScriptError(f"unknown expectation {text!r}")


def milliseconds(text: str) -> int:
    """A duration as in PromQL, or seconds, with a sign or without."""
    if re.fullmatch(r"0+[a-z]+", text):  # the parser takes no empty duration
        return 0
    seconds: float = promql_parser.parse(text).val  # type: ignore[attr-defined]
    return round(seconds * 1000)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", text) else None


_METRIC: Final = re.compile(
    r"""(?P<name>[\w:]*)\s*(?P<labels>\{(?!\{)(?:[^}"'`]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)*\})?(?P<st>@st)?"""
)


def _series(text: str) -> Described:
    found = _METRIC.match(text)
    assert found is not None, "every part of the pattern may be empty"
    name, written = found["name"], found["labels"] or ""
    labels = {"__name__": name} if name else {}
    if written.strip("{} ,"):
        # A matcher that keeps everything makes any label set a valid selector.
        for matcher in selectors(f'{written.rstrip("} ,")}, __name__!=""' + "}"):
            if matcher.op == "=":
                labels[matcher.name] = matcher.value
    labels = {n: v for n, v in labels.items() if v}
    return Described(labels, list(_points(text[found.end() :])), found["st"] is not None)


_POINT: Final = re.compile(
    r"""(?P<missing>_)(?:x(?P<missing_times>\d+))?
      | (?P<stale>stale)(?:x(?P<stale_times>\d+))?
      | (?P<histogram>\{\{.*?\}\})(?:[+-]\{\{.*?\}\})?(?:x(?P<histogram_times>\d+))?
      | (?P<start>[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|[iI]nf|[nN]a[nN]))
        (?:(?P<step>[-+](?:[\d.]+(?:[eE][-+]?\d+)?|[iI]nf|[nN]a[nN])))?(?:x(?P<times>\d+))?
      """,
    re.VERBOSE,
)


_START_TIMESTAMP: Final = re.compile(r"[-+\dmshdwy]+?(?:x(?P<times>\d+))?(?=\s|$)")


def _points(text: str) -> Iterator[Point]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _POINT.match(text, at)
        if found is not None and (found.end() == len(text) or text[found.end()].isspace()):
            yield from _expand(found)
        else:  # a start timestamp, written as a duration: counted but not read
            found = _START_TIMESTAMP.match(text, at)
            if found is None:
                raise PromQLScriptError(f"cannot read the values {text[at:]!r}")
            yield from [0.0] * (int(found["times"]) + 1 if found["times"] else 1)
        at = found.end()


def _expand(found: re.Match[str]) -> Iterator[Point]:
    if found["missing"]:
        yield from [None] * int(found["missing_times"] or 1)
    elif found["stale"]:
        yield from [STALE_NAN] * (int(found["stale_times"] or 0) + 1)
    elif found["histogram"]:
        native: list[Point] = [HISTOGRAM]
        yield from native * (int(found["histogram_times"] or 0) + 1)
    else:
        value, step = float(found["start"]), float(found["step"] or 0)
        for _ in range(int(found["times"] or 0) + 1):  # added up as Prometheus does, rounding included
            yield value
            value += step
