"""The agent inside the server, on a machine with GPUs and without Kubernetes."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from machine import Node
from proc_tree import TORCHRUN
from recorded_nvml import UUID

from memory_api import running, working
from servers import until
from trilens.collect.node import nvml
from trilens.model.errors import ConfigError, NodeError
from trilens.serve import this_machine as module
from trilens.serve.compose import System
from trilens.serve.scrape_jobs import scrape_configs
from trilens.serve.this_machine import this_machine
from trilens.settings.load import load_settings, validate

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.settings.tree import Settings

pytestmark = pytest.mark.whole


@pytest.fixture
def node(tmp_path: Path) -> Node:
    (tmp_path / "machine").mkdir()
    return Node(tmp_path / "machine")


def settings(tmp_path: Path, node: Node, **more: object) -> Settings:
    overrides = {
        "storage.data_dir": tmp_path / "data",
        "agents.interval": "100ms",
        "agent.proc_dir": node.proc.folder,
        "agent.pod_resources": node.folder / "no.sock",
        "agent.pod_logs": node.folder / "no-logs",
        "agent.kernel_log": "off",
        "agent.node_name": "desk",
        "agent.interval": "100ms",
    }
    return load_settings(overrides={**overrides, **more}, environ={})


def has_gpus(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr(nvml, "Driver", lambda: node.nvml)
    monkeypatch.setattr(module, "_SIGNS_OF_A_DRIVER", (node.folder,))


def test_a_server_on_a_gpu_machine_needs_nothing_else(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_gpus(monkeypatch, node)
    node.proc.add(700, environment={**TORCHRUN, "TORCHELASTIC_RUN_ID": "sweep-7"})
    node.nvml.recorded["gpus"][0]["processes"] = [{"pid": 700, "memory_bytes": 1, "gpu_instance": None}]
    wanted = settings(tmp_path, node)
    system = System(wanted, None, lambda: wanted)
    with working(system) as loop, running(system.app) as url:

        def ask(path: str, **params: str) -> Any:
            return httpx.get(f"{url}{path}", params=params).json()["data"]

        def readings() -> Any:
            return ask("/api/v1/query", query=f'DCGM_FI_DEV_FB_USED{{UUID="{UUID}"}}')["result"]

        until(lambda: bool(ask("/api/workloads")), "the process became no workload")
        until(lambda: bool(readings()), "the GPU was not read")
        [one] = ask("/api/workloads")
        assert (one["cluster"], one["name"]) == ("machines", "sweep-7")
        labels = readings()[0]["metric"]
        assert (labels["job"], labels["Hostname"]) == ("trilens-agent", "desk")
        # Its port is another one at every start, and must not begin every series anew.
        assert ":" not in labels["instance"]
        loop.run(system.reloading.reload())
        [target] = ask("/api/v1/targets")["activeTargets"]
        assert target["scrapePool"] == "trilens-agent/this-machine"


def test_nobody_else_can_ask_it(tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    has_gpus(monkeypatch, node)
    machine = this_machine(settings(tmp_path, node))
    assert machine is not None
    machine.start()
    try:
        [section] = machine.scrape_config().static_configs
        url = f"http://{section.targets[0]}/metrics"
        assert httpx.get(url).status_code == 401
    finally:
        machine.stop()


def test_without_a_gpu_nothing_runs_and_nothing_complains(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "_SIGNS_OF_A_DRIVER", (node.folder / "nothing",))
    assert this_machine(settings(tmp_path, node)) is None
    has_gpus(monkeypatch, node)
    node.nvml.fails = NodeError("the driver is not loaded")
    assert this_machine(settings(tmp_path, node)) is None
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_driver_that_hangs_does_not_hang_the_start(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_gpus(monkeypatch, node)
    monkeypatch.setattr(module, "_ANSWER_S", 0.01)
    released = threading.Event()
    monkeypatch.setattr(node.nvml, "gpus", lambda: released.wait(30) and [])
    try:
        machine = this_machine(settings(tmp_path, node))
        assert machine is not None  # what it has is told when the driver answers
    finally:
        released.set()
    machine.start()
    machine.stop()


def test_who_watches_a_cluster_or_asks_agents_is_no_agent_unless_told(
    tmp_path: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_gpus(monkeypatch, node)
    others = {"static_configs": [{"targets": ["gpu-1:9334"]}]}
    assert this_machine(settings(tmp_path, node, **{"agents.scrape_config": others})) is None
    cluster = {"lab": {"kubeconfig": "config"}}
    assert this_machine(settings(tmp_path, node, **{"kubernetes.clusters": cluster})) is None
    assert this_machine(settings(tmp_path, node, **{"agents.this_machine": "off"})) is None
    told = {"agents.scrape_config": others, "agents.this_machine": "on"}
    machine = this_machine(settings(tmp_path, node, **told))
    assert machine is not None
    machine.start()
    machine.stop()


def test_wrong_settings_of_agents_are_said() -> None:
    with pytest.raises(ConfigError, match=r"agents\.scrape_config\.job_name"):
        scrape_configs(validate({"agents": {"scrape_config": {"job_name": "mine"}}}))
    with pytest.raises(ConfigError, match=r"agents\.scrape_config\.static_config"):
        scrape_configs(validate({"agents": {"scrape_config": {"static_config": []}}}))
    twice = {
        "agents": {"scrape_config": {"static_configs": []}},
        "scrape": {"scrape_configs": [{"job_name": "trilens-agent"}]},
    }
    with pytest.raises(ConfigError, match="leave that job out"):
        scrape_configs(validate(twice))
    with pytest.raises(ConfigError, match="watched cluster"):
        validate({"agents": {"cluster": "lab"}, "kubernetes": {"clusters": {"lab": {"in_cluster": True}}}})
    with pytest.raises(ConfigError, match="above 0"):
        validate({"agents": {"interval": "0s"}})
