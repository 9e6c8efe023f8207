"""What detectors say to a real H200 that trains, saves, waits, hangs, and runs at a lower clock."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scenes import EVERY_S, START_MS
from trilens.detect.cpu_fallback import CpuFallback
from trilens.detect.hang import Hang
from trilens.detect.scene import Figure, JobView, Place, RankView, Scene, Steps, Telemetry, ToldBy
from trilens.detect.throttling import Throttling
from trilens.model.life import Phase
from trilens.model.run import RankProcess, RunFacts, RunId, WriterId
from trilens.model.workload import GpuUuid, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.detect.detector import Detector

TRACE = Path(__file__).parents[2] / "bench" / "detect" / "h200"
JOB = WorkloadKey("c1", "ml", "kubeflow.org", "PyTorchJob", "llm", "uid-llm")
COLUMNS = {
    Figure.UTILIZATION: ("utilization", 0.01),
    Figure.POWER: ("watts", 1.0),
    Figure.SM: ("sm", 0.01),
    Figure.TENSOR: ("tensor", 0.01),
    Figure.TEMPERATURE: ("celsius", 1.0),
    Figure.SM_CLOCK: ("sm_mhz", 1e6),
    Figure.CLOCK_REASONS: ("reasons", 1.0),
}


class Trace:
    def __init__(self) -> None:
        rows = _rows("telemetry")
        self.t = np.array([float(row["t"]) for row in rows])
        self.figures = {
            figure: np.array([float(row[name] or "nan") * unit for row in rows], np.float32)
            for figure, (name, unit) in COLUMNS.items()
        }
        self.phases = [(row["phase"], float(row["from"]), float(row["to"])) for row in _rows("phases")]
        steps = _rows("steps")
        self.end_s = np.array([float(row["end"]) for row in steps])
        self.took_s = np.array([float(row["seconds"]) for row in steps])

    def between(self, phase: str) -> tuple[float, float]:
        return next((begin, end) for name, begin, end in self.phases if name == phase)

    def scenes(self, without: frozenset[Figure] = frozenset()) -> Iterator[tuple[float, Scene]]:
        place = Place(GpuUuid("GPU-0"), "", "c1", "node-0", "0", "NVIDIA H200", JOB, None, 0)
        times = np.arange(0, self.t[-1], EVERY_S)
        at = np.searchsorted(self.t, times)
        figures = {
            figure: values[at][None, :] for figure, values in self.figures.items() if figure not in without
        }
        for stop in range(2, len(times) + 1):
            now_s, now_ms = float(times[stop - 1]), START_MS + int(times[stop - 1] * 1000)
            told = slice(0, int(np.searchsorted(self.end_s, now_s - 1)))
            nothing = np.full(told.stop, np.nan)
            steps = Steps(
                np.arange(told.stop),
                START_MS + np.rint(self.end_s[told] * 1000).astype(np.int64),
                self.took_s[told] * 1000,
                np.zeros(told.stop),
                np.zeros(told.stop),
                nothing,
                nothing,
            )
            process = RankProcess(
                RunId("run"), 0, WriterId("0" * 32), START_MS, node="node-0", heard_ms=now_ms
            )
            rank = RankView(0, ToldBy.RECORDS, steps, now_ms, process, row=0)
            facts = RunFacts(RunId("run"), START_MS)
            job = JobView(JOB, "research", 0, Phase.RUNNING, START_MS, False, facts, [rank], [0])
            telemetry = Telemetry(
                [place],
                START_MS + (times[:stop] * 1000).astype(np.int64),
                {figure: values[:, :stop] for figure, values in figures.items()},
            )
            yield now_s, Scene(now_ms, telemetry, [job])


def _rows(name: str) -> list[dict[str, str]]:
    with (TRACE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Trace()


def _found(trace: Trace, detector: Detector, *without: Figure):
    return [(s, one) for s, scene in trace.scenes(frozenset(without)) for one in detector.look(scene)]


@pytest.mark.parametrize("without", [(), (Figure.SM, Figure.TENSOR)], ids=["prof", "no-prof"])
def test_the_hang_is_named_in_seconds_and_no_pause_is(trace: Trace, without: tuple[Figure, ...]) -> None:
    begin_s, end_s = trace.between("hang")
    found = _found(trace, Hang(), *without)
    assert 8 <= found[0][0] - begin_s <= 20
    assert {(finding.cause, finding.subject.rank) for _, finding in found} == {("kernel", 0)}
    assert all(begin_s < at_s <= end_s + 20 for at_s, _ in found)


def test_neither_a_power_cap_nor_a_locked_clock_is_throttling(trace: Trace) -> None:
    assert not _found(trace, Throttling())
    assert not _found(trace, Throttling(), Figure.CLOCK_REASONS)


@pytest.mark.parametrize("without", [(), (Figure.SM, Figure.TENSOR)], ids=["prof", "no-prof"])
def test_the_fallback_is_told_from_a_job_that_is_short_of_data(
    trace: Trace, without: tuple[Figure, ...]
) -> None:
    assert not _found(trace, CpuFallback(), *without)
    begin_s, end_s = trace.between("cpu-fallback")
    goes_on = Trace()
    slow = np.arange(begin_s + 2, end_s, 2.0)  # the trace has the GPU's steps alone
    at = np.searchsorted(goes_on.end_s, begin_s)
    goes_on.end_s = np.insert(goes_on.end_s, at, slow)
    goes_on.took_s = np.insert(goes_on.took_s, at, np.full(len(slow), 2.0))
    found = _found(goes_on, CpuFallback(), *without)
    assert 25 <= found[0][0] - begin_s <= 40
    assert all(begin_s < at_s <= end_s + 5 for at_s, _ in found)
