"""/api/v1/series, labels, label values and metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from trilens.model.errors import PromQLSyntaxError, RequestError
from trilens.model.labels import METRIC_NAME
from trilens.promql.parse import selectors
from trilens.serve.access.sight import sight_of
from trilens.serve.encoding import label_texts
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.params import MAX_TIME_MS, MIN_TIME_MS, Params, read_params
from trilens.serve.queries import TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.serve.access.sight import Sight
    from trilens.serve.ports import Catalog, MetricDescription
    from trilens.serve.runner import QueryRunner

_ESCAPED = re.compile(r"_(_|[0-9A-Fa-f]{1,6}_)")


class CatalogApi:
    def __init__(self, catalog: Catalog, runner: QueryRunner, *, max_body: int) -> None:
        self._catalog = catalog
        self._runner = runner
        self._max_body = max_body

    async def series(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        if not params.every("match[]"):
            raise RequestError("no match[] parameter provided")
        sight = sight_of(request)
        start_ms, end_ms = params.range_ms()

        def find(guard: QueryGuard) -> list[bytes]:
            wanted = _bounded_sets(params, sight)
            frames = [self._catalog.series_labels(matchers, start_ms, end_ms, guard) for matchers in wanted]
            texts = [text for frame in frames for text in label_texts(frame)]
            return texts if len(frames) == 1 else sorted(set(texts))

        return await self._answer(request, params, find, lambda found: b"[%b]" % b",".join(found))

    async def labels(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        start_ms, end_ms = params.range_ms()
        sight = sight_of(request)

        def find(guard: QueryGuard) -> list[str]:
            wanted = _bounded_sets(params, sight) or (None,)
            names = [self._catalog.label_names(m, start_ms, end_ms, guard) for m in wanted]
            return sorted(set().union(*names))

        return await self._answer(request, params, find, orjson.dumps)

    async def label_values(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        name = unescape_name(request.path_params["name"])
        if not name:
            raise RequestError('invalid label name: ""')
        start_ms, end_ms = params.range_ms()
        sight = sight_of(request)

        def find(guard: QueryGuard) -> list[str]:
            wanted = _bounded_sets(params, sight) or (None,)
            values = [self._catalog.label_values(name, m, start_ms, end_ms, guard) for m in wanted]
            return sorted(set().union(*values))

        return await self._answer(request, params, find, orjson.dumps)

    async def metadata(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        limit, per_metric = params.count("limit"), params.count("limit_per_metric")
        sight, gzip, guard = sight_of(request), accepts_gzip(request), self._runner.guard()

        def work() -> tuple[bytes, bool]:
            known = self._catalog.metadata(params.first("metric") or None)
            seen = known if sight.is_whole else self._names(sight, guard)
            names = [one for one in seen if one in known]
            data = {name: [_described(one) for one in known[name][:per_metric]] for name in names[:limit]}
            return pack(success(orjson.dumps(data)), gzip)

        return packed_response(await self._runner.run(request, guard, work))

    def _names(self, sight: Sight, guard: QueryGuard) -> list[str]:
        """Of the metrics that there are series of."""
        return self._catalog.label_values(METRIC_NAME, sight.matchers, MIN_TIME_MS, MAX_TIME_MS, guard)

    async def _answer(
        self,
        request: Request,
        params: Params,
        find: Callable[[QueryGuard], list[Any]],
        encode: Callable[[list[Any]], bytes],
    ) -> Response:
        limit = params.count("limit")
        gzip = accepts_gzip(request)
        guard = self._runner.guard()

        def work() -> tuple[bytes, bool]:
            found = find(guard)
            warnings = [TRUNCATED] if limit is not None and len(found) > limit else []
            return pack(success(encode(found[:limit]), warnings), gzip)

        return packed_response(await self._runner.run(request, guard, work))


def matcher_sets(params: Params) -> list[tuple[Matcher, ...]]:
    """To be called in a thread: a long selector takes a second to read."""
    return [selector_of("match[]", text) for text in params.selectors("match[]")]


def _bounded_sets(params: Params, sight: Sight) -> list[tuple[Matcher, ...]]:
    """None are all series: of who sees only some, those."""
    wanted = matcher_sets(params)
    if sight.is_whole:
        return wanted
    return [(*one, *sight.matchers) for one in wanted] or [sight.matchers]


def selector_of(parameter: str, text: str) -> tuple[Matcher, ...]:
    try:
        return selectors(text)
    except PromQLSyntaxError as e:
        raise RequestError(f'invalid parameter "{parameter}": {e}') from e


def unescape_name(name: str) -> str:
    """`U__a_2e_b` is how clients spell the label name `a.b` inside a URL."""
    if not name.startswith("U__"):
        return name

    def one(match: re.Match[str]) -> str:
        code = match[1].rstrip("_")
        return chr(int(code, 16)) if code else "_"

    try:
        return _ESCAPED.sub(one, name[3:])
    except (ValueError, OverflowError) as e:
        raise RequestError(f"invalid label name: {name!r}") from e


def _described(description: MetricDescription) -> dict[str, str]:
    return {"type": description.kind, "help": description.help, "unit": description.unit}
