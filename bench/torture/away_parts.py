"""What Trilens depends on, each behind a proxy, with how one sees that it works and that it is missed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final, Self

import httpx
import yaml

from acknowledged_writes import Writer
from bench.torture.alarm import alarm_rules
from bench.torture.dependency import TIMEOUT_S, Dependency
from engine_front import engine_front
from metric_sources import prometheus
from mlflow_server import Mlflow, mlflow_server
from receivers_at_work import Alertmanager
from run_lines import Sender
from sample_now import write_now
from servers import free_port
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster, write_kubeconfig
from trilens.simulate.scenario import read_scenario

if TYPE_CHECKING:
    from bench.torture.dependency import Surroundings
    from bench.torture.fault_proxy import FaultProxy

_SENDER_S: Final = 5.0  # then a sender gives up a write, and sends the next
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

    def __init__(self, url: str, proxy: FaultProxy) -> None:
        super().__init__(url, proxy)
        self._writer = Writer(0)
        self._client = httpx.Client(base_url=url, timeout=_SENDER_S)

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        proxy = around.proxy(around.enter_context(engine_front(around.folder / "clickhouse")))
        return cls(around.trilens({"storage": {"url": f"{proxy.url}/torture"}}), proxy)

    def meanwhile(self) -> None:
        pass

    def has_caught_up(self) -> bool:
        """It takes samples, and has every one that it took before, also while the engine was away."""
        if self._tried() != 204:
            return False
        try:
            lost = self._writer.missing(self.url)
        except (AssertionError, httpx.HTTPError):  # it says that it cannot tell
            return False
        assert not lost, f"{len(lost)} writes that were acknowledged are lost"
        return bool(self._own())

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

    def _own(self) -> list[float]:
        return self.query("trilens_build_info")

    def _tried(self) -> int | None:
        """None where it is not answered in time: it waits for the engine, and its sender goes on."""
        try:
            return self._writer.batch(self._client).status_code
        except httpx.TimeoutException:
            return None


class AlertmanagerAway(Dependency):
    row, what = "alertmanager", "a real Alertmanager"
    name, layer = "Alertmanager", "delivery"

    def __init__(self, url: str, proxy: FaultProxy, alertmanager: Alertmanager) -> None:
        super().__init__(url, proxy)
        self._alertmanager = alertmanager

    @classmethod
    def begin(cls, around: Surroundings) -> Self:
        alertmanager = Alertmanager(around.folder, free_port(), free_port())
        around.enter_context(alertmanager.running())
        proxy = around.proxy(f"http://127.0.0.1:{alertmanager.port}")
        # One that was raised fires for longer than Alertmanager is away.
        rules = alarm_rules(around.folder, "last_over_time(alarm[1h]) > 0")
        receivers = {"am": {"alertmanager": {"url": proxy.url}}}
        return cls(around.trilens({**rules, "alerting": {"receivers": receivers}}), proxy, alertmanager)

    def meanwhile(self) -> None:
        self.number += 1
        self.write("alarm", 1.0, node=f"n-{self.number}")
        self._last = f"n-{self.number}"

    def has_caught_up(self) -> bool:
        return self._last in self._alertmanager.alerts()


class PrometheusAway(Dependency):
    """Another server has the samples; Trilens keeps records all the same."""

    row, what = "prometheus", "a real Prometheus with the samples"
    name, layer = "Prometheus", "store"

    def __init__(self, url: str, proxy: FaultProxy, behind: str) -> None:
        super().__init__(url, proxy)
        self._behind = behind
        self._sender = Sender(run="beside")
        self._first = True

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
        try:
            # However long ago that was.
            if self.query("last_over_time(kept[1h])") != [float(self.number)]:
                return False
        except httpx.HTTPStatusError:
            return False
        return f'"n-{self.number}"' in json.dumps(self.ask("/api/incidents"))

    def check_the_rest(self) -> None:
        batch = self._sender.first(3) if self._first else self._sender.batch(3)
        self._first = False
        taken = httpx.post(f"{self.url}/api/v1/runs/records", content=batch, timeout=TIMEOUT_S)
        assert taken.status_code == 200, f"{self.name} is away, and records are not taken: {taken.text}"
        found = self.ask("/api/runs/beside/steps", limit="1", first=str(self._sender.step - 1))
        assert found, "a record that was taken is not there"


class KubernetesAway(Dependency):
    """A simulated cluster, over HTTP: its pods come and go all the time."""

    row, what = "kubernetes", "the API server of a simulated cluster"
    name, layer = "the API server", "kubernetes"

    def __init__(self, url: str, proxy: FaultProxy, cluster: SimulatedCluster) -> None:
        super().__init__(url, proxy)
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

    def __init__(self, url: str, proxy: FaultProxy, mlflow: Mlflow) -> None:
        super().__init__(url, proxy)
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
