"""Whether the books add up: rows against bills, to the last quantum and millisecond."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.ledger import HOUR_MS, as_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.ledger import LedgerRow, NodeBill


class Mismatch(NamedTuple):
    """Something that must hold and does not. `text` says what, with both numbers."""

    hour_ms: int
    cluster: str
    node: str
    code: str  # short and stable: gpu-time, quanta, components, gpu-too-long, negative, no-bill
    text: str


class NodeSum(NamedTuple):
    """What the rows of a node and hour come to; a store may add them up itself."""

    hour_ms: int
    cluster: str
    node: str
    gpu_ms: int
    unpriced_ms: int
    quanta: int
    currencies: frozenset[str]  # of the rows that have a price
    longest_gpu_ms: int  # of the GPU that has most; those without a UUID are not looked at
    least: int  # the smallest of all their times and amounts
    throttled_ms: int
    throttled_too_long: int  # rows that were throttled for longer than they lasted


_Place = tuple[int, str, str]


def verify(bills: Iterable[NodeBill], rows: Iterable[LedgerRow]) -> list[Mismatch]:
    """For every node and hour of these; in their order. Empty when all of it adds up."""
    return verify_sums(bills, sums_of(rows))


def verify_sums(bills: Iterable[NodeBill], sums: Iterable[NodeSum]) -> list[Mismatch]:
    found: list[Mismatch] = []
    by_place: dict[_Place, NodeSum] = {one[:3]: one for one in sums}
    seen: set[_Place] = set()
    for bill in bills:
        place = bill[:3]
        if place in seen:
            found.append(Mismatch(*place, "two-bills", "there are two bills for one node and hour"))
            continue
        seen.add(place)
        told = by_place.get(place) or NodeSum(*place, 0, 0, 0, frozenset(), 0, 0, 0, 0)
        found += [Mismatch(*place, code, text) for code, text in _differences(bill, told)]
    for place in by_place.keys() - seen:
        found.append(Mismatch(*place, "no-bill", "there are rows, but no bill"))
    return sorted(found)


def sums_of(rows: Iterable[LedgerRow]) -> list[NodeSum]:
    by_place: defaultdict[_Place, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        by_place[row[:3]].append(row)
    return [_sum(place, own) for place, own in by_place.items()]


def _sum(place: _Place, rows: list[LedgerRow]) -> NodeSum:
    of_gpu: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        if row.gpu:
            of_gpu[row.gpu] += row.gpu_ms
    return NodeSum(
        *place,
        gpu_ms=sum(row.gpu_ms for row in rows),
        unpriced_ms=sum(row.gpu_ms for row in rows if row.quanta is None),
        quanta=sum(row.quanta for row in rows if row.quanta is not None),
        currencies=frozenset(row.currency for row in rows if row.quanta is not None),
        longest_gpu_ms=max(of_gpu.values(), default=0),
        least=min(min(row.gpu_ms, row.throttled_ms, row.quanta or 0) for row in rows),
        throttled_ms=sum(row.throttled_ms for row in rows),
        throttled_too_long=sum(row.throttled_ms > max(row.gpu_ms, 0) for row in rows),
    )


def _differences(bill: NodeBill, told: NodeSum) -> Iterator[tuple[str, str]]:
    if told.gpu_ms != bill.gpu_ms:
        yield "gpu-time", f"the rows have {told.gpu_ms} GPU-milliseconds, the bill {bill.gpu_ms}"
    parts = sum(bill.components.values())
    billed = parts if bill.quanta is None else bill.quanta
    if told.quanta != billed:
        yield "quanta", f"the rows come to {as_amount(told.quanta)}, the bill to {as_amount(billed)}"
    if parts != billed:
        yield "components", f"its components come to {as_amount(parts)}, the bill to {as_amount(billed)}"
    if bill.quanta is not None and told.unpriced_ms:
        yield "unpriced", f"the bill has a price for all of it, and rows of {told.unpriced_ms} ms have none"
    if bill.quanta is None and not told.unpriced_ms and told.gpu_ms:
        yield "unpriced", "the bill lacks a price for a part of it, and all rows have one"
    if told.currencies - {bill.currency}:
        names = ", ".join(sorted(told.currencies))
        yield "currency", f"the rows are in {names}, the bill in {bill.currency or 'none'}"
    if told.longest_gpu_ms > bill.there_ms:
        yield "gpu-too-long", f"a GPU has {told.longest_gpu_ms} ms of the {bill.there_ms} ms of its node"
    if not 0 <= bill.priced_ms <= bill.there_ms <= HOUR_MS:
        yield "hour", f"priced for {bill.priced_ms} ms of {bill.there_ms} ms, in an hour of {HOUR_MS} ms"
    if told.least < 0 or billed < 0 or bill.gpu_ms < 0:
        yield "negative", "a time or an amount is negative"
    if told.throttled_too_long:
        yield "throttled", f"{told.throttled_too_long} rows were throttled for longer than they lasted"
