"""Who chooses a team or a model on a board sees what is of it, and nothing of another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from dashboard_queries import Asked, asked, boards, chosen, everything, filled

from recording_rules import series
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recording_rules import Series

CHOICES: Final = frozenset({"team", "model"})
OF_NOBODY: Final = {
    ("cost", "GPUs without a price", 0): "a GPU has a model, and who holds it is not asked",
    ("inference", "Requests that fail", 1): "proxies know no models, and gateways no workloads",
}
_SERIES: Final = re.compile(r"\b(?:trilens[_:][\w:]+|ALERTS)\b")
_WANTED: Final = re.compile(r'(\w+)="([^"]+)"')  # what a query says itself, as over="mean"
_TEAMLESS: Final = re.compile(r"trilens:workload_(gpu|sm)|ALERTS|trilens_finding")
_OF_MODELS: Final = re.compile(r"trilens:inference_(?!up:|availability:)")
_MINUTE_MS: Final = 60_000
_NOW_MS: Final = 2 * 60 * _MINUTE_MS
# A millisecond; with these no sum, mean, ratio or smallest of both is that of each.
_GROWS: Final = {"a": 0.1, "b": 0.7}


def _asked() -> list[Asked]:
    with_choice = {
        slug
        for slug, board in boards().items()
        if CHOICES & {variable["name"] for variable in board["templating"]["list"]}
    }
    every = [one for one in asked() if one.board in with_choice]
    return [one for one in every if (one.board, one.panel, one.number) not in OF_NOBODY]


def _labels(name: str, whose: str) -> dict[str, str]:
    """As the series of this name has them."""
    lacks = {"team"} if _TEAMLESS.match(name) else set()
    if not _OF_MODELS.match(name):
        lacks.add("model")
    of = [one for one in ("namespace", "workload", "job", "team", "model", "name") if one not in lacks]
    return {"__name__": name, "cluster": "c1", "kind": "Job", **dict.fromkeys(of, whose)}


def _told(expr: str, whose: Iterable[str]) -> MemorySource:
    source = MemorySource()
    for one in whose:
        for number, name in enumerate(sorted({*_SERIES.findall(expr)}), start=1):
            labels = {**_labels(name, one), **dict(_WANTED.findall(expr))}
            grows = 0.0 if name == "trilens_workload_phase" else _GROWS[one] ** number
            source.add(labels, [(t_ms, 1 + grows * t_ms) for t_ms in range(0, _NOW_MS + 1, _MINUTE_MS)])
    return source


def _shown(source: MemorySource, one: Asked, choice: str | None) -> Series:
    """With a team and a model chosen, or with all."""
    variables = chosen(boards()[one.board], everything)
    if choice is not None:
        variables |= dict.fromkeys(CHOICES, choice)
    return series(Engine(source).instant(filled(one.expr, variables), _NOW_MS, QueryGuard()))


@pytest.mark.parametrize("choice", _GROWS)
@pytest.mark.parametrize("one", _asked(), ids=str)
def test_of_two_the_one_that_is_chosen_is_shown(one: Asked, choice: str) -> None:
    alone = _shown(_told(one.expr, [choice]), one, choice)
    assert alone
    assert _shown(_told(one.expr, _GROWS), one, choice) == alone


def _query(board: str, panel: str) -> Asked:
    return next(one for one in asked() if (one.board, one.panel) == (board, panel))


def test_while_no_team_is_chosen_alerts_about_no_workload_are_shown() -> None:
    source = MemorySource()
    alert = {"alertname": "NodeDown", "alertstate": "firing", "cluster": "c1", "node": "n1"}
    source.add({"__name__": "ALERTS", **alert}, [(_NOW_MS, 1.0)])
    one = _query("workload", "Alerts about them")
    assert len(_shown(source, one, None)) == 1
    assert len(_shown(source, one, "a")) == 0


@pytest.mark.parametrize("panel", ["Availability", "Replicas that answer", "Availability by service"])
def test_a_service_that_is_down_is_shown_by_the_model_that_it_had(panel: str) -> None:
    """Of whom no request ends there is no series with a model."""
    source, one = MemorySource(), _query("inference", panel)
    for whose, up in (("a", 0.0), ("b", 1.0)):
        for name in ("trilens:inference_up:ratio", "trilens:inference_availability:ratio"):
            source.add(_labels(name, whose), [(_NOW_MS, up)])
    requests = "trilens:inference_requests:per_second"
    source.add(_labels(requests, "a"), [(_NOW_MS - 60 * _MINUTE_MS, 1.0)])
    source.add(_labels(requests, "b"), [(_NOW_MS, 1.0)])
    assert [*_shown(source, one, "a").values()] == [0.0]
    assert [*_shown(source, one, "b").values()] == [1.0]


def test_a_server_of_two_models_has_one_price() -> None:
    source, one = MemorySource(), _query("inference", "A million tokens cost")
    server = {**_labels("trilens:inference_tokens:per_second", "a"), "token": "completion"}
    source.add(_labels("trilens_workload_cost_rate_per_hour", "a"), [(_NOW_MS, 3.6)])
    for model in ("a", "b"):
        source.add({**server, "model": model}, [(_NOW_MS, 500.0)])
        source.add(
            {**server, "__name__": "trilens:inference_requests:per_second", "model": model}, [(_NOW_MS, 1)]
        )
    for choice in ("a", "b", None):
        assert [*_shown(source, one, choice).values()] == [pytest.approx(1.0)]
