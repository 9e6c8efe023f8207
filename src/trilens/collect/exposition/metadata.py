"""The lines that start with `#`: what a metric family is."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trilens.collect.exposition.grammar import METRIC_RE, QUOTED_RE, unescape
from trilens.model.errors import ExpositionError

TEXT_TYPES: Final = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
OPENMETRICS_TYPES: Final = frozenset(
    {"counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"}
)
UNITLESS_TYPES: Final = frozenset({"info", "stateset"})

_TEXT_COMMENT: Final = re.compile(r"[ \t]*#[ \t]+(?P<keyword>HELP|TYPE)[ \t]+(?P<rest>.*)", re.DOTALL)
_OM_COMMENT: Final = re.compile(r"# (?P<keyword>HELP|TYPE|UNIT) (?P<rest>.*)", re.DOTALL)


class FamilyMetadata(NamedTuple):
    """Type as Prometheus spells it (`unknown` where the text says untyped or nothing)."""

    metric: str
    kind: str = "unknown"
    help_text: str = ""
    unit: str = ""


class Comment(NamedTuple):
    keyword: str
    metric: str
    text: str


def parse_comment(text: str, openmetrics: bool, line: int) -> Comment | None:
    """One `#` line, or None for a remark that only people read (which OpenMetrics does not have)."""
    found = (_OM_COMMENT if openmetrics else _TEXT_COMMENT).fullmatch(text)
    if found is None:
        if openmetrics:
            raise ExpositionError(f"expected # HELP, # TYPE, # UNIT or # EOF, got {text[:40]!r}", line=line)
        return None
    keyword, rest = found["keyword"], found["rest"]
    name = METRIC_RE.match(rest) or QUOTED_RE.match(rest)
    if name is None:
        raise ExpositionError(f"# {keyword} needs a metric name", line=line)
    metric = unescape(name[0][1:-1]) if name[0][0] == '"' else name[0]
    blank, value = rest[name.end() : name.end() + 1], rest[name.end() + 1 :]
    if blank != " " and (openmetrics or blank not in ("", "\t")):
        raise ExpositionError(f"# {keyword} {metric} needs a space and a text", line=line)
    if keyword == "TYPE":
        kinds = OPENMETRICS_TYPES if openmetrics else TEXT_TYPES
        if value not in kinds:
            raise ExpositionError(f"{value!r} is not a metric type", line=line)
        value = "unknown" if value == "untyped" else value
    elif keyword == "HELP":
        value = unescape(value)
    elif value and not metric.endswith("_" + value):
        raise ExpositionError(f"the unit {value!r} is not the end of the name {metric!r}", line=line)
    return Comment(keyword, metric, value)


class MetadataReader:
    """Collects the comments of one scrape; OpenMetrics lets each be said once."""

    def __init__(self, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._said: dict[str, dict[str, str]] = {}
        self.kind = "unknown"  # of the latest TYPE line: samples that follow belong to it

    def read(self, text: str, line: int) -> Comment | None:
        comment = parse_comment(text, self._openmetrics, line)
        if comment is None:
            return None
        said = self._said.setdefault(comment.metric, {})
        if self._openmetrics and comment.keyword in said:
            raise ExpositionError(f"a second # {comment.keyword} for {comment.metric}", line=line)
        said[comment.keyword] = comment.text
        if comment.keyword == "TYPE":
            self.kind = comment.text
        if self._openmetrics and said.get("UNIT") and said.get("TYPE") in UNITLESS_TYPES:
            raise ExpositionError(f"{comment.metric} is a {said['TYPE']} and cannot have a unit", line=line)
        return comment

    def families(self) -> tuple[FamilyMetadata, ...]:
        return tuple(
            FamilyMetadata(metric, said.get("TYPE", "unknown"), said.get("HELP", ""), said.get("UNIT", ""))
            for metric, said in self._said.items()
        )
