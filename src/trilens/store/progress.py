"""How far each background job has come, on disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from trilens.store import sql

if TYPE_CHECKING:
    from trilens.store.engine import Engine


def save_progress(engine: Engine, job: str, until_ms: int) -> None:
    row = {"job": [job], "until_ms": [until_ms], "version": [time.time_ns()]}
    engine.insert_arrow("progress", pa.table(row))


def load_progress(engine: Engine, job: str) -> int | None:
    """What was saved last; None where nothing was."""
    found = engine.query_arrow(
        "SELECT argMax(until_ms, version) AS until_ms, count() AS n FROM progress "
        f"WHERE job = {sql.text(job)}"
    )
    return int(found["until_ms"][0].as_py()) if found["n"][0].as_py() else None
