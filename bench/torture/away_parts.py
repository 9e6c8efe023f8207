"""What Trilens depends on, each behind a proxy, with how one sees that it works and that it is missed."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import yaml

from acknowledged_writes import Writer
from bench.torture.alarm import alarm_rules
from bench.torture.dependency import TIMEOUT_S, Dependency, soon
from bench.torture.fault_proxy import Nonsense
from bench.torture.outbox import RUN, Outbox
from engine_front import engine_front
from metric_sources import prometheus
from mlflow_server import Mlflow, mlflow_server
from receivers_at_work import Alertmanager, HttpReceiver
from sample_now import write_now
from servers import free_port
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster, write_kubeconfig
from trilens.simulate.scenario import read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.torture.dependency import Surroundings
    from bench.torture.fault_proxy import FaultProxy

_SENDER_S: Final = 5.0  # then a sender gives up a write, and sends the next
_ABOUT_S: Final = 60.0  # after an alert ended it is told as over; three minutes after that it would be anyway
_OF_THE_RUN: Final = f"/api/runs/{RUN}/steps"
_DATABASE: Final = "torture"
_SAMPLES: Final = """
SELECT labels['i'] AS i, groupUniqArray(toUInt64(v)) FROM samples
JOIN (SELECT series, any(labels) AS labels FROM series WHERE metric = 'written' GROUP BY series) AS known
USING (series) WHERE metric = 'written' GROUP BY i
"""
_STEPS: Final = f"SELECT n FROM run_steps WHERE run = '{RUN}'"
_SCENARIO: Final = """
name: small
pools: [{name: h100, model: H100, nodes: 4}]
jobs:
  - {name: train, kind: JobSet, namespace: research, team: vision, pool: h100, pods: 1, gpus_per_pod: 4,
     arrivals: {at_start: 2, per_hour: 180}, duration: 60s}
"""


class EngineAway(Dependency):
    """ClickHouse, as the HTTP front of the tests speaks it over the embedded engine."""

    row, what = "engine", "the ClickHouse server with the data"
    name, layer = "the engine", "store"
    told_s = 22.0  # it is asked every 5 s, and again after 1 s, and has 8 s each time
    has_samples = True

    def __init__(self, url: str, proxy: FaultProxy, behind: str) -> None:
        super().__init__(url, {self.name: proxy})
        self._behind = behind
        self._writer = Writer(0)
        self._client = httpx.Client(base_url=url, timeout=_SENDER_S)
        self._outbox = Outbox(url, _SENDER_S)
        self._begun = threading.Event()
        self._working: threading.Thread | None = None

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        behind = around.enter_context(engine_front(around.folder / "clickhouse"))
        proxy = around.proxy(behind)
        return cls(around.trilens({"storage": {"url": f"{proxy.url}/{_DATABASE}"}}), proxy, behind)

    def prepare(self) -> None:
        """Samples and records are under way when it begins."""
        self._begun.clear()
        self._working = threading.Thread(target=self._work, daemon=True)
        self._working.start()

    def meanwhile(self) -> None:
        self._begun.set()
        if self._working is not None:
            self._working.join()

    def _work(self) -> None:
        while not self._begun.is_set():
            self._tried()
            self._outbox.send()

    def has_caught_up(self) -> bool:
        """It takes samples and records, and has all that it took before, also while the engine was away: so
        says the engine, which is asked past the proxy, as Trilens may have it only in memory."""
        if self._tried() != 204 or self._outbox.send() != 200 or not self._outbox.is_empty:
            return False
        lost = self._writer.lost([json.loads(values) for _, values in self._kept(_SAMPLES)])
        assert not lost, f"{len(lost)} writes that were acknowledged are not in the engine, as {lost[:20]}"
        try:
            lost = self._writer.missing(self.url)
        except AssertionError:  # it says that it cannot tell
            return False
        assert not lost, f"{len(lost)} writes that were acknowledged are lost, as {lost[:20]}"
        # What nobody waits for any more may still arrive, and is then taken out again.
        return bool(self._own()) and not self._outbox.not_once(int(n) for (n,) in self._kept(_STEPS))

    def check_the_rest(self) -> None:
        """What needs no engine: that it lives, what it measured of itself, and what it has in memory. Writes
        go on: those that are acknowledged all the same have to be there afterwards."""
        for path in ("/healthz", "/metrics"):
            try:
                answer = httpx.get(self.url + path, timeout=TIMEOUT_S)
            except httpx.TimeoutException as e:
                raise AssertionError(f"{path} does not answer within {TIMEOUT_S:.0f} s") from e
            assert answer.status_code == 200, f"{path} says {answer.status_code}"
        assert self._own(), "what it has in memory is not there"
        status = self._tried()
        assert status in (None, 204, 503), f"a write is answered with {status}"
        status = self._outbox.send()
        assert status in (None, 200, 503), f"records are answered with {status}"

    def _own(self) -> list[float]:
        return self.query("trilens_build_info")

    def _tried(self) -> int | None:
        """None where it is not answered in time: it waits for the engine, and its sender goes on."""
        try:
            return self._writer.batch(self._client).status_code
        except httpx.TimeoutException:
            return None

    def _kept(self, statement: str) -> list[list[str]]:
        asked = {"database": _DATABASE}
        answer = httpx.post(self._behind, params=asked, content=statement, timeout=TIMEOUT_S)
        assert answer.status_code == 200, f"the engine itself fails: {answer.text}"
        return [line.split("\t") for line in answer.text.splitlines()]


class AlertmanagerAway(Dependency):
    """And a webhook that is told of incidents, which fails in the same way at the same time."""

    row, what = "alertmanager", "a real Alertmanager, and a webhook"
    name, layer = "who is told", "delivery"
    told_s = 12.0  # a rule takes a second to see it, an incident another, and a receiver has 10 s
    # Of what it takes it says nothing. An alert that was lost so is told again within a minute.
    believes = frozenset({Nonsense.EMPTY, Nonsense.BRACES})

    def __init__(self, url: str, proxies: Mapping[str, FaultProxy], told: _Told) -> None:
        super().__init__(url, proxies)
        self._told = told
        self._fresh: str | None = None
        self._ended: str | None = None

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        told = around.enter_context(_Told(around.folder))
        # A webhook may say anything with its 200.
        hook = around.proxy(f"http://127.0.0.1:{told.webhook.port}", [Nonsense.NOISE])
        proxies = {"am": around.proxy(told.alertmanager.url), "hook": hook}
        # One that was raised fires for longer than they are away.
        rules = alarm_rules(around.folder, "last_over_time(alarm[1h]) > 0")
        receivers = {
            "am": {"alertmanager": {"url": proxies["am"].url}},
            "hook": {"webhook": {"url": f"{hook.url}/hook"}},
        }
        alerting = {"receivers": receivers, "group_wait": "0s"}
        return cls(around.trilens({**rules, "alerting": alerting}), proxies, told)

    def prepare(self) -> None:
        """One that is to end while it is away. It is young: Alertmanager takes an alert for over, too, when
        nobody has told of it for four minutes, and is to have heard of the end before."""
        fresh = self._fresh = self._raised()
        soon(lambda: fresh in self._told.alertmanager.alerts(), f"{self.name}: nobody hears of a new alert")

    def meanwhile(self) -> None:
        self._last = self._raised()
        self._ended, self._fresh = self._fresh, None
        if self._ended is not None:
            self.write("alarm", 0.0, node=self._ended)
            self._ended_s = time.time()

    def unsaid(self) -> set[str]:
        said = self.problems()
        return {name for name in self._proxies if not any(one.startswith(f"{name} (") for one in said)}

    def has_caught_up(self) -> bool:
        if self._last not in self._told.alertmanager.alerts():
            return False
        if self._ended is not None and not self._told.has_ended(self._ended, self._ended_s):
            return False
        return not {one["id"] for one in self.ask("/api/incidents", all="true")} - self._told.incidents()

    def _raised(self) -> str:
        self.number += 1
        node = f"n-{self.number}"
        self.write("alarm", 1.0, node=node)
        return node


class _Told(ExitStack):
    """Who is told, behind the proxies, and what they were told."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.webhook = self.enter_context(HttpReceiver())
        self._ends = self.enter_context(HttpReceiver())  # the Alertmanager's own
        self.alertmanager = Alertmanager(folder, free_port(), free_port(), self._ends.url)
        self.enter_context(self.alertmanager.running())
        self._ended: dict[str, float] = {}
        self._incidents: set[str] = set()

    def has_ended(self, node: str, at_s: float) -> bool:
        """Whether the Alertmanager knows that it ended at about that time."""
        for message in _posted(self._ends):
            for alert in message["alerts"]:
                if alert["status"] == "resolved":
                    self._ended[alert["labels"]["node"]] = datetime.fromisoformat(alert["endsAt"]).timestamp()
        return abs(self._ended.get(node, 0.0) - at_s) < _ABOUT_S

    def incidents(self) -> set[str]:
        """Those of which the webhook was told."""
        self._incidents.update(message["trilens"]["incident"] for message in _posted(self.webhook))
        return self._incidents


def _posted(receiver: HttpReceiver) -> Iterator[Any]:
    while not receiver.posted.empty():
        yield receiver.posted.get().json


class PrometheusAway(Dependency):
    """Another server has the samples; Trilens keeps records all the same."""

    row, what = "prometheus", "a real Prometheus with the samples"
    name, layer = "Prometheus", "store"
    told_s = 5.0  # it has 3 s to answer, and is believed for 2 s
    has_samples = True

    def __init__(self, url: str, proxy: FaultProxy, behind: str) -> None:
        super().__init__(url, {self.name: proxy})
        self._behind = behind
        self._outbox = Outbox(url, TIMEOUT_S)

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        folder = around.folder / "prometheus"
        folder.mkdir()
        # It has the rules, too, and one that was raised fires for longer than it is away.
        rules = alarm_rules(folder, "last_over_time(alarm[1h]) > 0")["rules"]["files"]
        config = yaml.safe_dump({"global": {"evaluation_interval": "1s"}, "rule_files": rules})
        behind = around.enter_context(prometheus(folder, config))
        proxy = around.proxy(behind)
        return cls(around.trilens({"source": {"url": proxy.url}}), proxy, behind)

    def meanwhile(self) -> None:
        """A sample, and an alert that becomes an incident here."""
        self.number += 1
        write_now(self._behind, "kept", float(self.number)).raise_for_status()
        write_now(self._behind, "alarm", 1.0, node=f"n-{self.number}").raise_for_status()

    def has_caught_up(self) -> bool:
        # However long ago that was.
        if self.query("last_over_time(kept[1h])") != [float(self.number)]:
            return False
        self.check_the_rest()
        twice = self._outbox.not_once(self.ask(_OF_THE_RUN, limit="100000")["n"])
        assert not twice, f"steps are not there once, as {twice[:20]}"
        return f'"n-{self.number}"' in json.dumps(self.ask("/api/incidents"))

    def check_the_rest(self) -> None:
        status = self._outbox.send()
        assert status == 200, f"{self.name} is away, and records are not taken: {status}"
        last = self._outbox.last_step
        found = self.ask(_OF_THE_RUN, first=str(last))["step"]
        assert found == [last], f"a record that was taken is not there: {found}"


class KubernetesAway(Dependency):
    """A simulated cluster, over HTTP: its pods come and go all the time."""

    row, what = "kubernetes", "the API server of a simulated cluster"
    name, layer = "the API server", "kubernetes"
    told_s = 120.0  # what it serves is asked every 60 s, with 60 s to answer; a watch may be silent for long

    def __init__(self, url: str, proxy: FaultProxy, cluster: SimulatedCluster) -> None:
        super().__init__(url, {self.name: proxy})
        self._cluster = cluster

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        scenario = read_scenario(_SCENARIO, "torture.yaml")
        world = grown(scenario, now_ms=time.time_ns() // 1_000_000, age_ms=60_000, seed=1)
        cluster = around.enter_context(SimulatedCluster(world))
        proxy = around.proxy(cluster.url)
        kubeconfig = around.folder / "kubeconfig"
        write_kubeconfig(kubeconfig, proxy.url)
        clusters = {"sim": {"kubeconfig": str(kubeconfig)}}
        return cls(around.trilens({"kubernetes": {"clusters": clusters}}), proxy, cluster)

    def meanwhile(self) -> None:
        pass

    def has_caught_up(self) -> bool:
        listed = httpx.get(f"{self._cluster.url}/api/v1/pods", timeout=TIMEOUT_S).json()["items"]
        text = httpx.get(f"{self.url}/metrics/kubernetes", timeout=TIMEOUT_S).text
        told = {
            line.split('uid="')[1].split('"')[0]
            for line in text.splitlines()
            if line.startswith("kube_pod_info{")
        }
        return bool(listed) and told == {one["metadata"]["uid"] for one in listed}


class MlflowAway(Dependency):
    row, what = "mlflow", "a real MLflow"
    name, layer = "MLflow", "trackers"
    told_s = 31.0  # a pass every second, with 30 s for each answer
    believes = frozenset({Nonsense.BRACES})  # so it says that it has no experiments

    def __init__(self, url: str, proxy: FaultProxy, mlflow: Mlflow) -> None:
        super().__init__(url, {self.name: proxy})
        self._mlflow = mlflow
        self._experiment = mlflow.experiment("torture")

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        mlflow = around.enter_context(mlflow_server(around.folder))
        proxy = around.proxy(mlflow.url)
        return cls(around.trilens({"mlflow": {"url": proxy.url, "interval": "1s"}}), proxy, mlflow)

    def meanwhile(self) -> None:
        self.number += 1
        self._last = f"run-{self.number}"
        run = self._mlflow.run(self._experiment, self._last)
        self._mlflow.log(run, "loss", [1.0, 0.5])
        self._mlflow.end(run)

    def has_caught_up(self) -> bool:
        return bool(self.query(f'last_over_time(trilens_tracked_metric{{run_name="{self._last}"}}[1h])'))


DEPENDENCIES: Final[tuple[type[Dependency], ...]] = (
    EngineAway,
    AlertmanagerAway,
    PrometheusAway,
    KubernetesAway,
    MlflowAway,
)
