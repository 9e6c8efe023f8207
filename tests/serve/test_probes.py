"""Health, own metrics, paths that are not there, and the log."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from memory_access import MemoryTokens
from memory_api import Api, running
from trilens.model.grants import grant_of
from trilens.serve.access.token_keeper import TokenKeeper
from trilens.serve.logs import JsonLines, TextLines, configure_logs
from trilens.settings.server import ServerSettings


def test_health_and_readiness() -> None:
    api = Api()
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        assert client.get("/healthz").json() == {"healthy": True}
        assert client.get("/readyz").json() == {"ready": True, "store": {"damage": []}}
        assert client.get("/-/ready").status_code == 200
        api.ready = False
        assert client.get("/readyz").status_code == 503
        assert client.get("/readyz").json()["ready"] is False
        assert client.get("/-/ready").status_code == 503
        assert client.get("/-/healthy").status_code == 200


async def test_a_stranger_learns_no_more_than_whether_it_is_ready() -> None:
    rights = {"reader": "read", "sender": "intake", "team": "read"}
    tokens = MemoryTokens()
    api = Api(overrides={"server.token": "s3cret-s3cret"}, ready=False, tokens=tokens, lacks="store")
    texts = {
        name: TokenKeeper(tokens).make(
            name, grant_of([right], teams=["nlp"] if name == "team" else []), None, ""
        )[1]
        for name, right in rights.items()
    }
    inside = httpx.ASGITransport(api.build())
    async with httpx.AsyncClient(transport=inside, base_url="http://trilens.example") as client:

        async def told(token: str | None) -> dict[str, Any]:
            answer = await client.get(
                "/readyz", headers={"Authorization": f"Bearer {token}"} if token else {}
            )
            assert answer.status_code == 503
            found: dict[str, Any] = answer.json()
            return found

        for token in (None, "guessed", texts["sender"], texts["team"]):
            assert await told(token) == {"ready": False, "lacks": "store"}
        for token in ("s3cret-s3cret", texts["reader"]):
            assert await told(token) == {"ready": False, "store": {"damage": []}}


async def test_a_page_that_tricked_dns_is_a_stranger_too() -> None:
    for host, is_told in (("localhost", True), ("evil.example", False)):
        inside = httpx.ASGITransport(Api().build())
        async with httpx.AsyncClient(transport=inside, base_url=f"http://{host}") as client:
            assert ("store" in (await client.get("/readyz")).json()) is is_told


def test_own_metrics_count_requests_by_route_not_by_path() -> None:
    api = Api()
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        client.get("/api/v1/label/a/values")
        client.get("/api/v1/label/b/values")
        client.get("/api/v1/query?query=1%2B")
        client.get("/nowhere/1")
        client.get("/nowhere/2")
        text = client.get("/metrics").text
        openmetrics = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert openmetrics.text.endswith("# EOF\n")
    samples = {
        (s.name, *(v for _, v in sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    assert samples["trilens_http_requests_total", "200", "/api/v1/label/:name/values"] == 2
    assert samples["trilens_http_requests_total", "400", "/api/v1/query"] == 1
    assert samples["trilens_http_requests_total", "404", "other"] == 2
    assert samples["trilens_http_request_duration_seconds_count", "/api/v1/query"] == 1
    assert samples[("process_open_fds",)] > 0
    names = {name[0] for name in samples}
    assert all(name.startswith(("trilens_", "process_")) for name in names), names


def test_a_wrong_path_or_method_is_answered_as_the_api_answers() -> None:
    with running(Api().build()) as url, httpx.Client(base_url=url) as client:
        missing = client.get("/api/v1/querry?query=1")
        wrong = client.delete("/api/v1/query")
        elsewhere = client.get("/nothing/here")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/json")
    assert missing.json() == {
        "status": "error",
        "errorType": "not_found",
        "error": "there is no /api/v1/querry here (did you mean /api/v1/query?)",
    }
    assert (wrong.status_code, wrong.json()["errorType"]) == (405, "bad_data")
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert "/api/v1/query does not take DELETE" in wrong.json()["error"]
    assert (elsewhere.status_code, elsewhere.text) == (404, "there is no /nothing/here here\n")


@pytest.mark.parametrize("form", [TextLines, JsonLines])
def test_log_lines(form: type[logging.Formatter]) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(form())
    log = logging.Logger("trilens.test")
    log.addHandler(handler)
    log.warning("cannot %s", "reach it", extra={"url": "http://x", "error": 'a "b" c'})
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        log.exception("oh")
    first, rest = out.getvalue().split("\n", 1)
    if form is JsonLines:
        line = json.loads(first)
        assert line["level"] == "warning"
        assert line["message"] == "cannot reach it"
        assert (line["url"], line["error"]) == ("http://x", 'a "b" c')
        assert "ZeroDivisionError" in json.loads(rest)["exception"]
    else:
        assert first.endswith(' WARNING cannot reach it url=http://x error="a \\"b\\" c"')
        assert "ZeroDivisionError" in rest


@pytest.mark.parametrize("form", [TextLines, JsonLines])
@pytest.mark.parametrize("text", ["a\rWARNING", "a\nWARNING", "a\x1b[2J", "a\x85b", "a\u2028b"])
def test_what_a_stranger_wrote_begins_no_line(form: type[logging.Formatter], text: str) -> None:
    record = logging.makeLogRecord({"msg": "audit", "object": text})
    (line,) = form().format(record).splitlines()
    assert line.isprintable()


def test_requests_that_the_server_sends_are_not_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    root, sends = logging.getLogger(), logging.getLogger("httpx")
    monkeypatch.setattr(root, "handlers", [*root.handlers])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(sends, "level", logging.NOTSET)
    try:
        configure_logs(ServerSettings())
        assert root.isEnabledFor(logging.INFO)
        assert not sends.isEnabledFor(logging.INFO)
        assert sends.isEnabledFor(logging.WARNING)
    finally:
        monkeypatch.undo()
        logging.getLogger("uvicorn").setLevel(logging.NOTSET)
        sends.setLevel(sends.level)  # forgets what was looked up in between
