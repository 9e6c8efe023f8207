"""/federate: what a Prometheus scrapes from here, and that a real one can."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from memory_api import Api, running
from metric_sources import prometheus
from servers import until
from trilens.model.series import STALE_NAN
from trilens.serve.federate import Newest, exposition

if TYPE_CHECKING:
    from pathlib import Path


def filled(now: int) -> Api:
    """Seen from `now`, in milliseconds."""
    api = Api()
    for gpu in range(2):
        labels = {"__name__": "power", "gpu": str(gpu), "instance": "n:1"}
        api.source.add(labels, [(now - 30_000, 1.0), (now - 15_000, 71.5 + gpu)])
    api.source.add({"__name__": "ended"}, [(now - 30_000, 1.0), (now - 15_000, STALE_NAN)])
    api.source.add({"__name__": "undefined"}, [(now - 15_000, float("nan"))])
    api.source.add({"__name__": "old"}, [(now - 400_000, 1.0)])
    api.source.add({"__name__": "bare", "text": 'a"b\\c\nd'}, [(now - 15_000, float("inf"))])
    api.source.add({"__name__": "gpu.power", "9.x": "y"}, [(now - 15_000, 1.0)])
    return api


def test_the_newest_sample_of_each_series_with_its_time() -> None:
    now = int(time.time() * 1000)
    with running(filled(now).build()) as url, httpx.Client(base_url=url) as client:
        answer = client.get(
            "/federate", params={"match[]": ["power", '{gpu="1"}', "ended", "old", "bare", "undefined"]}
        )
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert answer.text == (
            "# TYPE bare untyped\n"
            f'bare{{instance="",text="a\\"b\\\\c\\nd"}} +Inf {now - 15_000}\n'
            "# TYPE power untyped\n"
            f'power{{gpu="0",instance="n:1"}} 71.5 {now - 15_000}\n'
            f'power{{gpu="1",instance="n:1"}} 72.5 {now - 15_000}\n'
            "# TYPE undefined untyped\n"
            f'undefined{{instance=""}} NaN {now - 15_000}\n'
        )
        assert client.get("/federate").text == ""
        wrong = client.get("/federate", params={"match[]": "sum("})
        assert (wrong.status_code, wrong.json()["errorType"]) == (400, "bad_data")


def test_names_that_old_scrapers_cannot_read() -> None:
    now = int(time.time() * 1000)
    with running(filled(now).build()) as url:
        params = {"match[]": '{__name__="gpu.power"}'}
        old = httpx.get(f"{url}/federate", params=params).text
        assert f'gpu_power{{_9_x="y",instance=""}} 1 {now - 15_000}\n' in old
        new = {"Accept": "text/plain;version=1.0.0;escaping=allow-utf-8"}
        quoted = httpx.get(f"{url}/federate", params=params, headers=new).text
        assert f'{{"gpu.power","9.x"="y",instance=""}} 1 {now - 15_000}\n' in quoted


def test_names_that_become_one_for_old_scrapers_are_written_once() -> None:
    found = [
        Newest({"__name__": "a.b", "x.y": "dot", "x_y": "own", "x~y": "tilde"}, 1, 1.0),
        Newest({"__name__": "a_b", "x.y": "dot", "x-y": "dash"}, 1, 2.0),
    ]
    assert exposition(found) == (
        '# TYPE a_b untyped\na_b{instance="",x_y="dot"} 2 1\na_b{instance="",x_y="own"} 1 1\n'
    )
    assert exposition(found[:1], any_name=True) == (
        '# TYPE "a.b" untyped\n{"a.b","x.y"="dot","x~y"="tilde",instance="",x_y="own"} 1 1\n'
    )


def test_a_real_prometheus_federates_from_here(tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    with running(filled(now).build()) as url:
        config = (
            "scrape_configs:\n  - job_name: trilens\n    scrape_interval: 1s\n    honor_labels: true\n"
            "    metrics_path: /federate\n    params: {'match[]': ['{__name__=~\".+\"}']}\n"
            f"    static_configs: [{{targets: ['{url.removeprefix('http://')}']}}]\n"
        )
        with prometheus(tmp_path, config) as server:

            def series(query: str) -> list[dict[str, object]]:
                found = httpx.get(
                    f"{server}/api/v1/query", params={"query": query, "time": now / 1000}
                ).json()
                return list(found["data"]["result"])

            until(lambda: len(series("power")) == 2, "the two GPUs")
            (one,) = series('power{gpu="1"}')
            labels = {"__name__": "power", "gpu": "1", "instance": "n:1", "job": "trilens"}
            assert one["metric"] == labels  # the job is the scrape's, as ours had none
            stamps = series("timestamp(power)")
            assert {s["value"][1] for s in stamps} == {f"{(now - 15_000) / 1000:.3f}".rstrip("0").rstrip(".")}
            assert [s["metric"]["text"] for s in series("bare")] == ['a"b\\c\nd']
            targets = httpx.get(f"{server}/api/v1/targets").json()["data"]["activeTargets"]
            assert [(t["health"], t["lastError"]) for t in targets] == [("up", "")]
