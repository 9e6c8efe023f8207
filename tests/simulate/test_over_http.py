"""The simulated cluster's exporters and programs over HTTP, and the command that serves them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from servers import until
from trilens.collect.agents.answers import read_events, read_processes
from trilens.collect.agents.client import AgentClient
from trilens.collect.config import load_scrape_configs
from trilens.collect.discovery.http import HttpDiscovery
from trilens.collect.http_client import HttpClient
from trilens.simulate.__main__ import main
from trilens.simulate.over_http.pace import Pace, grown
from trilens.simulate.over_http.process import SimulatorFailed, SimulatorProcess
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import load_scenario, read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_MS = 3_600_000
START_MS = 1_790_000_000_000
SILENT = """
name: silent
pools:
- {name: h100, model: H100, nodes: 3}
faults:
- {kind: exporter-silent, at: 1m, lasts: 10h, node: 0}
- {kind: node-not-ready, at: 1m, lasts: 10h, node: 1}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    world = grown(load_scenario("default").sized(32), now_ms=START_MS, age_ms=HOUR_MS, seed=3)
    with SimulatedCluster(world) as running:
        yield running


async def targets(url: str) -> list[dict[str, str]]:
    """As Trilens discovers them."""
    sections = [{"job_name": "x", "http_sd_configs": [{"url": url}]}]
    (config,) = load_scrape_configs({"scrape_configs": sections}, Path())
    discovery = HttpDiscovery(config.http_sd_configs[0])
    try:
        return [dict(target) for target in await discovery.fetch()]
    finally:
        await discovery.close()


def fetch(target: dict[str, str]) -> httpx.Response:
    return httpx.get(f"http://{target['__address__']}{target['__metrics_path__']}")


def status(cluster: SimulatedCluster, path: str) -> int:
    return httpx.get(cluster.url + path).status_code


async def test_every_node_is_a_target_and_tells_of_its_gpus(cluster: SimulatedCluster) -> None:
    found = await targets(cluster.dcgm_targets)
    nodes = cluster.ask(lambda world: list(world.nodes))
    assert [target["node"] for target in found] == nodes
    assert len({target["instance"] for target in found}) == len(nodes)
    for target in found:
        answer = fetch(target)
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert f'Hostname="{target["node"]}"' in answer.text
        assert "DCGM_FI_DEV_POWER_USAGE{" in answer.text
    assert status(cluster, "/nodes/nothing/metrics") == 404


async def test_programs_are_targets_while_they_run(cluster: SimulatedCluster) -> None:
    found = await targets(cluster.program_targets)
    running = cluster.ask(lambda world: dict(world.metrics_endpoints()))
    assert {(target["namespace"], target["pod"]) for target in found} == {
        (endpoint.namespace, endpoint.pod) for endpoint in running.values()
    }
    said = "".join(fetch(target).text for target in found)
    assert "training_loss{" in said
    assert "vllm:time_to_first_token_seconds_bucket{" in said
    assert status(cluster, "/pods/nothing/metrics") == 404


def test_who_is_silent_does_not_answer() -> None:
    world = grown(read_scenario(SILENT, "silent"), now_ms=START_MS, age_ms=HOUR_MS)
    with SimulatedCluster(world) as cluster:
        silent, dead, well = cluster.ask(lambda w: list(w.nodes))
        answering = [
            f"/nodes/{silent}/agent/metrics",
            f"/nodes/{well}/metrics",
            f"/nodes/{well}/agent/healthz",
        ]
        assert [status(cluster, path) for path in answering] == [200, 200, 200]
        pages = ("metrics", "agent/metrics", "agent/healthz", "agent/v1/events", "agent/v1/output")
        for path in (f"{silent}/metrics", *(f"{dead}/{page}" for page in pages)):
            with pytest.raises(httpx.TransportError):
                status(cluster, f"/nodes/{path}")


def test_time_passes_at_its_pace() -> None:
    clock = iter([100.0, 100.5, 103.0])
    pace = Pace(1_000_000, speed=60.0, monotonic=lambda: next(clock))
    assert [pace.now_ms(), pace.now_ms()] == [1_030_000, 1_180_000]
    with pytest.raises(ValueError, match="not above 0"):
        Pace(0, speed=-1.0)


def test_time_passes_while_it_is_served() -> None:
    world = grown(load_scenario("default").sized(8), now_ms=START_MS, age_ms=0)
    with SimulatedCluster(world, speed=1000.0) as cluster:
        until(lambda: cluster.ask(lambda w: w.now_ms) > START_MS + 60_000, "time stands still")
        assert cluster.ask(lambda w: w.now_ms) > START_MS + 60_000


def test_a_defect_is_told_where_it_is_ended() -> None:
    world = grown(load_scenario("default").sized(8), now_ms=START_MS, age_ms=0)
    world.advance = None  # type: ignore[assignment,method-assign]
    with pytest.raises(RuntimeError, match="the simulation has failed"), SimulatedCluster(world) as cluster:
        cluster._thread.join()


def test_a_process_of_its_own_ends_with_who_started_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with SimulatorProcess(["--gpus", "16", "--seed", "5", "--kubeconfig", str(kubeconfig)]) as simulator:
        described = simulator.described()
        assert (described.gpus, described.kubeconfig) == (16, str(kubeconfig))
        assert httpx.get(f"{described.url}/api/v1/pods").json()["items"] != []
        pid = simulator.pid
    assert not psutil.pid_exists(pid)
    killed = (
        "import os, signal\n"
        "from trilens.simulate.over_http.process import SimulatorProcess\n"
        "simulator = SimulatorProcess(['--gpus', '8'])\n"
        "simulator.described()\n"
        "print(simulator.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run([sys.executable, "-c", killed], stdout=subprocess.PIPE, text=True, check=False)
    assert parent.returncode == -signal.SIGKILL
    until(lambda: not psutil.pid_exists(int(parent.stdout)), "the simulator has stayed")


def test_the_command_says_where_it_answers_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trilens.simulate", "--gpus", "8", "--age", "10m"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        assert "A cluster of 8 GPUs on 1 nodes" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "kubectl --kubeconfig" in process.stdout.read()
        assert process.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_is_told_in_a_line(
    cluster: SimulatedCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    port = cluster.url.rpartition(":")[2]
    for arguments, told in (
        (["--scenario", "nothing"], "cannot read the scenario 'nothing'"),
        (["--gpus", "8", "--age", "0s", "--port", port], "ddress already in use"),
    ):
        with SimulatorProcess(arguments) as simulator, pytest.raises(SimulatorFailed, match="exit code 2"):
            simulator.described()
        said = capfd.readouterr().err
        assert told in said
        assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--speed", "-1"),
        ("--speed", "inf"),
        ("--gpus", "0"),
        ("--gpus", "10001"),
        ("--age", "soon"),
        ("--records-to", "localhost:9333"),
    ],
)
def test_options_that_make_no_sense(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert f"argument {wrong[0]}: {wrong[1]!r}" in capsys.readouterr().err


FAULTY = """
name: faulty
pools:
- {name: h100, model: H100, nodes: 1}
jobs:
- name: train
  kind: PyTorchJob
  namespace: research
  team: vision
  pool: h100
  gpus_per_pod: 4
  arrivals: {at_start: 1}
faults:
- {kind: xid, code: 31, at: 30m, job: train, rank: 2}
"""


def test_agents_tell_what_only_a_node_knows(tmp_path: Path) -> None:
    world = grown(read_scenario(FAULTY, "faulty"), now_ms=START_MS, age_ms=HOUR_MS)
    truth = next(fault for fault in world.truth.faults if fault.kind == "xid")
    held = {one.gpu_uuid: one for one in world.truth.gpus if one.to_ms is None}
    with SimulatedCluster(world) as cluster:
        (target,) = httpx.get(cluster.agent_targets).json()
        base = cluster.url + target["labels"]["__metrics_path__"].removesuffix("/metrics")
        events = httpx.get(f"{base}/v1/events").json()
        (event,) = read_events(events).events
        assert (event.code, event.t_ms, event.uuid) == (31, truth.from_ms, truth.gpu_uuid)
        assert [victim.namespace for victim in event.victims] == ["research"]
        assert (event.rank, event.process) == (2, "python3")
        assert httpx.get(f"{base}/v1/events?after={event.number}").json()["events"] == []
        assert httpx.get(f"{base}/v1/events?after=x").status_code == 400

        assert len(held) == 4
        processes = httpx.get(f"{base}/v1/processes").json()
        assert read_processes(processes).jobs == ()  # a pod's processes are no jobs of their own
        assert {one["uuid"]: one["process"]["rank"] for one in processes["processes"]} == {
            uuid: one.rank for uuid, one in held.items()
        }
        devices = httpx.get(f"{base}/v1/devices").json()["devices"]
        assert {one["uuid"] for one in devices} == set(held)
        metrics = httpx.get(f"{base}/metrics").text
        assert (
            f'UUID="{truth.gpu_uuid}",pci_bus_id="{event.pci}",xid="31",Hostname="h100-0000"}} 1\n' in metrics
        )
        assert metrics.count("trilens_gpu_xid_any_total{") == 8
        assert metrics.count("trilens_node_device_info{") == 4
        assert metrics.count('rank="2",local_rank="2"') == 1
        assert status(cluster, "/nodes/nothing/agent/metrics") == 404
        assert status(cluster, "/nodes/nothing/agent/v1/events") == 404


async def test_the_server_can_ask_an_agent_among_many_on_one_port(cluster: SimulatedCluster) -> None:
    (config,) = load_scrape_configs({"scrape_configs": [{"job_name": "agents"}]}, Path())
    http = HttpClient(config)
    try:
        for target in await targets(cluster.agent_targets):
            url = f"http://{target['__address__']}{target['__metrics_path__']}"
            assert (await AgentClient(http, url, 10.0).processes()).node == target["node"]
    finally:
        await http.close()
