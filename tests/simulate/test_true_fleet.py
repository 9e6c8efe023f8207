"""What nobody held or could use, as the simulator knows it."""

from __future__ import annotations

import pytest
from worlds import START_MS, after, chaotic, small

from trilens.simulate.true_fleet import true_fleet
from trilens.simulate.truth import FaultTruth, NodeTruth, RankOnGpu, Truth

MINUTE_MS = 60_000


def on_gpu(
    uuid: str, begin: int, end: int | None, instance: str = "", replica: int | None = None
) -> RankOnGpu:
    times = begin * MINUTE_MS, None if end is None else end * MINUTE_MS
    return RankOnGpu("job", 0, "pod", None, 0, "a", uuid, instance, replica, *times)


def fault(begin: int, end: int | None, uuid: str = "", *, takes_out: bool = True) -> FaultTruth:
    until = None if end is None else end * MINUTE_MS
    return FaultTruth("xid", begin * MINUTE_MS, until, "a", uuid, takes_out=takes_out)


def minutes(truth: Truth, now: int = 60) -> list[tuple[float, float]]:
    return [(one.free_s / 60, one.broken_s / 60) for one in true_fleet(truth, now * MINUTE_MS)]


def test_a_gpu_is_held_broken_or_free() -> None:
    truth = Truth(nodes=[NodeTruth("a", ("g0", "g1"), 1.0, 0)])
    truth.gpus = [on_gpu("g0", 10, 40), on_gpu("g0", 50, None)]
    truth.faults = [fault(35, 45, "g0"), fault(0, 60, takes_out=False)]
    assert minutes(truth) == [(10 + 5 + 60, 10)]
    truth.faults.append(fault(30, None))
    assert minutes(truth) == [(10 + 30, 60)], "the whole node"


def test_parts_of_a_gpu() -> None:
    """Two of seven instances for half an hour. Two that take turns hold all of it, and so does one."""
    mig = Truth(nodes=[NodeTruth("a", ("g0",), 1 / 7, 0)])
    mig.gpus = [on_gpu("g0", 0, 30, "7"), on_gpu("g0", 0, 30, "8")]
    ((free, _),) = minutes(mig)
    assert free == pytest.approx(30 * 5 / 7 + 30)
    turns = Truth(nodes=[NodeTruth("a", ("g0",), 1.0, 0)])
    turns.gpus = [on_gpu("g0", 0, 30, replica=0), on_gpu("g0", 0, 40, replica=1)]
    assert minutes(turns) == [(20, 0)]


def test_a_machine_counts_while_it_is_there() -> None:
    truth = Truth(nodes=[NodeTruth("a", ("g0",), 1.0, 10 * MINUTE_MS, 30 * MINUTE_MS)])
    truth.gpus = [on_gpu("g0", 10, None)]
    truth.nodes.append(NodeTruth("b", ("g1",), 1.0, 40 * MINUTE_MS))
    assert minutes(truth) == [(0, 0), (20, 0)]


def test_of_a_world() -> None:
    """Eight of 24 GPUs train."""
    world = after(small("  - {kind: gpu-lost, at: 10m, lasts: 5m, node: 2, gpu: 3}\n"), 60)
    found = true_fleet(world.truth, world.now_ms)
    assert sum(one.broken_s for one in found) == 300
    held_s = sum(((one.to_ms or world.now_ms) - one.from_ms) / 1000 for one in world.truth.gpus)
    assert sum(one.free_s for one in found) == pytest.approx(24 * 3600 - 300 - held_s)
    assert [one.name for one in found] == list(world.nodes)
    assert {one.from_ms for one in world.truth.nodes} == {START_MS}


def test_a_machine_that_its_cloud_took_back_is_another_afterwards() -> None:
    world = after(chaotic(3), 120)
    gone = [one for one in world.truth.nodes if one.to_ms is not None]
    assert gone
    assert [one.name for one in world.truth.nodes if one.to_ms is None] != []
    assert sorted(one.name for one in world.truth.nodes if one.to_ms is None) == sorted(world.nodes)
