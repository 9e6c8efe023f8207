"""/api/v1/query and /api/v1/query_range."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import orjson

from trilens.model.errors import InvalidQuery, PromQLSyntaxError, RequestError
from trilens.promql.engine import Engine
from trilens.serve.access.seen_series import seen_series
from trilens.serve.access.sight import sight_of
from trilens.serve.encoding import json_matrix, json_samples, json_vector, scalar_text, time_text
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.params import MAX_POINTS, Params, read_params

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.promql.result import QueryResult
    from trilens.promql.source import SeriesSource
    from trilens.serve.access.sight import Sight
    from trilens.serve.ports import EngineFactory
    from trilens.serve.runner import QueryRunner

TRUNCATED: Final = "results truncated due to limit"


class QueryApi:
    def __init__(
        self,
        engines: EngineFactory,
        samples: SeriesSource,
        runner: QueryRunner,
        *,
        lookback_ms: int,
        max_body: int,
    ) -> None:
        """`samples` are what the engines evaluate over."""
        self._engines = engines
        self._samples = samples
        self._lookback_ms = lookback_ms
        self._usual = engines(lookback_ms)
        self._runner = runner
        self._max_body = max_body

    async def instant(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        at_ms = params.time_ms("time", int(time.time() * 1000))
        query = params.first("query")
        engine = self._engine(params, sight_of(request))
        return await self._answer(request, params, lambda guard: engine.instant(query, at_ms, guard))

    async def range(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        start_ms, end_ms, step_ms = range_of(params)
        query = params.first("query")
        engine = self._engine(params, sight_of(request))
        return await self._answer(
            request, params, lambda guard: engine.range(query, start_ms, end_ms, step_ms, guard)
        )

    def _engine(self, params: Params, sight: Sight) -> Engine:
        lookback_ms = params.duration_ms("lookback_delta")
        if not sight.is_whole:
            back_ms = lookback_ms if lookback_ms is not None else self._lookback_ms
            return Engine(seen_series(self._samples, sight), lookback_ms=back_ms)
        return self._usual if lookback_ms is None else self._engines(lookback_ms)

    async def _answer(
        self, request: Request, params: Params, evaluate: Callable[[QueryGuard], QueryResult]
    ) -> Response:
        limit = params.count("limit")
        with_stats = bool(params.first("stats"))
        guard = self._runner.guard(params.duration_ms("timeout"))
        gzip = accepts_gzip(request)
        asked = time.perf_counter()

        def work() -> tuple[bytes, bool]:
            begun = time.perf_counter()
            result = evaluate(guard)
            stats = _stats(guard, begun - asked, time.perf_counter() - begun) if with_stats else None
            return pack(body_of(result, limit, stats), gzip)

        try:
            return packed_response(await self._runner.run(request, guard, work))
        except PromQLSyntaxError as e:
            raise InvalidQuery(e) from e


def range_of(params: Params) -> tuple[int, int, int]:
    start_ms, end_ms = params.time_ms("start"), params.time_ms("end")
    if end_ms < start_ms:
        raise RequestError('invalid parameter "end": end timestamp must not be before start time')
    step_ms = params.duration_ms("step")
    if step_ms is None:
        raise RequestError('invalid parameter "step": cannot parse "" to a valid duration')
    if step_ms <= 0:
        raise RequestError(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. '
            "Try a positive integer"
        )
    if (end_ms - start_ms) / step_ms > MAX_POINTS:
        raise RequestError(
            f"exceeded maximum resolution of {MAX_POINTS:,} points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
    return start_ms, end_ms, step_ms


def body_of(result: QueryResult, limit: int | None = None, stats: dict[str, object] | None = None) -> bytes:
    warnings = list(result.warnings)
    if limit is not None and result.kind in ("vector", "matrix") and len(result.labels) > limit:
        data = result_json(result, limit)
        warnings.append(TRUNCATED)
    else:
        data = result_json(result, None)
    tail = b',"stats":' + orjson.dumps(stats) if stats is not None else b""
    body = b'{"resultType":"%b","result":%b%b}' % (result.kind.encode(), data, tail)
    return success(body, warnings, result.infos)


def result_json(result: QueryResult, limit: int | None) -> bytes:
    rows = slice(None, limit)
    labels = result.labels if limit is None else result.labels.take(rows)
    if result.kind == "string":
        return b"[%b,%b]" % (time_text(int(result.steps_ms[0])).encode(), orjson.dumps(result.text))
    if result.kind == "scalar":
        value = scalar_text(float(result.values.reshape(-1)[0]))
        return f'[{time_text(int(result.steps_ms[0]))},"{value}"]'.encode()
    if result.samples is not None:
        offsets = result.samples.offsets[: len(labels) + 1]
        return json_samples(labels, result.samples._replace(offsets=offsets))
    values = result.values[rows]
    present = None if result.present is None else result.present[rows]
    if result.kind == "matrix":
        return json_matrix(labels, result.steps_ms, values, present)
    values = values[:, 0]
    if present is not None:
        labels, values = labels.take(present[:, 0]), values[present[:, 0]]
    return json_vector(labels, values, int(result.steps_ms[0]))


def _stats(guard: QueryGuard, queued_s: float, evaluated_s: float) -> dict[str, object]:
    return {
        "timings": {
            "evalTotalTime": evaluated_s,
            "resultSortTime": 0.0,
            "queryPreparationTime": 0.0,
            "innerEvalTime": evaluated_s,
            "execQueueTime": queued_s,
            "execTotalTime": queued_s + evaluated_s,
        },
        "samples": {"totalQueryableSamples": guard.samples, "peakSamples": guard.samples},
    }
