"""The curves of one service over a span, asked in one query."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.promql.annotations import quote
from trilens.serve.own_queries import Times
from trilens.serve.pages import services_figures as recorded
from trilens.serve.pages.services_answers import SloCurveAnswer
from trilens.serve.pages.services_slos import BAD, HOUR, LEFT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trilens.alert.slo.file import Objective
    from trilens.serve.own_queries import Matrix
    from trilens.serve.pages.services_figures import ServiceKey

LABELS: Final = ("figure", "quantile", "slo", "model")
MOST_POINTS: Final = 300
_RECORDED_MS: Final = 30_000
_SHOWN_MS: Final = 120_000  # further apart, a moment would stand for more than is known of it


class _Curve(NamedTuple):
    """`together` puts the series of one service together, `over` the moments between two points."""

    figure: str
    metric: str
    together: str = "sum"
    over: str = "avg_over_time"
    where: str = ""


_CURVES: Final = (
    _Curve("requests_per_s", recorded.REQUESTS),
    _Curve("errors_per_s", recorded.ERRORS),
    _Curve("proxied_errors_per_s", recorded.HTTP_ERRORS),
    _Curve("latency", recorded.LATENCY, "max by (quantile)", "max_over_time"),
    _Curve("ttft", recorded.TTFT, "max by (quantile)", "max_over_time"),
    _Curve("per_token", recorded.PER_TOKEN, "max by (quantile)", "max_over_time"),
    _Curve("running", recorded.RUNNING),
    _Curve("waiting", recorded.WAITING, over="max_over_time"),
    _Curve("cache_used", recorded.CACHE, "max", "max_over_time"),
    _Curve("tokens_per_s", recorded.TOKENS),
    _Curve("replicas_up", recorded.UP, "min", "min_over_time"),
    _Curve("per_hour", recorded.COST, "sum", "avg_over_time"),
    _Curve("budget_left", LEFT, "min by (slo, model)", "last_over_time"),
    _Curve("burn", BAD, "max by (slo, model)", "max_over_time", f', window="{HOUR}"'),
)
_PERCENTILES: Final = {"": "", "0.5": "_p50", "0.95": "_p95", "0.99": "_p99"}


def times_of(from_ms: int, to_ms: int) -> Times:
    """At most `MOST_POINTS`, the last of them at the end."""
    span_ms = max(to_ms - from_ms, _RECORDED_MS)
    step_ms = max(_RECORDED_MS, -(-span_ms // (MOST_POINTS - 1)))
    moments = span_ms // step_ms + 1
    return Times(to_ms - (moments - 1) * step_ms, step_ms, moments)


def query_of(key: ServiceKey, named_by: Iterable[str], step_ms: int) -> str:
    """Each series named by `figure`; `named_by` are the labels that have the service's name."""
    places = [_place(key, label) for label in sorted(named_by)]
    return " or ".join(_expression(curve, places, step_ms) for curve in _CURVES)


def _expression(curve: _Curve, places: Sequence[str], step_ms: int) -> str:
    selectors = [f"{curve.metric}{{{place}{curve.where}}}" for place in places]
    if step_ms > _SHOWN_MS:
        selectors = [f"{curve.over}({one}[{step_ms}ms])" for one in selectors]
    return f'label_replace({curve.together} ({" or ".join(selectors)}), "figure", "{curve.figure}", "", "")'


def _place(key: ServiceKey, label: str) -> str:
    names = recorded.NAMES
    unnamed = "".join(f', {name}=""' for name in names[: names.index(label)])
    cluster, namespace, name = map(quote, key)
    return f"cluster={cluster}, namespace={namespace}, {label}={name}{unnamed}"


def curves_of(matrix: Matrix) -> dict[str, list[float | None]]:
    found = {}
    for (figure, quantile, slo, _model), values in _rows(matrix):
        if not slo:
            found[figure + _PERCENTILES.get(quantile, "")] = values
    return found


def slo_curves_of(matrix: Matrix, objectives: Sequence[Objective]) -> list[SloCurveAnswer]:
    budgets = {one.name: float(one.budget) for one in objectives}
    nothing: list[float | None] = [None] * matrix.values.shape[1]
    left: dict[tuple[str, str], list[float | None]] = {}
    burn: dict[tuple[str, str], list[float | None]] = {}
    for (figure, _quantile, slo, model), values in _rows(matrix):
        if slo in budgets and figure == "budget_left":
            left[slo, model] = values
        elif slo in budgets:
            budget = budgets[slo]
            burn[slo, model] = [value / budget if value is not None else None for value in values]
    return [
        SloCurveAnswer(slo, model or None, left.get((slo, model), nothing), burn.get((slo, model), nothing))
        for slo, model in sorted(left.keys() | burn.keys())
    ]


def _rows(matrix: Matrix) -> Iterator[tuple[Any, list[float | None]]]:
    for key, values in zip(matrix.keys, matrix.values.tolist(), strict=True):
        yield key, [value if math.isfinite(value) else None for value in values]
