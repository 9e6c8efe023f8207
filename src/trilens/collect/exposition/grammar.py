"""One sample line, read with care: the slow path for whatever the parser has not seen before.

The two formats differ in blanks. The text format allows any number of them between tokens and a comma after
the last label; OpenMetrics allows exactly one space where it needs one and none elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from trilens.model.errors import ExpositionError
from trilens.model.labels import METRIC_NAME

LabelPairs = list[tuple[str, str]]

_METRIC: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = r"[a-zA-Z_][a-zA-Z0-9_]*"
_QUOTED: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_VALUE: Final = rf"(?:{_NUMBER}|[+-]?(?i:inf(?:inity)?)|(?i:nan))"

_MAX_EXEMPLAR_CHARACTERS: Final = 128
_MAY_HAVE_EXEMPLAR: Final = ("_total", "_bucket")
_FURTHEST_MS: Final = 2**62  # fits 64 bits, also after rounding
_ESCAPE: Final = re.compile(r"\\([\\\"n])")
_UNESCAPED: Final = {"\\": "\\", '"': '"', "n": "\n"}

# What nearly every series looks like, in both formats: read in one go.
_PLAIN_PAIR: Final = rf'({_LABEL})="([^"\\]*)"'
_PLAIN_LABEL: Final = re.compile(_PLAIN_PAIR)
_BARE_PAIR: Final = _PLAIN_PAIR.replace("(", "").replace(")", "")
_PLAIN_SERIES: Final = re.compile(rf"(?P<metric>{_METRIC})\{{(?P<labels>{_BARE_PAIR}(?:,{_BARE_PAIR})*)\}}")
METRIC_RE: Final = re.compile(_METRIC)
QUOTED_RE: Final = re.compile(_QUOTED)


class Exemplar(NamedTuple):
    labels: LabelPairs
    value: float
    t_s: float | None


class SampleLine(NamedTuple):
    """A line taken apart; `series_end` is where the series text ends."""

    labels: LabelPairs
    series_end: int
    value: str
    t_ms: int | None
    exemplar: Exemplar | None

    @property
    def name(self) -> str:
        return self.labels[0][1]


@dataclass(frozen=True, slots=True)
class Grammar:
    label: re.Pattern[str]
    tail: re.Pattern[str]
    blanks: re.Pattern[str]
    trailing_comma: bool
    seconds: bool  # timestamps are seconds, possibly fractional; otherwise whole milliseconds


def _label_pattern(blank: str, end: str) -> re.Pattern[str]:
    name = rf"(?P<name>{_LABEL}|{_QUOTED})"
    value = rf"(?:{blank}={blank}(?P<value>{_QUOTED}))?"
    return re.compile(rf"{blank}{name}{blank}{value}{blank}(?P<end>{end})", re.DOTALL)


TEXT: Final = Grammar(
    label=_label_pattern(r"[ \t]*", "[,}]?"),  # as in Prometheus, a comma may be missing
    tail=re.compile(rf"[ \t]*(?P<value>{_VALUE})(?:[ \t]+(?P<t>-?[0-9]{{1,19}}))?[ \t]*"),
    blanks=re.compile(r"[ \t]*"),
    trailing_comma=True,
    seconds=False,
)
OPENMETRICS: Final = Grammar(
    label=_label_pattern("", "[,}]"),
    tail=re.compile(rf" (?P<value>{_VALUE})(?: (?P<t>{_NUMBER}))?(?P<exemplar> # \{{.*)?", re.DOTALL),
    blanks=re.compile(""),
    trailing_comma=False,
    seconds=True,
)
_EXEMPLAR_TAIL: Final = re.compile(rf" (?P<value>{_VALUE})(?: (?P<t>{_NUMBER}))?")


def unescape(text: str) -> str:
    r"""Resolve `\\`, `\"` and `\n`; any other backslash stands for itself, as in Prometheus."""
    return _ESCAPE.sub(lambda m: _UNESCAPED[m[1]], text) if "\\" in text else text


def parse_sample_line(text: str, grammar: Grammar, line: int) -> SampleLine:
    """Take a line apart, or raise an ExpositionError that says where it stopped making sense."""
    labels, at = _parse_series(text, grammar, line)
    tail = grammar.tail.match(text, at)
    if tail is None:
        raise ExpositionError(f"expected a value, got {_excerpt(text, at)}", line=line)
    exemplar = None
    end = tail.end()
    if grammar.seconds and tail["exemplar"] is not None:
        if not labels[0][1].endswith(_MAY_HAVE_EXEMPLAR):
            raise ExpositionError(f"{labels[0][1]} cannot have an exemplar", line=line)
        exemplar = _parse_exemplar(text, tail.start("exemplar") + 3, line)
    elif end != len(text):
        raise ExpositionError(f"unexpected text after the sample: {_excerpt(text, end)}", line=line)
    return SampleLine(
        labels=labels,
        series_end=at,
        value=tail["value"],
        t_ms=None if tail["t"] is None else _milliseconds(tail["t"], grammar),
        exemplar=exemplar,
    )


def _milliseconds(text: str, grammar: Grammar) -> int:
    t_ms = float(text) * 1000 if grammar.seconds else int(text)
    return int(max(-_FURTHEST_MS, min(_FURTHEST_MS, t_ms)))  # fractions are cut off, as Prometheus does


def _parse_series(text: str, grammar: Grammar, line: int) -> tuple[LabelPairs, int]:
    """`name`, `name{...}` or `{"name", ...}`; the metric name comes first in the result."""
    plain = _PLAIN_SERIES.match(text)
    if plain is not None:
        pairs: LabelPairs = _PLAIN_LABEL.findall(plain["labels"])
        _reject_repeated_names(pairs, line)
        return [(METRIC_NAME, plain["metric"]), *pairs], plain.end()
    name = METRIC_RE.match(text)
    at = 0 if name is None else name.end()
    brace = _skip(grammar.blanks, text, at)
    if text[brace : brace + 1] != "{":
        if name is None:
            raise ExpositionError(f"expected a metric name, got {_excerpt(text, at)}", line=line)
        return [(METRIC_NAME, name[0])], at
    quoted_name, labels, at = _parse_labels(text, brace + 1, grammar, line)
    if name is None and quoted_name is None:
        raise ExpositionError("the sample has no metric name", line=line)
    if name is not None and quoted_name is not None:
        raise ExpositionError(f"two metric names: {name[0]} and {quoted_name!r}", line=line)
    metric = name[0] if name is not None else quoted_name
    assert metric is not None
    return [(METRIC_NAME, metric), *labels], at


def _parse_labels(text: str, at: int, grammar: Grammar, line: int) -> tuple[str | None, LabelPairs, int]:
    """After the opening brace, to after the closing one: (quoted metric name, labels, end)."""
    metric: str | None = None
    labels: LabelPairs = []
    at = _skip(grammar.blanks, text, at)
    if text[at : at + 1] == "}":
        return metric, labels, at + 1
    while True:
        found = grammar.label.match(text, at)
        if found is None:
            raise ExpositionError(f'expected label="value", got {_excerpt(text, at)}', line=line)
        name, value = found["name"], found["value"]
        if value is not None:
            labels.append((_unquote(name), unescape(value[1:-1])))
        elif name[0] == '"' and metric is None and not labels:
            metric = _unquote(name)
        else:
            raise ExpositionError(f"label {name} has no value", line=line)
        at = found.end()
        if found["end"] == "}":
            break
        if grammar.trailing_comma:
            closing = _skip(grammar.blanks, text, at)
            if text[closing : closing + 1] == "}":
                at = closing + 1
                break
    _reject_repeated_names(labels, line)
    return metric, labels, at


def _skip(blanks: re.Pattern[str], text: str, at: int) -> int:
    found = blanks.match(text, at)
    assert found is not None  # it matches the empty text too
    return found.end()


def _unquote(name: str) -> str:
    return unescape(name[1:-1]) if name[0] == '"' else name


def _reject_repeated_names(labels: LabelPairs, line: int) -> None:
    names = [name for name, _ in labels]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ExpositionError(f"label {twice!r} appears twice", line=line)
    if METRIC_NAME in names:
        raise ExpositionError("the label __name__ cannot be given", line=line)


def _parse_exemplar(text: str, at: int, line: int) -> Exemplar:
    _, labels, at = _parse_labels(text, at + 1, OPENMETRICS, line)
    tail = _EXEMPLAR_TAIL.fullmatch(text, at)
    if tail is None:
        raise ExpositionError(f"expected the exemplar's value, got {_excerpt(text, at)}", line=line)
    if sum(len(name) + len(value) for name, value in labels) > _MAX_EXEMPLAR_CHARACTERS:
        raise ExpositionError(
            f"the exemplar's labels have more than {_MAX_EXEMPLAR_CHARACTERS} characters", line=line
        )
    return Exemplar(labels, float(tail["value"]), None if tail["t"] is None else float(tail["t"]))


def _excerpt(text: str, at: int) -> str:
    rest = text[at:]
    if not rest:
        return "the end of the line"
    return repr(rest if len(rest) <= 40 else rest[:40] + "...")
