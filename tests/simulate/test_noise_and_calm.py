"""What the scoreboard of detection needs of the simulator: noise as it was measured, faults that programs and
exporters show, and what looks like trouble and is none."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from worlds import SMALL, START_MS, after, gpu_of_rank, metrics, reading, rows, small

from servers import require_corpus
from trilens.simulate.cluster import kube_time
from trilens.simulate.gpu_noise import LEVELS, NOISE, STEPS
from trilens.simulate.scenario import Training, read_scenario
from trilens.simulate.training import TrainingRun
from trilens.simulate.world import World

ROOT = Path(__file__).parents[2]
UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
MEMORY, SM, TENSOR = "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


def _run(world: World) -> TrainingRun:
    run = world.truth.attempts[-1].run
    assert run is not None
    return run


def _calm(lines: str, jobs: str = "") -> World:
    return World(read_scenario(f"{SMALL}{jobs}calm:\n{lines}", "calm.yaml"), start_ms=START_MS, seed=1)


def _shaken(jitter: float) -> TrainingRun:
    text = SMALL.replace("checkpoint_every: 100", f"checkpoint_every: 5000, jitter: {jitter}")
    return _run(after(World(read_scenario(text, "x"), start_ms=START_MS, seed=1), 60))


def test_steps_differ_as_much_as_they_were_measured_to() -> None:
    steps = list(_shaken(1.0).steps(10, 2000))
    took = np.array([step.end_s - step.start_s for step in steps])
    usual = took[took < 1.05 * np.median(took)]
    assert usual.std() / np.median(took) == pytest.approx(STEPS.step, rel=0.15)
    assert all(later.start_s == pytest.approx(step.end_s) for step, later in pairwise(steps))
    assert all(sum(part[3] for part in step.phases) == pytest.approx(length)
               for step, length in zip(steps, took, strict=True))  # fmt: skip
    own = np.array([float(step.phases.forward[3]) for step in steps])
    assert own.std() / own.mean() == pytest.approx(STEPS.rank, rel=0.15)
    assert min(float(step.phases.grad_sync.min()) for step in steps) > 0


def test_a_step_into_which_a_slowdown_falls_ends_after_it_began() -> None:
    for tenth in range(20):
        run = TrainingRun(Training(jitter=1.0), 2, 0, 0.0, world_start_ms=START_MS, seed=5)
        at_s = 60 + run.stretches[0].step_s * tenth / 20
        run.trouble.on_cpu = 40.0
        run.change(at_s)
        run.trouble.on_cpu = 1.0
        run.change(at_s + 300)
        steps = list(run.steps(0, int(run.step_at(at_s + 400))))
        assert min(step.end_s - step.start_s for step in steps) > 0
        assert all(step.end_s <= later.start_s + 1e-6 for step, later in pairwise(steps))


def test_without_jitter_every_step_takes_the_same() -> None:
    took = [step.end_s - step.start_s for step in _shaken(0.0).steps(10, 500)]
    assert max(took) == pytest.approx(min(took))


def test_readings_of_a_busy_gpu_have_the_noise_that_was_measured() -> None:
    rare = SMALL.replace("checkpoint_every: 100", "checkpoint_every: 5000")
    world = after(World(read_scenario(rare, "x"), start_ms=START_MS, seed=1), 10)
    gpu = gpu_of_rank(world, 0)
    told: dict[str, list[float]] = {POWER: [], TENSOR: []}
    for second in range(100):
        after(world, 10 + second / 60)
        for name, values in told.items():
            values.append(reading(world, gpu, name))
    assert np.std(told[TENSOR]) / np.mean(told[TENSOR]) == pytest.approx(NOISE.tensor, rel=0.3)
    assert len(set(told[POWER])) > 90


def test_the_figures_that_are_shipped_are_those_that_are_fitted() -> None:
    trace, table = ROOT / "bench/detect/h200", require_corpus("stragglers", "job_2_norm.csv")
    tool = [sys.executable, str(ROOT / "tools/fit-gpu-noise"), str(trace), str(table)]
    said = subprocess.run(tool, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        f"{type(one).__name__}({', '.join(f'{name}={value:.4g}' for name, value in one._asdict().items())})"
        for one in (NOISE, STEPS, LEVELS)
    ]


def test_where_all_wait_for_data_no_gpu_does_anything() -> None:
    world = after(small("  - {kind: stuck-data, at: 5m, lasts: 2m}"), 6)
    run, t_s = _run(world), 360.0
    assert {run.phase_at(rank, t_s) for rank in range(8)} == {"data"}
    assert reading(world, gpu_of_rank(world, 3), UTIL) == 0
    stood = run.step_at(t_s)
    assert run.step_at(400.0) == stood
    assert _run(after(world, 8)).step_at(480.0) > stood


@pytest.mark.parametrize(("kind", "keeps_memory"), [("gil-held", True), ("process-dead", False)])
def test_nothing_is_heard_of_a_rank_that_is_locked_or_dead(kind: str, keeps_memory: bool) -> None:
    world = after(small(f"  - {{kind: {kind}, at: 5m, lasts: 3m, rank: 3}}"), 6)
    silent = {
        rank
        for (_, rank), told in world.telling.ranks.items()
        if told.next(world.now_ms, 5.0) is None
    }  # fmt: skip
    assert silent == {3}
    assert (reading(world, gpu_of_rank(world, 3), MEMORY) > 10_000) == keeps_memory
    others = gpu_of_rank(world, 0)
    assert reading(world, others, UTIL) == 100
    assert reading(world, others, SM) < 0.2
    assert reading(world, others, POWER) < 140


def test_a_rank_that_raises_says_so() -> None:
    world = after(small("  - {kind: exception, at: 5m, rank: 2}"), 5.1)
    (told,) = world.truth.faults
    line = world.telling.ranks[next(key for key in world.telling.ranks if key[1] == 2)].next(
        world.now_ms, 5.0
    )
    assert line is not None
    assert line.line["end"] == {"t_ms": told.from_ms, "how": "failed", "error": "KeyError: 'attention_mask'"}


def test_a_program_without_its_gpus_goes_on_slowly() -> None:
    world = after(small("  - {kind: cpu-fallback, at: 5m, lasts: 10m, factor: 6}"), 6)
    assert reading(world, gpu_of_rank(world, 1), UTIL) == 0
    steps = [step.end_s - step.start_s for step in _run(world).steps(0, int(_run(world).step_at(360)))]
    assert steps[-1] > 5 * steps[0]


def test_a_loss_that_diverges_and_one_that_stays() -> None:
    rising = _run(after(small("  - {kind: diverging, at: 5m, factor: 2}"), 8))
    step = int(rising.step_at(300)) + 1
    assert rising.loss(step + 100) > 3 * rising.loss(step)
    assert rising.gradient_norm(step + 100) > 9 * rising.gradient_norm(step - 1)
    flat = _run(after(small("  - {kind: plateau, at: 5m}"), 8))
    usual = _run(after(small(), 8))
    later = [abs(flat.loss(step + n) / flat.loss(step) - 1) for n in range(100)]
    assert max(later) < 0.03
    assert usual.loss(step + 100) < 0.95 * usual.loss(step)


def test_exporters_that_do_not_say_what_is() -> None:
    def told(kind: str) -> World:
        return after(small(f"  - {{kind: {kind}, at: 5m, lasts: 5m, node: 0}}"), 6)

    stuck = told("prof-stuck")
    assert reading(stuck, gpu_of_rank(stuck, 0), TENSOR) == 0
    assert reading(stuck, gpu_of_rank(stuck, 0), UTIL) > 90
    blank = told("readings-blank")
    assert reading(blank, gpu_of_rank(blank, 0), POWER) == 2_147_483_632
    lost = told("labels-lost")
    assert not any("pod" in row.labels for row in rows(lost.dcgm_text(lost.nodes[0])))
    frozen = told("readings-frozen")
    said = frozen.dcgm_text(frozen.nodes[0])
    assert after(frozen, 7).dcgm_text(frozen.nodes[0]) == said
    assert after(frozen, 11).dcgm_text(frozen.nodes[0]) != said


@pytest.mark.parametrize(
    ("kind", "phase", "busy"),
    [("validation", "validation", True), ("compilation", "compile", False), ("hiccup", "data", False)],
)
def test_pauses_are_told_and_pass(kind: str, phase: str, busy: bool) -> None:
    world = after(_calm(f"  - {{kind: {kind}, at: 5m, lasts: 1m}}"), 5.5)
    assert _run(world).phase_at(2, 330.0) == phase
    assert (reading(world, gpu_of_rank(world, 2), UTIL) > 90) == busy
    stood = _run(world).step_at(330.0)
    after(world, 7)
    assert _run(world).step_at(420.0) > stood + 20
    (told,) = world.truth.calm
    assert told.to_ms == told.from_ms + 60_000
    assert not world.truth.faults


def test_a_flat_part_of_the_loss_ends_and_a_spike_comes_back() -> None:
    run = _run(after(_calm("  - {kind: flat-loss, at: 5m, lasts: 2m}"), 9))
    flat, later = int(run.step_at(300)) + 5, int(run.step_at(420)) + 5
    assert run.loss(flat) == pytest.approx(run.loss(flat + 50), rel=0.03)
    assert run.loss(later) < 0.96 * run.loss(flat)
    spiked = _run(after(_calm("  - {kind: loss-spike, at: 5m, factor: 3}"), 9))
    step = int(spiked.step_at(300)) + 1
    assert spiked.loss(step + 1) > 2 * spiked.loss(step - 1)
    assert spiked.loss(step + 70) < 1.1 * spiked.loss(step - 1)


def test_a_pod_that_is_sent_away_is_told_to_end_and_says_so() -> None:
    world = after(_calm("  - {kind: drain, at: 5m, lasts: 3m, node: 0}"), 5.5)
    changes = world.objects.changes_since(0, "", "pods")
    gone = next(one.object for one in changes if one.type == "DELETED")
    leaving = [one.object for one in changes if "deletionTimestamp" in one.object["metadata"]]
    asked = next(one for one in leaving if one["metadata"]["uid"] == gone["metadata"]["uid"])
    assert asked["status"]["phase"] == "Running"
    assert asked["metadata"]["deletionTimestamp"] == kube_time(
        START_MS + 330_000
    )  # by when it has to be gone
    (target,) = [one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert target["reason"] == "EvictionByEvictionAPI"
    (container,) = gone["status"]["containerStatuses"]
    assert (gone["status"]["phase"], container["state"]["terminated"]["exitCode"]) == ("Failed", 143)


def test_a_drained_node_is_empty_until_it_is_opened_again() -> None:
    world = after(_calm("  - {kind: drain, at: 5m, lasts: 3m, node: 0}"), 7)
    assert not any("pod" in row.labels for row in rows(world.dcgm_text(world.nodes[0])))
    assert len(world.truth.attempts) == 2
    assert metrics(world), "it runs elsewhere"
    assert not world.truth.faults


SERVICE = """  - name: chat
    kind: Deployment
    namespace: serving
    team: product
    pool: h100
    gpus_per_pod: 1
    arrivals: {at_start: 1}
"""


def test_a_service_grows_and_shrinks() -> None:
    world = after(_calm("  - {kind: scaling, at: 5m, lasts: 3m, job: chat}", SERVICE), 7)
    assert sum(not one.trains for one in world.metrics_endpoints().values()) == 2
    after(world, 9)
    assert sum(not one.trains for one in world.metrics_endpoints().values()) == 1


def test_an_old_xid_has_no_line_in_the_log() -> None:
    world = after(_calm("  - {kind: old-xid, at: 1m, node: 0}"), 2)
    codes = [
        row.value for row in rows(world.dcgm_text(world.nodes[0])) if row.name == "DCGM_FI_DEV_XID_ERRORS"
    ]
    assert sorted(codes)[-2:] == [0, 31]
    assert not world.kernel_faults(world.nodes[0])
