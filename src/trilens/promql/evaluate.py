"""The tree evaluated, node by node, each for all steps at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import LabelFrame
from trilens.promql import aggregate, binary, calls, nodes
from trilens.promql.leaf import Ranged, leaf_grid, make_windows, select_instant, select_windows
from trilens.promql.relabel import check_label_name
from trilens.promql.tokens import readable
from trilens.promql.vector import Grid, Scalar, Text, Value, Vector
from trilens.promql.windows import as_block

if TYPE_CHECKING:
    from trilens.model.series import Floats
    from trilens.promql.context import Context
    from trilens.promql.nodes import Expr


class Evaluator:
    """Evaluates at the times of one grid; a subquery gets an evaluator of its own."""

    def __init__(self, ctx: Context, grid: Grid) -> None:
        self.ctx: Context = ctx
        self.grid: Grid = grid

    def evaluate(self, expr: Expr) -> Value:
        self.ctx.guard.check()
        if self.grid.count > 1 and not isinstance(expr, nodes.String) and nodes.same_at_every_step(expr):
            return self._once(expr)
        match expr:
            case nodes.Number():
                return Scalar(np.full(self.grid.count, expr.value))
            case nodes.String():
                return Text(expr.value)
            case nodes.Paren():
                return self.evaluate(expr.expr)
            case nodes.Negate():
                return self._negate(expr)
            case nodes.Selector():
                return select_instant(self.ctx, expr, self.grid)
            case nodes.Call():
                return calls.call(self, expr)
            case nodes.Aggregate():
                return self._aggregate(expr)
            case nodes.Binary():
                return self._binary(expr)
            case nodes.RangeSelector() | nodes.Subquery():
                raise PromQLEvalError("a range vector can only be the argument of a function")

    def vector(self, expr: Expr) -> Vector:
        value = self.evaluate(expr)
        assert isinstance(value, Vector), "the parser checks argument types"
        return value

    def scalar(self, expr: Expr) -> Floats:
        value = self.evaluate(expr)
        assert isinstance(value, Scalar), "the parser checks argument types"
        return value.values

    def text(self, expr: Expr) -> str:
        value = self.evaluate(expr)
        assert isinstance(value, Text), "the parser checks argument types"
        return readable(value.value)

    def label_name(self, expr: Expr, what: str = "label name") -> str:
        value = self.evaluate(expr)
        assert isinstance(value, Text), "the parser checks argument types"
        check_label_name(value.value, what)
        return value.value

    def ranged(self, expr: Expr) -> Ranged:
        """The windows of a range selector or of a subquery, at every step."""
        expr = nodes.unwrap(expr)
        if isinstance(expr, nodes.RangeSelector):
            return select_windows(self.ctx, expr, self.grid)
        assert isinstance(expr, nodes.Subquery), "the parser checks argument types"
        at = leaf_grid(self.ctx, self.grid, expr.offset_ms, expr.at)
        step = expr.step_ms or self.ctx.subquery_step_ms
        # The inner times are multiples of the step, whenever the query is asked.
        start = ((at.start - expr.range_ms) // step + 1) * step
        if start > at.end:  # a range shorter than the step, between two of its multiples
            nothing = as_block(np.zeros((0, 1)), None, at.times[:1])
            no_labels = LabelFrame.empty(self.ctx.symbols)
            return Ranged(
                no_labels, make_windows(self.ctx, nothing, at, expr.range_ms), np.zeros(0, dtype=bool)
            )
        inner = Grid(start, step, (at.end - start) // step + 1)
        self.ctx.guard.take_samples(inner.count)
        value = Evaluator(self.ctx, inner).evaluate(expr.expr)
        vector = calls.from_scalar(self.ctx, value.values) if isinstance(value, Scalar) else value
        assert isinstance(vector, Vector), "the parser checks argument types"
        self.ctx.guard.take_samples(vector.values.size)
        block = as_block(vector.values, vector.present, inner.times)
        return Ranged(vector.labels, make_windows(self.ctx, block, at, expr.range_ms), vector.drop_name)

    def _once(self, expr: Expr) -> Value:
        value = Evaluator(self.ctx, Grid(self.grid.start, self.grid.step, 1)).evaluate(expr)
        if isinstance(value, Vector):
            return value.spread(self.grid.count)
        if isinstance(value, Scalar):
            return Scalar(np.broadcast_to(value.values, self.grid.count))
        return value

    def _negate(self, expr: nodes.Negate) -> Value:
        value = self.evaluate(expr.expr)
        if isinstance(value, Scalar):
            return Scalar(-value.values)
        assert isinstance(value, Vector), "the parser checks operand types"
        return value.replace(values=-value.values, drop_name=True)

    def _binary(self, expr: nodes.Binary) -> Value:
        first, links = nodes.chain(expr)
        value = self.evaluate(first)
        for link in links:
            value = self._operate(link, value, self.evaluate(link.rhs))
        return value

    def _operate(self, expr: nodes.Binary, lhs: Value, rhs: Value) -> Value:
        self.ctx.guard.check()
        op, return_bool = expr.op, expr.return_bool
        match lhs, rhs:
            case Scalar(), Scalar():
                return Scalar(binary.scalars(op, lhs.values, rhs.values))
            case Vector(), Scalar():
                return binary.vector_scalar(op, lhs, rhs.values, swapped=False, return_bool=return_bool)
            case Scalar(), Vector():
                return binary.vector_scalar(op, rhs, lhs.values, swapped=True, return_bool=return_bool)
            case Vector(), Vector():
                if op in nodes.SET_OPERATORS:
                    return binary.set_operation(op, lhs, rhs, expr.matching)
                return binary.vectors(op, lhs, rhs, expr.matching, return_bool=return_bool)
        raise AssertionError("the parser checks operand types")

    def _aggregate(self, expr: nodes.Aggregate) -> Vector:
        param = expr.param
        if expr.op == "count_values":
            assert param is not None, "the parser asks for the label"
            label = self.label_name(param)
            inner = self.vector(expr.expr)
            return aggregate.count_values(
                inner, expr.labels, without=expr.without, label=label, guard=self.ctx.guard
            )
        number = self.scalar(param) if param is not None else np.zeros(0)
        pos = param.pos if param is not None else expr.pos
        inner = self.vector(expr.expr)
        if expr.op == "limit_ratio":
            return aggregate.keep_ratio(inner, number, self.ctx.notes, pos)
        groups = aggregate.group_rows(inner.labels, expr.labels, without=expr.without)
        if expr.op == "quantile":
            return aggregate.quantile(inner, groups, number, self.ctx.notes, pos)
        if expr.op in ("topk", "bottomk", "limitk"):
            return aggregate.keep_ranked(expr.op, inner, groups, number)
        return aggregate.aggregate(expr.op, inner, groups)
