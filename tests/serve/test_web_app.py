"""The files of the web app: who gets them, how long they are kept, what they may load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api, running
from trilens.serve import web_app

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTED = Path(__file__).parents[2] / "web" / "src" / "pages" / "index.ts"
ASSET = "assets/index-1a2b.js"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    dist = tmp_path / "web" / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<!doctype html><title>Trilens</title>", encoding="utf-8")
    (dist / ASSET).write_text("export {};" * 500, encoding="utf-8")
    monkeypatch.setattr(web_app, "files", lambda _package: tmp_path)
    return dist


@pytest.fixture
def client(built: Path) -> Iterator[httpx.Client]:
    with running(Api().build()) as url, httpx.Client(base_url=url) as found:
        yield found


@pytest.mark.parametrize("path", ["/", "/workloads/c/ns/PyTorchJob/a", "/incidents/i-1", "/explore"])
def test_each_address_of_a_page_gives_the_app(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert "<title>Trilens</title>" in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy


def test_an_asset_is_kept_for_ever_and_sent_small(client: httpx.Client, built: Path) -> None:
    answer = client.get(f"/{ASSET}")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert int(answer.headers["content-length"]) < len(answer.content) == (built / ASSET).stat().st_size
    plain = client.get(f"/{ASSET}", headers={"Accept-Encoding": "identity"})
    assert plain.content == answer.content
    assert client.get("/assets/..%2Findex.html").status_code == 404


def test_links_to_a_prometheus_lead_to_explore(client: httpx.Client) -> None:
    answer = client.get("/graph", params={"g0.expr": 'up{a="b"} > 1', "g0.tab": "1"})
    assert answer.headers["location"] == "/explore?query=up%7Ba%3D%22b%22%7D+%3E+1"
    assert client.get("/graph").headers["location"] == "/explore"


@pytest.mark.usefixtures("built")
def test_the_app_needs_no_token_and_what_it_asks_for_does() -> None:
    with running(Api(overrides={"server.token": "s3cret"}).build()) as url:
        assert httpx.get(url).status_code == 200
        asked = httpx.get(f"{url}/api/workloads", headers={"Sec-Fetch-Dest": "empty"})
    assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Bearer realm="trilens"')


@pytest.mark.usefixtures("built")
def test_what_asks_for_no_path_needs_a_token_too() -> None:
    with running(Api(overrides={"server.token": "s3cret"}).build()) as url:
        asked = httpx.Client().request("OPTIONS", url, extensions={"target": b"*"})
    assert asked.status_code == 401


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/", True),
        ("/fleet/gpus/x", True),
        ("/icon.svg", True),
        ("//api/workloads", False),
        ("//", False),
        ("", False),
        ("*", False),
        ("/fleetx", False),
        ("/api/workloads", False),
    ],
)
def test_only_pages_and_files_of_it_are_open(path: str, is_open: bool) -> None:
    assert web_app.is_open(path) is is_open


def test_where_it_is_not_built_the_page_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_app, "files", lambda _package: tmp_path)
    with running(Api().build()) as url:
        answer = httpx.get(url)
    assert (answer.status_code, "make web" in answer.text) == (404, True)


def test_the_server_knows_the_pages_that_the_app_has() -> None:
    paths = re.findall(r'path: "(/[^"]*)"', LISTED.read_text(encoding="utf-8"))
    assert [re.sub(r":(\w+)", r"{\1}", path) for path in paths] == [*web_app.PAGES]
