"""What simulated programs write: progress, and why they ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest
from worlds import START_MS, after, of_rank, small

from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario

if TYPE_CHECKING:
    from trilens.simulate.world import World

CODE_AND_NOTEBOOKS = """
name: shared
pools:
- {name: l40s, model: L40S, nodes: 1, time_slices: 4}
- {name: mig, model: H100, nodes: 1, mig: 3g.40gb}
jobs:
- {name: a, kind: Deployment, namespace: web, team: x, pool: l40s, arrivals: {at_start: 2}, gpus_per_pod: 1}
- {name: book, kind: Notebook, namespace: books, team: x, pool: mig, arrivals: {at_start: 2}, gpus_per_pod: 1}
faults:
- {kind: xid, code: 94, at: 10m, node: 1, gpu: 0}
"""


def _lines(world: World, pod: str, run: int = 0) -> list[str]:
    (found,) = (one for node in world.nodes for one in world.output(node) if one.pod == pod)
    return found.runs[run]


def test_progress_is_what_metrics_say() -> None:
    world = after(small(), 30)
    lines = _lines(world, "train-1-worker-0")
    last = lines[-1]
    step = int(of_rank(world, "training_step", 4))
    assert f"[rank4] step {step // 10 * 10} |" in last
    said = datetime.strptime(f"{last[:23]}+0000", "%Y-%m-%d %H:%M:%S,%f%z").timestamp()
    assert said <= world.now_ms / 1000 < said + 60
    loss = float(last.partition("loss ")[2].partition(" ")[0])
    assert loss == pytest.approx(of_rank(world, "training_loss", 4), rel=0.05)
    assert len(lines) < 40
    saved = int(of_rank(world, "training_checkpoint_last_step", 0))
    assert any(f"checkpoint of step {saved} written" in line for line in _lines(world, "train-1-master-0"))
    assert datetime.fromtimestamp(START_MS / 1000, UTC).strftime("%Y-%m-%d") in last


@pytest.mark.parametrize(
    ("fault", "minutes", "said", "by_the_others"),
    [
        (
            "xid, code: 31, at: 10m, rank: 6",
            10.2,
            "[rank6]: torch.AcceleratorError: CUDA error: an illegal",
            1,
        ),
        ("hang, at: 10m, rank: 1", 20.2, "Watchdog caught collective operation timeout", 1),
        ("checkpoint-failing, at: 10m, lasts: 30m", 20, "was not written: OSError", 0),
    ],
)
def test_trouble_is_told(fault: str, minutes: float, said: str, by_the_others: int) -> None:
    world = after(small(f"  - {{kind: {fault}}}"), minutes)
    pods = [_lines(world, f"train-1-{name}") for name in ("master-0", "worker-0")]
    assert sum(any(said in line for line in lines) for lines in pods) == 1
    assert sum(any("ncclRemoteError" in line for line in lines) for lines in pods) == by_the_others


def test_a_hung_program_falls_silent() -> None:
    world = after(small("  - {kind: hang, at: 10m, rank: 1}"), 15)
    before = _lines(world, "train-1-master-0")
    assert _lines(after(world, 18), "train-1-master-0") == before


def test_agents_pass_it_on_and_name_shared_devices_as_the_plugin_does() -> None:
    world = grown(read_scenario(CODE_AND_NOTEBOOKS, "shared"), now_ms=START_MS, age_ms=1_200_000)
    with SimulatedCluster(world) as cluster:
        l40s, mig = (f"{cluster.url}/nodes/{node}/agent" for node in ("l40s-0000", "mig-0000"))
        devices = httpx.get(f"{l40s}/v1/devices").json()["devices"]
        assert {one["device_id"] for one in devices} == {
            f"{one['uuid']}::{one['replica']}" for one in devices
        }
        gpus = {one["uuid"] for one in httpx.get(f"{mig}/v1/processes").json()["processes"]}
        instances = {one["device_id"] for one in httpx.get(f"{mig}/v1/devices").json()["devices"]}
        assert len(instances) == 2
        assert all(uuid.startswith("MIG-") for uuid in instances)
        assert httpx.get(f"{mig}/metrics").text.count('trilens_node_device_info{UUID="MIG-') == 2
        assert all(uuid.startswith("GPU-") for uuid in gpus)

        pods = httpx.get(f"{l40s}/v1/output").json()["pods"]
        assert len(pods) == 2
        asked = {"namespace": "web", "pod": pods[0]["name"]}
        (one,) = httpx.get(f"{l40s}/v1/output", params=asked).json()["pods"]
        assert "Running:" in one["containers"][0]["runs"][0]["lines"][-1]
        runs = [pod["containers"][0]["runs"] for pod in httpx.get(f"{mig}/v1/output").json()["pods"]]
        again = next(run for run in runs if len(run) == 2)
        assert [one["run"] for one in again] == [1, 0]
        assert "uncorrectable ECC error" in "".join(again[1]["lines"])
