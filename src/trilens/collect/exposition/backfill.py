"""Backfill: text in which every sample has its time, read in pieces of whole lines.

A piece stands alone. One that begins inside a metric family repeats the family's `# TYPE` line, and only the
last one of a text has an `# EOF`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.collect.exposition.grammar import OPENMETRICS, TEXT, SampleLine, parse_sample_line
from trilens.collect.exposition.lines import decode
from trilens.collect.exposition.metadata import MetadataReader
from trilens.collect.exposition.numbers import convert_values, with_normal_bounds
from trilens.model.errors import ExpositionError
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.exposition.metadata import FamilyMetadata
    from trilens.model.labels import Codes, Labels
    from trilens.model.series import Floats, Times

_END: Final = b"# EOF"
_FURTHEST_MS: Final = 2**62
_SECONDS_BELOW_MS: Final = 100_000_000_000
_MAX_DIGITS: Final = 18  # always fits 64 bits


class BackfillPiece(NamedTuple):
    """`owner[i]` is the place in `series` of sample i's labels."""

    series: Sequence[Labels]
    owner: Codes
    t_ms: Times
    values: Floats
    families: tuple[FamilyMetadata, ...]


def parse_backfill(text: bytes, *, openmetrics: bool, first_line: int, newest_ms: int) -> BackfillPiece:
    """All samples of a piece, or an ExpositionError for the first line that is wrong.

    `first_line` is the number of the piece's first line. A sample after `newest_ms` is refused: nearly always
    it is a time in the wrong unit, and once stored it would make every fresh sample look too old.
    """
    reader = _PieceReader(text, openmetrics, first_line)
    reader.read()
    values, times = reader.numbers()
    reader.check_times(times, newest_ms)
    owner = np.array(reader.owner, dtype=np.int32)
    return BackfillPiece(list(reader.places), owner, times, values, reader.metadata.families())


class _PieceReader:
    def __init__(self, text: bytes, openmetrics: bool, first_line: int) -> None:
        self._lines = text.removesuffix(b"\n").split(b"\n") if text else []
        self._openmetrics = openmetrics
        self._grammar = OPENMETRICS if openmetrics else TEXT
        self._first_line = first_line
        self._known: dict[bytes, int] = {}  # by series text
        self.places: dict[Labels, int] = {}
        self.metadata = MetadataReader(openmetrics)
        # One entry per sample.
        self._at: list[int] = []  # its line
        self.owner: list[int] = []
        self._values: list[bytes] = []
        self._stamps: list[bytes] = []
        self._exact_ms: dict[int, int] = {}  # sample number -> time, where it was read already

    def read(self) -> None:
        known = self._known
        for at in range(self._end()):
            line = self._lines[at]
            head, _, stamp = line.rpartition(b" ")
            series, _, value = head.rpartition(b" ")
            place = known.get(series)
            if place is None:
                self._read_carefully(line, at)
            else:
                self._at.append(at)
                self.owner.append(place)
                self._values.append(value)
                self._stamps.append(stamp)

    def numbers(self) -> tuple[Floats, Times]:
        """Values and times, all at once; line by line where one is unusual, or wrong and to be told."""
        values, times = convert_values(self._values), self._times()
        if values is None or times is None:
            read = [self._sample(self._text(at), at) for at in self._at]
            values = np.array([float(line.value) for line, _ in read])
            times = np.array([t_ms for _, t_ms in read], dtype=np.int64)
        return values, times

    def check_times(self, times: Times, newest_ms: int) -> None:
        unit = "seconds" if self._openmetrics else "milliseconds"
        # Seconds read as milliseconds lie in 1970, and no sample is really that old.
        oldest_ms, epoch = (0, "before 1970") if self._openmetrics else (_SECONDS_BELOW_MS, "before 1973")
        for wrong, where in ((times > newest_ms, "in the future"), (times < oldest_ms, epoch)):
            if wrong.any():
                at = self._at[int(wrong.argmax())]
                raise ExpositionError(
                    f"the sample's time lies {where}; this format counts {unit}", line=self._number(at)
                )

    def _times(self) -> Times | None:
        if self._openmetrics:
            seconds = convert_values(self._stamps)
            if seconds is None or not np.isfinite(seconds).all():
                return None
            times = np.clip(seconds * 1000, -_FURTHEST_MS, _FURTHEST_MS).astype(np.int64)
        elif all(map(bytes.isdigit, self._stamps)) and max(map(len, self._stamps), default=0) <= _MAX_DIGITS:
            times = np.array(list(map(int, self._stamps)), dtype=np.int64)
        else:
            return None
        times[list(self._exact_ms)] = list(self._exact_ms.values())
        return times

    def _end(self) -> int:
        """How many lines there are before an `# EOF`."""
        if not self._openmetrics or _END not in self._lines:
            return len(self._lines)
        end = self._lines.index(_END)
        if end != len(self._lines) - 1:
            raise ExpositionError("text after # EOF", line=self._number(end + 1))
        return end

    def _read_carefully(self, line: bytes, at: int) -> None:
        number = self._number(at)
        text = self._text(at)
        if text[:1] == "#":
            self.metadata.read(text, number)
            return
        if not text:
            if self._openmetrics:
                raise ExpositionError("OpenMetrics has no blank lines", line=number)
            return
        read, t_ms = self._sample(text, at)
        labels = make_labels(with_normal_bounds(read.labels, self.metadata.kind))
        # Two texts may mean one series: the order of labels does not matter.
        place = self.places.setdefault(labels, len(self.places))
        self._known[text[: read.series_end].encode()] = place
        self._exact_ms[len(self.owner)] = t_ms
        self._at.append(at)
        self.owner.append(place)
        self._values.append(read.value.encode())
        self._stamps.append(b"0")

    def _sample(self, text: str, at: int) -> tuple[SampleLine, int]:
        """With its time, which every sample of a backfill has."""
        number = self._number(at)
        read = parse_sample_line(text, self._grammar, number)
        if read.t_ms is None:
            raise ExpositionError("the sample has no timestamp, and a backfill needs one", line=number)
        return read, read.t_ms

    def _number(self, at: int) -> int:
        return self._first_line + at

    def _text(self, at: int) -> str:
        text = decode(self._lines[at], self._number(at))
        return text if self._openmetrics else text.lstrip(" \t")
