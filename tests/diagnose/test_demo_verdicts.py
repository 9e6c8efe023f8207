"""What `trilens why` says of each fault of `trilens demo --fault`, lived through faster than time, with the
intake and the detectors of a server."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from bench.detect.cases import case_of
from bench.detect.scoring import START_MS
from bench.detect.watched import WatchedWorld

from trilens.cli.demo_stage import AGE_S, SHOWN, stage
from trilens.diagnose.case import Case
from trilens.diagnose.walk import why
from trilens.simulate.scenario import Fault
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.verdict import Verdict
    from trilens.simulate.truth import FaultTruth

SEED = 3


class Right(NamedTuple):
    """The end that it must come to so many seconds after it began, and whom that names."""

    cause: str
    after_s: int = 40
    names: tuple[str, ...] = ()  # rank, node, gpu: of the simulator's truth
    at_least: float = 0.5
    also: tuple[str, ...] = ()  # what is true as well, and may be surer


RANK = ("rank", "node")
RIGHT: Mapping[str, Right] = {
    "stuck-data": Right("data-stopped", at_least=0.8),
    "gil-held": Right("interpreter-locked", names=RANK, at_least=0.8),
    "process-dead": Right("rank-killed", names=RANK),
    "hang": Right("flight-never-entered", names=RANK, at_least=0.8),
    "exception": Right("rank-raised", names=RANK, at_least=0.8),
    "oom-killed": Right("container-out-of-memory", names=("node",), at_least=0.8),
    "node-not-ready": Right("node-lost", names=("node",), at_least=0.8),
    # The job asks for all GPUs of the node, and waits until they are well.
    "gpu-lost": Right("dead-gpu", names=("node", "gpu"), at_least=0.8, also=("gpus-unhealthy",)),
    "xid-79": Right("dead-gpu", names=("node", "gpu"), at_least=0.8, also=("gpus-unhealthy",)),
    "xid-31": Right("illegal-gpu-work", names=("node", "gpu")),
    "thermal": Right("gpu-too-hot", names=("node", "gpu"), at_least=0.8),
    "straggler": Right("slow-rank", names=RANK),
    "cpu-fallback": Right("fell-back-to-cpu", after_s=55),
    "nan": Right("loss-not-a-number"),
    "diverging": Right("loss-diverges"),
    "plateau": Right("loss-flat", after_s=480),
    "prof-stuck": Right("profiling-counters-stuck", after_s=55, names=("node",), at_least=0.8),
    "labels-lost": Right("pod-labels-lost", after_s=55, names=("node",), at_least=0.8),
    "readings-blank": Right("readings-not-known", names=("node",), at_least=0.8),
    "exporter-silent": Right("scrape-fails", names=("node",), at_least=0.8),
    "readings-frozen": Right("readings-frozen", after_s=145, names=("node",), at_least=0.8),
    "checkpoint-failing": Right("checkpoint-write-fails", after_s=110, at_least=0.8),
    "slow-data": Right("data-loader-slow", after_s=150),
}


class Told(NamedTuple):
    verdicts: list[Verdict]
    truth: FaultTruth


WATCHED_S = 55  # before anything goes wrong: the longest that the demo waits
LONG_S = (60, 150, 480)  # those that take about the same share a cluster


@cache
def _show(until_s: int, after_s: int) -> Mapping[str, Told]:
    """Those that are looked at in this time, each on nodes of its own, as the demo has it."""
    rights = {name: one for name, one in RIGHT.items() if after_s < one.after_s <= until_s}
    shown = [one for one in SHOWN if one.name in rights]
    scenario = stage(shown)
    world = World(scenario, start_ms=START_MS, seed=SEED, telling_ranks=scenario.gpus)
    world.advance(START_MS + 1000 * AGE_S)
    watched = WatchedWorld(world, SEED, slow=False)
    while world.now_ms < START_MS + 1000 * (AGE_S + WATCHED_S):
        watched.go_on()
    truths: dict[str, FaultTruth] = {}
    for one in shown:
        truth = world.strike(Fault.model_validate({**one.fault(scenario), "lasts": 3600, "at": 0}))
        assert truth is not None, f"{one.name} found no target"
        truths[one.name] = truth
    found: dict[str, Told] = {}
    began_ms = world.now_ms
    while len(found) < len(rights):
        scene = watched.go_on()
        jobs = {job.workload.name: job.workload.uid for job in scene.jobs if job.workload is not None}
        for name, right in rights.items():
            if name not in found and world.now_ms >= began_ms + 1000 * right.after_s:
                found[name] = Told(why(Case(case_of(watched, scene, jobs[f"{name}-1"]))), truths[name])
    return found


def test_every_fault_of_the_demo_has_its_right_end() -> None:
    assert [*RIGHT] == [one.name for one in SHOWN]
    docs = (Path(__file__).parents[2] / "docs" / "demo.md").read_text()
    assert [name for name, right in RIGHT.items() if f"| `{name}` | `{right.cause}` |\n" not in docs] == []


@pytest.mark.parametrize("name", RIGHT)
def test_why_says_what_went_wrong_in_the_demo(name: str) -> None:
    right = RIGHT[name]
    part = next(part for part, until_s in enumerate(LONG_S) if right.after_s <= until_s)
    told = _show(LONG_S[part], LONG_S[part - 1] if part else 0)[name]
    first = next((one for one in told.verdicts if one.cause not in right.also), told.verdicts[0])
    assert first.cause == right.cause, [(one.cause, one.confidence, one.text) for one in told.verdicts]
    assert first.confidence >= right.at_least
    truth = {"rank": told.truth.rank, "node": told.truth.node, "gpu": told.truth.gpu_uuid}
    named = {one: getattr(first.subject, one) for one in right.names}
    assert named == {one: truth[one] for one in right.names}
    assert first.fix
