"""A server that asks agents: real HTTP on both sides, a machine of files behind the agent."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from machine import LAST, Lines, Node
from proc_tree import TORCHRUN
from recorded_nvml import UUID
from typer.testing import CliRunner

from servers import until
from trilens.cli.main import app
from trilens.collect.node.agent import NodeAgent
from trilens.collect.node.endpoint import Endpoint
from trilens.model.errors import ServerError
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.whole


RUN = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "sweep-7", "WORLD_SIZE": "2", "MASTER_ADDR": "gpu-1"}
TOKEN = "a token of the agents"
FAULT = LAST.replace("pid=523", "pid=701")


class Workstation(Node):
    """Two ranks of one torchrun on one GPU, and no Kubernetes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for rank in (0, 1):
            environment = {**RUN, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            self.proc.add(700 + rank, environment=environment)
        self.on_the_gpu(700, 701)

    def on_the_gpu(self, *pids: int) -> None:
        processes = [{"pid": pid, "memory_bytes": 1 << 30, "gpu_instance": None} for pid in pids]
        self.nvml.recorded["gpus"][0]["processes"] = processes

    @contextmanager
    def served(self, port: int = 0) -> Iterator[tuple[NodeAgent, Endpoint]]:
        settings = self.settings(token=TOKEN, listen=f"127.0.0.1:{port}", interval="50ms")
        agent = NodeAgent(settings, "gpu-1", lambda: self.nvml, lambda: self.kernel_log)
        endpoint = Endpoint(agent, settings)
        agent.start()
        endpoint.start()
        try:
            yield agent, endpoint
        finally:
            endpoint.stop()
            agent.stop()

    def report(self, line: str) -> None:
        self.kernel_log.write(line)
        assert self.kernel_log.idle.wait(10)


@pytest.fixture
def workstation(tmp_path: Path) -> Workstation:
    (tmp_path / "machine").mkdir()
    return Workstation(tmp_path / "machine")


def configured(folder: Path, endpoint: Endpoint) -> str:
    file = folder / "trilens.yaml"
    agents = {
        "scrape_config": {
            "static_configs": [{"targets": [endpoint.url.removeprefix("http://")]}],
            "authorization": {"credentials": TOKEN},
            "scrape_interval": "1s",
        },
        "interval": "100ms",
    }
    file.write_text(json.dumps({"agents": agents, "ownership": {"team": ["value:vision"]}}), encoding="utf-8")
    return str(file)


def trilens(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def data(url: str, path: str, **params: str) -> Any:
    return httpx.get(f"{url}{path}", params=params).json()["data"]


def value(url: str, query: str) -> list[str]:
    found = data(url, "/api/v1/query", query=query)["result"]
    return [one["value"][1] for one in found]


def test_a_workstation_from_its_agent_to_the_commands(tmp_path: Path, workstation: Workstation) -> None:
    with workstation.served() as (_, endpoint):
        config = configured(tmp_path, endpoint)
        with server(tmp_path, "--config", config) as (url, _):
            until(lambda: bool(data(url, "/api/workloads")), "the run became no workload")
            [line] = trilens("workloads", "--server", url).splitlines()[1:]
            assert line.split()[1:5] == ["sweep-7", "Run", "vision", "running"]
            assert "2/2" in line
            workstation.report(FAULT)
            until(lambda: bool(data(url, "/api/events")), "the fault was not taken")
            [event] = json.loads(trilens("events", "--server", url, "--json"))
            assert (event["node"], event["kind"], event["code"], event["rank"]) == ("gpu-1", "xid", 31, 1)
            assert (event["uuid"], event["pid"]) == (UUID, 701)
            [victim] = event["victims"]
            assert victim["pod"] == "python-701@gpu-1"
            assert victim["workload"]["name"] == "sweep-7"
            kernel_log = tmp_path / "kernel.log"
            kernel_log.write_text(f"{FAULT}\n", encoding="utf-8")
            told = json.loads(trilens("xid", "--log", str(kernel_log), "--server", url, "--json"))
            [episode] = told["episodes"]
            assert (episode["root"]["node"], episode["root"]["uuid"]) == ("gpu-1", UUID)
            assert [name.split("/")[1] for name in episode["pods"] + episode["workloads"]] == [
                "python-701@gpu-1",
                "sweep-7",
            ]
            shown = trilens("show", "sweep-7", "--server", url)
            assert "python-700@gpu-1" in shown
            assert "xid 31" in shown
            assert json.loads(trilens("show", "sweep-7", "--server", url, "--json"))[0]["events"] == [event]
            # What the agent reads goes the way of every scrape.
            until(
                lambda: value(url, f'DCGM_FI_DEV_FB_USED{{UUID="{UUID}",job="trilens-agent"}}') != [],
                "the agent was not scraped",
            )
            until(
                lambda: len(value(url, 'trilens_workload_pod_info{cluster="machines"}')) == 2,
                "the members are no series",
            )
            with pytest.raises(ServerError, match="is a process"):
                trilens("logs", "sweep-7", "--server", url)

            # A program that crashed before anybody looked at it is a workload of the past.
            workstation.proc.add(720, "short", group=720)
            workstation.report(LAST.replace("pid=523", "pid=720"))
            crashed = "ProcessGroup/short-720"
            until(lambda: bool(data(url, "/api/events", workload=crashed)), "it is no workload")
            [victim] = data(url, "/api/events", workload=crashed)[0]["victims"]
            assert victim["pod"] == "short-720@gpu-1"

            workstation.on_the_gpu()
            until(lambda: not data(url, "/api/workloads"), "the run is still there")
            shown = trilens("show", "sweep-7", "--server", url)
            assert "gone since 20" in shown
            assert ", last running" in shown

        # A server that starts again asks only for what it does not have.
        with server(tmp_path, "--config", config) as (url, _):
            assert len(data(url, "/api/events")) == 2


def test_an_agent_that_counts_anew_tells_nothing_twice(tmp_path: Path, workstation: Workstation) -> None:
    with workstation.served() as (_, endpoint):
        config = configured(tmp_path, endpoint)
        port = int(endpoint.url.rpartition(":")[2])
        workstation.report(FAULT)
        workstation.report(FAULT)
        with server(tmp_path, "--config", config) as (url, _):
            until(lambda: len(data(url, "/api/events")) == 2, "two faults are two events")
            endpoint.stop()
            until(lambda: _warned(url, "nothing new from the agent"), "nobody says that the agent is gone")
            # Unknown is not gone.
            assert [one["name"] for one in data(url, "/api/workloads")] == ["sweep-7"]
            (workstation.folder / "state.json").unlink()
            workstation.kernel_log = Lines()
            with workstation.served(port):
                workstation.report(FAULT)
                workstation.report(FAULT)
                workstation.report(FAULT)
                until(lambda: len(data(url, "/api/events")) >= 3, "the third fault was not taken")
                until(lambda: not _warned(url, "nothing new from the agent"), "the agent is back")
                assert len(data(url, "/api/events")) == 3
                assert data(url, "/api/events", node="gpu-2") == []
                assert data(url, "/api/events", workload="Run/sweep-7", limit="1")[0]["code"] == 31
                assert data(url, "/api/events", workload="another") == []


def _warned(url: str, text: str) -> bool:
    warnings = httpx.get(f"{url}/api/workloads").json().get("warnings", [])
    return any(text in line for line in warnings)
