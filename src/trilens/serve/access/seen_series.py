"""Samples as a sight shows them: every selector has the sight's matchers beside its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.model.errors import Forbidden, InvalidQuery, PromQLSyntaxError, PromQLUnsupported
from trilens.promql.annotations import quote
from trilens.promql.bounded import bounded
from trilens.serve.params import Params

if TYPE_CHECKING:
    from trilens.model.labels import Symbols
    from trilens.model.query import QueryGuard
    from trilens.model.series import Gridded, GridRequest, Selected, SelectRequest, Summaries
    from trilens.promql.source import SeriesSource
    from trilens.serve.access.sight import Sight

_OF_SERIES: Final = ("match[]", ("start", "end", "limit"))
_OF_QUERIES: Final = ("timeout", "limit", "stats", "lookback_delta")
# By the path of the route: what selects there, and what else is passed on. Other servers have ways of their
# own to select by, which are not known here.
_ASKED: Final = {
    "/api/v1/query": ("query", ("time", *_OF_QUERIES)),
    "/api/v1/query_range": ("query", ("start", "end", "step", *_OF_QUERIES)),
    "/api/v1/query_exemplars": ("query", ("start", "end")),
    "/api/v1/series": _OF_SERIES,
    "/api/v1/labels": _OF_SERIES,
    "/api/v1/label/{name}/values": _OF_SERIES,
}


def seen_series(source: SeriesSource, sight: Sight) -> SeriesSource:
    return source if sight.is_whole else _SeenSeries(source, sight)


class _SeenSeries:
    """A SeriesSource."""

    def __init__(self, source: SeriesSource, sight: Sight) -> None:
        self._source = source
        self._bounds = sight.matchers

    @property
    def symbols(self) -> Symbols:
        return self._source.symbols

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        return self._source.select(replace(request, matchers=(*request.matchers, *self._bounds)), guard)

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | Summaries | None:
        return self._source.grid(replace(request, matchers=(*request.matchers, *self._bounds)), guard)


def seen_elsewhere(path: str, params: Params, sight: Sight) -> Params:
    """What is asked of another server by the route of this path, bounded in its text. Raises Forbidden, and
    InvalidQuery for what we cannot read ourselves, as a dialect of that server. To be called in a thread: a
    long query takes a second to read."""
    if path not in _ASKED:
        raise Forbidden("what kinds of metrics there are is told of the whole fleet only")
    selecting, harmless = _ASKED[path]
    asked = [(selecting, _bounded(text, sight)) for text in params.selectors(selecting)]
    if not asked and selecting == _OF_SERIES[0]:
        every = ",".join(f"{one.name}{one.op}{quote(one.value)}" for one in sight.matchers)
        asked = [(selecting, f"{{{every}}}")]
    return Params([*asked, *((name, text) for name, text in params.pairs if name in harmless)])


def _bounded(text: str, sight: Sight) -> str:
    try:
        return bounded(text, sight.matchers)
    except PromQLSyntaxError as e:
        raise InvalidQuery(e) from e
    except PromQLUnsupported as e:
        raise Forbidden(f"this query cannot be kept to what you may see: {e}") from e
