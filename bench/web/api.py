"""The answers behind the pages of the web app, of a server that watches 10,000 GPUs: how soon they come.

The cluster is simulated in a process of its own, and its exporters, objects and ranks are read as those of a
real one. Each answer is asked for as a page asks for it, one after the other, and read to its end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from bench.peers import Trilens
from bench.report import table
from trilens.simulate.over_http.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from trilens.simulate.over_http.described import Described

GOAL_MS: Final = 200
_CLUSTER: Final = "bench"
_PATIENCE_S: Final = 900.0
_SETTLED: Final = 0.98  # of the GPUs report: some never do
_SETTLE_S: Final = 75.0  # then: an hour is booked once a minute
_SHARED_S: Final = 2.2  # longer than an answer is shared: each is made anew
_LEAST: Final = 5


class Question(NamedTuple):
    page: str
    path: str
    params: Mapping[str, str] = {}


class Timed(NamedTuple):
    question: Question
    median_ms: float
    p95_ms: float
    worst_ms: float
    kilobytes: float  # on the wire


@dataclass(frozen=True)
class WebApiResult:
    gpus: int
    workloads: int
    settled_s: float  # from the start until all GPUs are on the map
    answers: tuple[Timed, ...]


@dataclass
class WatchingTrilens(Trilens):
    cluster: Described | None = None

    def scrape_document(self) -> dict[str, object]:
        assert self.cluster is not None
        jobs = [{"job_name": "dcgm", **_found(self.cluster.dcgm_targets)}]
        return {
            "kubernetes": {"clusters": {_CLUSTER: {"kubeconfig": self.cluster.kubeconfig}}},
            "scrape": {"global": {"scrape_interval": f"{self.interval_s}s"}, "scrape_configs": jobs},
        }


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "30s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": _CLUSTER}],
    }


def run(out: Path, *, gpus: int, repeats: int) -> WebApiResult:
    with SimulatorProcess(["--gpus", str(gpus), "--age", "10m"]) as simulator:
        cluster = simulator.described()
        trilens = WatchingTrilens(out / "web-trilens", interval_s=30, cluster=cluster)
        began_s = time.perf_counter()
        try:
            trilens.start()
            simulator.send_records_to(trilens.url)
            with httpx.Client(base_url=trilens.url, timeout=60) as client:
                _wait(lambda: _reporting(client) >= _SETTLED * gpus, "not all GPUs report")
                settled_s = time.perf_counter() - began_s
                time.sleep(_SETTLE_S)
                questions = _questions(client)
                answers = tuple(_timed(client, one, max(repeats, _LEAST)) for one in questions)
                workloads = len(_data(client, "/api/workload-table")["name"])
        finally:
            trilens.stop()
    return WebApiResult(gpus, workloads, settled_s, answers)


def _questions(client: httpx.Client) -> list[Question]:
    """What each page asks for; of one workload and one GPU, the largest workload and one of its GPUs."""
    workloads, fleet = _data(client, "/api/workload-table"), _data(client, "/api/fleet")
    largest = max(range(len(workloads["name"])), key=lambda at: workloads["gpus"][at])
    name = "/".join(workloads[part][largest] for part in ("cluster", "namespace", "kind", "name"))
    uuid = next(uuid for uuid in fleet["gpus"]["uuid"] if uuid is not None)
    wanted = [
        Question("Now", "/api/now"),
        Question("Workloads", "/api/workload-table"),
        Question("Workloads, with those that went", "/api/workload-table", {"state": "all"}),
        Question("A workload", f"/api/workloads/{name}"),
        Question("A workload, over time", f"/api/workloads/{name}/timeline"),
        Question("A workload, by rank", f"/api/workloads/{name}/ranks"),
        Question("Fleet", "/api/fleet"),
        Question("A GPU's life", f"/api/gpus/{uuid}/life"),
        Question("Money", "/api/cost", {"by": "team,bucket"}),
        Question("Experiments", "/api/experiments"),
        Question("Services", "/api/services"),
        Question("Incidents", "/api/incidents"),
        Question("Doctor", "/api/doctor"),
        Question("Explore", "/api/v1/query", {"query": "avg by (modelName) (DCGM_FI_DEV_GPU_UTIL)"}),
    ]
    return [one for one in wanted if client.get(one.path, params=one.params).status_code != 404]


def _timed(client: httpx.Client, question: Question, repeats: int) -> Timed:
    took_ms, size = [], 0
    for _ in range(repeats):
        time.sleep(_SHARED_S)
        began_s = time.perf_counter()
        with client.stream("GET", question.path, params=question.params) as answer:
            answer.raise_for_status()
            size = sum(len(piece) for piece in answer.iter_raw())
        took_ms.append(1000 * (time.perf_counter() - began_s))
    p95_ms = quantiles(took_ms, n=20, method="inclusive")[-1]
    return Timed(question, median(took_ms), p95_ms, max(took_ms), size / 1000)


def _reporting(client: httpx.Client) -> int:
    """Devices, however MIG divides them."""
    gpus = _data(client, "/api/fleet")["gpus"]
    told = zip(gpus["uuid"], gpus["state"], strict=True)
    return len({uuid for uuid, state in told if state == "reporting"})


def _data(client: httpx.Client, path: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(path).raise_for_status().json()["data"]
    return found


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    ends_s = time.perf_counter() + _PATIENCE_S
    while not condition():
        if time.perf_counter() > ends_s:
            raise RuntimeError(otherwise)
        time.sleep(2)


def shown(found: WebApiResult) -> str:
    rows = [
        (
            one.question.page,
            f"`{_without_names(one.question.path)}`",
            f"{one.median_ms:.0f} / {one.p95_ms:.0f} / {one.worst_ms:.0f} ms",
            f"{one.kilobytes:,.0f} kB",
        )
        for one in found.answers
    ]
    late = [one.question.page for one in found.answers if one.p95_ms > GOAL_MS]
    size = (
        f"{found.gpus:,} GPUs and {found.workloads:,} workloads, scraped every 30 s; all GPUs on the map "
        f"after {found.settled_s:.0f} s. Each answer made anew, none shared with one before. Goal: "
        f"{GOAL_MS} ms at the 95th percentile; missed by: {', '.join(late) or 'none'}."
    )
    head = ("page", "asked", "median / 95 % / slowest", "on the wire")
    return "\n\n".join(["## Answers behind the pages", size, table(head, rows)])


def _without_names(path: str) -> str:
    """Workloads and GPUs of a simulation have names that tell nothing."""
    parts = path.split("/")
    if path.startswith("/api/gpus/"):
        return "/api/gpus/…/life"
    return "/".join([*parts[:3], "…", *parts[7:]]) if path.startswith("/api/workloads/") else path
