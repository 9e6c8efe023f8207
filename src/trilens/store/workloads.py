"""Workloads, who was in them when, and what they were at: kept, and read back for any moment."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from trilens.model.life import MembershipInterval, PhaseInterval
from trilens.model.workload import Workload, WorkloadKey
from trilens.store import sql
from trilens.store.owners import Owners
from trilens.store.remembered_reads import RememberedReads, hours_around
from trilens.store.workload_memory import WorkloadMemory
from trilens.store.workload_rows import (
    KEY_IN,
    MEMBERSHIPS,
    OWNERS,
    PHASES,
    WORKLOADS,
    membership_of,
    membership_row,
    phase_of,
    phase_row,
    workload_of,
    workload_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter
    from trilens.store.workload_rows import Table

_Interval = TypeVar("_Interval", MembershipInterval, PhaseInterval)

_EVER_MS = 1 << 62
_BY_BEGINNING = "from_ms, pod"


@dataclass(frozen=True, slots=True)
class Span:
    """From `start_ms` to `end_ms`, both included. What ends later than that counts as lasting."""

    start_ms: int
    end_ms: int


@dataclass(slots=True)
class WorkloadHistory:
    """A workload in a span of time: memberships and phases in the order of their beginning."""

    record: Workload
    members: list[MembershipInterval] = field(default_factory=list)
    phases: list[PhaseInterval] = field(default_factory=list)


class WorkloadRecords:
    """Thread-safe. What is told can be read a moment later, and survives the process once it was written."""

    def __init__(self, engine: Engine, writer: RecordWriter, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._writer = writer
        self._owners = Owners(engine, writer)
        self._memory = WorkloadMemory(lambda: writer.written)
        self._remembered = reads or RememberedReads(engine)

    @property
    def trouble(self) -> str | None:
        """Why what was told last cannot be read yet."""
        return self._writer.trouble

    def workload(self, record: Workload, at_ms: int | None = None) -> None:
        """`at_ms` is since when it is so: None is since now."""
        self._memory.told(record.key, self._writer.put(WORKLOADS, workload_row(record)))
        self._owners.told(record, time.time_ns() // 1_000_000 if at_ms is None else at_ms)

    def membership(self, interval: MembershipInterval) -> None:
        version = self._writer.put(MEMBERSHIPS, membership_row(interval))
        self._memory.told(interval.membership.workload, version)

    def phase(self, interval: PhaseInterval) -> None:
        self._memory.told(interval.workload, self._writer.put(PHASES, phase_row(interval)))

    def during(
        self,
        span: Span,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]:
        """The workloads that were there in the span, with what they were in it."""
        named = _equal(cluster=cluster, namespace=namespace, name=name)
        overlaps = [f"from_ms <= {span.end_ms}", f"(to_ms IS NULL OR to_ms > {span.start_ms})"]
        in_cluster = _equal(cluster=cluster, workload_namespace=namespace, workload_name=name)
        members = self._memberships([*in_cluster, *overlaps], span, guard)
        phases = self._phases([*named, *overlaps], span, guard)
        keys = {member.membership.workload for member in members} | {phase.workload for phase in phases}
        return self._put_together(keys, members, phases, guard)

    def named(
        self,
        name: str,
        *,
        cluster: str,
        namespace: str,
        kind: str,
        until_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]:
        """All that had this name before `until_ms`, with everything until then. They are others' too, and
        not to be changed."""

        def read() -> list[WorkloadHistory]:
            named = _equal(cluster=cluster, namespace=namespace, kind=kind, name=name)
            records = self._records(named, guard)
            return self._whole([*records], _EVER_MS, guard, records)

        found = self._memory.named((cluster, namespace, name), kind, read)
        as_of = (_history_as_of(history, until_ms) for history in found)
        return [history for history in as_of if history.members or history.phases]

    def whole(self, key: WorkloadKey, until_ms: int, guard: QueryGuard | None = None) -> WorkloadHistory:
        """All of one until then. Of who is in it may be told a moment before what it is."""
        found = self._whole([key], until_ms, guard)
        return found[0] if found else WorkloadHistory(Workload(key))

    def called(
        self, names: Collection[tuple[str, str, str]], guard: QueryGuard | None = None
    ) -> list[Workload]:
        """All that ever had one of these names, each (namespace, kind, name), in every cluster."""
        if not names:
            return []
        among = f"(namespace, kind, name) IN ({', '.join(map(sql.text_list, sorted(names)))})"
        return self._remembered.of(WORKLOADS.name, WORKLOADS.selected([among], "name"), workload_of, guard)

    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: QueryGuard | None = None
    ) -> list[MembershipInterval]:
        """What these pods, each (namespace, name, uid), were in during the span. A uid is enough; without
        one the name counts, in every cluster."""
        uids = sorted({uid for _, _, uid in pods if uid})
        names = sorted({(namespace, name) for namespace, name, uid in pods if not uid and name})
        among = [f"pod_uid IN {sql.text_list(uids)}"] if uids else []
        if names:
            among.append(f"(namespace, pod) IN ({', '.join(map(sql.text_list, names))})")
        if not among:
            return []
        first_ms, last_ms = hours_around(span.start_ms, span.end_ms)
        overlaps = [f"from_ms <= {last_ms}", f"(to_ms IS NULL OR to_ms >= {first_ms})"]
        statement = MEMBERSHIPS.selected([f"({' OR '.join(among)})", *overlaps], _BY_BEGINNING)
        around = self._remembered.of(MEMBERSHIPS.name, statement, membership_of, guard)
        return [
            _as_of(one, span.end_ms)
            for one in around
            if one.from_ms <= span.end_ms and (one.to_ms is None or one.to_ms >= span.start_ms)
        ]

    def members_at(self, at_ms: int, guard: QueryGuard | None = None) -> list[MembershipInterval]:
        """The pods that were in a workload then."""
        lasting = [f"from_ms <= {at_ms}", f"(to_ms IS NULL OR to_ms > {at_ms})"]
        return self._memberships(lasting, Span(at_ms, at_ms), guard)

    def owned(self, guard: QueryGuard | None = None) -> set[tuple[str, str | None]]:
        """The cluster and the team of every workload that is kept, now or before."""
        statement = f"SELECT DISTINCT cluster, team FROM {OWNERS.name} FINAL"
        rows = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return {(row["cluster"], row["team"]) for row in rows}

    def unfinished(self, cluster: str) -> list[WorkloadHistory]:
        """The workloads of which something lasts, from their beginning, for a resolver to go on from."""
        open_ones = [*_equal(cluster=cluster), "to_ms IS NULL"]
        span = Span(_EVER_MS, _EVER_MS)
        keys = {interval.membership.workload for interval in self._memberships(open_ones, span, None)}
        keys |= {interval.workload for interval in self._phases(open_ones, span, None)}
        return self._whole(keys, _EVER_MS, None)

    def _whole(
        self,
        keys: Collection[WorkloadKey],
        until_ms: int,
        guard: QueryGuard | None,
        records: Mapping[WorkloadKey, Workload] | None = None,
    ) -> list[WorkloadHistory]:
        if not keys:
            return []
        span = Span(0, until_ms)
        begun = f"from_ms <= {until_ms}"
        members = self._memberships([_among(MEMBERSHIPS, keys), begun], span, guard)
        phases = self._phases([_among(PHASES, keys), begun], span, guard)
        return self._put_together(keys, members, phases, guard, records)

    def _put_together(
        self,
        keys: Collection[WorkloadKey],
        members: Iterable[MembershipInterval],
        phases: Iterable[PhaseInterval],
        guard: QueryGuard | None,
        records: Mapping[WorkloadKey, Workload] | None = None,
    ) -> list[WorkloadHistory]:
        if not keys:
            return []
        if records is None:
            records = self._records([_among(WORKLOADS, keys)], guard)
        found = {key: WorkloadHistory(records.get(key) or Workload(key)) for key in sorted(keys)}
        for member in members:
            found[member.membership.workload].members.append(member)
        for phase in phases:
            found[phase.workload].phases.append(phase)
        return [history for history in found.values() if history.members or history.phases]

    def _records(self, terms: list[str], guard: QueryGuard | None) -> dict[WorkloadKey, Workload]:
        return {
            record.key: record for record in map(workload_of, self._rows(WORKLOADS, terms, "name", guard))
        }

    def _memberships(
        self, terms: list[str], span: Span, guard: QueryGuard | None
    ) -> list[MembershipInterval]:
        rows = self._rows(MEMBERSHIPS, terms, _BY_BEGINNING, guard)
        return [_as_of(membership_of(row), span.end_ms) for row in rows]

    def _phases(self, terms: list[str], span: Span, guard: QueryGuard | None) -> list[PhaseInterval]:
        # Of two that begin together the one that ended at once was the first.
        rows = self._rows(PHASES, terms, "from_ms, to_ms IS NULL, to_ms, version", guard)
        return [_as_of(phase_of(row), span.end_ms) for row in rows]

    def _rows(
        self, table: Table, terms: list[str], order: str, guard: QueryGuard | None
    ) -> list[dict[str, Any]]:
        statement = table.selected(terms, order)
        rows: list[dict[str, Any]] = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return rows


def _history_as_of(history: WorkloadHistory, at_ms: int) -> WorkloadHistory:
    """Itself, where all of it was over or had begun by then."""
    spans: list[MembershipInterval | PhaseInterval] = [*history.members, *history.phases]
    if all((one.to_ms if one.to_ms is not None else one.from_ms) <= at_ms for one in spans):
        return history
    return WorkloadHistory(
        history.record,
        [_as_of(one, at_ms) for one in history.members if one.from_ms <= at_ms],
        [_as_of(one, at_ms) for one in history.phases if one.from_ms <= at_ms],
    )


def _as_of(interval: _Interval, at_ms: int) -> _Interval:
    """As it looked then: an end that was still to come is not known."""
    if interval.to_ms is not None and interval.to_ms > at_ms:
        return replace(interval, to_ms=None)
    return interval


def _equal(**wanted: str | None) -> list[str]:
    return [f"{column} = {sql.text(value)}" for column, value in wanted.items() if value is not None]


def _among(table: Table, keys: Iterable[WorkloadKey]) -> str:
    return f"{KEY_IN[table.name]} IN ({', '.join(sql.text_list(key) for key in sorted(keys))})"
