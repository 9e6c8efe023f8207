"""Whether a run has become slower: its last steps against its fastest ones, and the time between steps."""

from __future__ import annotations

import random

import pytest

from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, RankSteps, SubjectKind
from trilens.diagnose.pace import SLOWER, paces


def _steps(ms: list[float], pauses: dict[int, float] | None = None, rank: int = 0) -> RankSteps:
    ends, now = [], 0.0
    for at, one in enumerate(ms):
        now += (pauses or {}).get(at, 2.0) + one
        ends.append(int(now))
    nobody = (None,) * len(ms)
    return RankSteps(rank, 0, tuple(range(len(ms))), tuple(ends), tuple(ms), nobody, nobody, nobody, nobody)


def _ratio(*steps: RankSteps) -> float | None:
    subject = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
    found = paces(Case(CaseFile(subject, 0, 1_000_000, steps=steps)))
    return found[0].whole_ratio if found else None


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_slower(seed: int) -> None:
    chance = random.Random(seed)
    ratio = _ratio(_steps([500 * chance.uniform(0.8, 1.3) for _ in range(200)]))
    assert ratio is not None
    assert ratio < SLOWER


def test_the_last_quarter_is_held_against_the_fastest() -> None:
    assert _ratio(_steps([9_000.0] * 3 + [500.0] * 100 + [750.0] * 40)) == pytest.approx(1.5)


def test_one_checkpoint_in_the_last_steps_is_not_slower() -> None:
    assert _ratio(_steps([500.0] * 100, {90: 60_000.0})) == pytest.approx(1.0)
    assert _ratio(_steps([500.0] * 100, {30: 58_000.0, 90: 60_000.0})) == pytest.approx(1.0)


def test_checkpoints_that_take_longer_and_longer_are() -> None:
    ratio = _ratio(_steps([500.0] * 100, {20: 5_000.0, 40: 5_000.0, 60: 40_000.0, 80: 50_000.0}))
    assert ratio is not None
    assert ratio > 2


def test_one_slow_rank_does_not_speak_for_all() -> None:
    slow = _steps([500.0] * 60 + [900.0] * 40, rank=3)
    assert _ratio(slow, *(_steps([500.0] * 100, rank=rank) for rank in range(3))) == pytest.approx(1.0)


def test_few_steps_say_nothing() -> None:
    assert _ratio(_steps([500.0] * 10 + [900.0] * 10)) is None
