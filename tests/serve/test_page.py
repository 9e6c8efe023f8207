"""The page at `/`: what it shows, and what it must never let through."""

from __future__ import annotations

import re
import time
from html import escape
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from memory_api import Api, running
from trilens.collect.target import TargetStatus
from trilens.serve.page import Asked, Overview, Visit, render
from trilens.serve.state import Pace

EVIL = '"><script>alert(1)</script>&<b>'


def now_ms() -> int:
    return int(time.time() * 1000)


class Tags(HTMLParser):
    """Every tag and attribute of a page, as a browser would take them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def target(health: str, error: str = "") -> TargetStatus:
    fields: dict[str, Any] = {"labels": {}, "discovered_labels": {}, "interval_s": 15.0, "timeout_s": 10.0}
    scraped = None if health == "unknown" else time.time() - 50 * 3600
    return TargetStatus(
        job=f"job-{health}{EVIL}", scrape_url=f"http://{health}/", health=health, last_error=error,
        last_scrape_s=scraped, last_duration_s=None if scraped is None else 0.012, **fields,
    )  # fmt: skip


@pytest.fixture
def api() -> Api:
    targets = [target("up"), target("unknown"), target("down", f"refused {EVIL}")]
    facts = [("series", "3"), ("memory", "unknown")]
    api = Api(overview=Overview(65, f"By {EVIL}.", [f"disk {EVIL}"], facts, targets, True))
    api.source.add({"__name__": "power", "pod": EVIL}, [(now_ms(), 71.5)])
    return api


def test_what_runs_with_trouble_first(api: Api) -> None:
    with running(api.build()) as url:
        text = httpx.get(url).text
    assert "running for 1 min" in text
    assert '<div class="card"><b>3</b><span>series</span></div>' in text
    states = re.findall(r'<td class="(down|waiting|up)">', text)
    assert states == ["down", "waiting", "up"]
    assert "2 d 2 h ago, in 12 ms" in text
    assert "not yet" in text
    assert f"remote_write:\n  - url: {url}/api/v1/write</pre>" in text
    assert "$" not in text


def test_a_question_is_answered_on_the_page(api: Api) -> None:
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        found = client.get("/", params={"query": "power"}).text
        assert '<td class="number">71.5</td>' in found
        assert 'value="power"' in found
        one = escape(f'power{{pod="{EVIL}"}}')
        assert f"<code>{one}</code>" in found
        assert "<pre>2</pre>" in client.get("/", params={"query": "1+1"}).text
        assert "No series match" in client.get("/", params={"query": "nothing"}).text
        wrong = client.get("/", params={"query": "sum("})
        assert wrong.status_code == 200
        assert "parse error" in wrong.text
        assert "1 samples</td>" in client.get("/", params={"query": "power[5m]"}).text


def test_a_link_to_a_graph_of_prometheus_asks_the_same(api: Api) -> None:
    with running(api.build()) as url:
        page = httpx.get(f"{url}/graph", params={"g0.expr": "vector(7)", "g0.tab": "1"}).text
    assert 'value="vector(7)"' in page


def test_series_that_differ_have_a_column_for_each_difference() -> None:
    api = Api()
    for gpu in range(2):
        api.source.add({"__name__": "power", "gpu": str(gpu), "node": "a"}, [(now_ms(), 70.0 + gpu)])
    with running(api.build()) as url:
        text = httpx.get(url, params={"query": "power"}).text
    assert "2 series" in text
    assert "<code>power{node=&quot;a&quot;}</code>" in text
    assert '<th class="number">value</th><th>gpu</th>' in text
    assert '<tr><td class="number">71</td><td>1</td></tr>' in text


@pytest.mark.parametrize(
    ("kind", "sample", "shown"),
    [
        ("vector", {"histogram": [1, {"count": "1"}]}, "a native histogram"),
        ("matrix", {"histograms": [[1, {}], [2, {}]]}, "2 native histograms"),
        ("matrix", {"values": [[1, "1"]], "histograms": [[2, {}]]}, "1 samples, 1 native histograms"),
    ],
)
def test_a_native_histogram_of_another_server_is_named(kind: str, sample: dict[str, Any], shown: str) -> None:
    data = {"resultType": kind, "result": [{"metric": {"__name__": "h"}, **sample}]}
    asked = Asked("h", {"status": "success", "data": data})
    text = render(Overview(1.0, "", (), (), (), False), Visit("http://x", False, asked))
    assert f'<td class="number">{shown}</td>' in text


@pytest.mark.parametrize("query", ["power", EVIL, f'"{EVIL}"', f'power{{pod="{EVIL}"'])
def test_nothing_that_is_shown_becomes_markup(api: Api, query: str) -> None:
    with running(api.build()) as url:
        page = httpx.get(url, params={"query": query})
    tags = Tags(page.text).seen
    assert "script" not in {tag for tag, _ in tags}
    assert not any(name.startswith("on") or name == "style" for _, attributes in tags for name in attributes)
    assert [attributes["value"] for tag, attributes in tags if tag == "input"] == [query]
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_address_shown_is_the_visitors_and_the_token_is_asked_for() -> None:
    api = Api(overrides={"server.token": "s3cret"})
    with running(api.build()) as url:
        headers = {"Authorization": "Bearer s3cret", "Host": "trilens.example:8443"}
        text = httpx.get(url, headers=headers).text
    assert "url: http://trilens.example:8443/api/v1/write" in text
    assert "credentials: YOUR-TOKEN" in text
    assert "s3cret" not in text
    assert "Nothing is scraped" in text


def test_a_pace_is_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("trilens.serve.state.time.monotonic", lambda: clock[0])
    pace = Pace()
    for seconds, count, expected in ((110, 1000, 100.0), (160, 1000, 1000 / 60), (170, 7000, 100.0)):
        clock[0] = seconds
        assert pace.of(count) == pytest.approx(expected)
