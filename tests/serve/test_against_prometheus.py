"""The same samples, the same requests, the same JSON: Trilens beside a real Prometheus."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api, running
from metric_sources import prometheus
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = int(time.time()) // 15 * 15
WINDOW = {"start": str(NOW - 595), "end": str(NOW), "step": "15"}


def samples() -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    times = [(NOW - 600 + 15 * i) * 1000 + 7 for i in range(40)]
    odd = 'é"\\\n<>&'
    return [
        ({"__name__": "power", "gpu": "0", "job": "dcgm"}, [(t, i * 1e9) for i, t in enumerate(times)]),
        (
            {"__name__": "power", "gpu": "1", "job": "dcgm"},
            [(t, 10.5 + i * 1e-7) for i, t in enumerate(times)],
        ),
        ({"__name__": "power", "gpu": "2", "job": "dcgm"}, [(t, -i / 3) for i, t in enumerate(times[::2])]),
        ({"__name__": "odd", "x": odd}, [(times[-1], math.nan)]),
        ({"__name__": "endless", "sign": "+"}, [(times[-1], math.inf)]),
        ({"__name__": "endless", "sign": "-"}, [(times[-1], -math.inf)]),
    ]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    api = Api()
    rows = []
    for labels, points in samples():
        api.source.add(labels, points)
        rows += [(make_labels(labels), t, v) for t, v in points]
    with prometheus(tmp_path_factory.mktemp("prometheus")) as theirs, running(api.build()) as ours:
        answer = httpx.post(f"{theirs}/api/v1/write", content=encode(rows), headers=HEADERS)
        assert answer.status_code == 204
        with (
            httpx.Client(base_url=f"{ours}/api/v1") as trilens,
            httpx.Client(base_url=f"{theirs}/api/v1") as real,
        ):
            yield trilens, real


QUERIES = [
    "power",
    "sum(power)",
    "sum by (gpu) (power)",
    "odd",
    "endless",
    "power / 1e10",
    "power * 1e-7",
    "power * 1e15",
    "vector(1e20)",
    "vector(1e21)",
    "vector(123456789.125)",
    "-power * 0",
    "nothing",
    "absent(nothing)",
    "rate(power[5m])",
    "topk(2, power)",
    "power offset 1m",
    "time()",
    "1e21",
    "1e-7",
    "power > 5",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("path", ["/query", "/query_range"])
def test_answers(servers: tuple[httpx.Client, httpx.Client], path: str, query: str) -> None:
    params = {"query": query, **(WINDOW if path == "/query_range" else {"time": str(NOW)})}
    trilens, real = (client.post(path, data=params).json() for client in servers)
    trilens.pop("infos", None)  # notes are of Prometheus 3; the real one here may be older
    if query == "rate(power[5m])":  # and it extrapolates differently at the ends
        for answer in (trilens, real):
            for series in answer["data"]["result"]:
                series.pop("value", None), series.pop("values", None)
    assert trilens == real


def test_raw_samples(servers: tuple[httpx.Client, httpx.Client]) -> None:
    trilens, real = (c.get("/query", params={"query": "power[2m]", "time": NOW}).json() for c in servers)
    assert trilens == real


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("series", {"match[]": "power"}),
        ("series", {"match[]": ["power", "odd", 'power{gpu="1"}']}),
        ("series", {"match[]": "power", "start": "2", "end": "1"}),
        ("series", {"match[]": "power", "start": str(NOW - 600), "end": str(NOW)}),
        ("labels", {}),
        ("labels", {"match[]": "power"}),
        ("label/gpu/values", {}),
        ("label/gpu/values", {"match[]": 'power{gpu!="1"}'}),
        ("label/__name__/values", {}),
        ("label/nothing/values", {}),
        ("query_exemplars", {"query": "power", "start": "1", "end": "2"}),
        ("format_query", {"query": "sum(power)by(gpu)"}),
        ("metadata", {}),
        ("rules", {}),
        ("alerts", {}),
        ("alertmanagers", {}),
        ("targets", {"state": "active"}),
        ("targets/metadata", {}),
        ("scrape_pools", {}),
    ],
)
def test_the_catalog(servers: tuple[httpx.Client, httpx.Client], path: str, params: dict[str, str]) -> None:
    trilens, real = (client.get(f"/{path}", params=params) for client in servers)
    assert (trilens.status_code, trilens.json()) == (real.status_code, real.json())


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("query", {"query": "power +"}),
        ("query", {"query": ""}),
        ("query", {"query": "power", "time": "x"}),
        ("query", {"query": "power", "time": "2026-01-01"}),
        ("query", {"query": "power", "timeout": "x"}),
        ("query_range", {"query": "power", "start": "1", "end": "0", "step": "1"}),
        ("query_range", {"query": "power", "start": "0", "end": "1", "step": "0"}),
        ("query_range", {"query": "power", "start": "0", "end": "1", "step": "-1s"}),
        ("query_range", {"query": "power", "start": "0", "end": "1", "step": "x"}),
        ("query_range", {"query": "power", "start": "0", "end": "1"}),
        ("query_range", {"query": "power", "start": "x", "end": "1", "step": "1"}),
        ("query_range", {"query": "power", "end": "1", "step": "1"}),
        ("query_range", {"query": "power", "start": "0", "end": "11001", "step": "1"}),
        ("query_range", {"query": "power", "start": "0", "end": "1", "step": "1e300"}),
        ("series", {}),
        ("series", {"match[]": "power", "start": "x"}),
    ],
)
def test_refusals(servers: tuple[httpx.Client, httpx.Client], path: str, params: dict[str, str]) -> None:
    trilens, real = (client.get(f"/{path}", params=params) for client in servers)
    assert trilens.status_code == real.status_code == 400
    ours, theirs = trilens.json(), real.json()
    assert ours["error"].startswith(theirs["error"])  # and may go on to say what was expected
    ours.pop("position", None)  # where in the query it is: a Prometheus says that in its words only
    assert {**ours, "error": ""} == {**theirs, "error": ""}
