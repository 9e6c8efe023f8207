"""Queries sent on to a real Prometheus and a real VictoriaMetrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from certificates import make_certificates
from memory_api import Api, running
from metric_sources import prometheus, victoria_metrics
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens.serve.app import Parts, build_app
from trilens.serve.history import HistoryApi
from trilens.serve.page import Overview
from trilens.serve.probes import Probes, Readiness
from trilens.serve.push import SelfPush
from trilens.serve.status import StatusApi
from trilens.serve.targets import TargetsApi
from trilens.serve.upstream import Upstream
from trilens.serve.write import WriteApi
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

NOW = int(time.time()) // 15 * 15


@contextlib.contextmanager
def trilens_on(url: str, **source: str) -> Iterator[httpx.Client]:
    """A Trilens whose metric source is `url`."""
    overrides = {"source.url": url, **{f"source.{key}": value for key, value in source.items()}}
    api = Api(overrides=overrides)
    upstream = Upstream(api.settings.source, api.settings.server.max_body)

    async def reload() -> None: ...

    @contextlib.asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        await upstream.start()
        yield
        await upstream.stop()

    app = build_app(
        Parts(
            settings=api.settings,
            token=None,
            source=upstream,
            runner=api.runner,
            metrics=api.metrics,
            probes=Probes(
                lambda: Readiness(True, {}), lambda: Overview(0, "", [], [], []), reload, api.metrics
            ),
            status=StatusApi(lambda: api.settings, None, api.runner),
            targets=TargetsApi(None),
            write=WriteApi(None, ThreadPoolExecutor(1), 1000),
            history=HistoryApi(None, ThreadPoolExecutor(1), 1000),
        ),
        lifespan=lifespan,
    )

    with running(app) as own, httpx.Client(base_url=own + "/api/v1", timeout=20) as client:
        yield client


def fill(url: str) -> None:
    rows = [
        (make_labels({"__name__": "power", "gpu": str(gpu)}), (NOW - 600 + 15 * i) * 1000, 10.5 * gpu + i)
        for gpu in range(4)
        for i in range(40)
    ]
    assert httpx.post(f"{url}/api/v1/write", content=encode(rows), headers=HEADERS).status_code < 300


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    start = prometheus if request.param == "prometheus" else victoria_metrics
    with start(tmp_path_factory.mktemp(request.param)) as url:
        fill(url)
        if request.param == "victoria-metrics":
            httpx.get(f"{url}/internal/force_flush").raise_for_status()
        yield url


def test_the_same_answers_as_from_the_server_itself(source: str) -> None:
    window = {"start": str(NOW - 600), "end": str(NOW - 15), "step": "15"}
    asked: list[tuple[str, str, dict[str, str]]] = [
        ("GET", "query", {"query": "sum(power)", "time": str(NOW - 60)}),
        ("POST", "query", {"query": "power > 20", "time": str(NOW - 60)}),
        ("GET", "query_range", {"query": "power", **window}),
        ("POST", "query_range", {"query": 'sum(rate(power{gpu=~"1|2"}[2m]))', **window}),
        ("GET", "series", {"match[]": 'power{gpu="1"}', "start": window["start"], "end": window["end"]}),
        ("GET", "labels", {"start": window["start"], "end": window["end"]}),
        ("GET", "label/gpu/values", {"start": window["start"], "end": window["end"]}),
    ]
    with trilens_on(source) as client, httpx.Client(base_url=source + "/api/v1") as direct:
        for method, path, params in asked:
            where = {"params": params} if method == "GET" else {"data": params}
            ours, theirs = (
                client.request(method, f"/{path}", **where),
                direct.request(method, f"/{path}", **where),
            )
            assert ours.status_code == theirs.status_code == 200, (path, ours.text)
            assert ours.json()["data"] == theirs.json()["data"], path
            assert ours.json()["data"], path


def test_its_errors_pass_through(source: str) -> None:
    with trilens_on(source) as client:
        answer = client.get("/query", params={"query": "sum("})
        assert answer.status_code in (400, 422)
        assert answer.json()["status"] == "error"
        refused = client.post("/write", content=b"")
        assert refused.status_code == 400
        assert "keeps no samples" in refused.json()["error"]


def test_compressed_answers_stay_compressed(source: str) -> None:
    with trilens_on(source) as client:
        params = {"query": "power", "start": str(NOW - 600), "end": str(NOW), "step": "1"}
        answer = client.get("/query_range", params=params)
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.json()["data"]["result"]) == 4


def test_own_series_reach_it_by_remote_write(source: str) -> None:
    api = Api()
    with running(api.build()) as url:
        httpx.get(f"{url}/api/v1/query?query=1")
    settings = load_settings(
        overrides={"remote_write.url": f"{source}/api/v1/write", "remote_write.interval": "1h"}, environ={}
    )

    async def push_once() -> None:
        push = SelfPush(settings.remote_write, api.metrics)
        await push.start()
        await push.stop()

    asyncio.run(push_once())
    query = 'trilens_http_requests_total{job="trilens",handler="/api/v1/query"}'
    with trilens_on(source) as client:
        result: list[Any] = []
        deadline = time.monotonic() + 20
        while not result and time.monotonic() < deadline:  # VictoriaMetrics shows what it got a second later
            body = client.get("/query", params={"query": query, "nocache": "1"}).json()
            result = body["data"]["result"]
    assert [series["value"][1] for series in result] == ["1"]


class Recorder:
    """Stands in for servers that cannot be had here (Mimir, one behind a proxy) and keeps their requests."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        seen: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append({k.lower(): v for k, v in self.headers.items()} | {":path": self.path})
                answer(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        self.seen = seen
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Recorder:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def reply(
    status: int, body: bytes, kind: str = "application/json"
) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send


FINE = reply(200, json.dumps({"status": "success", "data": [], "warnings": ["partial"]}).encode())


def test_credentials_tenant_and_base_path() -> None:
    with (
        Recorder(FINE) as mimir,
        trilens_on(f"{mimir.url}/prometheus", bearer_token="t0", tenant="blue") as client,
    ):
        body = client.get("/query", params={"query": "up"}, headers={"Authorization": "Bearer ours"}).json()
    (seen,) = mimir.seen
    assert seen[":path"] == "/prometheus/api/v1/query?query=up"
    assert seen["authorization"] == "Bearer t0"
    assert seen["x-scope-orgid"] == "blue"
    assert body["warnings"] == ["partial"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(401, b"no"), "refused our credentials (HTTP 401)"),
        (reply(403, b"no"), "refused our credentials (HTTP 403)"),
        (reply(502, b"<html>Bad Gateway</html>", "text/html"), "answered HTTP 502: <html>Bad Gateway"),
    ],
)
def test_trouble_with_the_source_is_told_as_such(
    answer: Callable[[BaseHTTPRequestHandler], None], message: str
) -> None:
    with Recorder(answer) as source, trilens_on(source.url) as client:
        got = client.get("/query?query=up")
    assert got.status_code == 502
    assert got.json()["errorType"] == "unavailable"
    assert message in got.json()["error"]


def test_a_source_that_is_not_there() -> None:
    with trilens_on("http://127.0.0.1:1") as client:
        answer = client.get("/query?query=up")
    assert (answer.status_code, answer.json()["errorType"]) == (502, "unavailable")
    assert "cannot reach the metric source http://127.0.0.1:1" in answer.json()["error"]


def test_a_source_that_is_slow_is_given_up() -> None:
    release = threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        release.wait(20)

    with Recorder(slow) as source, trilens_on(source.url, timeout="100ms") as client:
        answer = client.get("/query?query=up")
        release.set()
    assert answer.status_code == 502
    assert "did not answer within 0.1 s" in answer.json()["error"]


def test_a_client_that_goes_away_ends_the_request_to_the_source() -> None:
    arrived, ended = threading.Event(), threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        arrived.set()
        handler.rfile.read()  # returns when Trilens hangs up
        ended.set()

    with Recorder(hang) as source, trilens_on(source.url) as client:
        leaving = httpx.Client(base_url=client.base_url)
        thread = threading.Thread(target=lambda: _ignore(lambda: leaving.get("/query?query=up", timeout=0.5)))
        thread.start()
        assert arrived.wait(10)
        thread.join(10)
        leaving.close()
        assert ended.wait(10), "the source was still asked after the client had gone"


def _ignore(work: Callable[[], object]) -> None:
    with contextlib.suppress(httpx.HTTPError):
        work()


def test_mutual_tls_with_a_private_authority(tmp_path: Path) -> None:
    import ssl

    make_certificates(tmp_path)
    with Recorder(FINE) as source:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
        source.server.socket = context.wrap_socket(source.server.socket, server_side=True)
        url = source.url.replace("http://127.0.0.1", "https://localhost")
        files = {"cert_file": str(tmp_path / "client.pem"), "key_file": str(tmp_path / "client.key")}
        with trilens_on(url, ca_file=str(tmp_path / "ca.pem"), **files) as client:
            assert client.get("/query?query=up").status_code == 200
        with trilens_on(url, ca_file=str(tmp_path / "ca.pem")) as client:
            assert client.get("/query?query=up").status_code == 502
        with trilens_on(url, **files) as client:
            answer = client.get("/query?query=up")
            assert answer.status_code == 502
            assert "certificate" in answer.json()["error"].lower()
