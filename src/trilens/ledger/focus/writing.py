"""A FOCUS data set as a file, CSV or Parquet, in pieces: a month does not have to fit into memory."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc

from trilens.ledger.focus.columns import COLUMNS, SCHEMA, Column, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GROUP_ROWS: Final = 100_000  # of Parquet: many are slow to read, large ones take memory to write
_ISO_8601: Final = "%Y-%m-%dT%H:%M:%SZ"


class FocusFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        return "text/csv; charset=utf-8" if self is FocusFormat.CSV else "application/vnd.apache.parquet"


def write_focus(batches: Iterable[pa.RecordBatch], out: BinaryIO, form: FocusFormat) -> None:
    for piece in focus_pieces(batches, form):
        out.write(piece)


def focus_pieces(batches: Iterable[pa.RecordBatch], form: FocusFormat) -> Iterator[bytes]:
    """The bytes of the file, in order; a header alone where there are no rows."""
    return _csv_pieces(batches) if form is FocusFormat.CSV else _parquet_pieces(batches)


def _csv_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Texts and times are quoted, numbers are not; what is missing is empty."""
    yield (",".join(f'"{column.name}"' for column in COLUMNS) + "\n").encode()
    for batch in batches:
        cells = [_cells(column, values) for column, values in zip(COLUMNS, batch.columns, strict=True)]
        lines = pc.binary_join_element_wise(*cells, ",").to_pylist()
        yield ("\n".join(lines) + "\n").encode()


def _cells(column: Column, values: pa.Array) -> pa.Array:
    match column.kind:
        case Kind.DECIMAL:
            return _digits(values)
        case Kind.INTEGER:
            return values.cast(pa.string())
        case Kind.TIME:
            values = _iso(values)
    doubled = pc.replace_substring(values, '"', '""')
    return pc.fill_null(pc.binary_join_element_wise('"', doubled, '"', ""), "")


def _digits(values: pa.Array) -> pa.Array:
    """Arrow writes what is small as 5E-9, which is right and which not everyone reads."""
    texts = values.cast(pa.string())
    small = pc.match_substring(texts, "E")
    if not pc.any(small).as_py():
        return texts
    plain = [format(value, "f") for value in values.filter(small).to_pylist()]
    return pc.replace_with_mask(texts, small, pa.array(plain, pa.string()))


def _iso(times: pa.Array) -> pa.Array:
    """There are few that differ."""
    coded = pc.dictionary_encode(times.cast(pa.int64()))
    texts = [
        datetime.fromtimestamp(ms / 1000, UTC).strftime(_ISO_8601) for ms in coded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(coded.indices)


def _parquet_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    from pyarrow import parquet  # a server that exports nothing need not have it in memory

    sink = _Sink()
    with parquet.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        group: list[pa.RecordBatch] = []
        for batch in batches:
            group.append(batch)
            if sum(one.num_rows for one in group) >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(group))
                group = []
                yield sink.taken()
        if group:
            writer.write_table(pa.Table.from_batches(group))
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Takes what a writer writes, and hands it on; nothing is ever read back or written over."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        piece = bytes(memoryview(data))  # type: ignore[arg-type]
        self._kept.append(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        piece, self._kept = b"".join(self._kept), []
        return piece
