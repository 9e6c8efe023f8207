"""The Prometheus query API over a real socket."""

from __future__ import annotations

import gzip
import http.client
import importlib
import json
import math
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx
import pytest

from memory_api import Api, running
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.query import QueryGuard

T0 = 1_700_000_000


@pytest.fixture(scope="module")
def api() -> Api:
    api = Api()
    for gpu in range(3):
        labels = {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": str(gpu), "job": "dcgm"}
        api.source.add(labels, [((T0 + 15 * i) * 1000, 100.5 * gpu + i) for i in range(41)])
    api.source.add({"__name__": "odd", "kind": "nan"}, [(T0 * 1000, math.nan)])
    return api


@pytest.fixture(scope="module")
def client(api: Api) -> Iterator[httpx.Client]:
    with running(api.build()) as url, httpx.Client(base_url=url + "/api/v1") as client:
        yield client


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()
    assert body["status"] == "error"
    assert "data" not in body
    return answer.status_code, body["errorType"], body["error"]


def test_instant_vector(client: httpx.Client) -> None:
    answer = client.get("/query", params={"query": 'DCGM_FI_DEV_POWER_USAGE{gpu="1"}', "time": T0 + 20.5})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == (
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":'
        '"DCGM_FI_DEV_POWER_USAGE","gpu":"1","job":"dcgm"},"value":[1700000020.500,"101.5"]}]}}'
    )


@pytest.mark.parametrize(
    ("query", "kind", "result"),
    [
        ("1.5", "scalar", [T0, "1.5"]),
        ("1e21", "scalar", [T0, "1000000000000000000000"]),
        ('"text"', "string", [T0, "text"]),
        ("nothing", "vector", []),
        ("odd", "vector", [{"metric": {"__name__": "odd", "kind": "nan"}, "value": [T0, "NaN"]}]),
    ],
)
def test_kinds_of_result(client: httpx.Client, query: str, kind: str, result: object) -> None:
    data = client.get("/query", params={"query": query, "time": T0}).json()["data"]
    assert data == {"resultType": kind, "result": result}


def test_raw_samples_of_a_range_selector(client: httpx.Client) -> None:
    query = 'DCGM_FI_DEV_POWER_USAGE{gpu="0"}[45s]'
    data = client.get("/query", params={"query": query, "time": T0 + 31}).json()["data"]
    assert data["resultType"] == "matrix"
    (series,) = data["result"]
    assert series["values"] == [[T0, "0"], [T0 + 15, "1"], [T0 + 30, "2"]]


def test_get_and_post_form_agree_and_the_form_comes_first(client: httpx.Client) -> None:
    params = {"query": "sum(DCGM_FI_DEV_POWER_USAGE)", "start": str(T0), "end": str(T0 + 600), "step": "15"}
    by_get = client.get("/query_range", params=params)
    by_post = client.post("/query_range", data=params)
    mixed = client.post("/query_range?query=up&step=1", data=params)
    assert by_get.content == by_post.content == mixed.content
    (series,) = by_get.json()["data"]["result"]
    assert series["metric"] == {}
    assert series["values"][0] == [T0, "301.5"]
    assert len(series["values"]) == 41


def test_times_and_steps_as_prometheus_reads_them(client: httpx.Client) -> None:
    params = {
        "query": "time()",
        "start": "2023-11-14T22:13:20Z",
        "end": "2023-11-14T23:14:20+01:00",
        "step": "1m",
    }
    (series,) = client.get("/query_range", params=params).json()["data"]["result"]
    assert [t for t, _ in series["values"]] == [T0, T0 + 60]


@pytest.mark.parametrize(
    ("path", "params", "error"),
    [
        ("query", {"query": "up +"}, 'invalid parameter "query": 1:5: parse error: unexpected end of input'),
        ("query", {"query": "up", "time": "x"}, 'cannot parse "x" to a valid timestamp'),
        ("query", {"query": "up", "time": "nan"}, 'cannot parse "nan" to a valid timestamp'),
        ("query", {"query": "up", "timeout": "x"}, 'invalid parameter "timeout": cannot parse "x"'),
        ("query", {"query": "up", "limit": "-1"}, 'invalid parameter "limit"'),
        (
            "query_range",
            {"query": "up", "start": "1", "end": "0", "step": "1"},
            "end timestamp must not be before",
        ),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "1", "step": "0"},
            "zero or negative query resolution",
        ),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "1", "step": "-1"},
            "zero or negative query resolution",
        ),
        ("query_range", {"query": "up", "start": "0", "end": "1"}, 'invalid parameter "step"'),
        ("query_range", {"query": "up", "end": "1", "step": "1"}, 'invalid parameter "start"'),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "11001", "step": "1"},
            "resolution of 11,000 points",
        ),
        ("series", {}, "no match[] parameter provided"),
        ("series", {"match[]": "{}"}, "must contain at least one non-empty matcher"),
        ("series", {"match[]": '{a=~".*"}'}, "must contain at least one non-empty matcher"),
        ("labels", {"match[]": "foo("}, 'invalid parameter "match[]": 1:'),
    ],
)
def test_bad_data(client: httpx.Client, path: str, params: dict[str, str], error: str) -> None:
    status, kind, message = error_of(client.get(f"/{path}", params=params))
    assert (status, kind) == (400, "bad_data")
    assert error in message


def test_a_range_of_11_000_points_is_still_answered(client: httpx.Client) -> None:
    params = {"query": "vector(1)", "start": "0", "end": "10999", "step": "1"}
    (series,) = client.get("/query_range", params=params).json()["data"]["result"]
    assert len(series["values"]) == 11_000


@pytest.mark.parametrize("path", ["query", "format_query"])
def test_a_syntax_error_has_its_position_in_characters(client: httpx.Client, path: str) -> None:
    written = 'up{job="é"} +\n  * 2'
    answer = client.get(f"/{path}", params={"query": written})
    assert (answer.status_code, answer.json()["position"]) == (400, written.index("*"))
    assert (
        "position" not in client.get("/query_range", params={"query": written}).json()
    )  # "start" is missing


@pytest.mark.parametrize(
    ("written", "pretty", "position"),
    [("up+up", "up + up", None), ("up + ", None, 5), ("é", None, 0)],
)
def test_a_query_is_checked_while_it_is_written(
    client: httpx.Client, written: str, pretty: str | None, position: int | None
) -> None:
    answer = client.get(
        str(client.base_url).rstrip("/").removesuffix("v1") + "promql/check", params={"query": written}
    )
    assert answer.status_code == 200  # a fault is an answer
    told = answer.json()["data"]
    assert (told["pretty"], (told["fault"] or {}).get("position")) == (pretty, position)


def test_over_the_limits_is_an_execution_error_with_a_hint() -> None:
    api = Api(overrides={"query.max_samples": 10})
    api.source.add({"__name__": "a"}, [(T0 * 1000 + i, 1.0) for i in range(100)])
    with running(api.build()) as url:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": "a[1m]", "time": T0 + 1})
    status, kind, message = error_of(answer)
    assert (status, kind) == (422, "execution")
    assert "narrow the range" in message


def test_a_query_that_fails_on_its_data_is_an_execution_error(client: httpx.Client) -> None:
    query = "DCGM_FI_DEV_POWER_USAGE / on (job) DCGM_FI_DEV_POWER_USAGE"
    status, kind, _ = error_of(client.get("/query", params={"query": query, "time": T0}))
    assert (status, kind) == (422, "execution")


def test_notes_travel_with_the_answer(client: httpx.Client) -> None:
    body = client.get("/query", params={"query": "rate(DCGM_FI_DEV_POWER_USAGE[1m])", "time": T0 + 60}).json()
    assert any("might not be a counter" in note for note in body["infos"])
    assert "warnings" not in body


def test_limit_truncates_with_a_warning(client: httpx.Client) -> None:
    params = {"query": "DCGM_FI_DEV_POWER_USAGE", "time": str(T0), "limit": "2"}
    body = client.get("/query", params=params).json()
    assert len(body["data"]["result"]) == 2
    assert body["warnings"] == ["results truncated due to limit"]
    assert "warnings" not in client.get("/query", params={**params, "limit": "3"}).json()


def test_lookback_can_be_changed_for_one_query(client: httpx.Client) -> None:
    params = {"query": "count(DCGM_FI_DEV_POWER_USAGE)", "time": str(T0 + 600 + 60)}
    assert client.get("/query", params=params).json()["data"]["result"] != []
    assert client.get("/query", params={**params, "lookback_delta": "30s"}).json()["data"]["result"] == []


def test_stats_are_given_when_asked_for(client: httpx.Client) -> None:
    params = {"query": "DCGM_FI_DEV_POWER_USAGE", "time": str(T0)}
    assert "stats" not in client.get("/query", params=params).json()["data"]
    stats = client.get("/query", params={**params, "stats": "all"}).json()["data"]["stats"]
    assert stats["timings"]["execTotalTime"] >= stats["timings"]["evalTotalTime"] > 0
    assert stats["samples"]["totalQueryableSamples"] >= 3


def test_gzip_only_when_asked_and_worth_it(client: httpx.Client) -> None:
    large = {"query": "DCGM_FI_DEV_POWER_USAGE", "start": T0, "end": T0 + 600, "step": 15}
    plain = client.get("/query_range", params=large, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    refused = client.get("/query_range", params=large, headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers
    host = client.base_url
    connection = http.client.HTTPConnection(host.host, host.port)
    connection.request(
        "GET", f"/api/v1/query_range?{urlencode(large)}", headers={"Accept-Encoding": "br, gzip"}
    )
    packed = connection.getresponse()
    body = packed.read()
    connection.close()
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == plain.content
    assert len(body) < len(plain.content) / 3
    small = client.get("/query", params={"query": "1"}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


def test_grafana_request_shapes(client: httpx.Client) -> None:
    assert client.get("/status/buildinfo").json()["data"]["version"].startswith("3.")
    names = client.post("/labels", data={"match[]": "DCGM_FI_DEV_POWER_USAGE", "start": T0, "end": T0 + 600})
    assert names.json()["data"] == ["__name__", "gpu", "job"]
    values = client.get("/label/gpu/values", params={"match[]": 'DCGM_FI_DEV_POWER_USAGE{gpu=~"[12]"}'})
    assert values.json()["data"] == ["1", "2"]
    assert client.get("/label/__name__/values").json()["data"] == ["DCGM_FI_DEV_POWER_USAGE", "odd"]
    assert client.get("/label/U__gpu/values").json()["data"] == ["0", "1", "2"]
    both = {"match[]": ["odd", '{__name__=~"odd|nothing"}']}
    assert client.post("/series", data=both).json()["data"] == [{"__name__": "odd", "kind": "nan"}]
    assert client.get("/query_exemplars?query=up&start=1&end=2").json()["data"] == []
    health = client.post("/query", data={"query": "1+1", "time": str(T0)})
    assert health.json()["data"]["result"] == [T0, "2"]
    assert client.get("/rules").json()["data"] == {"groups": []}
    assert client.get("/alerts").json()["data"] == {"alerts": []}


def test_catalog_limits(client: httpx.Client) -> None:
    body = client.get("/labels", params={"limit": "1"}).json()
    assert body["data"] == ["__name__"]
    assert body["warnings"] == ["results truncated due to limit"]


def test_metadata(api: Api, client: httpx.Client) -> None:
    from memory_api import Description

    api.catalog.described = {"a": [Description("gauge", "A."), Description("counter", "Other.")], "b": []}
    gauge = {"type": "gauge", "help": "A.", "unit": ""}
    assert client.get("/metadata?metric=a&limit_per_metric=1").json()["data"] == {"a": [gauge]}
    assert list(client.get("/metadata?limit=1").json()["data"]) == ["a"]


def test_status_pages(client: httpx.Client) -> None:
    for page in ("config", "flags", "runtimeinfo"):
        assert client.get(f"/status/{page}").json()["status"] == "success"
    assert client.get("/status/flags").json()["data"]["query.timeout"] == "2m"
    head = client.get("/status/tsdb").json()["data"]
    assert head["headStats"]["numSeries"] == 4
    assert head["seriesCountByMetricName"][0] == {"name": "DCGM_FI_DEV_POWER_USAGE", "value": 3}
    assert (
        client.get("/format_query", params={"query": "sum(up)by(job)"}).json()["data"] == "sum by (job) (up)"
    )
    status, kind, _ = error_of(client.get("/format_query", params={"query": "sum("}))
    assert (status, kind) == (400, "bad_data")


class Stuck(Engine):
    """An engine that runs until it is told to stop, and says when it began and how it ended."""

    began: threading.Event
    ended: threading.Event

    def instant(self, query: str, at_ms: int, guard: QueryGuard) -> Any:
        stopped = threading.Event()
        with guard.stopping(stopped.set):
            self.began.set()
            stopped.wait(30)
        self.ended.set()
        guard.check()


@pytest.fixture
def stuck() -> tuple[Api, Stuck]:
    api = Api()
    engine = Stuck(api.source)
    engine.began, engine.ended = threading.Event(), threading.Event()
    api.engines = lambda _lookback: engine
    return api, engine


def test_a_client_that_goes_away_cancels_its_query(stuck: tuple[Api, Stuck]) -> None:
    api, engine = stuck
    with running(api.build()) as url:
        for method in ("GET", "POST"):
            engine.began.clear()
            engine.ended.clear()
            connection = http.client.HTTPConnection(url.removeprefix("http://"))
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request(method, "/api/v1/query?query=1", "x=1" if method == "POST" else None, form)
            assert engine.began.wait(10)
            connection.close()
            assert engine.ended.wait(10), "the query went on without a client"


def test_shutdown_cancels_queries_and_starts_no_more(stuck: tuple[Api, Stuck]) -> None:
    api, engine = stuck
    with running(api.build()) as url:
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{url}/api/v1/query?query=1")))
        asking.start()
        assert engine.began.wait(10)
        api.runner.cancel_all()
        asking.join(10)
        assert error_of(answers[0])[:2] == (503, "canceled")
        assert error_of(httpx.get(f"{url}/api/v1/query?query=1"))[:2] == (503, "canceled")


def test_a_query_past_its_time_is_a_timeout() -> None:
    api = Api()
    with running(api.build()) as url:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": "1", "timeout": "0"})
    assert error_of(answer)[:2] == (503, "timeout")


def test_a_defect_is_an_internal_error_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()

    class Broken(Engine):
        def instant(self, query: str, at_ms: int, guard: QueryGuard) -> Any:
            raise ZeroDivisionError("secret detail")

    api.engines = lambda _lookback: Broken(api.source)
    with running(api.build()) as url:
        answer = httpx.get(f"{url}/api/v1/query?query=1")
    status, kind, message = error_of(answer)
    assert (status, kind) == (500, "internal")
    assert "secret" not in message


def test_a_body_that_is_too_large_is_refused() -> None:
    api = Api(overrides={"server.max_body": 1000})
    with running(api.build()) as url:
        answer = httpx.post(f"{url}/api/v1/query", data={"query": "1+" * 1000 + "1"})
        assert error_of(answer)[0] == 413

        def chunks() -> Iterator[bytes]:
            yield b"query="
            for _ in range(500):
                yield b"1%2B"

        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = httpx.post(f"{url}/api/v1/query", content=chunks(), headers=headers)
        assert error_of(answer)[0] == 413


def test_parameters_are_small_whatever_a_body_may_be(client: httpx.Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/query", content="query=" + "1%2B" * (1 << 18) + "1", headers=form)
    assert error_of(answer)[:2] == (413, "bad_data")
    assert error_of(answer)[2].startswith("the parameters are larger than 1,048,576 bytes")
    answer = client.post("/series", content="&a" * 10_001, headers=form)
    assert error_of(answer) == (400, "bad_data", "there are more than 10,000 parameters")
    answer = client.post("/query", content="query=" + "1%2B" * (1 << 17) + "1&a=%zz", headers=form)
    assert error_of(answer)[0] == 400  # read, though not understood: so many operations
    assert "parameters" not in error_of(answer)[2]


@pytest.mark.parametrize("path", ["/series", "/labels"])
def test_so_many_selectors_at_once(client: httpx.Client, path: str) -> None:
    answer = client.post(path, data={"match[]": ["up"] * 1_000})
    assert answer.status_code == 200
    answer = client.post(path, data={"match[]": ["up"] * 1_001})
    assert error_of(answer)[:2] == (400, "bad_data")
    assert error_of(answer)[2].startswith('invalid parameter "match[]": 1,001 of them, where 1,000 may be')


@pytest.mark.parametrize(
    ("path", "asked", "reader"),
    [
        ("/api/v1/series?match[]=odd", "odd", "trilens.serve.catalog.selectors"),
        ("/api/v1/labels?match[]=odd", "odd", "trilens.serve.catalog.selectors"),
        ("/api/v1/label/kind/values?match[]=odd", "odd", "trilens.serve.catalog.selectors"),
        ("/federate?match[]=odd", "odd", "trilens.serve.catalog.selectors"),
        ("/api/v1/format_query?query=odd", "odd", "trilens.serve.status.prettify"),
        ("/api/promql/check?query=odd", "odd", "trilens.serve.status.checked"),
    ],
)
def test_what_is_asked_is_read_once_and_not_in_the_loop(
    client: httpx.Client, path: str, asked: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, str]] = []
    module, _, name = reader.rpartition(".")
    real = getattr(importlib.import_module(module), name)

    def noted(text: str) -> Any:
        read.append((text, threading.current_thread().name.partition("_")[0]))
        return real(text)

    monkeypatch.setattr(reader, noted)
    assert httpx.get(str(client.base_url.join(path))).status_code == 200
    assert read == [(asked, "query")]


def test_json_is_what_json_readers_expect(client: httpx.Client) -> None:
    params = {"query": "DCGM_FI_DEV_POWER_USAGE", "start": T0, "end": T0 + 600, "step": 15}
    answer = client.get("/query_range", params=params)
    result = json.loads(answer.content)["data"]["result"]
    assert [s["metric"]["gpu"] for s in result] == ["0", "1", "2"]
    assert [len(s["values"]) for s in result] == [41, 41, 41]
