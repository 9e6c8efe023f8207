"""How long GPUs were held: each once, and nothing said where nobody told."""

from __future__ import annotations

import pytest

from trilens.lineage.gpu_time import gpu_time
from trilens.model.run import RankProcess, RunId, WriterId

NOW_MS = 100_000


def held(*gpus: str, start_s: int = 0, end_s: int | None = 10, rank: int = 0) -> RankProcess:
    ended_ms = None if end_s is None else end_s * 1000
    return RankProcess(RunId("r"), rank, WriterId("w"), start_s * 1000, gpus=gpus, ended_ms=ended_ms)


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        ([held("A"), held("B", rank=1)], 20),
        ([held("A", "B")], 20),
        ([held("A"), held("A", rank=1)], 10),
        ([held("A"), held("A", start_s=5, end_s=15, rank=1)], 15),
        ([held("A", end_s=20), held("A", start_s=5, end_s=10, rank=1)], 20),
        ([held("A"), held("A", start_s=50, end_s=60)], 20),
        ([held("A", end_s=None)], 100),
        ([held("A", start_s=10, end_s=5)], 0),
    ],
    ids=["two", "two of one", "shared", "overlapping", "inside", "restarted", "running", "clock set back"],
)
def test_what_is_held_is_counted_once(processes: list[RankProcess], seconds: float) -> None:
    found = gpu_time(processes, NOW_MS)
    assert found is not None
    assert found.seconds == seconds
    assert found.silent == 0


def test_nobody_told_of_a_gpu() -> None:
    assert gpu_time([], NOW_MS) is None
    assert gpu_time([held(), held(rank=1)], NOW_MS) is None


def test_who_did_not_tell_is_counted() -> None:
    found = gpu_time([held("A"), held(rank=1)], NOW_MS)
    assert found is not None
    assert found.silent == 1


def test_over_which_time_and_whether_it_goes_on() -> None:
    over = gpu_time([held("A", start_s=3), held("B", start_s=1, end_s=7, rank=1)], NOW_MS)
    assert over is not None
    assert (over.gpus, over.from_ms, over.to_ms, over.is_over) == ({"A", "B"}, 1_000, 10_000, True)
    going_on = gpu_time([held("A"), held("B", end_s=None, rank=1)], NOW_MS)
    assert going_on is not None
    assert (going_on.to_ms, going_on.is_over) == (NOW_MS, False)
