"""Long ranges from rollups: what the engine has summarised, and the rest summarised on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilens.model.series import Summaries
from trilens.store.rollups import WIDTHS, read_columns, roll

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.model.series import GridRequest, SampleBlock
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.index_state import Selection

_STORED: Final = {"count": "samples"}  # where a column's name in the tables differs

_TABLES: Final = sorted(WIDTHS.items(), key=lambda item: -item[1])  # the widest first: fewest rows


def table_for(request: GridRequest) -> tuple[str, int] | None:
    """The widest rollup of whose windows every range of the request is made, if there is one."""
    for table, width in _TABLES:
        on_edges = (request.start_ms - request.range_ms) % width == 0 and request.range_ms % width == 0
        if on_edges and (request.steps == 1 or request.step_ms % width == 0):
            return table, width
    return None


def can_summarise(request: GridRequest) -> bool:
    return bool(request.summary) and table_for(request) is not None


class SummaryReader:
    """Rollups up to the horizon; after it `recent` samples, summarised here."""

    def __init__(self, engine: Engine, horizon: Horizon) -> None:
        self._engine = engine
        self._horizon = horizon

    @property
    def rolled_ms(self) -> int:
        return self._horizon.rolled_ms

    def read(
        self,
        request: GridRequest,
        chosen: Selection,
        ids: NDArray[np.uint64],
        metrics: list[str],
        every_series: bool,
        recent: Callable[[int, int], tuple[SampleBlock, tuple[str, ...]]],
        guard: QueryGuard,
    ) -> Summaries | None:
        """`chosen` and `ids` in order of id. None where only samples will do: NaN and infinities among the
        values, or windows that wait to be rolled up again."""
        found = table_for(request)
        if found is None:
            return None
        table, width = found
        begin = request.start_ms - request.range_ms
        border = min(self._horizon.rolled_ms, request.end_ms) // width * width
        if border <= begin or self._horizon.has_dirty(begin, border):
            return None
        shape = (len(chosen), (request.end_ms - begin) // width)
        guard.take_samples(shape[0] * max(shape[1], request.steps * (request.range_ms // width)))
        columns = {name: np.zeros(shape, dtype=_dtype(name)) for name in request.summary}
        stored = [_STORED.get(name, name) for name in request.summary]
        rows = read_columns(
            self._engine,
            table,
            [*stored, "special"],
            metrics,
            None if every_series else ids,
            begin,
            border,
            guard,
        )
        if rows["special"].any():
            return None
        self._put(columns, rows, ids, begin, width)
        warnings: tuple[str, ...] = ()
        if border < request.end_ms:
            newer, warnings = recent(border, request.end_ms)
            if not self._add_recent(columns, newer, begin, width):
                return None
        return Summaries(chosen.labels, width, begin + width, columns, warnings)

    def _put(
        self,
        columns: dict[str, NDArray[Any]],
        rows: dict[str, NDArray[Any]],
        ids: NDArray[np.uint64],
        begin: int,
        width: int,
    ) -> None:
        """Rows into their series' and windows' places; of a window that was rolled twice the newer counts."""
        series = np.searchsorted(ids, rows["ids"])
        series[series == len(ids)] = 0
        known = ids[series] == rows["ids"]
        window = (rows["end_t"] - begin) // width - 1
        place = series * columns["count"].shape[1] + window
        if not known.all():
            place = place[known]
            rows = {name: column[known] for name, column in rows.items()}
        if len(place) and np.bincount(place).max() > 1:
            order = np.argsort(rows["version"], kind="stable")  # numpy assigns in order: the last one stays
            place = place[order]
            rows = {name: column[order] for name, column in rows.items()}
        for name, column in columns.items():
            column.reshape(-1)[place] = rows[_STORED.get(name, name)]

    def _add_recent(
        self, columns: dict[str, NDArray[Any]], samples: SampleBlock, begin: int, width: int
    ) -> bool:
        if len(samples.t) == 0:
            return True
        owner = np.repeat(np.arange(len(samples.offsets) - 1), np.diff(samples.offsets))
        rolled = roll(owner.astype(np.uint64), samples.t, samples.v, width)
        if rolled.special.any():
            return False
        window = (rolled.end_t - begin) // width - 1
        for name, column in columns.items():
            column[rolled.ids.astype(np.int64), window] = getattr(rolled, _STORED.get(name, name))
        return True


def _dtype(name: str) -> type[np.generic]:
    if name in ("first_t", "last_t"):
        return np.int64
    return np.uint32 if name in ("count", "ended") else np.float64
