"""Function calls: each name, its arguments, and the code that computes it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.errors import PromQLEvalError, PromQLUnsupported
from trilens.model.labels import LabelFrame
from trilens.promql import functions, histogram, nodes, overtime, relabel
from trilens.promql.leaf import (
    KEEP_NAME,
    RANGE_FUNCTIONS,
    metric_names,
    push_down_range,
    select_timestamps,
)
from trilens.promql.vector import Scalar, Value, Vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.series import Floats
    from trilens.promql.context import Context
    from trilens.promql.evaluate import Evaluator
    from trilens.promql.nodes import Call, Expr
    from trilens.promql.vector import Bools
    from trilens.promql.windows import Windows

_COUNTER_FUNCTIONS: Final = frozenset({"rate", "increase"})


def call(ev: Evaluator, node: Call) -> Value:
    name = node.function
    if name in RANGE_FUNCTIONS:
        return _range_function(ev, node)
    if name in functions.ELEMENTWISE:
        return functions.elementwise(name, ev.vector(node.args[0]))
    if name in functions.CALENDAR:
        return functions.calendar(name, _vector_or_time(ev, node.args))
    found = _CALLS.get(name)
    if found is None:
        raise PromQLUnsupported(f"the function {name}() is not supported")
    return found(ev, node)


def from_scalar(ctx: Context, values: Floats) -> Vector:
    """One series without labels."""
    labels = LabelFrame(ctx.symbols, (), np.zeros((1, 0), dtype=np.int32))
    return Vector(labels, np.asarray(values)[None, :], None, np.zeros(1, dtype=bool))


def _vector_or_time(ev: Evaluator, args: tuple[Expr, ...]) -> Vector:
    return ev.vector(args[0]) if args else from_scalar(ev.ctx, ev.grid.times / 1000.0)


def _range_function(ev: Evaluator, node: Call) -> Vector:
    arg = nodes.unwrap(node.args[0])
    vector = None
    if isinstance(arg, nodes.RangeSelector):
        vector = push_down_range(ev.ctx, node.function, arg, ev.grid)
    if vector is None:
        vector = _over_windows(ev, node, arg, RANGE_FUNCTIONS[node.function])
    if node.function in _COUNTER_FUNCTIONS:
        for metric in metric_names(vector):
            ev.ctx.notes.perhaps_no_counter(metric, node.args[0].pos)
    return vector


def _over_windows(
    ev: Evaluator, node: Call, arg: Expr, compute: Callable[..., tuple[Floats, Bools]], *extra: Floats
) -> Vector:
    labels, windows, drop = ev.ranged(arg)
    values, present = compute(windows, *extra)
    if node.function not in KEEP_NAME:
        drop = np.ones(len(labels), dtype=bool)
    return Vector(labels, values, present, drop).spread(ev.grid.count)


def _quantile_over_time(ev: Evaluator, node: Call) -> Vector:
    q = ev.scalar(node.args[0])
    for wanted in dict.fromkeys(q[(q < 0) | (q > 1) | np.isnan(q)].tolist()):
        ev.ctx.notes.quantile_out_of_range(wanted, node.args[0].pos)
    labels, windows, _ = ev.ranged(node.args[1])
    values, present = overtime.quantile(_at_every_step(windows, ev.grid.count), q)
    return Vector(labels, values, present, np.ones(len(labels), dtype=bool))


def _at_every_step(windows: Windows, steps: int) -> Windows:
    """Windows that `@` fixed, repeated: the function's other arguments may differ from step to step."""
    shape = (len(windows.lo), steps)
    lo, hi = np.broadcast_to(windows.lo, shape), np.broadcast_to(windows.hi, shape)
    return replace(windows, lo=lo, hi=hi, ends=np.broadcast_to(windows.ends, steps))


def _predict_linear(ev: Evaluator, node: Call) -> Vector:
    ahead = ev.scalar(node.args[1])
    now = ev.grid.times.astype(np.float64)
    return _over_windows(ev, node, node.args[0], overtime.predict, ahead, now)


def _smooth(ev: Evaluator, node: Call) -> Vector:
    level, trend = ev.scalar(node.args[1]), ev.scalar(node.args[2])
    for name, factor in (("smoothing", level), ("trend", trend)):
        wrong = ~((factor > 0) & (factor < 1))
        if wrong.any():
            raise PromQLEvalError(
                f"invalid {name} factor. Expected: 0 < {name[0]}f < 1, got: {float(factor[wrong][0]):f}"
            )
    labels, windows, _ = ev.ranged(node.args[0])
    values, present = overtime.smooth(_at_every_step(windows, ev.grid.count), level, trend)
    return Vector(labels, values, present, np.ones(len(labels), dtype=bool))


def _absent_over_time(ev: Evaluator, node: Call) -> Vector:
    arg = nodes.unwrap(node.args[0])
    _, windows, _ = ev.ranged(arg)
    missing = np.broadcast_to(~(windows.hi > windows.lo).any(axis=0), ev.grid.count)
    selector = arg.selector if isinstance(arg, nodes.RangeSelector) else None
    return _absence(ev, missing, selector)


def _absent(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    arg = nodes.unwrap(node.args[0])
    missing = np.asarray(~vector.mask.any(axis=0))
    return _absence(ev, missing, arg if isinstance(arg, nodes.Selector) else None)


def _absence(ev: Evaluator, missing: Bools, selector: nodes.Selector | None) -> Vector:
    labels = functions.absent_labels(selector.matchers) if selector is not None else {}
    frame = LabelFrame.of(ev.ctx.symbols, [labels])
    return Vector(frame, np.ones((1, ev.grid.count)), missing[None, :], np.zeros(1, dtype=bool))


def _timestamp(ev: Evaluator, node: Call) -> Vector:
    arg = nodes.unwrap(node.args[0])
    if isinstance(arg, nodes.Selector):
        return select_timestamps(ev.ctx, arg, ev.grid)
    vector = ev.vector(arg)
    times = np.broadcast_to(ev.grid.times / 1000.0, vector.values.shape)
    return vector.replace(values=times, drop_name=True)


def _round(ev: Evaluator, node: Call) -> Vector:
    nearest = ev.scalar(node.args[1]) if len(node.args) > 1 else np.ones(1)
    return functions.round_to(ev.vector(node.args[0]), nearest)


def _clamp(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    return functions.clamp(vector, ev.scalar(node.args[1]), ev.scalar(node.args[2]))


def _clamp_min(ev: Evaluator, node: Call) -> Vector:
    return functions.clamp(ev.vector(node.args[0]), ev.scalar(node.args[1]), np.full(1, np.inf))


def _clamp_max(ev: Evaluator, node: Call) -> Vector:
    return functions.clamp(ev.vector(node.args[0]), np.full(1, -np.inf), ev.scalar(node.args[1]))


def _label_replace(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    dst = ev.label_name(node.args[1], "destination label name in label_replace():")
    replacement, src, pattern = (ev.text(arg) for arg in node.args[2:])
    return relabel.label_replace(vector, dst, replacement, src, pattern)


def _label_join(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    dst = ev.label_name(node.args[1], "destination label name in label_join():")
    sources = [ev.label_name(arg, "source label name in label_join():") for arg in node.args[3:]]
    return relabel.label_join(vector, dst, ev.text(node.args[2]), sources)


def _sort(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    if not ev.ctx.instant:
        ev.ctx.notes.sort_in_range(node.pos)
        return vector
    return relabel.sort_by_value(vector, descending=node.function == "sort_desc")


def _sort_by_label(ev: Evaluator, node: Call) -> Vector:
    vector = ev.vector(node.args[0])
    if not ev.ctx.instant:
        ev.ctx.notes.sort_in_range(node.pos)
        return vector
    names = [ev.text(arg) for arg in node.args[1:]]
    return relabel.sort_by_label(vector, names, descending=node.function == "sort_by_label_desc")


def _histogram_quantile(ev: Evaluator, node: Call) -> Vector:
    q_arg, arg = node.args
    return histogram.quantile(ev.vector(arg), ev.scalar(q_arg), ev.ctx.notes, q_arg.pos, arg.pos)


def _histogram_quantiles(ev: Evaluator, node: Call) -> Vector:
    arg, label, *wanted = node.args
    qs = [(ev.scalar(q), q.pos) for q in wanted]
    return histogram.quantiles(ev.vector(arg), ev.label_name(label), qs, ev.ctx.notes, arg.pos)


def _histogram_fraction(ev: Evaluator, node: Call) -> Vector:
    low, high, arg = node.args
    return histogram.fraction(ev.vector(arg), ev.scalar(low), ev.scalar(high), ev.ctx.notes, arg.pos)


def _of_native_histograms(ev: Evaluator, node: Call) -> Vector:
    """Floats are passed over, and there is nothing else here."""
    return Vector.empty(ev.vector(node.args[0]).labels, ev.grid.count)


def _constant(value: Callable[[Evaluator], float]) -> Callable[[Evaluator, Call], Value]:
    return lambda ev, node: Scalar(np.full(ev.grid.count, value(ev)))


def _vector(ev: Evaluator, node: Call) -> Value:
    return from_scalar(ev.ctx, ev.scalar(node.args[0]))


_CALLS: Final[dict[str, Callable[[Evaluator, Call], Value]]] = {
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "clamp": _clamp,
    "clamp_max": _clamp_max,
    "clamp_min": _clamp_min,
    "double_exponential_smoothing": _smooth,
    "end": _constant(lambda ev: ev.ctx.end_ms / 1000.0),
    "histogram_avg": _of_native_histograms,
    "histogram_count": _of_native_histograms,
    "histogram_fraction": _histogram_fraction,
    "histogram_quantile": _histogram_quantile,
    "histogram_quantiles": _histogram_quantiles,
    "histogram_stddev": _of_native_histograms,
    "histogram_stdvar": _of_native_histograms,
    "histogram_sum": _of_native_histograms,
    "label_join": _label_join,
    "label_replace": _label_replace,
    "max_of": lambda ev, node: Scalar(np.maximum(ev.scalar(node.args[0]), ev.scalar(node.args[1]))),
    "min_of": lambda ev, node: Scalar(np.minimum(ev.scalar(node.args[0]), ev.scalar(node.args[1]))),
    "pi": _constant(lambda ev: math.pi),
    "predict_linear": _predict_linear,
    "quantile_over_time": _quantile_over_time,
    "range": _constant(lambda ev: (ev.ctx.end_ms - ev.ctx.start_ms) / 1000.0),
    "round": _round,
    "scalar": lambda ev, node: Scalar(functions.to_scalar(ev.vector(node.args[0]))),
    "sort": _sort,
    "sort_by_label": _sort_by_label,
    "sort_by_label_desc": _sort_by_label,
    "sort_desc": _sort,
    "start": _constant(lambda ev: ev.ctx.start_ms / 1000.0),
    "step": _constant(lambda ev: ev.ctx.step_ms / 1000.0),
    "time": lambda ev, node: Scalar(ev.grid.times / 1000.0),
    "timestamp": _timestamp,
    "vector": _vector,
}
