"""Agents that fall silent, come back, leave and have a wrong clock, as the server that asks them tells it."""

from __future__ import annotations

import getpass
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from machine import LAST, Node
from proc_tree import TORCHRUN

from servers import free_port, until
from trilens.collect.config import load_scrape_config
from trilens.collect.node import fault_ledger
from trilens.collect.node.agent import NodeAgent
from trilens.collect.node.endpoint import Endpoint
from trilens.serve.agent_intake import AgentIntake
from trilens.settings.load import load_settings
from trilens.settings.yaml_file import Place
from trilens.store.engine import Engine
from trilens.store.events import EventRecords
from trilens.store.gpus import GpuRecords
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import Span, WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Asked:
    """A server's asking of the agents that a file names."""

    def __init__(self, folder: Path, engine: Engine, interval: str = "50ms") -> None:
        self._file = folder / "agents.json"
        self.writer = RecordWriter(engine)
        self.events = EventRecords(engine, self.writer)
        self.records = WorkloadRecords(engine, self.writer)
        section = {"file_sd_configs": [{"files": [str(self._file)], "refresh_interval": "50ms"}]}
        config = load_scrape_config(section, folder, Place(None), "agents")
        settings = load_settings(overrides={"agents.interval": interval}, environ={})
        self.intake = AgentIntake(
            settings,
            [config],
            self.records,
            self.events,
            GpuRecords(engine, self.writer),
            None,
        )

    def name(self, *targets: str, **labels: str) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps([{"targets": targets, "labels": labels}]), encoding="utf-8")
        draft.replace(self._file)

    def stop(self) -> None:
        self.intake.stop()
        self.writer.close()

    def history(self) -> list[tuple[str, int | None]]:
        """Who was there, and until when."""
        span = Span(0, time.time_ns() // 1_000_000)
        found = self.records.members_among([(getpass.getuser(), "python-700@gpu-1", "")], span)
        return [(one.membership.pod.name, one.to_ms) for one in found]

    def ready(self) -> list[int]:
        return [len(pods) for pods in self.intake.ready_pods().values()]


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with Engine.open(tmp_path / "data") as engine:
        migrate(engine)
        asked = Asked(tmp_path, engine)
        yield asked
        asked.stop()


def with_a_process(folder: Path, pid: int) -> Node:
    """A machine with one process of a torchrun, in no pod."""
    folder.mkdir()
    node = Node(folder)
    node.proc.add(pid, environment=TORCHRUN)
    node.nvml.recorded["gpus"][0]["processes"] = [{"pid": pid, "memory_bytes": 1, "gpu_instance": None}]
    return node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return with_a_process(tmp_path / "machine", 700)


@contextmanager
def served(node: Node, port: int = 0) -> Iterator[str]:
    settings = node.settings(listen=f"127.0.0.1:{port}", interval="50ms")
    agent = NodeAgent(settings, "gpu-1", lambda: node.nvml, lambda: node.kernel_log)
    endpoint = Endpoint(agent, settings)
    agent.start()
    endpoint.start()
    try:
        yield endpoint.url.removeprefix("http://")
    finally:
        endpoint.stop()
        agent.stop()


def test_what_is_on_a_machine_that_does_not_answer_is_not_said_to_work(asked: Asked, node: Node) -> None:
    with served(node) as target:
        asked.name(target)
        asked.intake.start()
        until(lambda: asked.ready() == [1], "its process is not at work")
    until(lambda: asked.ready() == [0], "nobody knows that it works")
    assert f"nothing new from the agent {target}" in asked.intake.complaints()[0]
    with served(node, int(target.partition(":")[2])):
        until(lambda: asked.ready() == [1], "it answers again")


def test_a_machine_that_is_asked_no_more_ends_though_another_never_answered(asked: Asked, node: Node) -> None:
    dead = f"127.0.0.1:{free_port()}"
    with served(node) as target:
        asked.name(target, dead)
        asked.intake.start()
        until(lambda: asked.ready() == [1], "its process is not at work")
        assert [*asked.intake.hardware()] == ["gpu-1"]
        asked.name(dead)
        until(lambda: asked.intake.members() == {}, "it is still there")
        assert asked.ready() == []
        assert asked.intake.hardware() == {}
        assert asked.intake._told_by == {}


def test_of_agents_that_nobody_asks_any_more_the_latest_are_remembered(
    asked: Asked, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.serve.agent_intake._LEDGERS", 2)
    with served(node) as target:
        asked.name(target)
        asked.intake.start()
        node.kernel_log.write(LAST)
        until(lambda: asked.events.positions() != {}, "the fault was not taken")
        [ledger] = asked.events.positions()
        for number in range(5):
            asked.intake._kept[f"of-old-{number}"] = number
        asked.name()
        until(lambda: asked.intake.agents() == [], "it is still asked")
        until(lambda: [*asked.intake._kept] == ["of-old-4", ledger], "all are remembered")


def test_a_fault_of_a_machine_whose_clock_is_ahead_has_happened(asked: Asked, node: Node) -> None:
    with served(node) as target:
        asked.name(target)
        asked.intake.start()
        node.kernel_log.write(LAST.replace("pid=523", "pid=700"), (time.time() + 3600) * 1000)
        until(lambda: asked.events.positions() != {}, "the fault was not taken")
        (event,) = asked.events.between(0, time.time_ns() // 1_000_000, limit=9)
        assert (event.code, event.pid) == (31, 700)


def test_a_fault_is_of_the_cluster_that_its_agents_target_is_labelled_with(asked: Asked, node: Node) -> None:
    with served(node) as target:
        asked.name(target, cluster="east")
        asked.intake.start()
        node.kernel_log.write(LAST)
        until(lambda: asked.events.positions() != {}, "the fault was not taken")
        (event,) = asked.events.between(0, time.time_ns() // 1_000_000, limit=9)
    assert (event.cluster, event.node) == ("east", "gpu-1")


def test_a_fault_is_told_when_it_happens_not_when_it_is_asked_for(tmp_path: Path, node: Node) -> None:
    with Engine.open(tmp_path / "data") as engine, served(node) as target:
        migrate(engine)
        asked = Asked(tmp_path, engine, interval="1h")
        asked.name(target)
        asked.intake.start()
        until(lambda: asked.ready() == [1], "it was not asked")
        node.kernel_log.write(LAST.replace("pid=523", "pid=700"))
        until(lambda: asked.events.positions() != {}, "the fault was not taken")
        (event,) = asked.events.between(0, time.time_ns() // 1_000_000, limit=9)
        asked.stop()
    assert (event.code, event.pid) == (31, 700)


def test_machines_of_one_name_do_not_end_each_others_processes(
    asked: Asked, node: Node, tmp_path: Path
) -> None:
    twin = with_a_process(tmp_path / "twin", 900)
    with served(node) as target, served(twin) as other:
        asked.name(target)
        asked.intake.start()
        until(lambda: asked.ready() == [1], "its process is not at work")
        asked.name(target, other)
        until(lambda: asked.intake.complaints() != [], "nobody is told")
        assert "both called 'gpu-1'" in asked.intake.complaints()[0]
        assert [pod.name for pod in asked.intake.members()] == ["python-700@gpu-1"]
        asked.name(other)
        until(
            lambda: [pod.name for pod in asked.intake.members()] == ["python-900@gpu-1"],
            "the one that is left does not count",
        )


def test_an_agent_that_comes_back_tells_no_fault_again(asked: Asked, node: Node) -> None:
    """A fault tells of a process at a moment, and one that went on after it did not end then."""
    with served(node) as target:
        asked.name(target)
        asked.intake.start()
        until(lambda: asked.ready() == [1], "its process is not at work")
        node.kernel_log.write(LAST.replace("pid=523", "pid=700"), (time.time() - 60) * 1000)
        until(lambda: asked.events.positions() != {}, "the fault was not taken")
        node.nvml.recorded["gpus"][0]["processes"] = []
        until(lambda: [end is not None for _, end in asked.history()] == [True], "it has not ended")
        before = asked.history()
        asked.name()
        until(lambda: asked.intake.agents() == [], "it is still asked")
        asked.name(target)
        until(lambda: any(agent.node for agent in asked.intake.agents()), "it was not asked again")
        asked.stop()
        assert asked.history() == before


def test_faults_that_an_agent_dropped_before_it_was_asked_are_missed_aloud(
    asked: Asked, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault_ledger, "_KEPT_EVENTS", 5)
    with served(node) as target:
        asked.name(target)
        asked.intake.start()
        node.kernel_log.write(LAST)
        until(lambda: list(asked.events.positions().values()) == [1], "the fault was not taken")
        asked.name()
        until(lambda: asked.intake.agents() == [], "it is still asked")
        for _ in range(8):
            node.kernel_log.write(LAST)
        assert node.kernel_log.idle.wait(60)
        asked.name(target)
        until(lambda: list(asked.events.positions().values()) == [9], "the last fault was not taken")
        assert len(asked.events.between(0, time.time_ns() // 1_000_000, limit=99)) == 6
        assert f"3 faults on the machine of the agent {target} are not known" in asked.intake.complaints()[0]
