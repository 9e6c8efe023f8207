"""Rows and bills of nodes: the time of each GPU, priced so that the rows of a node add up to its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.ledger.allocation.amounts import parts_of
from trilens.ledger.allocation.bills import bill_of
from trilens.ledger.allocation.booking_time import UNTOLD, Booked, book
from trilens.ledger.allocation.doubts import IN_WORDS
from trilens.ledger.allocation.times import both
from trilens.model.ledger import LedgerRow
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.ledger.allocation.bills import Stretch
    from trilens.ledger.allocation.booking_time import Hold
    from trilens.ledger.allocation.fleet import Device, Node
    from trilens.ledger.allocation.throttling import Throttling
    from trilens.model.gpu import GpuKey
    from trilens.model.ledger import Holder, NodeBill


class NodeRows:
    def __init__(
        self,
        hour_ms: int,
        holds: Mapping[str, Sequence[Hold]],
        holders: Sequence[Holder],
        throttling: Mapping[GpuKey, Throttling],
        warned: defaultdict[Doubt, int],
    ) -> None:
        self.rows: list[LedgerRow] = []
        self.bills: list[NodeBill] = []
        self._hour_ms = hour_ms
        self._holds = holds
        self._holders = holders
        self._throttling = throttling
        self._warned = warned
        self._codes: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}

    def book(self, node: Node, stretches: Sequence[Stretch]) -> None:
        rows: list[LedgerRow] = []
        for stretch in stretches:
            self._warn(stretch)
            rows += self._rows(node, stretch, [*self._booked(node, stretch)])
        is_split = len(stretches) > 1 or sum(not device.uuid for device in node.devices) > 1
        self.rows += self._together(rows) if is_split else rows
        self.bills.append(bill_of(self._hour_ms, node.cluster, node.name, stretches))

    def _booked(self, node: Node, stretch: Stretch) -> Iterator[tuple[Device, Booked]]:
        here = [(stretch.from_ms, stretch.to_ms)]
        for device in node.devices:
            booked = Booked()
            holds = self._holds.get(device.uuid, ()) if device.uuid else ()
            for begin, end in here if device.times == here else both(device.times, here):
                book(device, holds, begin, end, self._throttling, booked)
            yield device, booked

    def _warn(self, stretch: Stretch) -> None:
        gpu_ms = (stretch.to_ms - stretch.from_ms) * stretch.gpus
        told = {doubt.code: doubt for doubt in stretch.rate.doubts}
        for code in stretch.doubts:
            self._warned[told.get(code) or IN_WORDS[code]] += gpu_ms

    def _rows(
        self, node: Node, stretch: Stretch, booked: Sequence[tuple[Device, Booked]]
    ) -> Iterator[LedgerRow]:
        """By GPU, holder, bucket and cause; each has of the bill what the running sum of time gives it."""
        entries = [
            (device, own.throttled_ms, entry, ms)
            for device, own in booked
            for entry, ms in sorted(own.ms.items())
        ]
        quanta: Sequence[int | None] = [None] * len(entries)
        if stretch.quanta is not None:
            quanta = parts_of(stretch.quanta, [ms for *_, ms in entries])
        hour_ms, cluster, name, holders = self._hour_ms, node.cluster, node.name, self._holders
        purchase, region, currency = stretch.purchase, stretch.machine.region, stretch.currency
        for (device, throttled_ms, entry, ms), own_quanta in zip(entries, quanta, strict=True):
            holder, bucket, cause, since_ms, step, basis, codes = entry
            for code in codes:
                self._warned[IN_WORDS.get(code) or Doubt(code, code)] += ms
            yield LedgerRow(
                hour_ms,
                cluster,
                name,
                device.uuid,
                device.model,
                purchase,
                region,
                holders[holder],
                bucket,
                cause,
                None if since_ms == UNTOLD else since_ms,
                None if step == UNTOLD else step,
                basis,
                ms,
                throttled_ms.get(entry, 0),
                own_quanta,
                currency,
                self._all_codes(codes, stretch.doubts) if stretch.doubts else codes,
            )

    def _all_codes(self, of_entry: tuple[str, ...], of_stretch: tuple[str, ...]) -> tuple[str, ...]:
        known = self._codes.get((of_entry, of_stretch))
        if known is None:
            known = self._codes[of_entry, of_stretch] = tuple(sorted({*of_entry, *of_stretch}))
        return known

    def _together(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """The same of several stretches is one row; time with a price and time without one never are."""
        sums: dict[LedgerRow, tuple[int, int, int | None]] = {}
        for row in rows:
            key = row._replace(gpu_ms=0, throttled_ms=0, quanta=None if row.quanta is None else 0)
            ms, throttled_ms, quanta = sums.get(key, (0, 0, key.quanta))
            if quanta is not None and row.quanta is not None:
                quanta += row.quanta
            sums[key] = (ms + row.gpu_ms, throttled_ms + row.throttled_ms, quanta)
        places = {id(holder): place for place, holder in enumerate(self._holders)}
        keys = sorted(sums, key=lambda key: _row_order(key, places[id(key.holder)]))
        return [
            key._replace(gpu_ms=sums[key][0], throttled_ms=sums[key][1], quanta=sums[key][2]) for key in keys
        ]


def _row_order(row: LedgerRow, holder: int) -> tuple[object, ...]:
    return (
        not row.gpu,
        row.gpu,
        holder,
        row.bucket,
        row.cause,
        UNTOLD if row.since_ms is None else row.since_ms,
        UNTOLD if row.step is None else row.step,
        row.basis,
        row.doubts,
        row.model,
        row.purchase,
        row.region,
        row.currency,
    )
