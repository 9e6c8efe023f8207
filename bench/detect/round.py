"""One round over 10,000 GPUs: all detectors over a scene of that size, and a pass over the rule pack."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bench import rules
from trilens.detect.detectors import all_detectors
from trilens.detect.figures import COLUMN_MS
from trilens.detect.scene import Figure, JobView, NodeView, Place, RankView, Scene, Steps, Telemetry, ToldBy
from trilens.detect.telemetry import COLUMNS
from trilens.detect.watch import Watch
from trilens.model.life import Phase
from trilens.model.run import RankProcess, RunFacts, RunId, WriterId
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey
from trilens.rules import rule_files

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ROUNDS: Final = 6
_STEP_MS: Final = 2_000
_KEPT_STEPS: Final = 200
_START_MS: Final = 1_768_392_000_000
_BUSY: Final[dict[Figure, tuple[float, float]]] = {
    Figure.UTILIZATION: (0.99, 0.01),
    Figure.POWER: (650.0, 3.0),
    Figure.SM: (0.87, 0.004),
    Figure.TENSOR: (0.4, 0.002),
    Figure.NVLINK: (2e10, 2e8),
    Figure.PCIE: (7e7, 5e6),
    Figure.TEMPERATURE: (58.0, 0.5),
    Figure.SM_CLOCK: (1.84e9, 2e7),
    Figure.MEMORY_USED: (0.86, 0.0),
    Figure.CLOCK_REASONS: (4.0, 0.0),
    Figure.XID: (0.0, 0.0),
    Figure.ROW_REMAP_PENDING: (0.0, 0.0),
}


class RoundResult(NamedTuple):
    gpus: int
    jobs: int
    detectors_s: float  # CPU of one look, the usual one
    by_code: dict[str, float]
    pack_s: float | None  # CPU of one pass over the pack; None where it was not measured
    rules: int


class Fleet:
    """Jobs of so many ranks each, all at work, with the noise that GPUs have."""

    def __init__(self, gpus: int, ranks: int) -> None:
        self._rng = np.random.default_rng(1)
        self._ranks = ranks
        self._jobs = [self._job(number) for number in range(gpus // ranks)]
        self._places = [place for places, _ in self._jobs for place in places]
        width = COLUMNS + ROUNDS
        self._figures = {figure: self._drawn(level, noise, width) for figure, (level, noise) in _BUSY.items()}
        count = _KEPT_STEPS + ROUNDS * COLUMN_MS // _STEP_MS + 1
        took = _STEP_MS * (1 + 0.01 * self._rng.standard_normal((len(self._jobs), count)))
        end = _START_MS - _STEP_MS * (_KEPT_STEPS - np.arange(count))
        self._took, self._end = took, end.astype(np.int64)
        nodes = dict.fromkeys(place.node for place in self._places)
        self._nodes = [NodeView("c1", node, True) for node in nodes]

    def _drawn(self, level: float, noise: float, width: int) -> NDArray[np.float32]:
        drawn = level + noise * self._rng.standard_normal((len(self._places), width))
        return drawn.astype(np.float32)

    def _job(self, number: int) -> tuple[list[Place], WorkloadKey]:
        name = f"job-{number}"
        workload = WorkloadKey("c1", "ml", "kubeflow.org", "PyTorchJob", name, f"uid-{number}")
        pod = PodKey("c1", "ml", f"{name}-0", f"pod-{number}")
        node = f"node-{number * self._ranks // 8}"
        return [
            Place(
                GpuUuid(f"GPU-{number}-{rank}"),
                "",
                "c1",
                node,
                str(rank % 8),
                "NVIDIA H200",
                workload,
                pod,
                rank,
            )
            for rank in range(self._ranks)
        ], workload

    def scene(self, at: int) -> Scene:
        now_ms = _START_MS + at * COLUMN_MS
        done = _KEPT_STEPS + at * COLUMN_MS // _STEP_MS
        window = slice(done - _KEPT_STEPS, done)
        times = now_ms - COLUMN_MS * np.arange(COLUMNS - 1, -1, -1, dtype=np.int64)
        figures = {figure: values[:, at : at + COLUMNS] for figure, values in self._figures.items()}
        jobs = [
            self._view(number, places, workload, window, now_ms)
            for number, (places, workload) in enumerate(self._jobs)
        ]
        return Scene(now_ms, Telemetry(self._places, times, figures), jobs, self._nodes)

    def _view(
        self, number: int, places: list[Place], workload: WorkloadKey, window: slice, now_ms: int
    ) -> JobView:
        run = RunId(f"run-{number}")
        numbers = np.arange(window.start, window.stop)
        took = self._took[number, window]
        steps = Steps(
            numbers,
            self._end[window],
            took,
            0.03 * took,
            0.1 * took,
            2 + 8 * np.exp(-numbers / 300),
            1 + 0 * took,
        )
        first = number * self._ranks
        ranks = [
            RankView(
                rank,
                ToldBy.RECORDS,
                replace(steps, sync_ms=took * (0.1 + 0.002 * rank)),
                now_ms - 1000,
                RankProcess(
                    run, rank, WriterId(f"{number}-{rank}"), _START_MS - 10**6, node=place.node,
                    heard_ms=now_ms - 1000, step=int(numbers[-1]), gpus=(place.uuid,), pod=f"job-{number}-0",
                ),
                row=first + rank,
            )
            for rank, place in enumerate(places)
        ]  # fmt: skip
        rows = range(first, first + self._ranks)
        facts = RunFacts(run, _START_MS - 10**6, world_size=self._ranks)
        return JobView(workload, "ml", 0, Phase.RUNNING, _START_MS - 10**6, False, facts, ranks, rows)


def detectors(gpus: int, ranks: int = 8) -> RoundResult:
    fleet, watch = Fleet(gpus, ranks), Watch(all_detectors())
    looks, by_code = [], {}
    for at in range(ROUNDS):
        scene = fleet.scene(at)
        began_s = time.process_time()
        changes = watch.look(scene)
        looks.append(time.process_time() - began_s)
        by_code = dict(watch.took_s)
        if changes.opened or watch.failures:
            raise RuntimeError(f"a calm fleet was found guilty: {changes.opened[:3]} {watch.failures}")
    return RoundResult(gpus, gpus // ranks, float(np.median(looks[1:])), by_code, None, 0)


@dataclass
class TrilensWithPack(rules.TrilensWithRules):
    def scrape_document(self) -> dict[str, object]:
        return {**super().scrape_document(), "rules": {"builtin": True}}


def run(out: Path, *, gpus: int, passes: int) -> RoundResult:
    """The detectors here; the pack in a server of its own, by the CPU that it takes in an interval."""
    found = detectors(gpus)
    out.mkdir(parents=True, exist_ok=True)
    peer = TrilensWithPack(out / "pack-trilens")
    peer.start()
    try:
        fleet = rules.Fleet(-(-gpus // rules.GPUS_PER_NODE), rules.GPUS_PER_NODE)
        rules.fill(peer, fleet)
        pack = rules.measure(peer, fleet, passes)
    finally:
        peer.stop()
    return found._replace(pack_s=pack.cpu_s, rules=len(list(rule_files())))
