"""Each series' first and newest sample, on disk, so that neither a start nor a query need search for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.store import sql
from trilens.store.admission import NEVER
from trilens.store.progress import load_progress, save_progress
from trilens.store.rows import group_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.series import Floats, Times
    from trilens.store.engine import Engine

_JOB: Final = "activity"
_BEGINNING: Final = -(1 << 62)
_IDS_AT_ONCE: Final = 20_000


class Activity(NamedTuple):
    ids: NDArray[np.uint64]
    first_t: Times
    last_t: Times
    last_v: Floats

    def take(self, which: NDArray[np.bool_]) -> Activity:
        return Activity(self.ids[which], self.first_t[which], self.last_t[which], self.last_v[which])


def save_activity(engine: Engine, seen: Activity) -> None:
    """A row replaces those of its series with an earlier last_t, so its first_t has to count them in."""
    rows = {"series": seen.ids, "first_t": seen.first_t, "last_t": seen.last_t, "last_v": seen.last_v}
    engine.insert_arrow("activity", pa.table(rows))


def save_activity_until(engine: Engine, until_ms: int) -> None:
    """Every sample up to `until_ms` that came, or still may come, is known to what was saved."""
    save_progress(engine, _JOB, until_ms)


def saved_activity(engine: Engine, after_ms: int) -> Activity:
    """What was saved of the series with a sample after `after_ms`."""
    return _saved(engine, f"last_t > {int(after_ms)}")


def activity_saved_until(engine: Engine) -> int:
    until_ms = load_progress(engine, _JOB)
    return _BEGINNING if until_ms is None else until_ms


def unsaved_activity(engine: Engine, until_ms: int) -> Activity:
    """The samples since activity was last saved, of which nothing may be saved yet."""
    return _read(
        engine,
        "SELECT series, min(t) AS first, max(t) AS newest, argMax(v, t) AS value "
        f"FROM samples WHERE t > {until_ms} GROUP BY series",
    )


def newest_saved(engine: Engine) -> int:
    """The time of the newest sample that activity knows of; NEVER where it knows of none."""
    found = engine.query_arrow("SELECT max(last_t) AS newest, count() AS n FROM activity")
    return int(found["newest"][0].as_py()) if found["n"][0].as_py() else NEVER


def with_saved_past(engine: Engine, seen: Activity) -> Activity:
    """The same series, with what was saved of them before."""
    for at in range(0, len(seen.ids), _IDS_AT_ONCE):
        some = sql.id_list(seen.ids[at : at + _IDS_AT_ONCE])
        seen = joined(seen, _saved(engine, f"series IN {some}"))
    return seen


def joined(one: Activity, other: Activity) -> Activity:
    """Both together in order of id; of a series in both the earlier first and the later last."""
    ids, first_t, last_t, last_v = (np.concatenate(columns) for columns in zip(one, other, strict=True))
    order = np.lexsort((last_t, ids))
    ids, first_t = ids[order], first_t[order]
    starts = group_starts(ids)
    if len(starts) == 0:
        return one
    newest = np.append(starts[1:], len(ids)) - 1
    return Activity(
        ids[newest], np.minimum.reduceat(first_t, starts), last_t[order][newest], last_v[order][newest]
    )


def brought_up_to_date(saved: Activity, since: Activity, until_ms: int) -> Activity:
    """What was saved, corrected by the samples on disk: activity may have been saved of samples that a crash
    then kept from being written, and these will be sent again. All that is on disk after `until_ms` is in
    `since`."""
    now = joined(saved, since)
    last_t, last_v = now.last_t.copy(), now.last_v.copy()
    unwritten = last_t > until_ms
    last_t[unwritten], last_v[unwritten] = until_ms, np.nan
    at = np.searchsorted(now.ids, since.ids)
    last_t[at], last_v[at] = since.last_t, since.last_v
    return now._replace(last_t=last_t, last_v=last_v)


def _saved(engine: Engine, condition: str) -> Activity:
    return _read(
        engine,
        "SELECT series, min(first_t) AS first, max(last_t) AS newest, argMax(last_v, last_t) AS value "
        f"FROM activity WHERE {condition} GROUP BY series",
    )


def _read(engine: Engine, statement: str) -> Activity:
    found = engine.query_arrow(statement)
    return Activity(*(found[name].to_numpy() for name in ("series", "first", "newest", "value")))
