"""What one look of all detectors costs over a large fleet that is calm, as fleets are nearly always.

    python -m bench.detect_round [GPUS] [JOBS]

CPU seconds of one core; `make` is what it takes to have readings and steps told and to put a scene together,
`look` what the detectors take.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.detectors import all_detectors
from trilens.detect.figures import COLUMN_MS, FIELDS
from trilens.detect.records import RankRecords
from trilens.detect.scene import JobView, NodeView, Place, Scene
from trilens.detect.telemetry import Block, Readings, TelemetryWindow
from trilens.detect.watch import Watch
from trilens.model.life import Phase
from trilens.model.run import RankProcess, RunFacts, RunId, StepRecord, WriterId
from trilens.model.run_commit import RunCommit
from trilens.model.workload import GpuUuid, WorkloadKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

_START_MS: Final = 1_700_000_000_000
_STEP_MS: Final = 2_000
_ROUNDS: Final = 40  # before the measured ones: the runs must be known, and the window in use
_MEASURED: Final = 8
_LEVELS: Final = {  # of a busy GPU, by what its field is called
    "utilisation": 97.0,
    "power": 620.0,
    "SM activity": 0.8,
    "tensor activity": 0.45,
    "temperature": 64.0,
    "SM clock": 1950.0,
    "memory used": 65_000.0,
    "memory free": 15_000.0,
    "memory reserved": 600.0,
    "clock event reasons": 0.0,
    "last Xid": 0.0,
    "row remapping pending": 0.0,
}
_STEADY: Final = ("clock event reasons", "last Xid", "row remapping pending")


class RoundResult(NamedTuple):
    gpus: int
    jobs: int
    make_cpu_s: float  # the mean of a round
    look_cpu_s: float
    most_cpu_s: float  # of both, in the dearest round
    by_code: dict[str, float]


class _Fleet:
    def __init__(self, gpus: int, jobs: int) -> None:
        self._random = np.random.default_rng(0)
        self._each = gpus // jobs
        self._jobs = jobs
        self._window = TelemetryWindow()
        self._records = RankRecords()
        self._keys = [(f"GPU-{gpu}", "") for gpu in range(gpus)]
        self._workloads = [
            WorkloadKey("c", "ml", "kubeflow.org", "PyTorchJob", f"job-{job}", f"uid-{job}")
            for job in range(jobs)
        ]
        self._places = [
            Place(
                GpuUuid(uuid),
                "",
                "c",
                f"node-{gpu // 8}",
                str(gpu % 8),
                "NVIDIA H100 80GB HBM3",
                self._workloads[min(gpu // self._each, jobs - 1)],
                None,
                gpu % self._each,
            )
            for gpu, (uuid, _) in enumerate(self._keys)
        ]
        self._nodes = [NodeView("c", f"node-{node}", True) for node in range(-(-gpus // 8))]
        self._processes = [
            RankProcess(
                RunId(f"run-{job}"), rank, WriterId(f"{job * self._each + rank:032x}"), _START_MS, node="n"
            )
            for job in range(jobs)
            for rank in range(self._each)
        ]
        self._step = 0

    def scene(self, now_ms: int) -> Scene:
        fields = {field: Readings(self._keys, self._readings(field.name)) for field in FIELDS}
        self._window.extend(Block(now_ms, 1, fields))
        while _START_MS + (self._step + 1) * _STEP_MS <= now_ms:
            self._tell_step()
        heard = [replace(one, heard_ms=now_ms, step=self._step) for one in self._processes]
        rows = {one.writer: row for row, one in enumerate(self._processes)}
        views = self._records.processes(heard, now_ms, lambda process: rows[process.writer])
        jobs = [
            JobView(
                workload,
                "team",
                0,
                Phase.RUNNING,
                _START_MS,
                False,
                RunFacts(RunId(f"run-{job}"), _START_MS),
                views[RunId(f"run-{job}")],
                range(job * self._each, (job + 1) * self._each),
            )
            for job, workload in enumerate(self._workloads)
        ]
        return Scene(now_ms, self._window.telemetry(self._places), jobs, self._nodes)

    def _readings(self, name: str) -> NDArray[np.float64]:
        level = np.full((len(self._keys), 1), _LEVELS.get(name, 4e10))
        return level if name in _STEADY else level * self._random.normal(1, 0.01, level.shape)

    def _tell_step(self) -> None:
        start_ms = _START_MS + self._step * _STEP_MS
        took_us = round(1000 * _STEP_MS * self._random.normal(0.98, 0.01))
        phases, values = {"data": 40_000, "grad_sync": 200_000}, {"loss": 2.0, "grad_norm": 1.0}
        steps = [
            StepRecord(one.run, self._step, one.rank, 0, self._step, start_ms * 1000, took_us, phases)
            for one in self._processes
        ]
        steps = [replace(one, values=values) for one in steps]
        self._records.take(RunCommit(steps=steps), start_ms + _STEP_MS + 300)
        self._step += 1


def run(*, gpus: int = 10_000, jobs: int = 5_000) -> RoundResult:
    fleet, watch = _Fleet(gpus, jobs), Watch(all_detectors())
    making, looking = [], []
    by_code: dict[str, float] = {}
    for number in range(_ROUNDS + _MEASURED):
        began = time.process_time()
        scene = fleet.scene(_START_MS + (number + 1) * COLUMN_MS)
        made = time.process_time()
        changes = watch.look(scene)
        if changes.opened:
            raise AssertionError(f"a calm fleet is not calm: {changes.opened[0].finding.text}")
        if number >= _ROUNDS:
            making.append(made - began)
            looking.append(time.process_time() - made)
            for code, took_s in watch.took_s.items():
                by_code[code] = by_code.get(code, 0.0) + took_s / _MEASURED
    both = [one + other for one, other in zip(making, looking, strict=True)]
    return RoundResult(gpus, jobs, sum(making) / _MEASURED, sum(looking) / _MEASURED, max(both), by_code)


def main() -> None:
    numbers = [int(text) for text in sys.argv[1:3]]
    found = run(**dict(zip(("gpus", "jobs"), numbers, strict=False)))
    print(f"{found.gpus:,} GPUs, {found.jobs:,} jobs, CPU seconds a round:")
    print(f"  make {found.make_cpu_s:.2f}, look {found.look_cpu_s:.2f}, at most {found.most_cpu_s:.2f}")
    for code, took_s in sorted(found.by_code.items()):
        print(f"  {code} {took_s:.3f}")


if __name__ == "__main__":
    main()
