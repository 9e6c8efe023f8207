"""Queries of a bound asker, sent on to a real Prometheus and a real VictoriaMetrics: bounded in text."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from metric_sources import prometheus, victoria_metrics
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens.serve.app import build_app
from trilens.serve.status import StatusApi
from trilens.serve.upstream import Upstream
from two_teams import CANARY, Wristband

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

NOW = int(time.time()) // 15 * 15
WINDOW = {"start": str(NOW - 300), "end": str(NOW)}


@pytest.fixture(scope="module", params=[prometheus, victoria_metrics])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    with request.param(tmp_path_factory.mktemp("source")) as url:
        rows = [
            (make_labels({"__name__": name, "cluster": "lab", "workload": workload, **team}), NOW * 1000, 1.0)
            for name, workload, team in (
                ("use", "nlp-train", {"team": "nlp"}),
                ("use", "canary-train", {"team": "canary-vision"}),
                ("canary_use", "canary-nobodys", {"secret": "canary"}),
            )
        ]
        httpx.post(f"{url}/api/v1/write", content=encode(rows), headers=HEADERS).raise_for_status()
        if request.param is victoria_metrics:
            httpx.get(f"{url}/internal/force_flush").raise_for_status()
        with trilens_on(url) as found:
            yield found


@contextlib.contextmanager
def trilens_on(url: str) -> Iterator[httpx.Client]:
    api = Api(overrides={"source.url": url}, doors=[Wristband()])
    upstream = Upstream(api.settings.source, api.settings.server.max_body)

    @contextlib.asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        await upstream.start()
        yield
        await upstream.stop()

    parts = api.parts()
    status = replace(parts.prometheus, status=StatusApi(lambda: api.in_force, None, api.runner))
    app = build_app(replace(parts, source=upstream, prometheus=status), lifespan=lifespan)
    with running(app) as own, httpx.Client(base_url=f"{own}/api/v1", timeout=60) as client:
        yield client


ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/query", {"query": "use", "time": str(NOW)}),
    ("POST", "/query", {"query": '{workload=~".+"}', "time": str(NOW)}),
    ("GET", "/query", {"query": 'use{team=~".*"} or use{team="canary-vision"}', "time": str(NOW)}),
    ("GET", "/query_range", {"query": "use", "step": "15", **WINDOW}),
    ("GET", "/series", {"match[]": ["use", '{workload=~".+"}'], **WINDOW}),
    ("GET", "/labels", WINDOW),
    ("GET", "/label/workload/values", WINDOW),
    ("GET", "/label/team/values", {"match[]": "use", **WINDOW}),
    ("GET", "/label/__name__/values", WINDOW),
    ("GET", "/label/team/values", {"query": "up", **WINDOW}),
    ("POST", "/labels", {"query": "1", **WINDOW}),
    ("GET", "/series", {"query": "1", "match[]": "use", **WINDOW}),
    ("GET", "/query", {"query": "use", "match[]": '{workload=~".+"}', "time": str(NOW)}),
    ("GET", "/label/te%61m/values", WINDOW),
]


@pytest.mark.parametrize(("method", "path", "params"), ASKED)
def test_nothing_of_others_comes_back(
    client: httpx.Client, method: str, path: str, params: dict[str, Any]
) -> None:
    where: dict[str, Any] = {"params": params} if method == "GET" else {"data": params}
    whole = client.request(method, path, headers={"role": "admin"}, **where)
    assert CANARY in whole.text or path == "/labels", "there is something to hide"
    bound = client.request(method, path, headers={"role": "nlp"}, **where)
    assert bound.status_code == 200, bound.text
    assert CANARY not in bound.text
    assert bound.json()["data"], "and something of its own"


def test_ways_of_other_servers_to_select_are_not_passed_on(client: httpx.Client) -> None:
    wider = {"query": "use", "time": str(NOW), "extra_filters[]": '{team="canary-vision"}'}
    answer = client.get("/query", params=wider, headers={"role": "nlp"})
    assert len(answer.json()["data"]["result"]) == 1


def test_what_cannot_be_bounded_is_refused(client: httpx.Client) -> None:
    wrong = client.get("/query", params={"query": "use keep_metric_names {"}, headers={"role": "nlp"})
    assert (wrong.status_code, wrong.json()["errorType"]) == (400, "bad_data")
    for path in ("/metadata", "/%6detadata", "/metadat%61"):
        metadata = client.get(path, headers={"role": "nlp"})
        assert (metadata.status_code, metadata.json()["errorType"]) == (403, "forbidden"), path


def test_labels_of_a_bound_asker_are_those_of_his_series_alone(client: httpx.Client) -> None:
    """Whatever else is asked for: only the series of others have the label `secret`."""
    for asked in ({}, {"query": "1"}):
        names = client.get("/labels", params={**asked, **WINDOW}, headers={"role": "nlp"}).json()["data"]
        assert "team" in names
        assert "secret" not in names


def test_what_is_sent_on_is_not_read_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(query: str, _matchers: object) -> str:
        read.append(threading.current_thread().name.partition("_")[0])
        return query

    monkeypatch.setattr("trilens.serve.access.seen_series.bounded", noted)
    with trilens_on("http://127.0.0.1:1") as client:
        client.get("/query?query=up", headers={"role": "nlp"})
        assert read == ["query"]
        many = client.post("/series", data={"match[]": ["up"] * 1_001}, headers={"role": "nlp"})
        assert (many.status_code, many.json()["errorType"], len(read)) == (400, "bad_data", 1)
