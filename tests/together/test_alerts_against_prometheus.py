"""One rule file, the same samples: the alerts of Trilens are those of Prometheus, answers and series."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.testclient import TestClient

from metric_sources import prometheus
from rules_at_work import Fleet, groups
from servers import until
from trilens.alert.manager import RuleManager
from trilens.alert.templates.expand import External
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.identity import LOCAL
from trilens.model.labels import make_labels
from trilens.serve.routes import IDENTITY
from trilens.serve.rules import RulesApi
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from trilens.model.labels import Labels

RULES = """\
groups:
- name: own
  interval: 500ms
  rules:
  - {record: 'a:pass', expr: vector(1)}
  - alert: Hot
    expr: power > 150
    for: 1s
    labels: {severity: '{{ if gt $value 290.0 }}critical{{ else }}warning{{ end }}', node: ''}
    annotations: {summary: 'GPU {{ $labels.gpu }} draws {{ $value | humanize }} W', site: '{{ $externalLabels.site }}'}
  - {alert: Kept, expr: power > 150, keep_firing_for: 1h}
  - {alert: Waiting, expr: power > 150, for: 1h}
  - {alert: Quiet, expr: power > 1000}
  - {alert: Bad, expr: power > 250, annotations: {wrong: '{{ gt $value 5 }}', other: '{{ query "sum(power)" | first | value }}'}}
  - {alert: Same, expr: power > 150, labels: {gpu: all}}
- name: limited
  interval: 500ms
  limit: 1
  rules:
  - {record: 'b:pass', expr: vector(1)}
  - {alert: Limited, expr: power > 0}
"""  # noqa: E501
CHANGES = 30  # what is hot changes with this sample: after the first passes, unless a start takes long
SHOWN = '{__name__=~"ALERTS|ALERTS_FOR_STATE"}'
TIMES = ("evaluationTime", "lastEvaluation", "activeAt", "keepFiringSince", "file")


class FromHere:
    """What the gate does for who asks on this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[IDENTITY] = LOCAL
        await self._app(scope, receive, send)


def samples(start_ms: int) -> list[tuple[Labels, int, float]]:
    """Two a second for a minute: one GPU is always hot, one only at first, one only later."""
    rows = []
    for k in range(120):
        for gpu, power in enumerate((300.0, 200.0 if k < CHANGES else 90.0, 90.0 if k < CHANGES else 200.0)):
            labels = make_labels({"__name__": "power", "gpu": str(gpu), "node": "n"})
            rows.append((labels, start_ms + 500 * k, power))
    return rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path / "ours"), upkeep=False)
    yield opened
    opened.close()


def without_times(told: Any) -> Any:
    """And in an order: Prometheus tells alerts in any. Before 2.44 it leaves out what is empty."""
    if isinstance(told, list):
        return sorted((without_times(one) for one in told), key=repr)
    if isinstance(told, dict):
        return {
            name: without_times(one)
            for name, one in sorted(told.items())
            if name not in TIMES and (name, one) != ("labels", {})
        }
    return told


def test_the_same_alerts(tmp_path: Path, store: Store) -> None:
    (tmp_path / "rules.yml").write_text(RULES)
    start_ms = time.time_ns() // 1_000_000 - 12_000
    rows = samples(start_ms)
    with prometheus(tmp_path) as url:  # the samples first: no pass may see half of them
        assert httpx.post(f"{url}/api/v1/write", content=encode(rows), headers=HEADERS).status_code == 204
    config = "global: {external_labels: {site: east}}\nrule_files: [rules.yml]\n"
    with (
        prometheus(tmp_path, config) as url,
        httpx.Client(base_url=f"{url}/api/v1", timeout=30) as real,
    ):

        def asked(query: str, at_ms: int) -> list[dict[str, Any]]:
            found = real.get("/query", params={"query": query, "time": f"{at_ms / 1000:.3f}"}).json()
            result: list[dict[str, Any]] = found["data"]["result"]
            return result

        def passes(metric: str) -> list[int]:
            found = asked(f"{metric}[1m]", time.time_ns() // 1_000_000)
            return sorted({round(1000 * t) for one in found for t, _ in one["values"]})

        settled_ms = start_ms + 500 * CHANGES + 2500
        until(lambda: passes("a:pass")[-1:] > [settled_ms], "Prometheus does not evaluate")
        until(lambda: passes("b:pass")[-1:] > [settled_ms], "Prometheus does not evaluate")
        moments = {metric: [t for t in passes(metric) if t <= settled_ms] for metric in ("a:pass", "b:pass")}
        told = {path: real.get(path).json()["data"] for path in ("/rules", "/alerts")}
        theirs = {
            at: {(make_labels(one["metric"]), float(one["value"][1])) for one in asked(SHOWN, at)}
            for at in moments["a:pass"][3:]  # it writes none until it has looked for those of before
        }
    fleet = Fleet(store)
    for labels, t_ms, value in rows:
        store.append(np.array([store.series(labels)]), np.array([t_ms]), np.array([value]))
    manager = RuleManager(groups(RULES), store, store, external=External("http://x", (("site", "east"),)))
    for state, metric in zip(manager.states(), moments, strict=True):
        for at_ms in moments[metric]:
            manager.evaluate(state, at_ms)
    assert {at: set(fleet.shows(SHOWN, at).items()) for at in theirs} == theirs
    assert len({frozenset(series) for series in theirs.values()}) > 1  # some came, some went
    api = RulesApi(manager.states)
    routes = [Route("/rules", api.rules), Route("/alerts", api.alerts)]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(FromHere)]))
    for path, data in told.items():
        assert without_times(client.get(path).json()["data"]) == without_times(data)
