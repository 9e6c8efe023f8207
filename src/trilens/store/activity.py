"""Each series' first and newest sample, on disk, so that a start need not search the samples for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.store import sql
from trilens.store.rows import last_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.series import Floats, Times
    from trilens.store.engine import Engine

_JOB: Final = "activity"
_BEGINNING: Final = -(1 << 62)
_UNKNOWN: Final = (
    1 << 63
) - 1  # later than any sample, so that the smaller of two first times is the known one


class Activity(NamedTuple):
    ids: NDArray[np.uint64]
    first_t: Times
    last_t: Times
    last_v: Floats


def save_activity(engine: Engine, seen: Activity) -> None:
    rows = {"series": seen.ids, "first_t": seen.first_t, "last_t": seen.last_t, "last_v": seen.last_v}
    engine.insert_arrow("activity", pa.table(rows))


def save_progress(engine: Engine, until_ms: int) -> None:
    """Every sample up to `until_ms` that came, or still may come, is known to what was saved."""
    progress = {"job": [_JOB], "until_ms": [until_ms], "version": [time.time_ns()]}
    engine.insert_arrow("progress", pa.table(progress))


def load_activity(engine: Engine) -> Activity:
    """What was saved, brought up to date with the samples written since."""
    saved = engine.query_arrow(
        "SELECT series, min(first_t) AS first, max(last_t) AS newest, argMax(last_v, last_t) AS value "
        "FROM activity GROUP BY series ORDER BY series"
    )
    names = ("series", "first", "newest", "value")
    ids, first, newest, value = (saved[name].to_numpy(zero_copy_only=False) for name in names)
    since = last_samples(engine, _saved_until(engine))
    at = np.searchsorted(ids, since.ids)
    known = at < len(ids)
    known[known] = ids[at[known]] == since.ids[known]
    first, newest, value = first.copy(), newest.copy(), value.copy()
    newest[at[known]], value[at[known]] = since.t[known], since.v[known]
    new = ~known
    return Activity(
        np.concatenate([ids, since.ids[new]]),
        np.concatenate([first, np.full(int(new.sum()), _UNKNOWN)]),
        np.concatenate([newest, since.t[new]]),
        np.concatenate([value, since.v[new]]),
    )


def _saved_until(engine: Engine) -> int:
    found = engine.query_arrow(
        "SELECT argMax(until_ms, version) AS until_ms, count() AS n FROM progress "
        f"WHERE job = {sql.text(_JOB)}"
    )
    return int(found["until_ms"][0].as_py()) if found["n"][0].as_py() else _BEGINNING
