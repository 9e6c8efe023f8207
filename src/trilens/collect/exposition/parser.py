"""A whole scrape at speed.

Most scrapes have exactly the lines of the scrape before, with other values. The parser keeps that layout:
when every line still starts with the bytes it started with, only the values are read, all at once, and the
array of series references is reused; that costs about 0.3 µs a sample. A scrape with another layout goes line
by line: a series text seen before is then one dictionary lookup, and only a new one has its labels parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.collect.exposition.lines import NO_TIMESTAMP, LineReader
from trilens.collect.exposition.numbers import convert_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.collect.exposition.grammar import LabelPairs
    from trilens.collect.exposition.metadata import FamilyMetadata
    from trilens.model.series import Floats, Handles, Times

DROPPED: Final = -1  # the reference of a series that relabelling removed


class ParsedScrape(NamedTuple):
    """One entry per sample line, DROPPED ones included.

    With `same_layout`, the series are those of the scrape before, `refs` is the same array, and what
    `families` would say was said then.
    """

    refs: Handles
    values: Floats
    t_ms: Times | None  # explicit timestamps, NO_TIMESTAMP where a line has none; None when no line has one
    same_layout: bool
    new_series: int = 0  # series texts never seen on this target
    families: tuple[FamilyMetadata, ...] = ()


class Sample(NamedTuple):
    """One sample written out, for tests and tools."""

    labels: LabelPairs
    value: float
    t_ms: int | None


@dataclass(frozen=True, slots=True)
class _Layout:
    """What stays the same from scrape to scrape: every byte but the values."""

    openmetrics: bool
    is_sample: list[bool]  # per line
    is_other: list[bool]
    others: list[bytes]  # comments and blank lines, whole
    prefixes: list[bytes]  # of sample lines, up to the value
    fixed_bytes: int
    refs: Handles

    def values(self, body: bytes, lines: list[bytes]) -> Floats | None:
        """The values of a scrape with this layout; None for any other scrape."""
        if len(lines) != len(self.is_sample) or list(compress(lines, self.is_other)) != self.others:
            return None
        values = list(map(bytes.removeprefix, compress(lines, self.is_sample), self.prefixes))
        # removeprefix leaves a line alone when it starts otherwise, and then more bytes remain than should:
        # the sum is right only if every prefix was there.
        if sum(map(len, values)) != len(body) - self.fixed_bytes:
            return None
        return convert_values(values)  # a timestamp or an exemplar behind a value is no number either


class ExpositionParser:
    """Parses the scrapes of one target. `resolve` turns a new series' labels into a reference or DROPPED."""

    def __init__(self, resolve: Callable[[LabelPairs], int]) -> None:
        self._resolve = resolve
        self._refs: dict[bytes, int] = {}  # by series text
        self._layout: _Layout | None = None

    def parse(self, body: bytes, *, openmetrics: bool) -> ParsedScrape:
        """All samples of a scrape; an ExpositionError for any bad line, and then nothing is remembered."""
        lines = body.split(b"\n")
        layout = self._layout
        if layout is not None and layout.openmetrics == openmetrics:
            values = layout.values(body, lines)
            if values is not None:
                return ParsedScrape(layout.refs, values, None, same_layout=True)
        reader = LineReader(lines, self._refs, self._resolve, openmetrics)
        reader.read()
        values = reader.numbers()
        refs = np.array(reader.refs, dtype=np.int64)
        self._layout = _layout(body, lines, reader, refs, openmetrics)
        self._remember_series(reader)
        return ParsedScrape(
            refs,
            values,
            reader.times(),
            same_layout=False,
            new_series=len(reader.new),
            families=reader.metadata.families(),
        )

    def _remember_series(self, reader: LineReader) -> None:
        self._refs.update(reader.new)
        if len(self._refs) > len(reader.refs):  # some are gone; whether they come back nobody knows
            self._refs = dict(zip(reader.series, reader.refs, strict=True))


def _layout(
    body: bytes, lines: list[bytes], reader: LineReader, refs: Handles, openmetrics: bool
) -> _Layout | None:
    prefixes = reader.prefixes()
    if prefixes is None:
        return None
    is_sample = [False] * len(lines)
    for number in reader.line_numbers:
        is_sample[number] = True
    is_other = [not sample for sample in is_sample]
    return _Layout(
        openmetrics=openmetrics,
        is_sample=is_sample,
        is_other=is_other,
        others=list(compress(lines, is_other)),
        prefixes=prefixes,
        fixed_bytes=len(body) - sum(map(len, reader.values)),
        refs=refs,
    )


def parse_samples(body: bytes, *, openmetrics: bool) -> tuple[list[Sample], tuple[FamilyMetadata, ...]]:
    """One text on its own, written out."""
    series: list[LabelPairs] = []

    def number(labels: LabelPairs) -> int:
        series.append(labels)
        return len(series) - 1

    parsed = ExpositionParser(number).parse(body, openmetrics=openmetrics)
    times = parsed.t_ms.tolist() if parsed.t_ms is not None else [NO_TIMESTAMP] * len(parsed.refs)
    samples = [
        Sample(series[ref], value, None if t == NO_TIMESTAMP else t)
        for ref, value, t in zip(parsed.refs.tolist(), parsed.values.tolist(), times, strict=True)
    ]
    return samples, parsed.families
