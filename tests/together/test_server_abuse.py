"""What the whole server does with bad input, bad luck and bad manners."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import cramjam
import httpx
import pytest

from http_target import HttpTarget
from metric_sources import prometheus
from servers import until
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = int(time.time()) // 10 * 10
SMALL_BODY = 1 << 20


def body(name: str, *samples: tuple[float, float], **labels: str) -> bytes:
    """Samples are (seconds from NOW, value)."""
    metric = make_labels({"__name__": name, **labels} if name else labels)
    return encode([(metric, int((NOW + after) * 1000), value) for after, value in samples])


def send(url: str, content: bytes, headers: dict[str, str] = HEADERS) -> httpx.Response:
    return httpx.post(f"{url}/api/v1/write", content=content, headers=headers, timeout=30)


def ask(url: str, query: str, **params: str) -> httpx.Response:
    return httpx.post(f"{url}/api/v1/query", data={"query": query, "time": str(NOW), **params}, timeout=30)


def samples(url: str, name: str) -> list[tuple[float, float]]:
    """Of the only series of that name, as (seconds from NOW, value)."""
    result = ask(url, f"{name}[6h]").json()["data"]["result"]
    return [(round(t - NOW, 3), float(v)) for series in result for t, v in series["values"]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    config = directory / "trilens.yaml"
    config.write_text(
        f"server: {{max_body: {SMALL_BODY}}}\nquery: {{max_samples: 30000000}}\n", encoding="utf-8"
    )
    with server(directory, "--config", str(config)) as (address, process):
        yield address
        assert process.poll() is None, "it went on to the end"


RANDOM = random.Random(3).randbytes(4000)
GOOD = cramjam.snappy.decompress_raw(body("cut", *((-k, k) for k in range(200, 0, -1))))


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@pytest.mark.parametrize(
    ("content", "headers", "status", "reason"),
    [
        (RANDOM, {}, 400, "snappy"),
        (b"", {}, 400, "snappy"),
        (snappy(RANDOM), {}, 400, "WriteRequest"),
        (snappy(bytes(GOOD)[:-7]), {}, 400, "WriteRequest"),
        (b"\xff\xff\xff\xff\x0f" + RANDOM, {}, 400, "limit"),
        (body("", (-1, 1), a="x"), {}, 400, "name"),
        (body("x", (-1, 1)), {"Content-Type": "application/json"}, 415, "application/json"),
        (body("x", (-1, 1)), {"Content-Type": "application/x-protobuf;proto=x.Y"}, 415, "x.Y"),
        (body("x", (-1, 1)), {"Content-Encoding": "zstd"}, 415, "zstd"),
        (bytes(SMALL_BODY + 1), {}, 413, "server.max_body"),
    ],
    ids=range(10),
)
def test_garbage_is_refused_with_a_reason(
    url: str, content: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    answer = send(url, content, HEADERS | headers)
    assert answer.status_code == status, answer.text
    assert reason in answer.text
    assert len(answer.text.splitlines()) == 1


def test_random_bytes_at_every_door_leave_it_standing(url: str) -> None:
    rng = random.Random(11)
    host, _, port = url.removeprefix("http://").rpartition(":")
    for _ in range(30):
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(rng.randbytes(rng.randint(1, 3000)))
        path = rng.choice(["query", "query_range", "series", "labels", "write"])
        answer = httpx.post(f"{url}/api/v1/{path}", content=rng.randbytes(200), timeout=30)
        assert 200 <= answer.status_code < 500, answer.text
    assert send(url, body("after_garbage", (-1, 7))).status_code == 204
    assert samples(url, "after_garbage") == [(-1, 7)]


ORDERS = {
    "as it should be": [[(-30, 1)], [(-20, 2)], [(-10, 3)]],
    "the same again": [[(-30, 1)], [(-30, 1)]],
    "another value for a time": [[(-30, 1)], [(-30, 2)]],
    "older": [[(-20, 1)], [(-30, 2)]],
    "older in one request": [[(-20, 1), (-30, 2)]],
    "an older one, a new one": [[(-20, 1)], [(-30, 2), (-10, 3)]],
    "the same twice in one request": [[(-30, 1), (-30, 1)]],
    "older than any window": [[(-20_000, 1)]],
    "a staleness marker's neighbours": [[(-30, float("nan"))], [(-30, float("nan"))]],
}


OTHERWISE = {  # where Prometheus 2.42 answers something else, and why we do not follow
    "older in one request strict": 204,  # it drops the sample and says nothing
    "older than any window lenient": 500,  # a sender would try again for ever; 3 says 400 as well
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[list[str]]:
    with prometheus(tmp_path_factory.mktemp("prometheus")) as theirs:
        both = [url, theirs]
        for each in both:  # what is too old hangs on the newest sample of all
            assert send(each, body("newest", (0, 1))).status_code == 204
        yield both


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Both with out_of_order_time_window."""
    directory = tmp_path_factory.mktemp("lenient")
    config = directory / "trilens.yaml"
    config.write_text("storage: {out_of_order_time_window: 3h}\n", encoding="utf-8")
    late = "storage: {tsdb: {out_of_order_time_window: 3h}}\n"
    with (
        server(directory, "--config", str(config)) as (ours, _),
        prometheus(tmp_path_factory.mktemp("prometheus"), late) as theirs,
    ):
        both = [ours, theirs]
        for each in both:
            assert send(each, body("newest", (0, 1))).status_code == 204
        yield both


@pytest.mark.parametrize("window", ["strict", "lenient"])
@pytest.mark.parametrize("order", ORDERS)
def test_order_is_judged_as_prometheus_judges_it(
    request: pytest.FixtureRequest, window: str, order: str
) -> None:
    servers: list[str] = request.getfixturevalue(window)
    name = order.replace(" ", "_").replace(",", "").replace("'", "")
    ours, theirs = ([send(each, body(name, *s)).status_code for s in ORDERS[order]] for each in servers)
    if (other := OTHERWISE.get(f"{order} {window}")) is not None:
        assert (ours, theirs) == ([400], [other])
    else:
        assert ours == theirs
    if order != "an older one, a new one" or window == "lenient":  # 2.42 drops the new one too, 3 does not
        assert repr(samples(servers[0], name)) == repr(samples(servers[1], name))


def test_late_samples_are_seen_within_the_window_and_refused_beyond(lenient: list[str]) -> None:
    url = lenient[0]
    sent: list[tuple[float, float]] = []
    for after in (-100, -300, -200, -9000):  # the last one is older than all that the store has ever seen
        assert send(url, body("late", (after, after))).status_code == 204
        sent.append((after, after))
        assert samples(url, "late") == sorted(sent)
    beyond = send(url, body("late", (-11_000, 1)))
    assert beyond.status_code == 400
    assert "1 sample" in beyond.text


def test_a_syntax_error_has_its_position(url: str) -> None:
    answer = ask(url, "sum(rate(x[5m])\n  + )")
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")
    assert "2:5: parse error" in answer.json()["error"]


def test_a_query_over_the_limit_says_what_to_do(url: str) -> None:
    send(url, body("limited", (-1, 1)))
    asked = {"query": "limited[100d:1ms]", "time": str(NOW)}
    answer = httpx.post(f"{url}/api/v1/query", data=asked, timeout=30)
    assert (answer.status_code, answer.json()["errorType"]) == (422, "execution")
    assert "raise the limit in the query settings" in answer.json()["error"]


def metric(url: str, line: str) -> float:
    """The value of the metric line that begins so; 0 when there is none."""
    found = [row for row in httpx.get(f"{url}/metrics").text.splitlines() if row.startswith(line + " ")]
    return float(found[0].split()[-1]) if found else 0.0


def test_a_client_that_leaves_takes_its_query_along(url: str) -> None:
    rows = [(make_labels({"__name__": "wide", "i": str(i)}), (NOW - 1) * 1000, 1.0) for i in range(500)]
    assert send(url, encode(rows)).status_code == 204
    long = {"query": "wide" + " + 1" * 900, "start": str(NOW - 9000), "end": str(NOW + 290), "step": "1"}
    cancelled = 'trilens_http_requests_total{code="503",handler="/api/v1/query_range"}'
    before = metric(url, cancelled)
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/api/v1/query_range", urlencode(long), form)
    until(lambda: metric(url, "trilens_queries_running") == 1, "the query runs")
    connection.close()
    until(lambda: metric(url, "trilens_queries_running") == 0, "the query stops")
    assert metric(url, cancelled) == before + 1, "it was cancelled, not answered"


def test_a_malformed_target_touches_no_other(tmp_path: Path) -> None:
    with HttpTarget("good_metric 1\n") as good, HttpTarget("good_metric 2\nnot a metric line\n") as bad:
        config = tmp_path / "trilens.yaml"
        targets = json.dumps([good.address, bad.address])
        config.write_text(
            "scrape:\n  global: {scrape_interval: 1s}\n  scrape_configs:\n"
            f"    - job_name: mixed\n      static_configs: [{{targets: {targets}}}]\n",
            encoding="utf-8",
        )
        with server(tmp_path, "--config", str(config)) as (url, _):

            def up() -> dict[str, str]:
                result = httpx.get(f"{url}/api/v1/query", params={"query": "up"}).json()["data"]["result"]
                return {series["metric"]["instance"]: series["value"][1] for series in result}

            until(lambda: up() == {good.address: "1", bad.address: "0"}, "one up, one down")
            shown = httpx.get(f"{url}/api/v1/targets").json()["data"]["activeTargets"]
            reasons = {target["labels"]["instance"]: target["lastError"] for target in shown}
            assert reasons[good.address] == ""
            assert "line 2" in reasons[bad.address]
            seen = httpx.get(f"{url}/api/v1/query", params={"query": "good_metric"}).json()["data"]["result"]
            assert [series["metric"]["instance"] for series in seen] == [good.address]


def test_a_second_server_on_the_same_data_is_told_who_has_it(tmp_path: Path) -> None:
    with server(tmp_path) as (url, process):
        second = trilens("up", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
        assert second.returncode == 1
        assert f"process {process.pid} on {socket.gethostname()}, since 20" in second.stderr
        assert send(url, body("still_here", (-1, 1))).status_code == 204
