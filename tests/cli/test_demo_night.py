"""`trilens demo --once`: the whole way from a simulated cluster to its bill, compared with the truth."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from trilens.cli import demo_night
from trilens.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

# A job that hangs until its watchdog gives up, goes on from its checkpoint, and another that is killed; and a
# node that nobody uses is not ready for a while.
EVENING = """
name: evening
collective_timeout: 30m
pools:
  - {name: h100, model: H100, nodes: 3}
jobs:
  - name: train
    kind: PyTorchJob
    namespace: research
    team: vision
    pool: h100
    pods: 2
    gpus_per_pod: 4
    arrivals: {at_start: 1}
    training: {data_s: 1.5, forward_s: 5, backward_s: 9, grad_sync_s: 1, checkpoint_every: 20}
  - name: sweep
    kind: Job
    namespace: applied
    team: vision
    pool: h100
    gpus_per_pod: 2
    arrivals: {at_start: 1}
    training: {data_s: 0.5, forward_s: 4, backward_s: 8, grad_sync_s: 0.5, checkpoint_every: 100}
faults:
  - {kind: hang, at: 35m, job: train}
  - {kind: oom-killed, at: 30m, job: sweep}
  - {kind: node-not-ready, at: 70m, lasts: 25m, node: 2}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _run(tmp_path_factory.mktemp("night"), "--json")


def _run(folder: Path, *arguments: str) -> Any:
    scenario = folder / "evening.yaml"
    scenario.write_text(EVENING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_night, "_SCENARIO", str(scenario))
        patch.setattr(demo_night, "_HOURS", 2)
        answer = CliRunner().invoke(app, ["demo", "--once", *arguments], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_the_buckets_add_up_to_the_bill(told: dict[str, Any]) -> None:
    assert told["bill"] == told["sum"]
    assert sum(map(Decimal, told["buckets"].values())) == Decimal(told["bill"]) > 0
    assert Decimal(told["bill"]) == 2 * 3 * Decimal("55.04")  # three such nodes for two hours


def test_what_was_lost_is_found(told: dict[str, Any]) -> None:
    found = {
        (cause["workload"]["name"], cause["bucket"]): cause["gpu_ms"] / 3_600_000
        for cause in told["causes"]
        if cause["workload"] is not None
    }
    true = {(one["workload"].partition("/")[2], one["bucket"]): one["gpu_hours"] for one in told["truth"]}
    lost = {key for key, bucket in ((key, key[1]) for key in true) if bucket in ("stalled", "recompute")}
    assert lost == {("train-1", "stalled"), ("train-1", "recompute"), ("sweep-1", "recompute")}
    for key in lost:
        assert found[key] == pytest.approx(true[key], rel=0.05), key


def test_what_the_fleet_lost_is_the_truth_too(told: dict[str, Any]) -> None:
    """The ledger knows of a dead node when its cluster does, after 40 seconds."""
    fleet = {one["bucket"]: one for one in told["truth"] if not one["workload"]}
    assert (fleet["broken"]["node"], fleet["broken"]["faults"]) == ("h100-0002", ["node-not-ready"])
    assert fleet["broken"]["gpu_hours"] == pytest.approx(8 * 25 / 60, rel=0.001)
    found = {
        bucket: float(Decimal(told["buckets"][bucket])) / (55.04 / 8) for bucket in ("broken", "unallocated")
    }
    assert found["broken"] == pytest.approx(8 * (25 * 60 - 40) / 3600, rel=0.02)
    lost = sum(one["gpu_hours"] for one in fleet.values())
    assert sum(found.values()) == pytest.approx(lost, rel=0.01)


def test_a_stall_is_told_with_its_step_and_since_when(told: dict[str, Any]) -> None:
    (stall,) = (cause for cause in told["causes"] if cause["bucket"] == "stalled")
    assert stall["gpus"] == 8
    assert stall["step"] is not None
    assert f"stalled at step {stall['step']:,} since 21:3" in stall["sentence"]


def test_json_goes_with_once() -> None:
    answer = CliRunner().invoke(app, ["demo", "--json"])
    assert answer.exit_code == 2
    assert "--once" in answer.output
