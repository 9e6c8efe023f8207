"""Each fault looks from outside as it does on real machines, and the truth tells what it was."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families
from worlds import SMALL, START_MS, after, gpu_of_rank, metrics, of_rank, reading, rows, small

from trilens.model.fault_lines import read_fault
from trilens.model.xid import KernelFault
from trilens.simulate.scenario import FaultKind, load_scenario, read_scenario
from trilens.simulate.world import Silent, World

if TYPE_CHECKING:
    from trilens.simulate.truth import FaultTruth

UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
TENSOR, SM = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
CLOCK, CELSIUS = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP"
BITS, XID = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_XID_ERRORS"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def _only_fault(world: World) -> FaultTruth:
    (told,) = world.truth.faults
    return told


def test_a_job_at_work_looks_busy() -> None:
    world = after(small(), 10)
    busy = gpu_of_rank(world, 0)
    assert reading(world, busy, UTIL) > 90
    assert 500 < reading(world, busy, POWER) <= 700
    assert reading(world, busy, TENSOR) > 0.4
    assert 55 < reading(world, busy, CELSIUS) < 80
    (free,) = {
        row.labels["UUID"]
        for row in rows(world.dcgm_text(world.nodes[2]))
        if row.labels["gpu"] == "0" and "pod" not in row.labels
    }
    assert reading(world, free, UTIL) == 0
    assert reading(world, free, POWER) < 80
    assert reading(world, free, CELSIUS) < 40


def test_energy_is_what_power_adds_up_to() -> None:
    world = after(small(), 5)
    gpu = gpu_of_rank(world, 0)
    before, joules = reading(world, gpu, ENERGY), 0.0
    for second in range(4, 1204, 4):
        after(world, 5 + second / 60)
        joules += 4 * reading(world, gpu, POWER)
    counted = (reading(world, gpu, ENERGY) - before) / 1000
    assert counted == pytest.approx(joules, rel=0.01)
    assert counted < 0.97 * 1200 * reading(world, gpu, POWER), "it rested while it wrote checkpoints"


def test_a_gpu_warms_and_cools_slowly() -> None:
    world = small()
    temperatures = []
    for second in range(0, 300, 10):
        after(world, second / 60)
        if any(one.rank == 0 for one in world.truth.gpus):
            temperatures.append(reading(world, gpu_of_rank(world, 0), CELSIUS))
    steps = [later - earlier for earlier, later in pairwise(temperatures)]
    assert temperatures[-1] - temperatures[0] > 25
    assert max(steps) < 9


def test_heat() -> None:
    world = after(small("  - {kind: thermal, at: 10m, lasts: 20m, rank: 3}"), 9)
    speed = of_rank(world, "training_samples_per_second", 0)
    after(world, 20)
    told = _only_fault(world)
    hot, other = gpu_of_rank(world, 3), gpu_of_rank(world, 4)
    assert (told.kind, told.rank, told.gpu_uuid, told.to_ms) == ("thermal", 3, hot, None)
    assert reading(world, hot, CELSIUS) >= 87, "where an H100 slows down"
    assert reading(world, other, CELSIUS) < 80
    assert reading(world, hot, CLOCK) < 0.7 * reading(world, other, CLOCK)
    assert int(reading(world, hot, BITS)) & 0x60
    assert not int(reading(world, other, BITS)) & 0x68
    assert of_rank(world, "training_samples_per_second", 0) < 0.8 * speed, "all wait for it"
    after(world, 31)
    assert _only_fault(world).to_ms == START_MS + 30 * 60_000
    assert of_rank(world, "training_samples_per_second", 0) == pytest.approx(speed)
    assert reading(world, hot, CLOCK) == pytest.approx(reading(world, other, CLOCK), rel=0.08)


def test_a_straggler_shows_in_the_phases_not_in_its_clocks() -> None:
    world = after(small("  - {kind: straggler, at: 10m, lasts: 20m, rank: 5, factor: 1.8}"), 12)
    slow, other = gpu_of_rank(world, 5), gpu_of_rank(world, 0)
    assert reading(world, slow, CLOCK) == reading(world, other, CLOCK)
    begun = {
        (phase, rank): of_rank(world, "training_step_phase_seconds_total", rank, phase=phase)
        for phase in ("forward", "grad_sync")
        for rank in (0, 5)
    }
    after(world, 14)
    took = {
        (phase, rank): of_rank(world, "training_step_phase_seconds_total", rank, phase=phase) - value
        for (phase, rank), value in begun.items()
    }
    assert took["forward", 5] == pytest.approx(1.8 * took["forward", 0], rel=0.05)
    assert took["grad_sync", 0] > 3 * took["grad_sync", 5], "the others wait for it"
    assert _only_fault(world).rank == 5


def test_a_hang_is_busy_at_little_power_until_the_watchdog_ends_it() -> None:
    world = after(small("  - {kind: hang, at: 10m, rank: 2}"), 15)
    waits, missing = gpu_of_rank(world, 0), gpu_of_rank(world, 2)
    assert reading(world, waits, UTIL) == 100
    assert reading(world, waits, POWER) < 160
    assert reading(world, waits, TENSOR) == 0
    assert reading(world, missing, UTIL) == 0
    assert reading(world, missing, CLOCK) == reading(world, waits, CLOCK), "its process is there"
    last = of_rank(world, "training_last_step_timestamp_seconds", 0)
    assert START_MS / 1000 + 590 < last <= START_MS / 1000 + 600
    after(world, 25)
    told = _only_fault(world)
    assert (told.rank, told.gpu_uuid) == (2, missing)
    assert told.to_ms == START_MS + 20 * 60_000, "the collectives' timeout"
    first, second = world.truth.attempts
    assert (first.ended_by, first.attempt, second.attempt) == ("hang", 0, 1)
    assert first.last_step is not None
    assert 0 < second.first_step <= first.last_step, "from a checkpoint: what came after it is done again"
    assert second.first_step % 100 == 0
    assert reading(world, gpu_of_rank(world, 0), TENSOR) > 0.4


def test_slow_data_leaves_the_gpus_waiting() -> None:
    world = after(small("  - {kind: slow-data, at: 10m, lasts: 20m, factor: 30}"), 12)
    assert reading(world, gpu_of_rank(world, 0), UTIL) < 60
    assert of_rank(world, "training_samples_per_second", 0) < 20


def test_a_gpu_that_is_lost_takes_all_who_share_it_until_it_is_back() -> None:
    pool = "  - {name: l40s, model: L40S, nodes: 1, gpus_per_node: 1, time_slices: 4}\njobs:"
    serve = """
  - {name: c, kind: Deployment, namespace: web, team: x, pool: l40s, gpus_per_pod: 1, arrivals: {at_start: 3}}
faults:
  - {kind: gpu-lost, at: 10m, lasts: 10m, node: 3, gpu: 0}
"""
    scenario = read_scenario(SMALL.replace("jobs:", pool) + serve, "shared.yaml")
    world = World(scenario, start_ms=START_MS, seed=1)

    def serving() -> int:
        return sum(one.namespace == "web" for one in world.metrics_endpoints().values())

    after(world, 9)
    assert serving() == 3
    after(world, 15)
    assert serving() == 0, "no container starts without its GPU"
    after(world, 22)
    assert serving() == 3


def test_one_trouble_of_a_sort_at_a_time() -> None:
    """The second waits until the first is over: else that would end both."""
    faults = "".join(f"  - {{kind: slow-data, at: {at}m, lasts: 20m, factor: 30}}\n" for at in (10, 15))
    world = after(small(faults), 34)
    assert reading(world, gpu_of_rank(world, 0), UTIL) < 60
    first, second = world.truth.faults
    assert first.to_ms is not None
    assert second.from_ms >= first.to_ms


def test_nan() -> None:
    world = after(small("  - {kind: nan, at: 10m}"), 9)
    assert not math.isnan(of_rank(world, "training_loss", 0))
    after(world, 11)
    assert math.isnan(of_rank(world, "training_loss", 0))
    assert math.isnan(of_rank(world, "training_gradient_norm", 7))


def test_failing_checkpoints_cost_more_when_it_falls() -> None:
    faults = """
  - {kind: checkpoint-failing, at: 10m, lasts: 30m}
  - {kind: oom-killed, at: 30m, job: train}
"""
    world = after(small(faults), 29)
    assert of_rank(world, "training_checkpoint_failures_total", 0) > 3
    saved = of_rank(world, "training_checkpoint_last_step", 0)
    after(world, 35)
    first, second = world.truth.attempts
    assert first.last_step is not None
    assert second.first_step == saved < first.last_step - 500


def test_out_of_memory_is_told_by_the_container() -> None:
    world = after(small("  - {kind: oom-killed, at: 10m}"), 10.1)
    ended = [
        pod["status"]["containerStatuses"][0]["state"]["terminated"]
        for pod in world.objects.list("", "v1", "pods")
        if pod["status"]["phase"] == "Failed"
    ]
    assert {"reason": "OOMKilled", "exitCode": 137}.items() <= ended[0].items()


@pytest.mark.parametrize("code", [31, 79])
def test_xids(code: int) -> None:
    world = after(small(f"  - {{kind: xid, code: {code}, at: 10m, lasts: 10m, rank: 6}}"), 9)
    gpu = gpu_of_rank(world, 6)
    after(world, 10.05)
    told = _only_fault(world)
    assert (told.gpu_uuid, told.rank, told.detail) == (gpu, 6, str(code))
    lines = [read_fault(line.text) for line in world.kernel_faults(told.node)]
    first = lines[0]
    assert isinstance(first, KernelFault)
    assert (first.code, first.process) == (code, "python3")
    assert first.pid is not None and first.pci is not None
    (node,) = (one for one in world.objects.list("", "v1", "nodes") if one["metadata"]["name"] == told.node)
    if code == 79:
        with pytest.raises(KeyError):
            reading(world, gpu, XID)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "7"
        assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
    else:
        assert reading(world, gpu, XID) == 31
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    after(world, 19)
    assert [attempt.ended_by for attempt in world.truth.attempts] == ["xid", ""]
    is_back = gpu in {one.gpu_uuid for one in world.truth.gpus if one.to_ms is None}
    assert is_back == (code == 31), "what fell off the bus is not given away"
    after(world, 21)
    assert reading(world, gpu, POWER) > 0


def test_an_application_fault_on_a_service_restarts_its_container() -> None:
    jobs = """
  - name: chat
    kind: Deployment
    namespace: serving
    team: product
    pool: h100
    gpus_per_pod: 1
    arrivals: {at_start: 1}
"""
    world = after(small("  - {kind: oom-killed, at: 10m, job: chat}", jobs), 12)
    (pod,) = world.objects.list("", "v1", "pods", "serving")
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert container["ready"]


def test_a_silent_node_loses_its_pods() -> None:
    world = after(small("  - {kind: node-not-ready, at: 10m, lasts: 10m, node: 0}"), 10.2)
    node = world.nodes[0]
    with pytest.raises(Silent):
        world.dcgm_text(node)
    after(world, 12)
    (found,) = (one for one in world.objects.list("", "v1", "nodes") if one["metadata"]["name"] == node)
    assert {one["type"]: one["status"] for one in found["status"]["conditions"]}["Ready"] == "Unknown"
    after(world, 18)
    pods = world.objects.list("", "v1", "pods")
    assert pods and all(pod["spec"]["nodeName"] != node for pod in pods)
    after(world, 21)
    assert world.dcgm_text(node)
    assert [attempt.ended_by for attempt in world.truth.attempts] == ["node-not-ready", ""]


def test_a_silent_exporter_is_only_that() -> None:
    world = after(small("  - {kind: exporter-silent, at: 10m, lasts: 5m, node: 0}"), 11)
    with pytest.raises(Silent):
        world.dcgm_text(world.nodes[0])
    assert len(metrics(world)) > 50
    after(world, 16)
    assert world.dcgm_text(world.nodes[0])
    assert len(world.truth.attempts) == 1


@pytest.fixture(scope="module")
def every_fault() -> World:
    return after(World(load_scenario("every-fault"), start_ms=START_MS, seed=1), 260)


def test_every_kind_of_fault_happens_and_is_told(every_fault: World) -> None:
    told = every_fault.truth.faults
    assert {fault.kind for fault in told} == {kind.value for kind in FaultKind}
    for fault in told:
        assert (fault.to_ms is None) == (fault.kind in ("nan", "diverging", "plateau"))
        assert fault.to_ms is None or fault.from_ms <= fault.to_ms
        if fault.rank is not None and fault.gpu_uuid:
            assert any(
                one.gpu_uuid == fault.gpu_uuid
                and one.rank == fault.rank
                and one.job_uid == fault.job_uid
                and one.from_ms <= fault.from_ms
                for one in every_fault.truth.gpus
            ), fault


def test_a_reclaimed_machine_is_followed_by_another(every_fault: World) -> None:
    (told,) = (fault for fault in every_fault.truth.faults if fault.kind == "spot-reclaim")
    changes = [
        change for change in every_fault.objects.changes_since(0, "", "nodes")
        if change.object["metadata"]["name"] == told.node
    ]  # fmt: skip
    assert changes[-1].type == "DELETED"
    taints = {taint["key"] for taint in changes[-1].object["spec"]["taints"]}
    assert "aws-node-termination-handler/spot-itn" in taints
    assert told.node not in every_fault.nodes
    assert len(every_fault.nodes) == 8
    with pytest.raises(KeyError):
        every_fault.dcgm_text(told.node)


def test_steps_can_be_told_one_by_one(every_fault: World) -> None:
    """The records of an attempt agree with its length, its ranks and the straggler among them."""
    (told,) = (fault for fault in every_fault.truth.faults if fault.kind == "straggler")
    attempt = next(
        one
        for one in every_fault.truth.attempts
        if (one.job_uid, one.attempt) == (told.job_uid, told.attempt)
    )
    assert attempt.last_step is not None
    records = list(attempt.steps(0, 10**9))
    assert len(records) == 8 * attempt.last_step
    ends = [record.end_ms for record in records if record.rank == 0]
    assert ends == sorted(ends)
    assert attempt.to_ms is not None and attempt.from_ms < ends[0] and ends[-1] <= attempt.to_ms
    assert told.to_ms is not None
    for record in records:
        parts = record.data_s + record.forward_s + record.backward_s + record.grad_sync_s + record.optimizer_s
        assert (
            parts == pytest.approx(ends[1] / 1000 - ends[0] / 1000, rel=0.01) or record.end_ms > told.from_ms
        )
    during = [r for r in records if told.from_ms + 5_000 < r.end_ms < told.to_ms]
    assert max(during, key=lambda record: record.forward_s).rank == told.rank


def test_all_texts_are_exposition_text(every_fault: World) -> None:
    for node in every_fault.nodes:
        assert _read(every_fault.dcgm_text(node)) > 200
    for uid in every_fault.metrics_endpoints():
        assert _read(every_fault.metrics_text(uid)) > 15


def _read(text: bytes) -> int:
    """How many samples another reader than ours finds."""
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation and family.type != "unknown" for family in families)
    return sum(len(family.samples) for family in families)
