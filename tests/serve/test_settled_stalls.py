"""Stalls of a cluster at which somebody looks now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.finding import FindingKind, Severity, Subject
from trilens.serve.rehearsal import settled_stalls
from trilens.serve.rehearsal.settled_stalls import SettledStalls

if TYPE_CHECKING:
    from collections.abc import Iterator

ONSET_MS = 1_768_392_000_000


@pytest.fixture
def stalls(monkeypatch: pytest.MonkeyPatch) -> SettledStalls:
    """Whose detector finds one at every look, but for those of odd milliseconds."""

    class Finds:
        def look(self, scene: Any) -> Iterator[Any]:
            if scene.now_ms % 2:
                return
            yield SimpleNamespace(
                kind=FindingKind.STALL,
                severity=Severity.CRITICAL,
                subject=Subject(run="run"),
                onset_ms=ONSET_MS,
            )

    monkeypatch.setattr(settled_stalls, "Stall", Finds)
    return SettledStalls()


def looks(stalls: SettledStalls, *after_s: float) -> list[int]:
    scenes: list[Any] = [SimpleNamespace(now_ms=ONSET_MS + round(1000 * s)) for s in after_s]
    return [len(list(stalls.look(scene))) for scene in scenes]


def test_who_looks_once_does_not_say_that_a_job_stands(stalls: SettledStalls) -> None:
    assert looks(stalls, 60, 540, 1020) == [0, 0, 0]


def test_who_goes_on_looking_says_it_and_says_it_again_after_a_pause(stalls: SettledStalls) -> None:
    assert looks(stalls, 30, 60, 90, 570) == [0, 0, 1, 1]


def test_a_pause_between_two_looks_is_no_stall(stalls: SettledStalls) -> None:
    odd = 0.001
    assert looks(stalls, 30 + odd, 60 + odd, 90 + odd, 120, 150 + odd, 180) == [0, 0, 0, 0, 0, 0]
    assert looks(stalls, 210) == [1]
