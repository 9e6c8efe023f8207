"""A scrape read line by line: for the first scrape of a target and whenever its lines have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.collect.exposition.grammar import OPENMETRICS, TEXT, LabelPairs, SampleLine, parse_sample_line
from trilens.collect.exposition.metadata import Comment, MetadataReader
from trilens.collect.exposition.numbers import convert_values, with_normal_bounds
from trilens.model.errors import ExpositionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.series import Floats, Times

NO_TIMESTAMP: Final = int(np.iinfo(np.int64).min)
_MAX_STAMP_DIGITS: Final = 18  # always fits 64 bits


class LineReader:
    """Collects one scrape's samples; `known` (series text -> reference) is read and never changed."""

    def __init__(
        self,
        lines: list[bytes],
        known: dict[bytes, int],
        resolve: Callable[[LabelPairs], int],
        openmetrics: bool,
    ) -> None:
        self._lines = lines
        self._known = known
        self._resolve = resolve
        self._openmetrics = openmetrics
        self._grammar = OPENMETRICS if openmetrics else TEXT
        self.metadata = MetadataReader(openmetrics)
        self.new: dict[bytes, int] = {}
        # One entry per sample.
        self.line_numbers: list[int] = []  # from 0
        self.series: list[bytes] = []
        self.refs: list[int] = []
        self.values: list[bytes] = []
        self._times: dict[int, int] = {}  # sample number -> milliseconds, for those that have one

    def read(self) -> None:
        lines, known = self._lines, self._known
        stamps = not self._openmetrics  # there, a timestamp may be a fraction
        end = _openmetrics_end(lines) if self._openmetrics else len(lines)
        for number in range(end):
            line = lines[number]
            series, _, value = line.rpartition(b" ")
            ref = known.get(series)
            if ref is None and stamps and value.isdigit() and len(value) <= _MAX_STAMP_DIGITS:
                # Known labels, a value and a timestamp: exporters that stamp all lines stay cheap.
                t_ms = int(value)
                series, _, value = series.rpartition(b" ")
                ref = known.get(series)
                if ref is not None:
                    self._times[len(self.refs)] = t_ms
            if ref is None:
                self._read_carefully(line, number)
            else:
                self.line_numbers.append(number)
                self.series.append(series)
                self.refs.append(ref)
                self.values.append(value)

    def numbers(self) -> Floats:
        """The values, converted; raises for the first line whose value is not a number."""
        numbers = convert_values(self.values)
        if numbers is not None:
            return numbers
        read = (
            parse_sample_line(decode(self._lines[n], n + 1), self._grammar, n + 1) for n in self.line_numbers
        )
        return np.array([float(line.value) for line in read])

    def times(self) -> Times | None:
        if not self._times:
            return None
        times = np.full(len(self.refs), NO_TIMESTAMP, dtype=np.int64)
        times[list(self._times)] = list(self._times.values())
        return times

    def prefixes(self) -> list[bytes] | None:
        """What stands before each value; None when something stands behind one."""
        if self._times:
            return None
        prefixes = []
        for number, value in zip(self.line_numbers, self.values, strict=True):
            line = self._lines[number]
            if not line.endswith(value):
                return None
            prefixes.append(line[: len(line) - len(value)])
        return prefixes

    def _read_carefully(self, line: bytes, number: int) -> None:
        if line[:1] == b"#":
            self.metadata.read(decode(line, number + 1), number + 1)
        elif self._openmetrics and not line:
            raise ExpositionError("OpenMetrics has no blank lines", line=number + 1)
        elif not self._openmetrics and self._read_blank_first(line, number):
            return
        else:
            self._read_new(line, number)

    def _read_blank_first(self, line: bytes, number: int) -> bool:
        """The text format takes empty lines, and blanks before a comment."""
        stripped = line.lstrip(b" \t")
        if stripped[:1] == b"#":
            self.metadata.read(decode(stripped, number + 1), number + 1)
        return not stripped or stripped[:1] == b"#"

    def _read_new(self, line: bytes, number: int) -> None:
        text = decode(line, number + 1)
        read = parse_sample_line(text, self._grammar, number + 1)
        series = text[: read.series_end].encode()
        ref = self._known.get(series, self.new.get(series))
        if ref is None:
            ref = self.new[series] = self._resolve(with_normal_bounds(read.labels, self.metadata.kind))
        if read.t_ms is not None:
            self._times[len(self.refs)] = read.t_ms
        self._add(number, series, ref, read.value.encode())

    def _add(self, number: int, series: bytes, ref: int, value: bytes) -> None:
        self.line_numbers.append(number)
        self.series.append(series)
        self.refs.append(ref)
        self.values.append(value)


def decode(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as e:
        raise ExpositionError(f"not UTF-8 at byte {e.start + 1}", line=number) from e


def _openmetrics_end(lines: list[bytes]) -> int:
    """How many lines come before `# EOF`, which must be the last one."""
    end = len(lines) - 1
    if end and not lines[end]:
        end -= 1  # the newline after # EOF is optional
    if lines[end] != b"# EOF":
        raise ExpositionError("the text does not end with # EOF", line=end + 1)
    return end


def openmetrics_events(body: bytes) -> list[tuple[int, Comment | SampleLine]]:
    """Every comment and sample of an OpenMetrics text with its line number, for checks that need them all."""
    lines = body.split(b"\n")
    metadata = MetadataReader(openmetrics=True)
    events: list[tuple[int, Comment | SampleLine]] = []
    for number, line in enumerate(lines[: _openmetrics_end(lines)], start=1):
        text = decode(line, number)
        if text[:1] == "#":
            comment = metadata.read(text, number)
            assert comment is not None
            events.append((number, comment))
        elif not text:
            raise ExpositionError("OpenMetrics has no blank lines", line=number)
        else:
            events.append((number, parse_sample_line(text, OPENMETRICS, number)))
    return events
