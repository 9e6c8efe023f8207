"""What the night of the demo needs of a simulated cluster."""

from __future__ import annotations

from typing import Any

from trilens.simulate.scenario import Fault, Scenario, Serving, load_scenario
from trilens.simulate.serving import InferenceServers
from trilens.simulate.world import World

MINUTE_MS = 60_000
START_MS = 1_768_392_000_000


def job(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": "PyTorchJob", "namespace": "ml", "team": "vision", "pool": "b200",
        "gpus_per_pod": 8, "arrivals": {"at": [0]}, "pull": 1, "start": 1, **more,
    }  # fmt: skip


def world(*jobs: dict[str, Any], start_ms: int = START_MS, identity: str = "") -> World:
    pool = {"name": "b200", "model": "B200", "nodes": 2}
    scenario = Scenario.model_validate({"name": "small", "pools": [pool], "jobs": jobs, "begins_at": "20h"})
    return World(scenario, start_ms=start_ms, identity=identity)


def pods(of: World, name: str) -> list[dict[str, Any]]:
    changes = of.objects.changes_since(0, "", "pods")
    found = {one.object["metadata"]["uid"]: one.object for one in changes}
    return [pod for pod in found.values() if pod["metadata"]["name"].startswith(name)]


def test_pods_that_do_not_tolerate_gpu_nodes_wait_beside_free_ones() -> None:
    small = world(job("forgot", tolerates_gpu_nodes=False), job("knows"))
    small.advance(START_MS + MINUTE_MS)
    (waits,), (runs,) = pods(small, "forgot"), pods(small, "knows")
    assert "tolerations" not in waits["spec"]
    assert waits["status"]["phase"] == "Pending"
    (scheduled,) = (one for one in waits["status"]["conditions"] if one["type"] == "PodScheduled")
    assert "2 node(s) had untolerated taint {nvidia.com/gpu: present}" in scheduled["message"]
    assert runs["status"]["phase"] == "Running"


def test_a_node_throttles_as_a_whole() -> None:
    small = world(job("train"))
    small.advance(START_MS + 5 * MINUTE_MS)
    small.strike(
        Fault.model_validate({"kind": "thermal", "at": 0, "rank": 0, "factor": 1.64, "whole_node": True})
    )
    small.advance(START_MS + 10 * MINUTE_MS)
    node = small.truth.faults[0].node
    clocks = [
        float(line.rsplit(" ", 1)[1])
        for line in small.dcgm_text(node).decode().splitlines()
        if line.startswith("DCGM_FI_DEV_SM_CLOCK{")
    ]
    assert len(clocks) == 8
    assert all(1150 < clock < 1250 for clock in clocks), "from 1.95 to 1.2 GHz"


def test_worlds_of_one_identity_have_the_same_runs_whenever_they_begin() -> None:
    later_ms = START_MS + 7 * 3_600_000 + 1_234
    runs = []
    for start_ms, identity in ((START_MS, "one"), (later_ms, "one"), (later_ms, "")):
        small = world(job("train"), start_ms=start_ms, identity=identity)
        small.advance(start_ms + 5 * MINUTE_MS)
        runs.append(set(small.truth.runs))
    assert runs[0] == runs[1]
    assert runs[0].isdisjoint(runs[2])


def test_requests_of_a_night_do_not_depend_on_when_it_is_told() -> None:
    chat = job("chat", kind="Deployment", gpus_per_pod=1)
    texts = []
    for start_ms in (START_MS, START_MS + 9 * 3_600_000):
        small = world(chat, start_ms=start_ms)
        small.advance(start_ms + 5 * MINUTE_MS)
        (uid,) = small.metrics_endpoints()
        texts.append(small.metrics_text(uid))
    assert texts[0] == texts[1]


def test_requests_are_the_same_however_often_somebody_asks() -> None:
    def served(*times_s: float) -> str:
        servers = InferenceServers(START_MS, seed=3)
        servers.add("one", Serving(requests_per_second=3.0, capacity=2.8), 5.0)
        servers.add("other", Serving(load="code"), 5.0)
        for to_s in times_s:
            servers.advance(to_s)
        text = servers.text("one").decode()
        return "\n".join(line for line in text.splitlines() if "_sum{" not in line)  # added up otherwise

    at_once = served(9_000.0)
    assert "num_requests_waiting" in at_once
    assert served(*(10.0 * number for number in range(901))) == at_once


def test_every_fault_of_the_demo_is_in_its_night() -> None:
    night = load_scenario("bad-night")
    found = {fault.kind.value if fault.kind != "xid" else f"xid {fault.code}" for fault in night.faults}
    assert found >= {
        "stuck-data", "hang", "straggler", "thermal", "xid 79", "xid 48", "cpu-fallback", "plateau",
        "checkpoint-failing",
    }  # fmt: skip
    (stalled,) = (fault for fault in night.faults if fault.kind == "stuck-data")
    assert night.begins_at is not None
    assert stalled.at is not None
    assert (night.begins_at + stalled.at) % 86_400 == 3600 + 12 * 60, "01:12"
    assert any(not one.tolerates_gpu_nodes for one in night.jobs)
