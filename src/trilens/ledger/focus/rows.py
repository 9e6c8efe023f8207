"""Rows of the ledger as rows of FOCUS: one for each, and none for time that has no price.

A cost may not be missing in FOCUS, and zero would be a lie: unpriced time is left out, and told beside it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trilens.ledger.focus.amounts import Priced, decimals, gpu_hours, unit_prices
from trilens.ledger.focus.columns import (
    COLUMNS,
    COST_SCALE,
    FINE_SCALE,
    OTHER_PRICING,
    OWN,
    OWN_TIMES,
    PRICING,
    SCHEMA,
    SERVICE_CATEGORY,
    SERVICE_NAME,
    SERVICE_SUBCATEGORY,
    SIGNAL,
    UNIT,
    USAGE,
    USAGE_BASED,
    USEFUL,
)
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_sums import Dimension, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger import NodeBill
    from trilens.model.query import QueryGuard

_DAY_MS: Final = 24 * HOUR_MS
_ROWS_AT_ONCE: Final = 10_000  # 10 MB of CSV
_BETWEEN: Final = "\x1f"  # in no name
_MISSING: Final = "\x00"
_TAGS: Final = ("team", "cost_centre", "namespace", "queue", "experiment", "run", "workload_name")
_TAG_PREFIX: Final = "trilens/"  # of the tags that Trilens finds: FOCUS wants those of a provider marked


class Issuer(NamedTuple):
    """Who tells these costs, in the words of FOCUS: the platform that divides what its machines cost."""

    provider: str = "Trilens"
    account: str = "trilens"


def focus_batches(
    book: LedgerBook, window: Window, issuer: Issuer, *, guard: QueryGuard | None = None
) -> Iterator[pa.RecordBatch]:
    """By hour and node, some thousand rows at a time; bills are read by the day."""
    bills = _Bills(book, window, guard)
    for batch in book.rows(window, guard=guard):
        priced = batch.filter(pc.is_valid(batch.column("quanta")))
        for first in range(0, priced.num_rows, _ROWS_AT_ONCE):
            yield _focus(priced.slice(first, _ROWS_AT_ONCE), bills, issuer)


def unpriced_ms(book: LedgerBook, window: Window, *, guard: QueryGuard | None = None) -> int:
    """GPU time of the window that has no price, and so is not in the export."""
    return sum(one.unpriced_ms for one in book.sums((Dimension.CLUSTER,), window, guard=guard))


class _Bills:
    """What each node cost an hour for a GPU, a day of them at a time: rows come in the order of hours."""

    def __init__(self, book: LedgerBook, window: Window, guard: QueryGuard | None) -> None:
        self._book = book
        self._window = window
        self._guard = guard
        self._day_ms: int | None = None
        self._by_node: dict[tuple[int, str, str], Priced] = {}

    def priced(self, hour_ms: int, cluster: str, node: str) -> Priced:
        day_ms = hour_ms // _DAY_MS * _DAY_MS
        if day_ms != self._day_ms:
            from_ms = max(day_ms, self._window.from_ms)
            to_ms = min(day_ms + _DAY_MS, self._window.to_ms)
            found = self._book.bills(from_ms, to_ms, guard=self._guard)
            self._by_node = {(bill.hour_ms, bill.cluster, bill.node): _priced(bill) for bill in found}
            self._day_ms = day_ms
        return self._by_node.get((hour_ms, cluster, node), Priced("", None))


def _priced(bill: NodeBill) -> Priced:
    if bill.quanta is None or not bill.gpu_ms:
        return Priced(bill.price, None)
    return Priced(bill.price, Fraction(bill.quanta * HOUR_MS, bill.gpu_ms))


def _focus(batch: pa.RecordBatch, bills: _Bills, issuer: Issuer) -> pa.RecordBatch:
    told = {name: _plain(batch.column(name)) for name in batch.schema.names}
    size = batch.num_rows
    gpu_ms, quanta = _integers(told["gpu_ms"]), _integers(told["quanta"])
    # Where each row's node and hour is among the few of them.
    nodes, node_of = _distinct(told, ("hour_ms", "cluster", "node"))
    prices = [bills.priced(int(hour or 0), cluster or "", node or "") for hour, cluster, node in nodes]
    cost = decimals(quanta, COST_SCALE)
    quantity = decimals(gpu_hours(gpu_ms), FINE_SCALE)
    unit_price = decimals(unit_prices(prices, node_of, gpu_ms, quanta), FINE_SCALE)
    sku = _or(told["model"], "GPU")
    sku_price = pc.binary_join_element_wise(
        sku, pa.array([price.name or "none" for price in prices]).take(pa.array(node_of)), ":"
    )
    cluster, region = _or_null(told["cluster"]), _or_null(told["region"])
    counted = pc.equal(told["gpu"], "")
    useful, signal = _goodput(told, gpu_ms)

    def always(text: str | None) -> pa.Array:
        return pa.repeat(pa.scalar(text, pa.string()), size)

    columns: dict[str, pa.Array] = {
        "BilledCost": cost,
        "BillingAccountId": always(issuer.account),
        "BillingAccountName": always(issuer.account),
        "BillingAccountType": always("Showback"),
        "BillingCurrency": told["currency"],
        "BillingPeriodEnd": _times(told["hour_ms"], lambda hour_ms: _month(hour_ms)[1]),
        "BillingPeriodStart": _times(told["hour_ms"], lambda hour_ms: _month(hour_ms)[0]),
        "ChargeCategory": always(USAGE),
        "ChargeClass": always(None),
        "ChargeDescription": _texts(told, ("bucket", "cause", "workload_kind", "workload_name"), _described),
        "ChargeFrequency": always(USAGE_BASED),
        "ChargePeriodEnd": _times(told["hour_ms"], lambda hour_ms: hour_ms + HOUR_MS),
        "ChargePeriodStart": _times(told["hour_ms"], lambda hour_ms: hour_ms),
        "ConsumedQuantity": quantity,
        "ConsumedUnit": always(UNIT),
        "ContractedCost": cost,
        "ContractedUnitPrice": unit_price,
        "EffectiveCost": cost,
        "InvoiceIssuerName": always(issuer.provider),
        "ListCost": cost,
        "ListUnitPrice": unit_price,
        "PricingCategory": _texts(told, ("purchase",), lambda to: PRICING.get(to[0] or "", OTHER_PRICING)),
        "PricingQuantity": quantity,
        "PricingUnit": always(UNIT),
        "ProviderName": always(issuer.provider),
        "PublisherName": always(issuer.provider),
        "RegionId": region,
        "RegionName": region,
        "ResourceId": pc.if_else(counted, told["node"], told["gpu"]),
        "ResourceName": always(None),
        "ResourceType": pc.if_else(counted, "GPU Node", "GPU"),
        "ServiceCategory": always(SERVICE_CATEGORY),
        "ServiceName": always(SERVICE_NAME),
        "ServiceSubcategory": always(SERVICE_SUBCATEGORY),
        "SkuId": sku,
        "SkuMeter": always("GPU time"),
        "SkuPriceDetails": _texts(told, ("model",), _price_details),
        "SkuPriceId": sku_price,
        "SubAccountId": cluster,
        "SubAccountName": cluster,
        "SubAccountType": pc.if_else(pc.is_valid(cluster), "Cluster", pa.scalar(None, pa.string())),
        "Tags": _texts(told, _TAGS, _tags),
        **{own: _or_null(told[name]) for own, name in OWN.items()},
        **{own: told[name] for own, name in OWN_TIMES.items()},
        USEFUL: pa.array(useful),
        SIGNAL: pa.array(signal),
    }
    return pa.record_batch([columns[column.name] for column in COLUMNS], schema=SCHEMA)


def _goodput(told: Mapping[str, pa.Array], gpu_ms: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Goodput is the sum of the first over the sum of the second, over whatever rows."""
    basis = told["basis"].to_numpy(zero_copy_only=False)
    bucket = told["bucket"].to_numpy(zero_copy_only=False)
    signal = np.where(basis == Basis.NONE.value, 0, gpu_ms)
    return np.where(np.isin(bucket, [one.value for one in Bucket if one.is_useful]), signal, 0), signal


def _described(told: Sequence[str | None]) -> str:
    bucket, cause, kind, name = told
    whose = f" of {kind} {name}" if name else ""
    return f"GPU time{whose}: {bucket} ({cause})"


def _price_details(told: Sequence[str | None]) -> str:
    """Of one GPU-hour; what FOCUS does not define begins with x_."""
    details: dict[str, object] = {"GpuCount": 1}
    if told[0]:
        details["x_GpuModel"] = told[0]
    return json.dumps(details, ensure_ascii=False)


def _tags(told: Sequence[str | None]) -> str:
    known = {
        _TAG_PREFIX + name.removesuffix("_name"): value
        for name, value in zip(_TAGS, told, strict=True)
        if value
    }
    return json.dumps(known, ensure_ascii=False)


def _month(hour_ms: int) -> tuple[int, int]:
    at = datetime.fromtimestamp(hour_ms / 1000, UTC)
    first = datetime(at.year, at.month, 1, tzinfo=UTC)
    after = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return int(first.timestamp()) * 1000, int(after.timestamp()) * 1000


# Texts and times are the same for many rows: each is made once for those that differ.


def _distinct(
    told: Mapping[str, pa.Array], names: Sequence[str]
) -> tuple[list[list[str | None]], np.ndarray[Any, Any]]:
    """The combinations that there are, and which of them each row has."""
    parts = [pc.fill_null(pc.cast(told[name], pa.string()), _MISSING) for name in names]
    coded = pc.dictionary_encode(pc.binary_join_element_wise(*parts, _BETWEEN))
    combined = coded.dictionary.to_pylist()
    split = [[None if part == _MISSING else part for part in text.split(_BETWEEN)] for text in combined]
    return split, coded.indices.to_numpy()


def _texts(
    told: Mapping[str, pa.Array], names: Sequence[str], make: Callable[[Sequence[str | None]], str]
) -> pa.Array:
    combinations, which = _distinct(told, names)
    return pa.array([make(one) for one in combinations], pa.string()).take(pa.array(which))


def _times(hours: pa.Array, make: Callable[[int], int]) -> pa.Array:
    coded = pc.dictionary_encode(hours)
    made = [make(hour_ms) for hour_ms in coded.dictionary.to_pylist()]
    return pa.array(made, pa.timestamp("ms", "UTC")).take(coded.indices)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _integers(column: pa.Array) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _or(column: pa.Array, otherwise: str) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), otherwise, column)


def _or_null(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
