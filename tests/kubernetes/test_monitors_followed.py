"""Monitors as they come, change and go: which jobs there are at each moment, what is said of the others."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from scripted_api import ScriptedApi, scripted_api

from kube_objects import to_object
from trilens.collect.cluster_scope import ClusterScope
from trilens.collect.config import load_scrape_configs
from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.monitors.following import Choice, ClusterMonitors, Monitors
from trilens.collect.monitors.keys import Holder, KeyNeeded, Keys
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from trilens.collect.config import ScrapeConfig
    from trilens.collect.monitors.job import JobDocument
    from trilens.model.kubernetes import KubeObject

PATIENCE_S = 30.0
TOKEN = {"bearerTokenSecret": {"name": "s", "key": "t"}}
SECRET = "/api/v1/namespaces/ml/secrets/s"


class Followed:
    """Monitors at work, and the jobs that were last asked for."""

    def __init__(self, api: ScriptedApi, folder: Path, choice: Choice) -> None:
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._applied = asyncio.Event()
        self.jobs: dict[str, ScrapeConfig] = {}
        self.made: list[str] = []
        self.refuses = False
        self.api = api
        one = ClusterMonitors(
            ClusterScope("lab", {}), choice, api.access(folder), self._make, self._apply, settle_s=0.0
        )
        self.monitors = Monitors([one])

    def _make(self, document: JobDocument) -> ScrapeConfig:
        self.made.append(document["job_name"])
        (job,) = load_scrape_configs({"scrape_configs": [document]}, self._folder)
        return job

    def _apply(self, jobs: Sequence[ScrapeConfig]) -> None:
        if self.refuses:
            raise ConfigError("not now")
        self.jobs = {job.job_name: job for job in jobs}
        self._loop.call_soon_threadsafe(self._applied.set)

    def tell(self, *objects: KubeObject) -> None:
        for obj in objects:
            self.monitors.changed(obj)

    def complaints(self) -> list[str]:
        return [str(one) for one in self.monitors.unusable()]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - complaints are not told, only asked for
                await asyncio.sleep(0.01)

    async def until_jobs(self, *names: str) -> None:
        await self.until(lambda: set(self.jobs) == {f"serviceMonitor/ml/{name}/0" for name in names})


@asynccontextmanager
async def following(folder: Path, choice: Choice = Choice()) -> AsyncIterator[Followed]:  # noqa: B008
    async with scripted_api() as api:
        followed = Followed(api, folder, choice)
        task = asyncio.create_task(followed.monitors.run())
        try:
            yield followed
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def monitor(name: str, endpoint: Any = None, **labels: str) -> KubeObject:
    return of_operator("ServiceMonitor", name, {"endpoints": [endpoint or {}]}, labels)


def of_operator(kind: str, name: str, spec: Any, labels: dict[str, str] | None = None) -> KubeObject:
    metadata = {"name": name, "namespace": "ml", "uid": name, "labels": labels or {}}
    return to_object(
        {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata, "spec": spec}, "lab"
    )


def secret(**texts: str) -> dict[str, Any]:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}}


async def test_jobs_follow_the_monitors(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.tell(monitor("a"), monitor("b"))
        await followed.until_jobs("a", "b")
        followed.tell(monitor("b", {"path": "/other"}))
        await followed.until(lambda: followed.jobs["serviceMonitor/ml/b/0"].metrics_path == "/other")
        assert sorted(name.split("/")[2] for name in followed.made) == ["a", "b", "b"]
        followed.monitors.removed(monitor("a"))
        await followed.until_jobs("b")
        assert followed.complaints() == []
        elsewhere = of_operator("Job", "c", {})
        followed.tell(elsewhere)  # of no interest here
        followed.monitors.removed(monitor("b"))
        await followed.until_jobs()


async def test_jobs_are_made_anew_when_what_they_are_made_with_changes(tmp_path: Path) -> None:
    """As `global` does in a reload."""

    def make(document: JobDocument) -> ScrapeConfig:
        defaults = {"scrape_interval": "7s", "scrape_timeout": "5s"}
        (job,) = load_scrape_configs({"global": defaults, "scrape_configs": [document]}, tmp_path)
        return job

    async with following(tmp_path) as followed:
        followed.tell(monitor("a"))
        await followed.until_jobs("a")
        await asyncio.to_thread(followed.monitors.make_with, make)
        await followed.until(lambda: followed.jobs["serviceMonitor/ml/a/0"].scrape_interval.seconds == 7)
        assert followed.jobs["serviceMonitor/ml/a/0"].scrape_timeout.seconds == 5
    followed.monitors.make_with(make)  # when it has ended, nothing is lost


async def test_only_those_with_the_labels_or_selected_by_a_prometheus(tmp_path: Path) -> None:
    choice = Choice(selected=True, labels={"team": "ml"})
    async with following(tmp_path, choice) as followed:
        both = monitor("both", release="p", team="ml")
        followed.tell(both, monitor("label", team="ml"), monitor("release", release="p"))
        selector = {"serviceMonitorSelector": {"matchLabels": {"release": "p"}}}
        followed.tell(of_operator("Prometheus", "k8s", selector))
        await followed.until_jobs("both")
        assert followed.made == ["serviceMonitor/ml/both/0"]
        followed.monitors.removed(of_operator("Prometheus", "k8s", selector))
        await followed.until_jobs()
        assert followed.jobs == {}


async def test_one_that_cannot_be_used_is_said_and_hinders_no_other(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.tell(
            monitor("bad", {"interval": "soon"}),
            of_operator("ServiceMonitor", "odd", "nothing"),
            monitor("good"),
        )
        await followed.until_jobs("good")
        bad, odd = followed.complaints()
        assert bad.startswith("lab: ServiceMonitor ml/bad is not scraped: scrape_interval: ")
        assert odd.endswith("ml/odd is not scraped: what it says is not what a ServiceMonitor says")
        followed.tell(monitor("bad", {"interval": "10s"}))
        await followed.until_jobs("good", "bad")
        assert followed.complaints() == [odd]


async def test_jobs_that_were_not_taken_over_are_offered_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.refuses = True
        followed.tell(monitor("a"), monitor("b", {"oauth2": {"x": "y"}}))
        await followed.until(lambda: bool(followed.complaints()))
        assert followed.jobs == {}
        followed.refuses = False
        followed.tell(monitor("c"))
        await followed.until_jobs("a", "c")
        assert set(followed.jobs) == {"serviceMonitor/ml/a/0", "serviceMonitor/ml/c/0"}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (None, "there is no Secret ml/s"),
        (secret(other="x"), "the Secret ml/s has no key 't'"),
        ({"data": {"t": "%"}}, "the Secret ml/s cannot be read: a key is no base64"),
        ({"data": 5}, "the Secret ml/s cannot be read"),
    ],
)
async def test_a_secret_that_is_not_as_it_should_be(
    tmp_path: Path, document: dict[str, Any] | None, why: str
) -> None:
    async with following(tmp_path) as followed:
        if document is not None:
            followed.api.documents[SECRET] = document
        followed.tell(monitor("closed", TOKEN), monitor("open"))
        await followed.until_jobs("open")
        (line,) = followed.complaints()
        assert f"ml/closed is not scraped: {why}" in line
        followed.api.documents[SECRET] = secret(t="t0k3n")
        followed.tell(monitor("third"))  # whenever something changes, it is tried again
        await followed.until_jobs("open", "closed", "third")
        job = followed.jobs["serviceMonitor/ml/closed/0"]
        assert job.request_headers() == [("Authorization", "Bearer t0k3n")]


async def test_a_secret_that_may_not_be_read_is_named_with_what_to_grant(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.forbidden = {SECRET}
        followed.tell(monitor("closed", TOKEN))
        await followed.until(lambda: bool(followed.complaints()))
        assert followed.complaints() == [
            "lab: ServiceMonitor ml/closed is not scraped: the Secret ml/s may not be read; "
            'allow "get" on the secrets named s of API group "" in namespace ml'
        ]
        assert followed.jobs == {}


async def test_a_server_that_is_away_takes_no_secret_away(tmp_path: Path) -> None:
    holder = Holder("Secret", "ml", "s")
    async with scripted_api() as api:
        client = KubeApi(api.access(tmp_path))
        keys = Keys(client, fresh_s=0.0)  # it is to be read again at once
        api.documents[SECRET] = secret(t="one")
        with pytest.raises(KeyNeeded):
            keys.text(holder, "t")
        await keys.read(holder)
        assert keys.text(holder, "t") == "one"
        assert keys.next_look_s() == 0.0

        api.documents[SECRET] = secret(t="two")
        keys.look_again()
        with pytest.raises(KeyNeeded):
            keys.text(holder, "t")
        await keys.read(holder)
        assert keys.text(holder, "t") == "two"

        api.authorization = {"somebody else"}
        keys.look_again()
        await keys.read(holder)
        assert keys.text(holder, "t") == "two"
        assert (keys.next_look_s() or 0.0) > 0.0

        api.authorization, api.forbidden = set(), {SECRET}
        await keys.read(holder)
        with pytest.raises(ConfigError, match="may not be read"):
            keys.text(holder, "t")
        keys.look_again()
        keys.look_again()  # nobody asked in between
        assert keys.next_look_s() is None
        await client.close()


async def test_a_prometheus_that_makes_no_sense_is_said_and_ends_nothing(tmp_path: Path) -> None:
    async with following(tmp_path, Choice(selected=True)) as followed:
        near = {"serviceMonitorSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
        followed.tell(of_operator("Prometheus", "k8s", near), monitor("a"))
        await followed.until(lambda: bool(followed.complaints()))
        assert "'Near' is no operator of a label selector" in followed.complaints()[0]
        followed.tell(of_operator("Prometheus", "k8s", {"serviceMonitorSelector": {}}))
        await followed.until_jobs("a")


async def test_a_secret_is_read_once_for_all_that_name_it_and_not_without(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.documents[SECRET] = secret(t="t0k3n")
        followed.tell(monitor("open"))
        await followed.until_jobs("open")
        assert followed.api.asked == []
        followed.tell(monitor("a", TOKEN), monitor("b", TOKEN))
        await followed.until_jobs("open", "a", "b")
        assert [request.path for request in followed.api.asked] == [SECRET]
