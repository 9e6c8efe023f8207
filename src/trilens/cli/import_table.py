"""A table of text with a header, row by row with the number of its line, whatever separates its columns."""

from __future__ import annotations

import csv
import difflib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.cli.compressed import unpacked
from trilens.cli.opened_file import STDIN, opened
from trilens.model.errors import ConfigError, IntakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trilens.cli.compressed import Readable

_SEPARATORS: Final = ",|;\t"
_CHUNK: Final = 1 << 20
_SHOWN: Final = 10  # bad rows that are named; the rest is counted
_MAX_FIELD: Final = 1 << 20  # a table that was cut inside of quotes would else be one field to its end


class Row(NamedTuple):
    line: int
    told: Mapping[str, str]  # by what the column means; empty where the row has nothing

    def get(self, field: str) -> str:
        return self.told.get(field, "")


class Table(NamedTuple):
    name: str  # of the file, as it is shown
    columns: Sequence[str]
    rows: Iterator[tuple[int, Sequence[str]]]  # by line
    size: int | None
    position: Callable[[], int] | None  # of bytes read; None of a pipe


class BadRows:
    """What could not be read, by line."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.first: list[tuple[int, str]] = []

    def add(self, line: int, why: str) -> None:
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append((line, why))

    def sentences(self) -> list[str]:
        told = [f"{self.file}:{line}: {why}" for line, why in self.first]
        left = self.count - len(self.first)
        return [*told, f"and {left:,} more"] if left else told

    def refuse(self) -> None:
        """Nothing of the file is sent as long as one row of it is wrong."""
        if self.count:
            rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
            raise IntakeError(
                "\n".join([*self.sentences(), f"{self.file}: {rows} cannot be read, and nothing was sent"]),
                hint="mend them, or leave them out with --skip-bad",
            )


@contextmanager
def open_table(file: str, separator: str | None = None) -> Iterator[Table]:
    """Plain, gzip or zstd; `-` is stdin. Without a separator, the header tells it."""
    name = "stdin" if file == STDIN else file
    with opened(file) as (stream, size, position):
        try:
            lines = _lines(unpacked(stream))
            header = next(lines, "")
        except IntakeError as e:
            raise IntakeError(f"{name}: {e.message}", hint=e.hint) from e
        separator = separator or max(_SEPARATORS, key=header.count)
        columns = [column.strip() for column in next(csv.reader([header], delimiter=separator), [])]
        if len(columns) < 2:
            raise IntakeError(
                f"{name}: the first line is not a header with columns",
                hint="columns are separated by comma, semicolon, tab or |",
            )
        yield Table(name, columns, _rows(lines, separator, name), size, position)


def mapped(table: Table, mapping: Mapping[str, str]) -> Iterator[tuple[Row | None, int, str]]:
    """Each row, or None with its line and what is wrong with its shape."""
    places = {field: table.columns.index(column) for field, column in mapping.items()}
    needed = max(places.values())
    for line, cells in table.rows:
        if len(cells) <= needed:
            yield None, line, f"{len(cells)} columns where the header has {len(table.columns)}"
        else:
            yield Row(line, {field: cells[at].strip() for field, at in places.items()}), line, ""


def read_mapping(texts: Iterable[str], fields: Sequence[str]) -> dict[str, str]:
    """`start=Start,end=End`: what it means = what the column is called."""
    mapping: dict[str, str] = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column:
            raise ConfigError(f"{pair!r} is not FIELD=COLUMN", where="--map", hint=_written(fields))
        if field not in fields:
            raise ConfigError(
                f"unknown field {field!r}", where="--map", hint=_nearest(field, fields) or _written(fields)
            )
        mapping[field] = column
    return mapping


def check_columns(mapping: Mapping[str, str], table: Table) -> None:
    for field, column in mapping.items():
        if column not in table.columns:
            known = f"it has {', '.join(table.columns)}"
            raise ConfigError(
                f"{table.name} has no column {column!r} for `{field}`",
                hint=_nearest(column, table.columns) or known,
            )


def _nearest(name: str, known: Sequence[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else None


def _written(fields: Sequence[str]) -> str:
    return f"fields are {', '.join(fields)}"


def _lines(source: Readable) -> Iterator[str]:
    """With their line ends, as the csv module wants them; the mark that Excel writes first is left out."""
    rest = b""
    while chunk := source.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _text(line) + "\n"
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _rows(lines: Iterator[str], separator: str, name: str) -> Iterator[tuple[int, Sequence[str]]]:
    csv.field_size_limit(_MAX_FIELD)
    # sacct does not quote: a quote in a job's name is a character like any other there.
    quotes = None if separator == "|" else '"'
    reader = csv.reader(lines, delimiter=separator, quotechar=quotes)
    try:
        line = 2
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 2  # of the next row: the header was not the reader's
    except csv.Error as e:
        raise IntakeError(f"{name}:{reader.line_num + 1}: {e}") from e
