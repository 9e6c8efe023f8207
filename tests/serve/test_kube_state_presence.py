"""Whether a kube-state-metrics is scraped is asked where the samples are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from kube_objects import to_object
from metric_sources import prometheus
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.errors import SourceError
from trilens.model.labels import make_labels
from trilens.promql.memory import MemorySource
from trilens.serve.kube_state import KubeStateExport
from trilens.serve.kube_state_page import MARKER
from trilens.serve.kube_state_presence import KubeStatePresence, foreign_jobs
from trilens.serve.own_queries import EmbeddedQueries, Shown, Times, UpstreamQueries
from trilens.serve.upstream import Upstream
from trilens.settings.endpoint import SourceSettings

if TYPE_CHECKING:
    from pathlib import Path

EXPORTED = "exported"
SILENT = "silent: job 'ksm' scrapes a kube-state-metrics"


def export() -> KubeStateExport:
    made = KubeStateExport(["east", "west"], "auto", None)
    for cluster in ("east", "west"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": f"u-{cluster}"}}
        made.changed(to_object(pod, cluster))
    return made


class Samples:
    def __init__(self) -> None:
        self.source = MemorySource()

    def add(self, metric: str, *, ago_s: float = 1, **labels: str) -> None:
        at_ms = int((time.time() - ago_s) * 1000)
        self.source.add({"__name__": metric, **labels}, [(at_ms, 1.0)])

    async def states(self) -> tuple[str, str]:
        told = export()
        await told.tell(["east", "west"])
        await KubeStatePresence(EmbeddedQueries(self.source), told).look()
        return told.states()["east"], told.states()["west"]


async def test_nobody_else_tells_it() -> None:
    samples = Samples()
    samples.add("kube_pod_info", cluster="east", uid="u-east")  # our own, which has no job
    assert await samples.states() == (EXPORTED, EXPORTED)


async def test_the_label_cluster_says_of_which_cluster_it_tells() -> None:
    samples = Samples()
    samples.add("kube_pod_info", cluster="east", uid="u-1", job="ksm", instance="x")
    assert await samples.states() == (SILENT, EXPORTED)


async def test_a_pod_says_it_where_the_scrape_calls_the_cluster_otherwise_or_nothing() -> None:
    samples = Samples()
    samples.add("kube_pod_info", uid="u-west", job="ksm", instance="x")
    for other in range(4):
        samples.add("kube_pod_info", uid=f"of-nobody-{other}", job="ksm", instance="x")
    assert await samples.states() == (EXPORTED, SILENT)


async def test_that_of_a_cluster_that_is_not_ours_is_nothing_to_us() -> None:
    samples = Samples()
    samples.add("kube_pod_info", cluster="south", uid="u-1", job="ksm", instance="x")
    assert await samples.states() == (EXPORTED, EXPORTED)


async def test_what_was_told_minutes_ago_is_not_told_now() -> None:
    samples = Samples()
    samples.add("kube_pod_info", cluster="east", uid="u-east", job="ksm", instance="x", ago_s=200)
    assert await samples.states() == (EXPORTED, EXPORTED)


async def test_what_a_prometheus_has_from_us_does_not_silence_us() -> None:
    samples = Samples()
    samples.add("kube_pod_info", cluster="east", uid="u-east", job="trilens", instance="t")
    samples.add(MARKER, cluster="east", job="trilens", instance="t")
    assert await samples.states() == (EXPORTED, EXPORTED)


async def test_no_answer_leaves_it_as_it_was() -> None:
    class Unreachable:
        async def vector(self, query: str) -> list[Shown]:
            raise SourceError("nobody there")

    told = export()
    told.found({"east": "ksm"})
    with pytest.raises(SourceError):
        await KubeStatePresence(Unreachable(), told).look()
    assert told.states()["east"] == SILENT


def test_a_series_without_a_uid_is_of_no_pod() -> None:
    assert foreign_jobs([Shown({"job": "ksm"}, 1000.0)], export(), 1000.0) == {}


async def test_a_real_prometheus_is_asked(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    told = (
        {"__name__": "kube_pod_info", "uid": "u-east", "job": "ksm", "instance": "x"},
        {"__name__": "kube_pod_info", "uid": "u-west", "job": "trilens", "instance": "t"},
        {"__name__": MARKER, "cluster": "west", "job": "trilens", "instance": "t"},
    )
    with prometheus(tmp_path) as url:
        body = encode((make_labels(labels), now_ms, 1.0) for labels in told)
        async with httpx.AsyncClient() as client:
            (await client.post(f"{url}/api/v1/write", content=body, headers=HEADERS)).raise_for_status()
        upstream = Upstream(SourceSettings(url=url), 1 << 20)
        await upstream.start()
        try:
            made = export()
            await made.tell(["east", "west"])
            await KubeStatePresence(UpstreamQueries(upstream), made).look()
            assert made.states() == {"east": SILENT, "west": EXPORTED}
            with pytest.raises(SourceError, match="refused a query"):
                await UpstreamQueries(upstream).vector("no (query")
            with pytest.raises(SourceError, match="no vector"):
                await UpstreamQueries(upstream).vector("1")
            times = Times(now_ms - 60_000, 30_000, 4)
            found = await UpstreamQueries(upstream).matrix("sum by (job) (kube_pod_info)", times, ("job",))
            assert sorted(found.keys) == [("ksm",), ("trilens",)]
            assert np.array_equal(found.values, [[np.nan, np.nan, 1, 1]] * 2, equal_nan=True)
            with pytest.raises(SourceError, match="refused a query"):
                await UpstreamQueries(upstream).matrix("no (query", times, ())
        finally:
            await upstream.stop()
