"""A LedgerBook in memory: questions are answered by going through all rows. Exports need the real store."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from trilens.ledger.answers.sharing import is_named
from trilens.model.ledger import HOUR_MS, Basis, LedgerHour, LedgerRow, NodeBill
from trilens.model.ledger_sums import BookedHour, Dimension, Episode, Sum, Window
from trilens.model.workload import WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.model.query import QueryGuard

DAY_MS = 24 * HOUR_MS
_VALUES: dict[Dimension, Callable[[LedgerRow], Any]] = {
    Dimension.TEAM: lambda row: row.holder.team,
    Dimension.COST_CENTRE: lambda row: row.holder.cost_centre,
    Dimension.NAMESPACE: lambda row: row.holder.namespace,
    Dimension.QUEUE: lambda row: row.holder.queue,
    Dimension.EXPERIMENT: lambda row: row.holder.experiment,
    Dimension.WORKLOAD: lambda row: row.holder.workload,
    Dimension.RUN: lambda row: row.holder.run,
    Dimension.CLUSTER: lambda row: row.cluster,
    Dimension.NODE: lambda row: row.node,
    Dimension.GPU: lambda row: row.gpu,
    Dimension.GPU_MODEL: lambda row: row.model,
    Dimension.PURCHASE: lambda row: row.purchase,
    Dimension.REGION: lambda row: row.region,
    Dimension.BUCKET: lambda row: row.bucket.value,
    Dimension.CAUSE: lambda row: row.cause,
    Dimension.BASIS: lambda row: row.basis.value,
    Dimension.HOUR: lambda row: row.hour_ms,
    Dimension.DAY: lambda row: row.hour_ms // DAY_MS * DAY_MS,
}


class MemoryBook:
    def __init__(self, *hours: LedgerHour) -> None:
        self._hours: dict[int, LedgerHour] = {}
        self._booked: list[BookedHour] = []
        for hour in hours:
            self.write(hour)

    def write(self, hour: LedgerHour, *, reason: str = "closed") -> int | None:
        revision = sum(one.hour_ms == hour.hour_ms for one in self._booked)
        self._hours[hour.hour_ms] = hour
        self._booked.append(
            BookedHour(
                hour.hour_ms,
                revision,
                hour.upto_ms,
                hour.upto_ms,
                len(hour.rows),
                sum(row.gpu_ms for row in hour.rows),
                sum(row.quanta or 0 for row in hour.rows),
                sum(row.gpu_ms for row in hour.rows if row.quanta is None),
                "USD",
                0,
                reason,
                hour.prices,
                "",
                hour.warnings,
            )
        )
        return revision

    def hours(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[BookedHour]:
        return sorted(one for one in self._booked if from_ms <= one.hour_ms < to_ms)

    def incomplete(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Sequence[int]:
        return []

    def sums(
        self, by: Sequence[Dimension], window: Window, *, guard: QueryGuard | None = None
    ) -> Sequence[Sum]:
        found: defaultdict[tuple[Any, str], list[int]] = defaultdict(lambda: [0] * 6)
        for row in self._rows(window):
            keys = tuple(_VALUES[one](row) for one in by)
            told = row.basis is not Basis.NONE
            useful = told and row.bucket.is_useful
            priced = row.quanta is not None
            sums = found[keys, row.currency]
            for at, more in enumerate(
                (
                    row.gpu_ms,
                    row.throttled_ms,
                    row.gpu_ms if useful else 0,
                    row.gpu_ms if told else 0,
                    row.quanta or 0,
                    0 if priced else row.gpu_ms,
                )
            ):
                sums[at] += more
        return sorted(
            (Sum(keys, *sums, currency) for (keys, currency), sums in found.items()),
            key=lambda one: -one.quanta,
        )

    def episodes(
        self, window: Window, *, limit: int = 100, guard: QueryGuard | None = None
    ) -> Sequence[Episode]:
        grouped: defaultdict[Any, list[LedgerRow]] = defaultdict(list)
        for row in self._rows(window):
            alone = row.node if row.holder.workload is None else ""
            key = (
                row.bucket,
                row.cause,
                row.holder.workload,
                row.holder.run,
                row.since_ms,
                row.currency,
                alone,
            )
            grouped[key].append(row)
        found = [
            Episode(
                bucket,
                cause,
                workload,
                run,
                rows[0].holder.team,
                rows[0].cluster,
                rows[0].node if len({row.node for row in rows}) == 1 else None,
                since_ms,
                min(row.hour_ms for row in rows),
                max(row.hour_ms for row in rows),
                rows[0].step,
                _gpus(rows),
                sum(row.gpu_ms for row in rows),
                sum(row.quanta or 0 for row in rows),
                sum(row.gpu_ms for row in rows if row.quanta is None),
                currency,
            )
            for (bucket, cause, workload, run, since_ms, currency, _), rows in grouped.items()
        ]
        return sorted(found, key=lambda one: (-one.quanta, -one.gpu_ms))[:limit]

    def write_all(self, hours: Sequence[LedgerHour], *, reason: str = "closed") -> list[int | None]:
        return [self.write(hour, reason=reason) for hour in hours]

    def bills(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[NodeBill]:
        return [
            bill
            for hour_ms, hour in sorted(self._hours.items())
            if from_ms <= hour_ms < to_ms
            for bill in hour.bills
        ]

    def bill_parts(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> dict[tuple[str, str], dict[str, int]]:
        found: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for hour_ms, hour in self._hours.items():
            if from_ms <= hour_ms < to_ms:
                for bill in hour.bills:
                    for part, quanta in bill.components.items():
                        found[bill.cluster, bill.node][part] += quanta
        return {node: dict(parts) for node, parts in found.items()}

    def billed_hours(
        self, cluster: str, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> set[int]:
        """Those with rows: tests write bills only where these matter."""
        return {row.hour_ms for row in self._rows(Window(from_ms, to_ms)) if row.cluster == cluster}

    def _rows(self, window: Window) -> list[LedgerRow]:
        return [
            row
            for hour_ms, hour in sorted(self._hours.items())
            if window.from_ms <= hour_ms < window.to_ms
            for row in hour.rows
            if all(_is_among(_VALUES[name](row), kept) for name, kept in window.where.items())
        ]


def _is_among(value: Any, kept: tuple[str | None, ...]) -> bool:
    if isinstance(value, WorkloadKey):
        return any(one is not None and is_named(value, one) for one in kept)
    return value in kept


def _gpus(rows: Sequence[LedgerRow]) -> int:
    hours = [row.hour_ms for row in rows]
    at_least = -(-sum(row.gpu_ms for row in rows) // (max(hours) - min(hours) + HOUR_MS))
    return max(len({(row.node, row.gpu) for row in rows if row.gpu}), at_least)
