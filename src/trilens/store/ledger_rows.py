"""Hours of the ledger as rows of their tables, and back."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pyarrow as pa

from trilens.model.errors import StoreError
from trilens.model.ledger import HOUR_MS, Holder, LedgerHour, LedgerRow, NodeBill, Warned
from trilens.model.ledger_sums import BookedHour
from trilens.model.workload import Doubt, WorkloadKey
from trilens.store.arrow_columns import arrow_array, arrow_table, distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.store.workload_rows import Row

ROWS: Final = "ledger_rows"
BILLS: Final = "ledger_bills"
HOURS: Final = "ledger_hours"

_INT: Final = pa.int64()
_TEXT: Final = pa.string()
_AMOUNT: Final = pa.decimal128(38, 0)
_NOBODY: Final = WorkloadKey("", "", "", "", "", "")

WORKLOAD: Final = tuple(
    f"workload_{name}" for name in ("cluster", "namespace", "group", "kind", "name", "uid")
)
ROW_SCHEMA: Final = pa.schema(
    [
        ("hour_ms", _INT),
        ("cluster", _TEXT),
        ("node", _TEXT),
        ("gpu", _TEXT),
        ("model", _TEXT),
        ("purchase", _TEXT),
        ("region", _TEXT),
        *((name, _TEXT) for name in WORKLOAD),
        ("attempt", _INT),
        ("namespace", _TEXT),
        ("run", _TEXT),
        ("experiment", _TEXT),
        ("team", _TEXT),
        ("cost_centre", _TEXT),
        ("queue", _TEXT),
        ("bucket", _TEXT),
        ("cause", _TEXT),
        ("since_ms", _INT),
        ("step", _INT),
        ("basis", _TEXT),
        ("gpu_ms", _INT),
        ("throttled_ms", _INT),
        ("quanta", _INT),
        ("currency", _TEXT),
        ("doubts", pa.list_(_TEXT)),
    ]
)
_BILL_SCHEMA: Final = pa.schema(
    [
        ("hour_ms", _INT),
        ("cluster", _TEXT),
        ("node", _TEXT),
        ("there_ms", _INT),
        ("gpu_ms", _INT),
        ("quanta", _INT),
        ("priced_ms", _INT),
        ("currency", _TEXT),
        ("components", pa.map_(_TEXT, _INT)),
        ("price", _TEXT),
    ]
)
_HOUR_SCHEMA: Final = pa.schema(
    [
        ("hour_ms", _INT),
        ("revision", _INT),
        ("upto_ms", _INT),
        ("computed_ms", _INT),
        ("row_count", _INT),
        ("gpu_ms", _INT),
        ("quanta", _AMOUNT),
        ("unpriced_ms", _INT),
        ("currency", _TEXT),
        ("changed_quanta", _AMOUNT),
        ("reason", _TEXT),
        ("prices", _TEXT),
        ("digest", _TEXT),
        ("warnings", _TEXT),
    ]
)
HOUR_COLUMNS: Final = ", ".join(_HOUR_SCHEMA.names)
BILL_COLUMNS: Final = ", ".join(_BILL_SCHEMA.names)


class _KeptWarning(NamedTuple):
    code: str
    text: str
    gpu_ms: int
    remedy: str | None = None  # hours of earlier versions have none


_WARNINGS: Final = msgspec.json.Decoder(tuple[_KeptWarning, ...])


class Named(NamedTuple):
    """Which rows of an hour count, and what they were made of."""

    written: int
    revision: int
    upto_ms: int
    prices: str
    digest: str
    warnings: int  # a hash of them, of this process

    @classmethod
    def of(cls, row: Row) -> Named:
        return cls(
            row["written"],
            row["revision"],
            row["upto_ms"],
            row["prices"],
            row["digest"],
            hash(row["warnings"]),
        )


NAMED_COLUMNS: Final = "written, revision, upto_ms, prices, digest, warnings"


def is_over(hour_ms: int, upto_ms: int) -> bool:
    return upto_ms >= hour_ms + HOUR_MS


def digest_of(hour: LedgerHour) -> str:
    """Of all that is in its rows and bills."""
    bills = [bill._replace(components=sorted(bill.components.items())) for bill in hour.bills]  # type: ignore[arg-type]
    try:
        told = msgspec.msgpack.encode((hour.rows, bills))
    except OverflowError as e:
        raise StoreError(f"an hour of the ledger cannot be kept: {e}") from e
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def warnings_text(hour: LedgerHour) -> str:
    told = [_KeptWarning(doubt.code, doubt.text, gpu_ms, doubt.remedy) for doubt, gpu_ms in hour.warnings]
    return msgspec.json.encode(told).decode()


def rows_table(rows: Sequence[LedgerRow]) -> pa.Table:
    if not rows:
        return ROW_SCHEMA.empty_table()
    # Not by zip(*rows): it would make an iterator of each row, and the garbage collector look at all of them.
    told = {name: [*map(itemgetter(at), rows)] for at, name in enumerate(LedgerRow._fields)}
    holders, places = distinct(told.pop("holder"))
    whose = dict(zip(Holder._fields, zip(*holders, strict=True), strict=True))
    keys = [key or _NOBODY for key in whose.pop("workload")]
    whose |= dict(zip(WORKLOAD, zip(*keys, strict=True), strict=True))
    with _kept_or_refused():
        columns = {name: arrow_array(column, ROW_SCHEMA.field(name).type) for name, column in told.items()}
        for name, column in whose.items():
            columns[name] = arrow_array(column, ROW_SCHEMA.field(name).type).take(places)
    return pa.table([columns[name] for name in ROW_SCHEMA.names], ROW_SCHEMA)


def bills_table(bills: Sequence[NodeBill]) -> pa.Table:
    if not bills:
        return _BILL_SCHEMA.empty_table()
    with _kept_or_refused():
        return arrow_table(_BILL_SCHEMA, bills)


def bills_of(found: pa.Table) -> list[NodeBill]:
    columns = [found[name].to_pylist() for name in NodeBill._fields]
    at = NodeBill._fields.index("components")
    columns[at] = [dict(components) for components in columns[at]]
    return [NodeBill(*row) for row in zip(*columns, strict=True)]


def hour_row(
    hour: LedgerHour, revision: int, computed_ms: int, changed: int, reason: str, digest: str
) -> Row:
    currencies = {row.currency for row in hour.rows if row.quanta is not None}
    return {
        "hour_ms": hour.hour_ms,
        "revision": revision,
        "upto_ms": hour.upto_ms,
        "computed_ms": computed_ms,
        "row_count": len(hour.rows),
        "gpu_ms": sum(row.gpu_ms for row in hour.rows),
        "quanta": sum(row.quanta or 0 for row in hour.rows),
        "unpriced_ms": sum(row.gpu_ms for row in hour.rows if row.quanta is None),
        "currency": "several" if len(currencies) > 1 else next(iter(currencies), ""),
        "changed_quanta": changed,
        "reason": reason,
        "prices": hour.prices,
        "digest": digest,
        "warnings": warnings_text(hour),
    }


def hour_table(row: Row, written: int, stale: list[int], version: int) -> pa.Table:
    amounts = {name: Decimal(row[name]) for name in ("quanta", "changed_quanta")}
    found = pa.Table.from_pylist([{**row, **amounts}], _HOUR_SCHEMA)
    found = found.append_column("written", pa.array([written], _INT))
    found = found.append_column("stale", pa.array([stale], pa.list_(_INT)))
    return found.append_column("version", pa.array([version], _INT))


def booked_of(row: Row) -> BookedHour:
    return BookedHour(
        row["hour_ms"],
        row["revision"],
        row["upto_ms"],
        row["computed_ms"],
        row["row_count"],
        row["gpu_ms"],
        int(row["quanta"]),
        row["unpriced_ms"],
        row["currency"],
        int(row["changed_quanta"]),
        row["reason"],
        row["prices"],
        row["digest"],
        tuple(
            Warned(Doubt(one.code, one.text, one.remedy), one.gpu_ms)
            for one in _WARNINGS.decode(row["warnings"])
        ),
    )


@contextmanager
def _kept_or_refused() -> Iterator[None]:
    try:
        yield
    except (OverflowError, pa.ArrowException) as e:
        raise StoreError(f"an hour of the ledger cannot be kept: {e}") from e
