"""Beside a real Prometheus or VictoriaMetrics that has the samples and evaluates the rules: every feature.

A simulated cluster is scraped by that server alone. Trilens watches the cluster, takes the records of runs,
asks the server for samples, and sends it the series that it makes itself; alerts come back from its rules.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from command_here import trilens_here
from servers import free_port, require_server, running, until
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario
from trilens_process import TRILENS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long]

SCENARIO = """
name: pipeline
pools: [{name: h100, model: H100, nodes: 3}]
jobs:
  - name: train
    kind: JobSet
    namespace: research
    team: vision
    experiment: e1
    pool: h100
    pods: 2
    gpus_per_pod: 8
    arrivals: {at_start: 1}
    duration: 4h
    training: {checkpoint_every: 100}
  - name: chat
    kind: Deployment
    namespace: serving
    team: product
    pool: h100
    pods: 1
    gpus_per_pod: 2
    arrivals: {at_start: 1}
    duration: 48h
    serving: {load: conversation}
faults:
  - {kind: thermal, at: 21m, lasts: 2h, job: train, rank: 3}
"""
AGE_MS = 20 * 60_000
HOUR_S = 3_600
PATIENCE_S = 300.0  # vmalert shows a rule what another recorded one pass later, and five build on each other


@dataclass(frozen=True)
class Site:
    url: str  # of Trilens
    engine: str  # where the samples are
    name: str

    def ask(self, path: str, **params: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", params=params, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def series(self, query: str) -> list[dict[str, str]]:
        answer = httpx.post(f"{self.url}/api/v1/query", data={"query": query}, timeout=60)
        assert answer.status_code == 200, answer.text
        return [one["metric"] for one in answer.json()["data"]["result"]]


def jobs(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    named = [{"target_label": "cluster", "replacement": "sim"}]
    return [
        {
            "job_name": job,
            "scrape_interval": "2s",
            "http_sd_configs": [{"url": targets}],
            "relabel_configs": named,
        }
        for job, targets in (("dcgm", cluster.dcgm_targets), ("programs", cluster.program_targets))
    ]


@contextmanager
def prometheus(folder: Path, cluster: SimulatedCluster, rules: Path) -> Iterator[str]:
    file, address = folder / "prometheus.yml", f"127.0.0.1:{free_port()}"
    file.write_text(yaml.safe_dump({"rule_files": [f"{rules}/*.yml"], "scrape_configs": jobs(cluster)}))
    command = [
        require_server("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--web.enable-remote-write-receiver",
    ]
    with running(command, f"http://{address}/-/ready", log=folder / "prometheus.log"):
        yield f"http://{address}"


@contextmanager
def victoria_metrics(folder: Path, cluster: SimulatedCluster, rules: Path) -> Iterator[str]:
    """With the vmalert of its own package, to which it sends on who asks for alerts and rules."""
    file, address, alerts = folder / "scrape.yml", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    file.write_text(yaml.safe_dump({"scrape_configs": jobs(cluster)}))
    storage = [
        require_server("victoria-metrics"),
        f"-storageDataPath={folder / 'vm'}",
        f"-httpListenAddr={address}",
        f"-promscrape.config={file}",
        f"-vmalert.proxyURL=http://{alerts}",
        "-search.latencyOffset=0s",  # or it hides the last half minute, of each rule that builds on another
    ]
    evaluation = [
        require_server("vmalert"),
        f"-rule={rules}/*.yml",
        f"-httpListenAddr={alerts}",
        f"-datasource.url=http://{address}",
        f"-remoteWrite.url=http://{address}",
        "-remoteWrite.flushInterval=1s",
        f"-notifier.url=http://127.0.0.1:{free_port()}",  # nobody: Trilens asks for the alerts
    ]
    with (
        running(storage, f"http://{address}/health", log=folder / "vm.log"),
        running(evaluation, f"http://{alerts}/health", log=folder / "vmalert.log"),
    ):
        yield f"http://{address}"


ENGINES = {"prometheus": (prometheus, "prometheus"), "victoria-metrics": (victoria_metrics, "vmalert")}


@pytest.fixture(scope="module", params=list(ENGINES))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, (start, rule_format) = tmp_path_factory.mktemp(request.param), ENGINES[request.param]
    world = grown(
        read_scenario(SCENARIO, "x.yaml"), now_ms=time.time_ns() // 1_000_000, age_ms=AGE_MS, seed=1
    )
    exported = trilens_here("rules", "export", str(folder / "rules"), "--format", rule_format)
    assert exported.returncode == 0, exported.stderr
    evaluate_often(folder / "rules")
    with ExitStack() as stack:
        cluster = stack.enter_context(SimulatedCluster(world))
        engine = stack.enter_context(start(folder, cluster, folder / "rules"))
        cluster.write_kubeconfig(folder / "kubeconfig")
        config, address = folder / "trilens.yaml", f"127.0.0.1:{free_port()}"
        tree = {
            "kubernetes": {"clusters": {"sim": {"kubeconfig": str(folder / "kubeconfig")}}},
            "source": {"url": engine},
            "remote_write": {"url": f"{engine}/api/v1/write", "interval": "5s"},
        }
        config.write_text(yaml.safe_dump(tree))
        command = [*TRILENS, "up", "--listen", address, "--config", str(config), "--data", f"{folder}/data"]
        stack.enter_context(running(command, f"http://{address}/readyz", log=folder / "trilens.log"))
        cluster.send_records_to(f"http://{address}")
        found = Site(f"http://{address}", engine, request.param)
        until(lambda: holders(found) == 18, "the GPUs have no holders")
        yield found


def evaluate_often(rules: Path) -> None:
    """vmalert shows a rule what the one before it recorded one pass later: passes of 30 s take minutes."""
    for file in rules.glob("*.yml"):
        file.write_text(re.sub(r"^( +interval:) \S+$", r"\1 5s", file.read_text(), flags=re.MULTILINE))


def holders(site: Site) -> int:
    return sum(len(gpu["holders"]) for gpu in site.ask("/api/gpus"))


def of_train(lines: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in lines if one["name"].startswith("train")]
    return found


def test_workloads_have_their_gpus_and_how_busy_they_are(site: Site) -> None:
    assert of_train(site.ask("/api/workloads"))["team"] == "vision"

    def listed() -> dict[str, int]:
        table = site.ask("/api/workload-table")
        return dict(zip(table["name"], table["gpus"], strict=True))

    until(lambda: listed() == {"train-1": 16, "chat-1": 2}, "the workload table is not whole")

    def busy() -> int:
        return sum(bool(value) for value in site.ask("/api/fleet")["gpus"]["utilization"])

    until(lambda: busy() >= 16, "the GPUs of the training are not seen at work")
    recorded = 'trilens:workload_gpu_utilization:ratio{workload="train-1"} > 0'
    until(lambda: bool(site.series(recorded)), "no rule joins GPUs with workloads", patience_s=PATIENCE_S)


def test_the_ledger_books_as_it_does_alone(site: Site) -> None:
    """Every GPU of the fleet is booked for every second, and the training is productive by its steps."""

    def buckets() -> dict[str, int]:
        now_s = time.time()
        span = {"from": f"{now_s - 1:.0f}", "to": f"{now_s + 1:.0f}"}
        httpx.post(f"{site.url}/api/ledger/recompute", params=span, timeout=60)
        lines = site.ask("/api/cost", by="bucket", **{"from": f"{now_s - HOUR_S:.0f}"})["lines"]
        return {one["keys"]["bucket"]: one["now"]["gpu_ms"] for one in lines if one["now"] is not None}

    until(lambda: buckets().keys() >= {"productive", "unallocated"}, "nothing is booked")
    said = trilens_here("ledger", "verify", "--from", "-2h", "--json", "--server", site.url)
    assert said.returncode == 0, said.stdout + said.stderr
    verified = json.loads(said.stdout)
    assert verified["billed"] == verified["booked"]


def test_a_fault_is_found_alerted_by_the_engine_and_becomes_an_incident(site: Site) -> None:
    def found() -> set[str]:
        return {one["code"] for one in site.ask("/api/findings")}

    until(lambda: "D004" in found(), "the throttled GPU is not found", patience_s=PATIENCE_S)
    until(
        lambda: bool(site.series('trilens_finding{code="D004"}')),
        "no series of the engine",
        patience_s=PATIENCE_S,
    )
    until(
        lambda: bool(site.series('ALERTS{alertstate="firing"}')),
        "no rule fires in the engine",
        patience_s=PATIENCE_S,
    )

    def told_of() -> set[str]:
        told = site.ask("/api/incidents")
        return {one["kind"] for incident in told for one in incident["symptoms"]}

    until(lambda: "alert" in told_of(), "the engine's alerts are in no incident", patience_s=PATIENCE_S)


def test_why(site: Site) -> None:
    said = trilens_here("why", "research/train-1", "--server", site.url, "--json")
    assert said.returncode in (0, 1), said.stderr
    verdicts = json.loads(said.stdout)["verdicts"]
    assert any("therm" in json.dumps(one).lower() for one in verdicts)


def test_pages(site: Site) -> None:
    now = site.ask("/api/now")
    assert now
    fleet = site.ask("/api/fleet")
    assert len(fleet["gpus"]["node"]) == 24
    gpu = next(one for one in site.ask("/api/gpus") if one["holders"])
    life = site.ask(f"/api/gpus/{gpu['uuid']}/life")
    assert life

    def services() -> list[str]:
        return [one["name"] for one in site.ask("/api/services")["services"]]

    until(lambda: services() == ["chat-1"], "the service is not known by what it tells")
    assert site.ask("/api/experiments")


def test_doctor(site: Site) -> None:
    def store() -> dict[str, Any]:
        areas = site.ask("/api/doctor")["areas"]
        found: dict[str, Any] = next(
            layer for area in areas for layer in area["layers"] if layer["layer"] == "store"
        )
        return found

    assert site.engine in store()["sees"]
    # It asks that server, which may be late on a machine that is busy.
    until(lambda: store()["state"] == "ok", lambda: f"the store is not well: {store()}")
