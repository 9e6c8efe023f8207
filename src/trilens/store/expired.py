"""What is left of samples that have expired: the last one of each rollup window."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilens.model.series import STALE_NAN
from trilens.store.horizon import NOTHING_WRITTEN
from trilens.store.rollups import read_rollups
from trilens.store.rows import SampleRows
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon

_ASK_AGAIN_S: Final = 60.0
_END_OF_TIME: Final = 1 << 62
_FAR: Final = 1 << 52  # later than any date can say


class Expired:
    """Tables say themselves how far back they reach: parts expire later than their rows, and a directory at
    rest does not tell its retention. They are asked once a minute; what is written meanwhile, late or as
    history, the horizon knows."""

    def __init__(self, engine: Engine, horizon: Horizon) -> None:
        self._engine = engine
        self._horizon = horizon
        self._reach: dict[str, tuple[float, int]] = {}  # table -> when it was asked, the hour it begins with

    @property
    def raw_since_ms(self) -> int:
        begins = self._begins("samples", "t")
        return min(begins, _hour_of(self._horizon.oldest_written_ms))

    def read(
        self,
        metrics: Sequence[str],
        ids: NDArray[np.uint64] | None,
        start_ms: int,
        end_ms: int,
        guard: QueryGuard,
    ) -> SampleRows:
        """As `read_samples`, from 5-minute windows and, where these have expired too, from hours."""
        border = min(max(start_ms, self._begins("samples_5m", "end_t")), end_ms)
        parts = [
            self._last_of_windows("samples_1h", metrics, ids, start_ms, border, guard),
            self._last_of_windows("samples_5m", metrics, ids, border, end_ms, guard),
        ]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        inside = columns[1] > start_ms  # a window may reach across the start, its last sample not
        columns = [column[inside] for column in columns]
        order = np.lexsort((columns[1], columns[0]))
        return SampleRows(*(column[order] for column in columns))

    def warning(self) -> str:
        since = self.raw_since_ms
        when = (
            f" before {datetime.fromtimestamp(since / 1000, UTC):%Y-%m-%d %H:%M} UTC" if since < _FAR else ""
        )
        return f"samples{when} have expired: of these only the last one of every 5 minutes or hour is shown"

    def _last_of_windows(
        self, table: str, metrics: Sequence[str], ids: Any, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> SampleRows:
        if end_ms <= start_ms:
            none = np.zeros(0, np.int64)
            return SampleRows(none.astype(np.uint64), none, none.astype(np.float64))
        found = read_rollups(self._engine, table, metrics, ids, start_ms, end_ms, guard)
        some, ended = found.samples > 0, found.ended > 0
        markers = np.full(int(ended.sum()), STALE_NAN)
        return SampleRows(
            np.concatenate([found.ids[some], found.ids[ended]]),
            np.concatenate([found.last_t[some], found.end_t[ended]]),
            np.concatenate([found.last[some], markers]),
        )

    def _begins(self, table: str, column: str) -> int:
        """The start of the first hour in this table; the end of time for an empty one."""
        asked, begins = self._reach.get(table, (-_ASK_AGAIN_S, 0))
        if time.monotonic() - asked >= _ASK_AGAIN_S:
            with self._horizon.held():  # so that a write is either seen here or noted afterwards
                found = self._engine.query_arrow(f"SELECT min({column}) AS oldest, count() AS n FROM {table}")
                oldest = int(found["oldest"][0].as_py()) if found["n"][0].as_py() else _END_OF_TIME
                begins = _hour_of(oldest)
                self._reach[table] = (time.monotonic(), begins)
                if table == "samples":
                    self._horizon.oldest_written_ms = NOTHING_WRITTEN
        return begins


def _hour_of(t_ms: int) -> int:
    """The end of the hour before."""
    return (t_ms - 1) // HOUR_MS * HOUR_MS
