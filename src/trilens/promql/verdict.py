"""Whether a query's answer is what an evaluation script expects, to Prometheus's own tolerance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from trilens.model.errors import PromQLUnsupported, QueryError
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_BITS
from trilens.promql.format import number

if TYPE_CHECKING:
    from trilens.model.labels import Labels
    from trilens.promql.engine import Engine
    from trilens.promql.result import QueryResult
    from trilens.promql.script import Described, Eval, Remark

_TOLERANCE: Final = 1e-6
_SMALLEST_NORMAL: Final = 2.2250738585072014e-308
_LARGEST: Final = 1.7976931348623157e308
_MINUTE_MS: Final = 60_000
_ABOUT_THE_RANGE: Final = ("step()", "range()", "start()", "end()")


class Difference(NamedTuple):
    reason: str
    got: str
    want: str


def judge(engine: Engine, command: Eval) -> Difference | None:
    """None if the answer is as expected. PromQLUnsupported is for the caller to judge."""
    try:
        result = _ask(engine, command)
    except PromQLUnsupported:
        raise
    except QueryError as e:
        if command.fail is None:
            return Difference("the query failed", str(e), _expected(command))
        if not command.fail.fits(e.message):
            return Difference("the query failed with another message", e.message, command.fail.text)
        return None
    if command.fail is not None:
        return Difference("the query should have failed", _shown(result), command.fail.text or "any error")
    remarks = _compare_remarks(command, result)
    if remarks is not None:
        return remarks
    difference = _compare(command, result)
    if (
        difference is None
        and command.step_ms == 0
        and not command.ordered
        and result.kind in ("vector", "scalar")
    ):
        return _ask_around(engine, command)
    return difference


def _ask(engine: Engine, command: Eval) -> QueryResult:
    if command.step_ms == 0:
        return engine.instant(command.query, command.start_ms, QueryGuard())
    return engine.range(command.query, command.start_ms, command.end_ms, command.step_ms, QueryGuard())


def _ask_around(engine: Engine, command: Eval) -> Difference | None:
    """The middle step of a range query around the time must give the same answer."""
    if any(text in command.query for text in _ABOUT_THE_RANGE):
        return None
    at = command.start_ms
    result = engine.range(command.query, at - _MINUTE_MS, at + _MINUTE_MS, _MINUTE_MS, QueryGuard())
    got = {key: points[at] for key, points in _points(result).items() if at in points}
    want = _wanted_instant(command)
    if _same_values(got, want):
        return None
    return Difference("differs when asked as a range query", _written(got), _written(want))


def _compare_remarks(command: Eval, result: QueryResult) -> Difference | None:
    for what, got, want, none in (
        ("warning", result.warnings, command.warn, command.no_warn),
        ("info", result.infos, command.info, command.no_info),
    ):
        if none and got:
            return Difference(f"unexpected {what}", "; ".join(got), f"no {what}")
        for remark in want:
            if not _said(got, remark):
                said = "; ".join(got) or f"no {what}"
                return Difference(f"missing {what}", said, remark.text or f"any {what}")
    return None


def _said(messages: tuple[str, ...], remark: Remark) -> bool:
    return any(remark.fits(message) for message in messages)


def _compare(command: Eval, result: QueryResult) -> Difference | None:
    if command.text is not None:
        if result.kind == "string" and result.text == command.text:
            return None
        return Difference("another string", _shown(result), command.text)
    got = _points(result)
    if command.raw_ms is not None:
        want = _wanted_range(command.series, *command.raw_ms)
    elif command.step_ms:
        want = _wanted_range(command.series, command.start_ms, command.end_ms, command.step_ms)
        if command.scalar is not None:
            want = {(): dict.fromkeys(result.steps_ms.tolist(), command.scalar)}
    else:
        return _compare_instant(command, result, got)
    want = {key: points for key, points in want.items() if points}
    same = len(result.labels) == len(want) and got.keys() == want.keys()
    same = same and all(
        got[key].keys() == want[key].keys() and _same_values(got[key], want[key]) for key in want
    )
    return None if same else Difference("another result", _written(got), _written(want))


def _compare_instant(
    command: Eval, result: QueryResult, points: dict[Labels, dict[int, float]]
) -> Difference | None:
    got = {key: x[command.start_ms] for key, x in points.items()}
    want = _wanted_instant(command)
    if (command.scalar is not None) != (result.kind == "scalar"):
        return Difference(
            "another kind of result", result.kind, "scalar" if command.scalar is not None else "vector"
        )
    if len(got) != len(result.labels):
        return Difference("series with the same labels", _written(got), _written(want))
    if not _same_values(got, want):
        return Difference("another result", _written(got), _written(want))
    if command.ordered and list(got) != list(want):
        return Difference("another order", _written(got), _written(want))
    return None


def _wanted_instant(command: Eval) -> dict[Labels, float]:
    if command.scalar is not None:
        return {(): command.scalar}
    return {_key(s): s.points[0] for s in command.series if isinstance(s.points[0], float)}


def _expected(command: Eval) -> str:
    if command.text is not None:
        return repr(command.text)
    if command.step_ms == 0 and command.raw_ms is None:
        return _written(_wanted_instant(command))
    times = command.raw_ms or (command.start_ms, command.end_ms, command.step_ms)
    return _written(_wanted_range(command.series, *times))


def _wanted_range(series: list[Described], start: int, end: int, step: int) -> dict[Labels, dict[int, float]]:
    return {
        _key(s): {start + i * step: x for i, x in enumerate(s.points) if isinstance(x, float)} for s in series
    }


def _key(series: Described) -> Labels:
    return tuple(sorted(series.labels.items()))


def _points(result: QueryResult) -> dict[Labels, dict[int, float]]:
    found: dict[Labels, dict[int, float]] = {}
    for row in range(len(result.labels)):
        key = tuple(result.labels.labels(row).items())
        if result.samples is not None:
            lo, hi = result.samples.offsets[row : row + 2].tolist()
            times, values = result.samples.t[lo:hi], result.samples.v[lo:hi]
        else:
            here = slice(None) if result.present is None else result.present[row]
            times, values = result.steps_ms[here], result.values[row][here]
        found[key] = dict(zip(times.tolist(), values.tolist(), strict=True))
    return found


def _same_values(got: dict[Any, float], want: dict[Any, float]) -> bool:
    return got.keys() == want.keys() and all(nearly_equal(got[k], want[k]) for k in want)


def nearly_equal(a: float, b: float) -> bool:
    """As Prometheus's own comparison of test results: relative to the size, NaN like NaN."""
    bits = np.array([a, b]).view(np.uint64) == STALE_BITS
    if bits.any():
        return bool(bits.all())
    if (math.isnan(a) and math.isnan(b)) or a == b:
        return True
    size, distance = abs(a) + abs(b), abs(a - b)
    if a == 0 or b == 0 or size < _SMALLEST_NORMAL:
        return distance < _TOLERANCE * _SMALLEST_NORMAL
    return distance / min(size, _LARGEST) < _TOLERANCE


def _shown(result: QueryResult) -> str:
    return repr(result.text) if result.kind == "string" else _written(_points(result))


def _written(series: Any) -> str:
    """Results for a person to compare, in a line for each series."""
    if not series:
        return "no series"
    lines = []
    for key, value in series.items():
        labels = "{" + ", ".join(f'{n}="{v}"' for n, v in key) + "}"
        if isinstance(value, dict):
            lines.append(f"{labels} " + " ".join(f"{number(x)}@{t}" for t, x in value.items()))
        else:
            lines.append(f"{labels} {number(value)}")
    return "\n".join(lines)
