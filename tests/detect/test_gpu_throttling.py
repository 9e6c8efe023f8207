"""D004: GPUs that heat or the power brake slows down, and those that only run at another clock."""

from __future__ import annotations

import numpy as np
import pytest

from scenes import START_MS, Story
from trilens.detect.scene import Figure
from trilens.detect.throttling import Throttling
from trilens.model.finding import Severity
from trilens.model.workload import Doubt


def _found(story: Story, from_s: float = 650, to_s: float = 900):
    return story.findings(Throttling(), from_s, to_s)


def _slow(story: Story, *, hertz: float = 1.2e9, at_s: float = 700, rank: int = 3) -> None:
    story.level(Figure.SM_CLOCK, hertz, rows=[rank], from_s=at_s)


def _hot(story: Story, *, at_s: float = 700, rank: int = 3) -> None:
    story.level(Figure.TEMPERATURE, 87, rows=[rank], from_s=at_s)


@pytest.mark.parametrize(
    ("bits", "cause"), [(0x48, "thermal"), (0x20, "thermal"), (0x88, "power-brake"), (0x8, "hw-slowdown")]
)
def test_a_clock_that_is_held_down_is_named_with_what_is_lost(bits: int, cause: str) -> None:
    story = Story(seed=1)
    story.level(Figure.SM_CLOCK, 1.95e9, noise=0)
    story.level(Figure.SM_CLOCK, 1.2e9, rows=[3], from_s=700, noise=0)
    story.level(Figure.CLOCK_REASONS, bits, rows=[3], from_s=700, noise=0)
    at_s, finding = _found(story)[0]
    assert at_s - 700 <= 20
    assert (finding.code, finding.cause, finding.severity) == ("D004", cause, Severity.WARNING)
    assert (finding.subject.rank, finding.subject.gpu) == (3, "GPU-llm-3")
    assert finding.subject.team == "research"
    assert finding.onset_ms == START_MS + 700_000
    assert finding.figures["lost"] == pytest.approx(0.385, abs=0.001)
    assert finding.figures["slowdown"] == pytest.approx(1.625, abs=0.001)
    assert "has lost 38% of its compute" in finding.text
    assert finding.action
    assert {found.subject.rank for _, found in _found(story)} == {3}


def test_without_reasons_a_clock_that_falls_while_it_gets_hot() -> None:
    story = Story(seed=1)
    story.figures[Figure.CLOCK_REASONS][:] = np.nan
    _slow(story)
    _hot(story)
    at_s, finding = _found(story)[0]
    assert at_s - 700 <= 20
    assert (finding.cause, finding.subject.rank) == ("thermal", 3)
    assert finding.confidence < 0.9


def test_heat_that_comes_slowly() -> None:
    story = Story(seed=1)
    story.figures[Figure.CLOCK_REASONS][:] = np.nan
    warmer = np.clip((story.times_s - 400) / 300, 0, 1) * 20
    story.figures[Figure.TEMPERATURE][3] += warmer
    _slow(story)
    at_s, finding = _found(story)[0]
    assert at_s - 700 <= 20
    assert finding.subject.rank == 3


@pytest.mark.parametrize("what", ["power-cap", "locked", "idle", "hot-but-fast", "a-moment"])
def test_other_clocks_are_none(what: str) -> None:
    story = Story(seed=2)
    match what:
        case "power-cap":
            story.level(Figure.SM_CLOCK, 1.7e9, from_s=700, noise=6e7)
            story.level(Figure.CLOCK_REASONS, 0x4, noise=0)
        case "locked":  # by somebody: it gets cooler
            _slow(story)
            story.level(Figure.TEMPERATURE, 50, rows=[3], from_s=700)
        case "idle":
            story.level(Figure.SM_CLOCK, 3.45e8, rows=[3], from_s=700)
            story.level(Figure.UTILIZATION, 0, rows=[3], from_s=700, noise=0)
            story.level(Figure.CLOCK_REASONS, 0x1, rows=[3], from_s=700, noise=0)
        case "hot-but-fast":
            _hot(story)
            story.level(Figure.CLOCK_REASONS, 0x20, rows=[3], from_s=700, noise=0)
        case "a-moment":
            story.level(Figure.SM_CLOCK, 1.2e9, rows=[3], from_s=700, to_s=709)
            story.level(Figure.CLOCK_REASONS, 0x40, rows=[3], from_s=700, to_s=709, noise=0)
    assert not _found(story)


def test_a_gpu_that_was_slow_before_anybody_looked_is_measured_by_others_of_its_model() -> None:
    story = Story(seed=3)
    _slow(story, at_s=0)
    story.level(Figure.CLOCK_REASONS, 0x48, rows=[3], noise=0)
    (_, finding), *_ = _found(story, 600, 620)
    assert finding.subject.rank == 3
    assert finding.figures["lost"] == pytest.approx(0.38, abs=0.02)


def test_a_checkpoint_does_not_end_it_and_a_clock_that_is_back_does() -> None:
    story = Story(seed=4)
    _slow(story)
    story.level(Figure.CLOCK_REASONS, 0x48, rows=[3], from_s=700, to_s=850, noise=0)
    story.level(Figure.UTILIZATION, 0.02, from_s=760, to_s=800)
    story.level(Figure.SM_CLOCK, 1.95e9, rows=[3], from_s=850)
    seen = [at_s for at_s, _ in _found(story)]
    assert seen == [float(at) for at in range(int(seen[0]), int(seen[-1]) + 1, 5)]
    assert 845 <= seen[-1] <= 875


@pytest.mark.parametrize("every_s", [5, 30])
def test_readings_every_30_s_take_two(every_s: int) -> None:
    story = Story(seed=5, telemetry_every_s=every_s)
    _slow(story)
    story.level(Figure.CLOCK_REASONS, 0x48, rows=[3], from_s=700, noise=0)
    at_s, _ = _found(story)[0]
    assert at_s - 700 <= (20 if every_s == 5 else 60)


def test_suspect_readings_lower_the_confidence() -> None:
    story = Story(seed=6)
    _slow(story)
    story.level(Figure.CLOCK_REASONS, 0x48, rows=[3], from_s=700, noise=0)
    story.change = lambda scene: type(scene)(
        scene.now_ms, scene.telemetry, scene.jobs, suspects={3: (Doubt("frozen", "readings do not move"),)}
    )
    _, finding = _found(story)[0]
    assert finding.confidence < 0.7
    assert [doubt.code for doubt in finding.doubts] == ["frozen"]
