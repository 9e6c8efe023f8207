"""History from before Trilens: kept, each row once, and read back."""

from __future__ import annotations

import threading
import time
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.model.imported import ImportedJob, UsagePoint
from trilens.model.ledger import HOUR_MS
from trilens.store import sql
from trilens.store.arrow_columns import arrow_table
from trilens.store.records import delete_over, newest_version
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.workload_rows import Row

_fraction: Final = lru_cache(4096)(Fraction)  # tables have few numbers, and many rows
_Told = TypeVar("_Told")

_JOBS: Final = Table(
    "imported_jobs",
    ("source", "job"),
    (
        "cluster",
        "submit_ms",
        "start_ms",
        "end_ms",
        "gpus",
        "model",
        "owner",
        "team",
        "queue",
        "name",
        "state",
    ),
    over="end_ms",
)
_USAGE: Final = Table(
    "imported_usage",
    ("source", "cluster", "t_ms", "model", "has_team", "team"),
    ("ms", "in_use", "there"),
    over="t_ms + ms",
)


class ImportRecords:
    """Thread-safe. What is told again replaces what was told; nothing is written where it is the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._version = newest_version(engine, (_JOBS, _USAGE))

    def put_jobs(self, jobs: Sequence[ImportedJob]) -> list[int]:
        """On disk on return. The hours of which something else is known than before, in order."""
        with self._lock:
            known = {_job_key(job): job for job in self._known_jobs(jobs)}
            return self._put(_JOBS, {_job_key(job): job for job in jobs}, known, _job_row, _job_span)

    def put_usage(self, points: Sequence[UsagePoint]) -> list[int]:
        """On disk on return. The hours of which something else is known than before, in order."""
        with self._lock:
            known = {_usage_key(point): point for point in self._known_usage(points)}
            told = {_usage_key(point): point for point in points}
            return self._put(_USAGE, told, known, _usage_row, _usage_span)

    def jobs_during(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[ImportedJob]:
        """All that overlap the span, `to_ms` not included. Without an end it overlaps all after it."""
        condition = f"start_ms < {to_ms} AND (end_ms IS NULL OR end_ms > {from_ms})"
        return [_job_of(row) for row in self._rows(_JOBS, condition, "start_ms, source, job", guard)]

    def usage_during(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[UsagePoint]:
        """All that overlap the span, `to_ms` not included."""
        condition = f"t_ms < {to_ms} AND t_ms + ms > {from_ms}"
        order = "source, cluster, t_ms, model, team"
        return [_usage_of(row) for row in self._rows(_USAGE, condition, order, guard)]

    def told_hours(self, *, guard: QueryGuard | None = None) -> dict[int, int]:
        """The hours that imports tell of, each with when it was last told of."""
        now_ms = time.time_ns() // 1_000_000
        spans = (
            f"SELECT start_ms AS first, ifNull(end_ms, {now_ms}) AS last, version FROM {_JOBS.name} FINAL",
            f"SELECT t_ms AS first, t_ms + ms AS last, version FROM {_USAGE.name} FINAL",
        )
        found = self._engine.query_arrow(
            f"SELECT {HOUR_MS} * arrayJoin(range(intDiv(first, {HOUR_MS}), intDiv(last - 1, {HOUR_MS}) + 1)) "
            f"AS hour, intDiv(max(version), 1000000) AS told_ms FROM ({' UNION ALL '.join(spans)}) "
            "WHERE last > first GROUP BY hour ORDER BY hour",
            guard=guard,
        )
        return dict(zip(found["hour"].to_pylist(), found["told_ms"].to_pylist(), strict=True))

    def delete_before(self, before_ms: int) -> int:
        """What was over before then; returns how many rows."""
        return sum(delete_over(self._engine, table, before_ms) for table in (_JOBS, _USAGE))

    def _known_jobs(self, jobs: Sequence[ImportedJob]) -> list[ImportedJob]:
        if not jobs:
            return []
        sources, names = {job.source for job in jobs}, {job.job for job in jobs}
        condition = f"source IN {sql.text_list(sorted(sources))} AND job IN {sql.text_list(sorted(names))}"
        return [_job_of(row) for row in self._rows(_JOBS, condition, "job", None)]

    def _known_usage(self, points: Sequence[UsagePoint]) -> list[UsagePoint]:
        if not points:
            return []
        sources = sql.text_list(sorted({point.source for point in points}))
        times = [point.t_ms for point in points]
        condition = f"source IN {sources} AND t_ms BETWEEN {min(times)} AND {max(times)}"
        return [_usage_of(row) for row in self._rows(_USAGE, condition, "t_ms", None)]

    def _put(
        self,
        table: Table,
        told: dict[tuple[object, ...], _Told],
        known: dict[tuple[object, ...], _Told],
        row: Callable[[_Told], tuple[object, ...]],
        span: Callable[[_Told], tuple[int, int]],
    ) -> list[int]:
        new = {key: one for key, one in told.items() if known.get(key) != one}
        self._version = max(self._version + 1, time.time_ns())
        rows = ((*row(one), self._version) for one in new.values())
        self._engine.insert_arrow(table.name, arrow_table(table.schema, rows))
        before = (known[key] for key in new if key in known)
        return _hours(map(span, [*new.values(), *before]))

    def _rows(self, table: Table, condition: str, order: str, guard: QueryGuard | None) -> list[Row]:
        columns = ", ".join(table.columns)
        statement = f"SELECT {columns} FROM {table.name} FINAL WHERE {condition} ORDER BY {order}"
        rows: list[Row] = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return rows


def _job_key(job: ImportedJob) -> tuple[object, ...]:
    return job.source, job.job


def _job_row(job: ImportedJob) -> tuple[object, ...]:
    return (
        job.source,
        job.job,
        job.cluster,
        job.submit_ms,
        job.start_ms,
        job.end_ms,
        str(job.gpus),
        job.model,
        job.user,
        job.team,
        job.queue,
        job.name,
        job.state,
    )


def _job_of(row: Row) -> ImportedJob:
    return ImportedJob(user=row.pop("owner"), gpus=Fraction(row.pop("gpus")), **row)


def _job_span(job: ImportedJob) -> tuple[int, int]:
    return job.start_ms, time.time_ns() // 1_000_000 if job.end_ms is None else job.end_ms


def _usage_key(point: UsagePoint) -> tuple[object, ...]:
    return point.source, point.cluster, point.t_ms, point.model, point.team


def _usage_row(point: UsagePoint) -> tuple[object, ...]:
    return (
        point.source,
        point.cluster,
        point.t_ms,
        point.model,
        int(point.team is not None),
        point.team or "",
        point.ms,
        str(point.in_use),
        None if point.there is None else str(point.there),
    )


def _usage_of(row: Row) -> UsagePoint:
    return UsagePoint(
        row["source"],
        row["cluster"],
        row["t_ms"],
        row["ms"],
        _fraction(row["in_use"]),
        None if row["there"] is None else _fraction(row["there"]),
        row["model"],
        row["team"] if row["has_team"] else None,
    )


def _usage_span(point: UsagePoint) -> tuple[int, int]:
    return point.t_ms, point.t_ms + point.ms


def _hours(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Those that these overlap, each once."""
    found: set[int] = set()
    for first, last in spans:
        found.update(range(first // HOUR_MS * HOUR_MS, last, HOUR_MS))
    return sorted(found)
