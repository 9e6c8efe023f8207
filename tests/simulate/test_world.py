"""The simulated cluster as a whole: repeatable, nothing held twice, and fast enough."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from itertools import pairwise

import orjson
import pytest
from worlds import START_MS, after, chaotic, rows, small

from trilens.simulate.objects import RESOURCES, Expired, ObjectTable
from trilens.simulate.scenario import load_scenario
from trilens.simulate.world import Silent, World

HOUR_MS = 3_600_000


def _digest(world: World) -> str:
    """Everything that can be read from it."""
    found = hashlib.sha256()
    for obj in world.objects:
        found.update(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS))
    for node in world.nodes:
        try:
            found.update(world.dcgm_text(node))
        except Silent:
            found.update(b"silent")
        found.update(repr(world.kernel_faults(node)).encode())
    for uid in world.metrics_endpoints():
        found.update(world.metrics_text(uid))
    found.update(repr(world.truth.faults).encode())
    return found.hexdigest()


def test_the_same_seed_is_the_same_world_however_it_is_asked() -> None:
    scenario = load_scenario("default")
    at_once = World(scenario, start_ms=START_MS, seed=5)
    at_once.advance(START_MS + HOUR_MS)
    in_steps = World(scenario, start_ms=START_MS, seed=5)
    for ms in range(0, HOUR_MS + 1, 97_000):
        in_steps.advance(START_MS + ms)
        in_steps.dcgm_text(in_steps.nodes[0])  # to look changes nothing
    in_steps.advance(START_MS + HOUR_MS)
    assert _digest(at_once) == _digest(in_steps)
    other = World(scenario, start_ms=START_MS, seed=6)
    other.advance(START_MS + HOUR_MS)
    assert _digest(other) != _digest(at_once)


def test_time_does_not_go_back() -> None:
    world = after(small(), 1)
    with pytest.raises(ValueError, match="already"):
        world.advance(START_MS)


def test_no_part_of_a_gpu_is_held_twice() -> None:
    world = chaotic(seed=2)
    world.advance(START_MS + 3 * HOUR_MS)
    held = defaultdict(list)
    for one in world.truth.gpus:
        end_ms = world.now_ms + 1 if one.to_ms is None else one.to_ms
        held[one.gpu_uuid, one.gpu_instance, one.replica].append((one.from_ms, end_ms))
    assert len(held) > 64
    for place, times in held.items():
        times.sort()
        for (_, end), (begin, _) in pairwise(times):
            assert end <= begin, place


def test_pods_and_exporters_agree_on_who_has_which_gpu() -> None:
    world = World(load_scenario("default"), start_ms=START_MS, seed=2)
    world.advance(START_MS + HOUR_MS // 4)
    said = set()
    for node in world.nodes:
        for row in rows(world.dcgm_text(node)):
            if "pod" in row.labels and row.name == "DCGM_FI_DEV_FB_USED":
                instance = row.labels.get("GPU_I_ID", "")
                said.add((row.labels["UUID"], instance, row.labels["namespace"], row.labels["pod"]))
    true = set()
    for one in world.truth.gpus:
        seat = world.truth.seats[one.pod_uid]
        if one.to_ms is None:
            true.add((one.gpu_uuid, one.gpu_instance, seat.namespace, seat.pod))
    assert said == true
    assert any(instance for _, instance, _, _ in said), "MIG"
    shared = [one for one in world.truth.gpus if one.replica is not None]
    assert len({one.gpu_uuid for one in shared}) < len(shared), "time-slicing"


def test_nodes_never_give_more_than_they_have() -> None:
    world = chaotic(seed=4)
    for minutes in range(0, 180, 5):
        after(world, minutes)
        asked: defaultdict[tuple[str, str], int] = defaultdict(int)
        for pod in world.objects.list("", "v1", "pods"):
            if pod["status"]["phase"] in ("Succeeded", "Failed") or "nodeName" not in pod["spec"]:
                continue
            for name, amount in pod["spec"]["containers"][0]["resources"]["limits"].items():
                if name.startswith("nvidia.com/"):
                    asked[pod["spec"]["nodeName"], name] += int(amount)
        capacity = {
            (node["metadata"]["name"], name): int(amount)
            for node in world.objects.list("", "v1", "nodes")
            for name, amount in node["status"]["capacity"].items()
            if name.startswith("nvidia.com/")
        }
        for place, amount in asked.items():
            assert amount <= capacity[place]


def test_a_job_that_does_not_fit_waits_and_says_why() -> None:
    jobs = """
  - name: more
    kind: JobSet
    namespace: research
    team: vision
    pool: h100
    pods: 3
    arrivals: {at: [1m]}
"""
    world = after(small(jobs=jobs), 5)
    waiting = [
        pod
        for pod in world.objects.list("", "v1", "pods", "research")
        if pod["metadata"]["name"].startswith("more")
    ]
    assert len(waiting) == 3
    for pod in waiting:
        assert "nodeName" not in pod["spec"], "all or none"
        (scheduled,) = pod["status"]["conditions"]
        assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "False")
        assert scheduled["message"].startswith("0/3 nodes are available: 1 Insufficient nvidia.com/gpu")
    events = world.objects.list("", "v1", "events", "research")
    assert {e["involvedObject"]["name"] for e in events if e["reason"] == "FailedScheduling"} == {
        pod["metadata"]["name"] for pod in waiting
    }


def test_a_queue_gives_no_more_than_its_quota() -> None:
    jobs = """
  - name: queued
    kind: PyTorchJob
    namespace: research
    team: vision
    pool: h100
    queue: narrow
    gpus_per_pod: 4
    arrivals: {at_start: 2}
    duration: 20m
    duration_spread: 0
queues:
  - {name: narrow, pool: h100, gpus: 4}
"""
    world = after(small(jobs=jobs), 10)

    def admitted() -> list[bool]:
        found = []
        for workload in world.objects.list("kueue.x-k8s.io", "v1beta1", "workloads"):
            kinds = {one["type"]: one for one in workload["status"]["conditions"]}
            found.append(kinds.get("Admitted", {}).get("status") == "True")
        return sorted(found)

    assert admitted() == [False, True]
    held = [
        job["spec"]["runPolicy"]["suspend"]
        for job in world.objects.list("kubeflow.org", "v1", "pytorchjobs")
        if job["metadata"]["name"].startswith("queued")
    ]
    assert sorted(held) == [False, True]
    after(world, 30)
    assert admitted() == [True, True], "the second follows when the first is done"


def test_a_pod_goes_through_its_life_as_kubernetes_writes_it() -> None:
    jobs = """
  - name: short
    kind: Job
    namespace: research
    team: vision
    pool: h100
    gpus_per_pod: 1
    arrivals: {at: [1m]}
    duration: 5m
    duration_spread: 0
"""
    world = after(small(jobs=jobs), 15)
    lives = defaultdict(list)
    for change in world.objects.changes_since(0, "", "pods"):
        meta, status = change.object["metadata"], change.object["status"]
        if meta["name"].startswith("short"):
            state = next(iter(status.get("containerStatuses", [{"state": {"": {}}}])[0]["state"]))
            lives[meta["name"]].append((change.type, status["phase"], state))
    (life,) = lives.values()
    assert life == [
        ("ADDED", "Pending", ""),
        ("MODIFIED", "Pending", "waiting"),
        ("MODIFIED", "Running", "running"),
        ("MODIFIED", "Succeeded", "terminated"),
    ]
    (job,) = world.objects.list("batch", "v1", "jobs")
    assert [one["type"] for one in job["status"]["conditions"]] == ["Complete"]
    reasons = {
        event["reason"]
        for event in world.objects.list("", "v1", "events", "research")
        if event["involvedObject"]["name"].startswith("short")
    }
    assert reasons >= {"Scheduled", "Pulled", "Created", "Started"}


@pytest.mark.parametrize("gpus", [8, 10_000])
def test_one_scenario_from_8_to_10000_gpus(gpus: int) -> None:
    scenario = load_scenario("default").sized(gpus)
    assert scenario.gpus == gpus
    world = World(scenario, start_ms=START_MS)
    nodes = world.objects.list("", "v1", "nodes")
    assert len(nodes) == gpus // 8 == len(world.nodes)
    seen = set()
    for node in (world.nodes[0], world.nodes[-1]):
        seen |= {row.labels["UUID"] for row in rows(world.dcgm_text(node))}
    assert len(seen) == min(gpus, 16)


def test_changes_are_told_in_order_until_they_are_forgotten() -> None:
    table = ObjectTable(log_limit=3)

    def pod(name: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n", "uid": name}}

    first = table.put(pod("a"))
    table.put({**pod("a"), "spec": {}})
    table.delete(first)
    assert [change.type for change in table.changes_since(1, "", "pods")] == ["ADDED", "MODIFIED", "DELETED"]
    assert table.changes_since(table.resource_version, "", "pods") == []
    assert first["metadata"]["resourceVersion"] == "2", "what was handed out does not change"
    for number in range(10):
        table.put(pod(str(number)))
    with pytest.raises(Expired):
        table.changes_since(1, "", "pods")
    assert len(table.changes_since(table.resource_version - 3, "", "pods")) == 3
    assert table.changes_since(1, "", "nodes") == [], "one resource's noise does not push out another's"


def test_every_object_belongs_to_a_resource_that_is_served() -> None:
    world = after(World(load_scenario("default"), start_ms=START_MS, seed=1), 30)
    served = {(resource.api_version, resource.kind): resource for resource in RESOURCES}
    for obj in world.objects:
        resource = served[obj["apiVersion"], obj["kind"]]
        assert ("namespace" in obj["metadata"]) == resource.namespaced
        assert obj["metadata"]["uid"] and obj["metadata"]["creationTimestamp"].endswith("Z")


def test_the_pods_that_ask_to_be_scraped_are_those_that_answer() -> None:
    world = after(World(load_scenario("default"), start_ms=START_MS, seed=1), 15)
    asks = {
        pod["metadata"]["uid"]: (
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            int(pod["metadata"]["annotations"]["prometheus.io/port"]),
        )
        for pod in world.objects.list("", "v1", "pods")
        if "prometheus.io/scrape" in pod["metadata"]["annotations"] and pod["status"]["phase"] == "Running"
    }
    assert len(asks) > 10
    assert asks == {uid: endpoint[:3] for uid, endpoint in world.metrics_endpoints().items()}
    for uid in asks:
        assert world.metrics_text(uid)
