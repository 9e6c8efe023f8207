"""Workloads, memberships and phases as rows of their tables, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from trilens.model.ledger_facts import Owner
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Doubt, Membership, PodKey, Step, Workload, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]

_KEY: Final = ("cluster", "namespace", "api_group", "kind", "name", "uid")
_DOUBTS: Final = msgspec.json.Decoder(tuple[Doubt, ...])
_STEPS: Final = msgspec.json.Decoder(tuple[Step, ...])
_WHOLE: Final = frozenset(
    {"created_ms", "from_ms", "to_ms", "attempt", "member_group", "node_rank", "version"}
    | {"rank", "local_rank"}
    | {"t_ms", "code", "gpu", "pid", "process_rank", "number"}
    | {"step"}
    | {"gpu_count", "cpu_milli", "memory_bytes", "storage_bytes"}
    | {"submit_ms", "start_ms", "end_ms", "ms", "has_team"}
    | {"detected_ms", "onset_ms", "seen_ms"}
)


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]  # of two rows with the same, the newer one counts
    others: tuple[str, ...]
    over: str | None = "to_ms"  # when what a row tells of was over, NULL while it lasts; None: no column says

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.key, *self.others)

    @property
    def schema(self) -> pa.Schema:
        fields = [(name, pa.int64() if name in _WHOLE else pa.string()) for name in self.columns]
        return pa.schema([*fields, ("version", pa.int64())])

    def selected(self, terms: Sequence[str], order: str) -> str:
        """The statement that reads the rows of which all these are true."""
        where = " AND ".join(terms) or "1"
        return f"SELECT {', '.join(self.columns)} FROM {self.name} FINAL WHERE {where} ORDER BY {order}"


WORKLOADS: Final = Table(
    "workloads",
    _KEY,
    ("created_ms", "attempt", "team", "cost_centre", "experiment", "queue", "steps", "doubts"),
    over=None,
)
MEMBERSHIPS: Final = Table(
    "memberships",
    ("cluster", "namespace", "pod", "pod_uid", "from_ms"),
    (
        "to_ms",
        "workload_namespace",
        "workload_group",
        "workload_kind",
        "workload_name",
        "workload_uid",
        "attempt",
        "role",
        "member_group",
        "node_rank",
        "node",
        "doubts",
    ),
)
PHASES: Final = Table("phases", (*_KEY, "from_ms", "attempt", "phase"), ("to_ms", "reason"))
OWNERS: Final = Table(
    "workload_owners", (*_KEY, "from_ms"), ("team", "cost_centre", "experiment", "queue"), over=None
)

# How a workload's key is called in each table.
KEY_IN: Final = {
    WORKLOADS.name: "(cluster, namespace, api_group, kind, name, uid)",
    PHASES.name: "(cluster, namespace, api_group, kind, name, uid)",
    OWNERS.name: "(cluster, namespace, api_group, kind, name, uid)",
    MEMBERSHIPS.name: (
        "(cluster, workload_namespace, workload_group, workload_kind, workload_name, workload_uid)"
    ),
}

TABLES: Final = (WORKLOADS, MEMBERSHIPS, PHASES, OWNERS)


def workload_row(record: Workload) -> Row:
    return {
        **dict(zip(_KEY, record.key, strict=True)),
        "created_ms": record.created_ms,
        "attempt": record.attempt,
        "team": record.team,
        "cost_centre": record.cost_centre,
        "experiment": record.experiment,
        "queue": record.queue,
        "steps": _json(record.steps),
        "doubts": _json(record.doubts),
    }


def workload_of(row: Row) -> Workload:
    return Workload(
        workload_key(row),
        row["created_ms"],
        row["attempt"],
        row["team"],
        row["cost_centre"],
        row["experiment"],
        row["queue"],
        _STEPS.decode(row["steps"]),
        _DOUBTS.decode(row["doubts"]),
    )


def owner_row(key: WorkloadKey, owner: Owner) -> Row:
    return {**dict(zip(_KEY, key, strict=True)), **owner._asdict()}


def owner_of(row: Row) -> Owner:
    return Owner(row["from_ms"], row["team"], row["cost_centre"], row["experiment"], row["queue"])


def membership_row(interval: MembershipInterval) -> Row:
    member = interval.membership
    return {
        "cluster": member.pod.cluster,
        "namespace": member.pod.namespace,
        "pod": member.pod.name,
        "pod_uid": member.pod.uid,
        "from_ms": interval.from_ms,
        "to_ms": interval.to_ms,
        "workload_namespace": member.workload.namespace,
        "workload_group": member.workload.group,
        "workload_kind": member.workload.kind,
        "workload_name": member.workload.name,
        "workload_uid": member.workload.uid,
        "attempt": member.attempt,
        "role": member.role,
        "member_group": member.group,
        "node_rank": member.node_rank,
        "node": interval.node,
        "doubts": _json(member.doubts),
    }


def membership_of(row: Row) -> MembershipInterval:
    workload = WorkloadKey(
        row["cluster"],
        row["workload_namespace"],
        row["workload_group"],
        row["workload_kind"],
        row["workload_name"],
        row["workload_uid"],
    )
    member = Membership(
        PodKey(row["cluster"], row["namespace"], row["pod"], row["pod_uid"]),
        workload,
        row["attempt"],
        row["role"],
        row["member_group"],
        row["node_rank"],
        _DOUBTS.decode(row["doubts"]),
    )
    return MembershipInterval(member, row["node"], row["from_ms"], row["to_ms"])


def phase_row(interval: PhaseInterval) -> Row:
    return {
        **dict(zip(_KEY, interval.workload, strict=True)),
        "from_ms": interval.from_ms,
        "attempt": interval.attempt,
        "phase": interval.phase.value,
        "to_ms": interval.to_ms,
        "reason": interval.reason,
    }


def phase_of(row: Row) -> PhaseInterval:
    return PhaseInterval(
        workload_key(row), row["attempt"], Phase(row["phase"]), row["reason"], row["from_ms"], row["to_ms"]
    )


def workload_key(row: Row) -> WorkloadKey:
    return WorkloadKey(*(row[name] for name in _KEY))


def _json(value: tuple[NamedTuple, ...]) -> str:
    return msgspec.json.encode(value).decode()
