"""What a pod wrote, asked of the server and answered by the agent of its node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from machine import LAST, Node
from proc_tree import POD_UID
from typer.testing import CliRunner

from memory_api import Api, running
from servers import until
from trilens.cli.main import app
from trilens.collect.agents.answers import read_events, read_json, read_processes
from trilens.collect.config import load_scrape_config
from trilens.collect.node.endpoint import Endpoint
from trilens.model.errors import NotFound, ScrapeError, ServerError
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.serve.agent_intake import AgentIntake
from trilens.settings.load import load_settings
from trilens.settings.yaml_file import Place
from trilens.store.engine import Engine
from trilens.store.events import EventRecords
from trilens.store.gpus import GpuRecords
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = WorkloadKey("lab", "llm", "batch", "Job", "train", "u1")
QUEUED = JOB._replace(name="later", uid="u2")
HERE = MembershipInterval(Membership(PodKey("lab", "llm", "train-0", POD_UID), JOB), "h200-1", 1000)
ELSEWHERE = MembershipInterval(Membership(PodKey("lab", "llm", "train-1", "uid-1"), JOB), "h200-2", 1000)
NOWHERE = replace(HERE, membership=Membership(PodKey("lab", "llm", "train-2", "uid-2"), JOB), node="")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Of another cluster, where node and pod have the same names."""
    twin, other_uid = Node(tmp_path_factory.mktemp("twin")), POD_UID.replace("4", "5")
    cgroup = twin.proc.folder / "463" / "cgroup"
    ours, theirs = (uid.replace("-", "_") for uid in (POD_UID, other_uid))
    cgroup.write_text(cgroup.read_text(encoding="utf-8").replace(ours, theirs), encoding="utf-8")
    (twin.folder / "log" / f"llm_train-0_{POD_UID}").rename(twin.folder / "log" / f"llm_train-0_{other_uid}")
    return twin


@pytest.fixture(scope="module")
def url(node: Node, twin: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    agents = [one.agent() for one in (node, twin)]
    endpoints = [Endpoint(agent, node.settings()) for agent in agents]
    for part in (*agents, *endpoints):
        part.start()
    targets = [endpoint.url.removeprefix("http://") for endpoint in endpoints]
    config = load_scrape_config(
        {"static_configs": [{"targets": targets}]}, node.folder, Place(None), "agents"
    )
    settings = load_settings(overrides={"agents.interval": "100ms"}, environ={})
    with Engine.open(tmp_path_factory.mktemp("data")) as engine:
        migrate(engine)
        writer = RecordWriter(engine)
        records, events = WorkloadRecords(engine, writer), EventRecords(engine, writer)
        for member in (HERE, ELSEWHERE, NOWHERE):
            records.membership(member)
        for key, phase in ((JOB, Phase.RUNNING), (QUEUED, Phase.QUEUED)):
            records.workload(Workload(key))
            records.phase(PhaseInterval(key, 0, phase, "", 1000))
        intake = AgentIntake(settings, [config], records, events, GpuRecords(engine, writer), None)
        intake.start()
        api = Api(workloads=records, events=events, agents=intake)
        with running(api.build()) as base:
            until(lambda: len(httpx.get(f"{base}/api/workloads").json()["data"]) == 2, "nothing was kept")
            until(lambda: all(agent.node for agent in intake.agents()), "the agents were not asked")
            yield base
        intake.stop()
        writer.close()
    for part in (*endpoints, *agents):
        part.stop()


def output(url: str, **params: str) -> tuple[int, Any]:
    answer = httpx.get(f"{url}/api/output", params=params)
    return answer.status_code, answer.json().get("data") or answer.json()["error"]


def test_output_comes_from_the_agent_of_the_pods_node_without_secrets(url: str) -> None:
    status, [pod] = output(url, namespace="llm", pod="train-0")
    assert (status, pod["node"], pod["uid"]) == (200, "h200-1", POD_UID)
    [container] = pod["containers"]
    [run] = container["runs"]
    assert run["lines"] == ["step 1 password=[redacted]"]


def test_where_no_output_can_be_had_it_says_why(url: str) -> None:
    status, error = output(url, namespace="llm", pod="train-1")
    assert status == 404
    assert "no agent is known on the node 'h200-2'" in error
    assert "agents.scrape_config" in error
    assert output(url, namespace="llm", pod="train-2")[1].startswith("llm/train-2 has no node yet")
    assert "no pod 'train-9'" in output(url, namespace="llm", pod="train-9")[1]
    assert "no pod 'train-0'" in output(url, namespace="llm", pod="train-0", cluster="other")[1]
    assert output(url, pod="train-0")[0] == 400
    with running(Api().build()) as bare:
        assert output(bare, namespace="llm", pod="train-0")[0] == 404


def test_logs_of_a_workload_are_those_of_its_pods(url: str) -> None:
    shown = CliRunner().invoke(app, ["logs", "train", "--server", url], catch_exceptions=False)
    assert shown.stdout == "== llm/train-0 main, run 0, on h200-1\nstep 1 password=[redacted]\n"
    assert "no agent is known on the node 'h200-2'" in shown.stderr
    one = CliRunner().invoke(app, ["logs", "llm/train-0", "--server", url], catch_exceptions=False)
    assert one.stdout == shown.stdout
    with pytest.raises(ServerError, match="h200-2"):
        CliRunner().invoke(app, ["logs", "llm/train-1", "--server", url], catch_exceptions=False)
    with pytest.raises(NotFound, match="later has no pods"):
        CliRunner().invoke(app, ["logs", "later", "--server", url], catch_exceptions=False)


def test_a_fault_in_a_pod_is_its_workloads(url: str, node: Node) -> None:
    node.kernel_log.write(LAST.replace("pid=523", "pid=463"))
    until(lambda: bool(httpx.get(f"{url}/api/events").json()["data"]), "the fault was not taken")
    [event] = httpx.get(f"{url}/api/events", params={"workload": "llm/train"}).json()["data"]
    [victim] = event["victims"]
    assert (victim["cluster"], victim["pod"], victim["workload"]["kind"]) == ("lab", "train-0", "Job")
    wrong = httpx.get(f"{url}/api/events", params={"from": "20", "to": "10"})
    assert wrong.status_code == 400
    assert httpx.get(f"{url}/api/events", params={"workload": "a/b/c"}).status_code == 400


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_what_is_no_agent_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ScrapeError, match="agent of Trilens"):
        read_json(body)


def test_an_answer_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ScrapeError, match="processes"):
        read_processes({"node": "a", "processes": [], "workloads": [{"pids": [1]}]})
    with pytest.raises(ScrapeError, match="events"):
        read_events({"ledger": "a", "events": [{"kind": "xid"}]})
