"""Queries answered: the one door into this package."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.errors import PromQLEvalError, QueryTooLarge, RequestError
from trilens.model.labels import LabelFrame
from trilens.model.series import SampleBlock
from trilens.promql import nodes
from trilens.promql.annotations import Annotations
from trilens.promql.calls import from_scalar
from trilens.promql.context import Context
from trilens.promql.evaluate import Evaluator
from trilens.promql.parse import parse
from trilens.promql.result import QueryResult
from trilens.promql.tokens import readable
from trilens.promql.vector import (
    METADATA_LABELS,
    Grid,
    Scalar,
    Text,
    Vector,
    apply_name_dropping,
    label_order,
)

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.promql.nodes import Expr
    from trilens.promql.source import SeriesSource

MAX_STEPS: Final = 11_000  # as Prometheus: enough for a point a minute over a week


class Engine:
    """Thread-safe: each query keeps what it needs to itself."""

    def __init__(
        self, source: SeriesSource, *, lookback_ms: int = 300_000, subquery_step_ms: int = 60_000
    ) -> None:
        self._source = source
        self._lookback_ms = lookback_ms
        self._subquery_step_ms = subquery_step_ms

    def parse(self, query: str) -> Expr:
        """Raises PromQLSyntaxError or PromQLUnsupported."""
        return parse(query)

    def instant(self, query: str, at_ms: int, guard: QueryGuard) -> QueryResult:
        expr = parse(query)
        notes = Annotations(query)
        ctx = self._context(notes, guard, at_ms, at_ms, 0)
        grid = Grid(at_ms, 1, 1)
        inner = nodes.unwrap(expr)
        if isinstance(inner, nodes.RangeSelector | nodes.Subquery):
            return _annotated(_raw_samples(Evaluator(ctx, grid), inner), notes)
        value = Evaluator(ctx, grid).evaluate(expr)
        match value:
            case Text():
                result = QueryResult(
                    "string",
                    LabelFrame.empty(ctx.symbols),
                    grid.times,
                    np.zeros((0, 1)),
                    text=readable(value.value),
                )
            case Scalar():
                labels = from_scalar(ctx, value.values).labels
                result = QueryResult("scalar", labels, grid.times, value.values[None, :])
            case Vector():
                vector = apply_name_dropping(value).only_present()
                result = QueryResult("vector", vector.labels, grid.times, vector.values)
        return _annotated(result, notes)

    def range(self, query: str, start_ms: int, end_ms: int, step_ms: int, guard: QueryGuard) -> QueryResult:
        expr = parse(query)
        kind = nodes.value_kind(expr)
        if kind in ("matrix", "string"):
            raise RequestError(
                f"invalid expression type {_KIND_NAMES[kind]!r} for range query, "
                "must be Scalar or instant Vector"
            )
        if step_ms <= 0:
            raise RequestError("zero or negative query resolution step widths are not accepted")
        if end_ms < start_ms:
            raise RequestError("end timestamp must not be before start time")
        count = (end_ms - start_ms) // step_ms + 1
        if count - 1 > MAX_STEPS:
            raise QueryTooLarge(
                f"the query asks for {count:,} points of each series; the limit is {MAX_STEPS:,}"
            )
        notes = Annotations(query)
        ctx = self._context(notes, guard, start_ms, end_ms, step_ms)
        grid = Grid(start_ms, step_ms, count)
        value = Evaluator(ctx, grid).evaluate(expr)
        if isinstance(value, Scalar):
            value = from_scalar(ctx, value.values)
        assert isinstance(value, Vector), "strings were refused above"
        vector = apply_name_dropping(value).only_present()
        vector = vector.take(label_order(vector.labels))
        guard.check()
        present = None if vector.present is None or vector.present.all() else vector.present
        result = QueryResult("matrix", vector.labels, grid.times, vector.values, present)
        return _annotated(result, notes)

    def _context(self, notes: Annotations, guard: QueryGuard, start: int, end: int, step: int) -> Context:
        return Context(
            source=self._source,
            symbols=self._source.symbols.fork(),
            guard=guard,
            notes=notes,
            start_ms=start,
            end_ms=end,
            step_ms=step,
            lookback_ms=self._lookback_ms,
            subquery_step_ms=self._subquery_step_ms,
        )


_KIND_NAMES: Final = {"matrix": "range vector", "string": "string"}


def _annotated(result: QueryResult, notes: Annotations) -> QueryResult:
    return replace(result, warnings=notes.warnings, infos=notes.infos)


def _raw_samples(ev: Evaluator, expr: nodes.RangeSelector | nodes.Subquery) -> QueryResult:
    labels, windows, drop = ev.ranged(expr)
    lo, hi = windows.lo[:, 0], windows.hi[:, 0]
    rows = np.flatnonzero(hi > lo)
    labels, lo, hi, drop = labels.take(rows), lo[rows], hi[rows], drop[rows]
    if drop.any():
        labels = labels.drop(METADATA_LABELS)
        if len(labels.groups()[1]) < len(labels):
            raise PromQLEvalError("vector cannot contain metrics with the same labelset")
    order = label_order(labels)
    lo, counts = lo[order], (hi - lo)[order]
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    at = np.repeat(lo - offsets[:-1], counts) + np.arange(offsets[-1])
    samples = SampleBlock(windows.block.t[at], windows.block.v[at], offsets)
    return QueryResult("matrix", labels.take(order), ev.grid.times, np.zeros((0, 1)), samples=samples)
