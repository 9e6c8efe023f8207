"""The rules of OpenMetrics about what a family's samples may be, and in which order they come.

A scrape does not enforce them. They speak of numbers and neighbours, not of syntax: a bucket counted between
two reads, or a gauge exposed as a counter, would mark a target down that Prometheus shows.
`strict_openmetrics` in a scrape config asks for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from trilens.collect.exposition.grammar import LabelPairs, SampleLine
from trilens.collect.exposition.lines import openmetrics_events
from trilens.collect.exposition.metadata import Comment
from trilens.model.errors import ExpositionError

_SUFFIXES: Final = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "summary": ("", "_count", "_sum", "_created"),
    "info": ("_info",),
    "stateset": ("",),
    "unknown": ("",),
}
_NEVER_NAN: Final = frozenset({"_total", "_bucket", "_count", "_sum", "_gcount", "_gsum"})
_NEVER_NEGATIVE: Final = _NEVER_NAN - {"_gsum"}
_MAY_HAVE_EXEMPLAR: Final = frozenset(
    {("counter", "_total"), ("histogram", "_bucket"), ("gaugehistogram", "_bucket")}
)

Group = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Buckets:
    """One histogram at one time: the samples of a group that share a timestamp."""

    bounds: list[float] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    count: float | None = None
    sum: float | None = None
    line: int = 0

    def add(self, suffix: str, sample: SampleLine, value: float, line: int) -> None:
        self.line = line
        if suffix == "_bucket":
            bound = _label_number(sample, "le", line)
            if self.bounds and bound <= self.bounds[-1]:
                raise ExpositionError("buckets are not in ascending order", line=line)
            if self.counts and value < self.counts[-1]:
                raise ExpositionError("a bucket holds less than the one before", line=line)
            self.bounds.append(bound)
            self.counts.append(value)
        elif suffix in ("_count", "_gcount"):
            self.count = value
        elif suffix in ("_sum", "_gsum"):
            self.sum = value

    def check(self, kind: str) -> None:
        if self.bounds[-1:] != [math.inf]:
            raise ExpositionError("the histogram has no +Inf bucket", line=self.line)
        if self.count is not None and self.count != self.counts[-1]:
            raise ExpositionError("the count differs from the +Inf bucket", line=self.line)
        if (self.count is None) != (self.sum is None):
            raise ExpositionError("a histogram has both count and sum, or neither", line=self.line)
        negative_bounds = self.bounds[0] < 0
        if self.sum is not None and kind == "histogram" and negative_bounds:
            raise ExpositionError("a histogram with negative buckets cannot have a sum", line=self.line)
        if self.sum is not None and self.sum < 0 and not negative_bounds:
            raise ExpositionError("the sum is negative and no bucket is", line=self.line)


class _Family:
    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = "unknown"
        self.has_samples = False
        self._groups: set[Group] = set()
        self._group: Group | None = None
        self._time: int | None = None
        self._histograms: dict[tuple[Group, int | None], _Buckets] = {}

    def suffix_of(self, sample_name: str) -> str | None:
        suffix = sample_name[len(self.name) :] if sample_name.startswith(self.name) else None
        return suffix if suffix in _SUFFIXES[self.kind] else None

    def reserved_names(self) -> list[str]:
        return [self.name, *(self.name + suffix for suffix in _SUFFIXES[self.kind] if suffix)]

    def add(self, suffix: str, sample: SampleLine, line: int) -> None:
        self.has_samples = True
        value = float(sample.value)
        self._check_value(suffix, sample, value, line)
        if sample.exemplar is not None and (self.kind, suffix) not in _MAY_HAVE_EXEMPLAR:
            raise ExpositionError(f"{sample.name} cannot have an exemplar", line=line)
        group = self._enter_group(sample, line)
        if self.kind in ("histogram", "gaugehistogram") and suffix != "_created":
            self._histograms.setdefault((group, sample.t_ms), _Buckets()).add(suffix, sample, value, line)

    def close(self) -> None:
        for histogram in self._histograms.values():
            histogram.check(self.kind)

    def _check_value(self, suffix: str, sample: SampleLine, value: float, line: int) -> None:
        if suffix in _NEVER_NAN and math.isnan(value):
            raise ExpositionError(f"{sample.name} cannot be NaN", line=line)
        if suffix in _NEVER_NEGATIVE and value < 0:
            raise ExpositionError(f"{sample.name} cannot be negative", line=line)
        if self.kind == "info" and value != 1:
            raise ExpositionError("an info sample is always 1", line=line)
        if self.kind == "stateset":
            if value not in (0, 1):
                raise ExpositionError("a state is 0 or 1", line=line)
            if not any(name == self.name for name, _ in sample.labels):
                raise ExpositionError(f"a state needs the label {self.name}", line=line)
        if self.kind == "summary" and suffix == "":
            if not 0 <= _label_number(sample, "quantile", line) <= 1:
                raise ExpositionError("a quantile lies between 0 and 1", line=line)
            if value < 0:
                raise ExpositionError("a quantile's value cannot be negative", line=line)

    def _enter_group(self, sample: SampleLine, line: int) -> Group:
        inner = {"histogram": "le", "gaugehistogram": "le", "summary": "quantile", "stateset": self.name}
        group = _group_of(sample.labels, without=inner.get(self.kind))
        if group != self._group:
            if group in self._groups:
                raise ExpositionError("samples with the same labels do not stand together", line=line)
            self._groups.add(group)
        elif (sample.t_ms is None) != (self._time is None):
            raise ExpositionError("some samples have a timestamp and some have none", line=line)
        elif sample.t_ms is not None and self._time is not None and sample.t_ms < self._time:
            raise ExpositionError("timestamps go backwards", line=line)
        self._group, self._time = group, sample.t_ms
        return group


def check_openmetrics(body: bytes) -> None:
    """Raise ExpositionError for the first rule of OpenMetrics 1.0 that the text breaks."""
    used: set[str] = set()
    family = _Family("")
    for line, event in openmetrics_events(body):
        name = event.metric if isinstance(event, Comment) else event.name
        suffix = None if isinstance(event, Comment) else family.suffix_of(name)
        if suffix is None and name != family.name:
            _finish(family, used, line)
            family = _Family(name)
            suffix = ""
        if isinstance(event, SampleLine):
            if suffix is None:
                raise ExpositionError(f"{name} is not a sample of a {family.kind}", line=line)
            family.add(suffix, event, line)
        elif family.has_samples:
            raise ExpositionError(f"# {event.keyword} {name} comes after its samples", line=line)
        elif event.keyword == "TYPE":
            family.kind = event.text
    _finish(family, used, line=None)


def _finish(family: _Family, used: set[str], line: int | None) -> None:
    if not family.name:
        return
    family.close()
    names = family.reserved_names()
    for name in names:
        if name in used:
            raise ExpositionError(f"{name} belongs to two families", line=line)
    used.update(names)


def _group_of(labels: LabelPairs, without: str | None) -> Group:
    return tuple(sorted(pair for pair in labels[1:] if pair[0] != without))


def _label_number(sample: SampleLine, label: str, line: int) -> float:
    text = dict(sample.labels).get(label)
    if text is None:
        raise ExpositionError(f"{sample.name} needs the label {label}", line=line)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or (math.isinf(number) and text not in ("+Inf", "-Inf")):
        raise ExpositionError(f"{label}={text!r} is not a number as OpenMetrics writes it", line=line)
    return number
