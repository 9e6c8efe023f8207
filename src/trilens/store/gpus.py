"""Which GPUs there were, and who held them: kept, and read back for any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.model.gpu import BindingInterval, GpuInterval, GpuKey
from trilens.store import sql
from trilens.store.gpu_rows import GPU_BINDINGS, GPUS, binding_of, binding_row, gpu_of, gpu_row
from trilens.store.remembered_reads import RememberedReads, hours_around

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilens.model.query import QueryGuard
    from trilens.model.workload import PodKey
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter
    from trilens.store.workload_rows import Table

_LISTED: Final = 1_000  # texts in one statement

_LATEST_LAST: Final = "from_ms, to_ms IS NULL, to_ms"  # of two that begin together one ended at once

_Interval = TypeVar("_Interval", GpuInterval, BindingInterval)


class GpuRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._remembered = reads or RememberedReads(engine)

    def gpu(self, interval: GpuInterval) -> None:
        self._writer.put(GPUS, gpu_row(interval))

    def binding(self, interval: BindingInterval) -> None:
        self._writer.put(GPU_BINDINGS, binding_row(interval))

    def gpus_at(
        self,
        at_ms: int,
        *,
        cluster: str | None = None,
        node: str | None = None,
        guard: QueryGuard | None = None,
    ) -> list[GpuInterval]:
        """Those that reported then. An end that was still to come is not known."""
        terms = [*_lasting(at_ms), *_equal(cluster=cluster, node=node)]
        rows = self._rows(GPUS, terms, "cluster, node, uuid, instance", guard)
        return [_as_of(gpu_of(row), at_ms) for row in rows]

    def bindings_at(
        self, at_ms: int, *, cluster: str | None = None, guard: QueryGuard | None = None
    ) -> list[BindingInterval]:
        terms = [*_lasting(at_ms), *_equal(cluster=cluster)]
        rows = self._rows(GPU_BINDINGS, terms, "uuid, instance, from_ms, pod, container", guard)
        return [_as_of(binding_of(row), at_ms) for row in rows]

    def bindings_of(
        self,
        pods: Collection[PodKey],
        until_ms: int,
        guard: QueryGuard | None = None,
        *,
        only_ended: bool = False,
    ) -> list[BindingInterval]:
        """All that these pods held until then, in the order of its beginning."""
        wanted = {pod.uid for pod in pods}
        terms = [f"from_ms <= {until_ms}", *_among("pod_uid", wanted)]
        if only_ended:
            terms.append(f"to_ms <= {until_ms}")
        terms += _among("namespace", {pod.namespace for pod in pods})
        rows = (
            self._rows(GPU_BINDINGS, terms, "from_ms, pod, container, uuid, instance", guard) if pods else []
        )
        return [_as_of(binding_of(row), until_ms) for row in rows if row["pod_uid"] in wanted]

    def bindings_on(
        self, uuid: str, from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> list[BindingInterval]:
        """Who held this GPU, or a part of it, in the span, in the order of its beginning."""
        first_ms, last_ms = hours_around(from_ms, to_ms)
        terms = [
            f"uuid = {sql.text(uuid)}",
            f"from_ms <= {last_ms}",
            f"(to_ms IS NULL OR to_ms > {first_ms})",
        ]
        statement = GPU_BINDINGS.selected(terms, "from_ms, pod, container, instance")
        around = self._remembered.of(GPU_BINDINGS.name, statement, binding_of, guard)
        return [
            _as_of(one, to_ms)
            for one in around
            if one.from_ms <= to_ms and (one.to_ms is None or one.to_ms > from_ms)
        ]

    def gpus_named(
        self, uuids: Collection[str], until_ms: int, guard: QueryGuard | None = None
    ) -> list[GpuInterval]:
        """What was known of these GPUs until then, the latest last."""
        if not uuids:
            return []
        _, last_ms = hours_around(until_ms, until_ms)
        statement = GPUS.selected([f"from_ms <= {last_ms}", *_among("uuid", uuids)], _LATEST_LAST)
        return [
            _as_of(one, until_ms)
            for one in self._remembered.of(GPUS.name, statement, gpu_of, guard)
            if one.from_ms <= until_ms and one.gpu.key.uuid in uuids
        ]

    def gpus_on(
        self, nodes: Collection[str], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> list[GpuInterval]:
        """Those that nodes of these names had in the span, the latest last."""
        if not nodes:
            return []
        first_ms, last_ms = hours_around(from_ms, to_ms)
        terms = [f"from_ms <= {last_ms}", f"(to_ms IS NULL OR to_ms > {first_ms})", *_among("node", nodes)]
        statement = GPUS.selected(terms, _LATEST_LAST)
        return [
            _as_of(one, to_ms)
            for one in self._remembered.of(GPUS.name, statement, gpu_of, guard)
            if one.from_ms <= to_ms and (one.to_ms is None or one.to_ms > from_ms) and one.gpu.node in nodes
        ]

    def unfinished(self) -> list[BindingInterval]:
        """The bindings that last."""
        return [binding_of(row) for row in self._rows(GPU_BINDINGS, ["to_ms IS NULL"], "from_ms", None)]

    def freed(self, since_ms: int) -> dict[GpuKey, int]:
        """When the last binding of each GPU that ended after `since_ms` did."""
        statement = (
            f"SELECT uuid, instance, max(to_ms) AS freed_ms FROM {GPU_BINDINGS.name} FINAL "
            f"WHERE to_ms > {since_ms} GROUP BY uuid, instance"
        )
        rows = self._engine.query_arrow(statement).to_pylist()
        return {GpuKey(row["uuid"], row["instance"]): row["freed_ms"] for row in rows}

    def last_of_each(self, since_ms: int) -> list[GpuInterval]:
        """The latest interval of each GPU that reported after `since_ms`, or does."""
        rows = self._rows(GPUS, [f"(to_ms IS NULL OR to_ms > {since_ms})"], _LATEST_LAST, None)
        return list({interval.gpu.key: interval for interval in map(gpu_of, rows)}.values())

    def _rows(
        self, table: Table, terms: list[str], order: str, guard: QueryGuard | None
    ) -> list[dict[str, Any]]:
        statement = table.selected(terms, order)
        rows: list[dict[str, Any]] = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return rows


def _lasting(at_ms: int) -> list[str]:
    return [f"from_ms <= {at_ms}", f"(to_ms IS NULL OR to_ms > {at_ms})"]


def _as_of(interval: _Interval, at_ms: int) -> _Interval:
    """As it looked then."""
    if interval.to_ms is not None and interval.to_ms > at_ms:
        return interval._replace(to_ms=None)
    return interval


def _among(column: str, values: Collection[str]) -> list[str]:
    """Left out where it would make a statement longer than the engine reads: who asks looks again."""
    return [f"{column} IN {sql.text_list(sorted(values))}"] if len(values) <= _LISTED else []


def _equal(**wanted: str | None) -> list[str]:
    return [f"{column} = {sql.text(value)}" for column, value in wanted.items() if value is not None]
