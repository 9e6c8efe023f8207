"""Runs of experiment trackers: their table, version 6, which is not edited afterwards, and its rows.

Params, tags and last values are read only with their row, so they lie in it as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.run import Tracker
from trilens.model.tracked_run import TrackedRun
from trilens.store.schema import DURABLE
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.store.workload_rows import Row

TRACKED_RUNS_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS tracked_runs
(
    system LowCardinality(String),
    place String,
    run String,
    experiment Nullable(String),
    name Nullable(String),
    state Nullable(String),
    from_ms Nullable(Int64),
    to_ms Nullable(Int64),
    user Nullable(String),
    params String CODEC(ZSTD(1)),
    tags String CODEC(ZSTD(1)),
    metrics String CODEC(ZSTD(1)),
    step Nullable(Int64),
    url Nullable(String),
    cursor String CODEC(ZSTD(1)),
    version Int64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (system, place, run)
SETTINGS {DURABLE}
"""

TRACKED_RUNS: Final = Table(
    "tracked_runs",
    ("system", "place", "run"),
    (
        "experiment",
        "name",
        "state",
        "from_ms",
        "to_ms",
        "user",
        "params",
        "tags",
        "metrics",
        "step",
        "url",
        "cursor",
    ),
)
_TEXTS: Final = msgspec.json.Decoder(dict[str, str])
_NUMBERS: Final = msgspec.json.Decoder(dict[str, float | str])


def tracked_run_row(run: TrackedRun, cursor: str) -> Row:
    return {
        "system": run.tracker.system,
        "place": run.tracker.where,
        "run": run.tracker.run,
        "experiment": run.experiment,
        "name": run.name,
        "state": run.state,
        "from_ms": run.started_ms,
        "to_ms": run.ended_ms,
        "user": run.user,
        "params": msgspec.json.encode(run.params).decode(),
        "tags": msgspec.json.encode(run.tags).decode(),
        "metrics": msgspec.json.encode({name: _told(value) for name, value in run.metrics.items()}).decode(),
        "step": run.step,
        "url": run.url,
        "cursor": cursor,
    }


def tracked_run_of(row: Row) -> TrackedRun:
    return TrackedRun(
        Tracker(row["system"], row["run"], row["place"]),
        row["experiment"],
        row["name"],
        row["state"],
        row["from_ms"],
        row["to_ms"],
        row["user"],
        _TEXTS.decode(row["params"]),
        _TEXTS.decode(row["tags"]),
        {name: float(value) for name, value in _NUMBERS.decode(row["metrics"]).items()},
        row["step"],
        row["url"],
    )


def _told(value: float) -> float | str:
    """JSON has no number for NaN and the infinities."""
    return value if value - value == 0 else str(value)
