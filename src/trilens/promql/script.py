"""Prometheus's evaluation scripts (`load`, `eval`, `clear`) read into commands."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from trilens.model.errors import PromQLScriptError, PromQLSyntaxError, TrilensError
from trilens.model.series import STALE_NAN
from trilens.promql import nodes
from trilens.promql.parse import parse, selectors
from trilens.promql.tokens import readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.matcher import Matcher

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
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise PromQLScriptError(f"no such script: {path}") from e
    except IsADirectoryError as e:
        hint = f"name the scripts in it: {path}/*.test"
        raise PromQLScriptError(f"{path} is a directory", hint=hint) from e
    except UnicodeDecodeError as e:
        raise PromQLScriptError(f"{path} is not text in UTF-8") from e
    except OSError as e:
        raise PromQLScriptError(f"cannot read {path}: {e.strerror}") from e
    return read_text(text, str(path))


def read_text(text: str, file: str) -> Iterator[Command]:
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    at = 0
    while at < len(lines):
        head, number = lines[at], at + 1
        at += 1
        if not head:
            continue
        with _blaming(file, number):
            command = _command(head, file, number)
        while not isinstance(command, Clear) and at < len(lines) and lines[at]:
            at += 1
            with _blaming(file, at):
                _continue(command, lines[at - 1])
        yield command


@contextmanager
def _blaming(file: str, line: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, TrilensError) as e:
        raise PromQLScriptError(f"{file}:{line}: {e}") from e


def _continue(command: Load | Eval, text: str) -> None:
    """One of the lines that belong to a command, below it."""
    if isinstance(command, Load):
        command.series.append(_series(text))
    else:
        _read_expectation(command, text)


def _command(head: str, file: str, line: int) -> Command:
    word, _, rest = head.partition(" ")
    if word == "clear":
        return Clear()
    if word in ("load", "load_with_nhcb"):
        return Load(line, _positive(rest), [], word == "load_with_nhcb")
    found = _EVAL.fullmatch(head)
    if found is None:
        raise PromQLScriptError(f"no command: {head!r}")
    if found["at"] is not None:
        start = end = milliseconds(found["at"])
        step = 0
    else:
        start, end = milliseconds(found["start"]), milliseconds(found["end"])
        step = _positive(found["step"])
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
            expected = parse(rest)
            if not isinstance(expected, nodes.String):
                raise PromQLScriptError(f"not a string: {rest}")
            command.text = readable(expected.value)
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
    try:
        expr = parse(text)
    except PromQLSyntaxError as e:
        raise PromQLScriptError(f"not a duration: {text!r}") from e
    if not isinstance(expr, nodes.Number) or not math.isfinite(expr.value):
        raise PromQLScriptError(f"not a duration: {text!r}")
    return round(expr.value * 1000)


def _positive(text: str) -> int:
    found = milliseconds(text)
    if found <= 0:
        raise PromQLScriptError(f"must be greater than 0: {text!r}")
    return found


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
        for matcher in _label_set(written):
            if matcher.op == "=":
                labels[matcher.name] = matcher.value
    labels = {n: v for n, v in labels.items() if v}
    points = list(_points(text[found.end() :]))
    if not points:
        raise PromQLScriptError(f"no values for the series {text}")
    return Described(labels, points, found["st"] is not None)


def _label_set(written: str) -> tuple[Matcher, ...]:
    """A matcher that keeps everything makes any label set a valid selector."""
    try:
        return selectors(f'{written.rstrip("} ,")}, __name__!=""' + "}")
    except PromQLSyntaxError as e:
        raise PromQLScriptError(f"cannot read the labels {written}: {e.reason}") from e


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
