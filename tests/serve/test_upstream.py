"""Queries sent on to a real Prometheus and a real VictoriaMetrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from certificates import make_certificates
from memory_api import Api, running
from metric_sources import prometheus, victoria_metrics
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.errors import SourceError
from trilens.model.labels import make_labels
from trilens.serve.app import build_app
from trilens.serve.probes import Probes, Readiness
from trilens.serve.push import SelfPush
from trilens.serve.runner import QueryRunner
from trilens.serve.state import SystemState
from trilens.serve.status import StatusApi
from trilens.serve.upstream import Upstream
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path


NOW = int(time.time()) // 15 * 15


@contextlib.contextmanager
def trilens_on(url: str, **source: str) -> Iterator[httpx.Client]:
    """A Trilens whose metric source is `url`."""
    overrides = {"source.url": url, **{f"source.{key}": value for key, value in source.items()}}
    api = Api(overrides=overrides)
    upstream = Upstream(api.settings.source, api.settings.server.max_body)

    async def reload() -> None: ...

    async def readiness() -> Readiness:
        trouble = await upstream.check()
        return Readiness(trouble is None, {"source": trouble and trouble.reason})

    @contextlib.asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        await upstream.start()
        yield
        await upstream.stop()

    parts = api.parts()
    app = build_app(
        replace(
            parts,
            source=upstream,
            probes=Probes(readiness, reload, api.metrics),
            prometheus=replace(parts.prometheus, status=StatusApi(lambda: api.in_force, None, api.runner)),
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

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None], port: int = 0) -> None:
        seen: list[dict[str, str]] = []
        asked = threading.Semaphore(0)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append({k.lower(): v for k, v in self.headers.items()} | {":path": self.path})
                asked.release()
                answer(self)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        self.seen, self.asked = seen, asked
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
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


OWN = reply(200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}')


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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"status":', "JSON that does not parse"),
        (b"[1]", "no answer to a query"),
        (b'{"status": "success", "data": []}', "no answer to a query"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": [1]}}', "no answer to a query"),
        (b'{"status": "success", "data": {"resultType": "scalar", "result": []}}', "no answer to a query"),
    ],
)
def test_an_answer_to_a_query_of_our_own_that_is_none(body: bytes, message: str) -> None:
    with Recorder(reply(200, body)) as source, pytest.raises(SourceError, match=message):
        ask(source.url, OWN_QUESTIONS["query"])


def ask(url: str, question: Callable[[Upstream], Awaitable[object]]) -> None:
    async def asked() -> None:
        upstream = Upstream(load_settings(overrides={"source.url": url}, environ={}).source, 1000)
        await upstream.start()
        try:
            await question(upstream)
        finally:
            await upstream.stop()

    asyncio.run(asked())


OWN_QUESTIONS: dict[str, Callable[[Upstream], Awaitable[object]]] = {
    "query": lambda upstream: upstream.instant("up"),
    "query_range": lambda upstream: upstream.range("up", 0, 1000, 1000),
    "alerts": lambda upstream: upstream.alerts(),
    "rules": lambda upstream: upstream.rules(),
    "label/__name__/values": lambda upstream: upstream.metric_names(None, 0, 1000),
}


@pytest.mark.parametrize("path", OWN_QUESTIONS)
def test_a_part_of_an_answer_is_none(path: str) -> None:
    """A VictoriaMetrics of which a storage node is away; it and Thanos are asked not to do that."""
    data = {"resultType": "vector", "result": [], "alerts": [], "groups": []}
    part = {"status": "success", "isPartial": True, "data": data}
    with (
        Recorder(reply(200, json.dumps(part).encode())) as source,
        pytest.raises(SourceError, match="only a part"),
    ):
        ask(source.url, OWN_QUESTIONS[path])
    asked, _, params = source.seen[0][":path"].partition("?")
    assert asked == f"/api/v1/{path}"
    assert {"partial_response=false", "deny_partial_response=1"} <= {*params.split("&")}
    whole = {**part, "isPartial": False, "data": [] if "label" in path else data}
    with Recorder(reply(200, json.dumps(whole).encode())) as source:
        ask(source.url, OWN_QUESTIONS[path])


def test_an_answer_without_end_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.serve.upstream._MOST_BYTES", 1 << 20)
    ended = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(1 << 16))
        ended.set()

    with Recorder(endless) as source, pytest.raises(SourceError, match="more than 1 MiB"):
        ask(source.url, OWN_QUESTIONS["query"])
    assert ended.wait(20)


def test_an_answer_is_passed_back_as_it_comes() -> None:
    seen = threading.Event()

    def in_two(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(b'{"status": ')
        handler.wfile.flush()
        if seen.wait(20):
            handler.wfile.write(b'"success"}')

    with (
        Recorder(in_two) as source,
        trilens_on(source.url) as client,
        client.stream("GET", "/query?query=up") as answer,
    ):
        pieces = answer.iter_bytes()
        first = next(pieces)
        seen.set()
        assert (first, b"".join(pieces)) == (b'{"status": ', b'"success"}')


def test_one_who_leaves_in_the_middle_ends_the_request_to_the_source() -> None:
    ended = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(1 << 16))
        ended.set()

    with Recorder(endless) as source, trilens_on(source.url) as client:
        with client.stream("GET", "/query?query=up") as answer:
            next(answer.iter_bytes())
        assert ended.wait(20)


def test_readiness_does_not_repeat_what_the_source_said() -> None:
    broken = reply(500, b"stack trace with s3cret", "text/html")
    with Recorder(broken) as source, trilens_on(source.url) as client:
        ready = httpx.get(client.base_url.join("/readyz"))
    assert ready.status_code == 503
    assert "answered HTTP 500: not JSON" in ready.text
    assert "s3cret" not in ready.text


@pytest.mark.parametrize("said", [b"{}", b"[]", b"", b'{"status":"success"}', b"\xff{"])
def test_who_answers_in_the_place_of_the_source_is_not_taken_for_it(said: bytes) -> None:
    with Recorder(reply(200, said)) as source, trilens_on(source.url) as client:
        ready = httpx.get(client.base_url.join("/readyz"))
    assert ready.status_code == 503
    assert "JSON that is no answer to a query" in ready.text


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


def test_slow_queries_keep_no_probe_from_being_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.serve.upstream._AT_ONCE", 2)
    monkeypatch.setattr("trilens.serve.upstream._FRESH_S", 0.0)
    release = threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        if handler.path != "/api/v1/query?query=1":
            release.wait(20)
        OWN(handler)

    async def probed(upstream: Upstream) -> None:
        queries = [asyncio.ensure_future(upstream.instant("up")) for _ in range(3)]
        try:
            for _ in range(2):
                await asyncio.to_thread(source.asked.acquire)
            assert await upstream.check() is None
            assert await upstream.check() is None
        finally:
            release.set()
            await asyncio.gather(*queries)

    with Recorder(slow) as source:
        ask(source.url, probed)
        assert len(source.seen) == 5


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


def test_a_path_goes_on_as_it_came() -> None:
    """Decoded, this label name would end the path: what follows `?` would be taken for parameters."""
    with Recorder(FINE) as source, trilens_on(source.url) as client:
        httpx.get(f"{client.base_url}label/a%3Fb%C3%A9/values?match%5B%5D=%7Ba%3D%22%2B%22%7D")
    (seen,) = source.seen
    assert seen[":path"] == "/api/v1/label/a%3Fb%C3%A9/values?match%5B%5D=%7Ba%3D%22%2B%22%7D"


def test_a_redirect_is_refused_and_our_credentials_stay_here() -> None:
    with Recorder(FINE) as other:

        def elsewhere(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", f"{other.url}/api/v1/query")
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        with Recorder(elsewhere) as source, trilens_on(source.url, bearer_token="t0") as client:
            answer = client.get("/query?query=up")
    assert answer.status_code == 502
    assert f"redirects to {other.url}/api/v1/query" in answer.json()["error"]
    assert other.seen == []


def test_readiness_tells_that_the_source_is_gone_and_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.serve.upstream._FRESH_S", 0.0)
    with Recorder(OWN) as source:
        url, port = source.url.replace("//", "//user:pw@"), source.server.server_address[1]
        settings = load_settings(overrides={"source.url": url}, environ={}).source

        async def through_an_outage() -> list[Readiness]:
            upstream = Upstream(settings, 1000)
            await upstream.start()
            state = SystemState(QueryRunner(Api().settings.query), None, None, None, upstream, None, None)
            seen = [await state.readiness()]
            await asyncio.to_thread(source.__exit__)
            seen.append(await state.readiness())
            assert upstream.trouble is not None
            since = upstream.trouble.since
            seen.append(await state.readiness())
            assert upstream.trouble.since == since  # when it began, not when it was last looked at
            again = Recorder(OWN, port)
            with again:
                seen.append(await state.readiness())
            await upstream.stop()
            return seen

        before, gone, still, back = asyncio.run(through_an_outage())
    shown = f"http://<secret>@127.0.0.1:{port}"
    assert before == (True, {"source": {"url": shown, "reachable": True}}, "") == back
    assert (gone.ready, gone.lacks) == (False, "source")
    told = gone.details["source"]
    assert isinstance(told, dict)
    assert told["reachable"] is False
    assert f"cannot reach the metric source {shown}" in told["error"]
    assert "pw" not in told["error"]
    assert datetime.fromisoformat(told["since"]) <= datetime.now(UTC)
    assert still == gone


def test_a_secret_whose_file_is_gone_is_trouble_with_the_source(tmp_path: Path) -> None:
    with Recorder(FINE) as source, trilens_on(source.url, bearer_token_file=str(tmp_path / "no")) as client:
        answer = client.get("/query?query=up")
    assert answer.status_code == 502
    assert "cannot read the bearer token" in answer.json()["error"]


async def test_own_series_are_sent_again_when_the_secret_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    api = Api()
    with Recorder(reply(204, b"")) as target:
        overrides = {"remote_write.url": target.url, "remote_write.bearer_token_file": str(token)}
        settings = load_settings(overrides=overrides | {"remote_write.interval": "10ms"}, environ={})
        push = SelfPush(settings.remote_write, api.metrics)
        failed = asyncio.Event()
        monkeypatch.setattr(caplog.handler, "emit", lambda record: failed.set())
        await push.start()
        try:
            await asyncio.wait_for(failed.wait(), 20)
            token.write_text("t1", encoding="utf-8")
            await asyncio.to_thread(target.asked.acquire)
        finally:
            await push.stop()
    assert target.seen[0]["authorization"] == "Bearer t1"


async def test_the_log_of_what_is_sent_shows_no_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = {"remote_write.url": "http://user:hunter2@127.0.0.1:1/write"}
    settings = load_settings(overrides=overrides, environ={})
    push = SelfPush(settings.remote_write, Api().metrics)
    failed = asyncio.Event()
    emit = caplog.handler.emit
    monkeypatch.setattr(caplog.handler, "emit", lambda record: (emit(record), failed.set()))
    await push.start()
    await asyncio.wait_for(failed.wait(), 20)
    await push.stop()
    (record,) = caplog.records
    assert record.__dict__["url"] == "http://<secret>@127.0.0.1:1/write"
    assert "hunter2" not in str(record.__dict__)
