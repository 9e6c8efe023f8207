"""Which columns each table has, and where in the server's answer they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.client.table import Column, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = Mapping[str, Any]

MS_OF_HOUR: Final = 3_600_000


def workload_name(told: Row | str | None) -> str | None:
    """CLUSTER/NAMESPACE/KIND/NAME, as requests take it; what is none already has a name."""
    if told is None or isinstance(told, str):
        return told
    return f"{told['cluster']}/{told['namespace']}/{told['kind']}/{told['name']}"


def doubts(row: Row) -> list[str]:
    return [one["text"] for one in row["doubts"]]


def _of_holders(name: str) -> Column:
    return Column(f"{name}s", Kind.TEXTS, lambda row: _each(row["holders"], name))


def _each(rows: list[Row], name: str) -> list[str]:
    return [*dict.fromkeys(row[name] for row in rows if row[name] is not None)]


_SUBJECT: Final = (
    Column("workload", path=lambda row: workload_name(row["workload"])),
    *(Column(name) for name in ("team", "run", "cluster", "namespace", "pod", "node", "gpu")),
    Column("rank", Kind.WHOLE),
)

WORKLOADS: Final = (
    *(Column(name) for name in ("cluster", "namespace", "kind", "name", "team", "cost_centre")),
    *(Column(name) for name in ("experiment", "queue")),
    Column("phase", path="phase.phase"),
    Column("reason", path="phase.reason"),
    Column("phase_since", Kind.TIME_MS, "phase.from_ms"),
    Column("attempt", Kind.WHOLE),
    Column("members", Kind.WHOLE, "members.total"),
    Column("members_on_nodes", Kind.WHOLE, "members.on_nodes"),
    Column("members_ready", Kind.WHOLE, "members.ready"),
    Column("created", Kind.TIME_MS, "created_ms"),
    Column("gone", Kind.TIME_MS, "gone.at_ms"),
    Column("uid"),
    Column("doubts", Kind.TEXTS, doubts),
)

GPUS: Final = (
    *(Column(name) for name in ("cluster", "node", "index", "model", "uuid", "instance", "profile", "state")),
    Column("count", Kind.WHOLE),
    Column("utilization", Kind.NUMBER),
    Column("memory_used_bytes", Kind.NUMBER),
    Column("power_watts", Kind.NUMBER),
    *(_of_holders(name) for name in ("namespace", "pod", "workload")),
    Column("seen", Kind.TIME_MS, "seen_ms"),
    Column("doubts", Kind.TEXTS, doubts),
)

RUNS: Final = (
    *(Column(name) for name in ("run", "experiment", "name", "source", "state", "phase", "error")),
    *(Column(name, Kind.WHOLE) for name in ("step", "total_steps", "ranks", "world_size", "attempts")),
    Column("progress", Kind.NUMBER),
    Column("loss", Kind.NUMBER),
    *(Column(name, Kind.NUMBER) for name in ("step_seconds", "samples_per_second", "tokens_per_second")),
    Column("seconds_left", Kind.NUMBER, "time_left.seconds"),
    Column("created", Kind.TIME_MS, "created_ms"),
    Column("started", Kind.TIME_MS, "started_ms"),
    Column("heard", Kind.TIME_MS, "heard_ms"),
    Column("workloads", Kind.TEXTS, lambda row: [workload_name(one) for one in row["workloads"]]),
)

EVENTS: Final = (
    Column("time", Kind.TIME_MS, "t_ms"),
    Column("node", path=lambda row: row["node"] or None),
    *(Column(name) for name in ("kind", "title", "text", "asks", "uuid")),
    Column("code", Kind.WHOLE),
    Column("gpu", Kind.WHOLE),
    Column("rank", Kind.WHOLE),
    Column("pods", Kind.TEXTS, lambda row: _each(row["victims"], "pod")),
    Column(
        "workloads",
        Kind.TEXTS,
        lambda row: [workload_name(one["workload"]) for one in row["victims"] if one["workload"]],
    ),
)

FINDINGS: Final = (
    *(Column(name) for name in ("id", "code", "kind", "severity", "cause", "text", "action")),
    Column("confidence", Kind.NUMBER),
    *_SUBJECT,
    Column("onset", Kind.TIME_MS, "onset_ms"),
    Column("detected", Kind.TIME_MS, "detected_ms"),
    Column("ended", Kind.TIME_MS, "ended_ms"),
    Column("evidence", Kind.TEXTS, lambda row: [one["text"] for one in row["evidence"]]),
    Column("doubts", Kind.TEXTS, doubts),
)

INCIDENTS: Final = (
    *(Column(name) for name in ("id", "state", "severity", "title", "action")),
    *(
        Column(one.name, one.kind, lambda row, one=one: one.read(row["subject"]))  # type: ignore[misc]
        for one in _SUBJECT
    ),
    Column("workloads", Kind.TEXTS),
    Column("onset", Kind.TIME_MS, "onset_ms"),
    Column("detected", Kind.TIME_MS, "detected_ms"),
    Column("notified", Kind.TIME_MS, "notified_ms"),
    Column("acknowledged", Kind.TIME_MS, "acknowledged_ms"),
    Column("acknowledged_by"),
    Column("resolved", Kind.TIME_MS, "resolved_ms"),
    Column("lost", Kind.MONEY),
    Column("currency"),
)

CHECKPOINTS: Final = (
    Column("step", Kind.WHOLE),
    Column("stretch", Kind.WHOLE),
    Column("start", Kind.TIME_MS, "start_ms"),
    Column("seconds", Kind.NUMBER),
    Column("size_bytes", Kind.WHOLE),
    Column("ok", Kind.TRUTH),
    Column("error"),
    Column("paths", Kind.TEXTS),
)

PARTS: Final = (
    Column("run"),
    *(Column(name, Kind.WHOLE) for name in ("stretch", "first_step", "last_step")),
)

SHARES: Final = (
    Column("dataset"),
    Column("shard"),
    *(Column(name, Kind.WHOLE) for name in ("batches", "samples", "unknown")),
)

REPEATED: Final = (
    Column("dataset"),
    Column("shard"),
    Column("epoch", Kind.WHOLE),
    Column("samples", Kind.WHOLE),
    Column("examples", Kind.TEXTS, lambda row: [*map(str, row["examples"])]),
)

BATCHES: Final = (
    Column("run"),
    *(Column(name, Kind.WHOLE) for name in ("step", "rank", "attempt", "n", "i")),
    Column("dataset"),
    Column("shard"),
    Column("epoch", Kind.WHOLE),
    Column("size", Kind.WHOLE),
    Column("first", Kind.WHOLE, lambda row: row["range"][0] if row["range"] else None),
    Column("stride", Kind.WHOLE, lambda row: row["range"][2] if row["range"] else None),
    Column("samples", Kind.TEXTS, lambda row: [*map(str, row["ids"])] or row["names"]),
    Column("digest"),
    Column("unknown"),
)
