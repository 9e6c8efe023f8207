"""D006: losses that stop falling, and those that only fall slowly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scenes import Story
from trilens.detect.plateau import Plateau, slope_of
from trilens.detect.watch import Watch
from trilens.model.finding import Severity

if TYPE_CHECKING:
    from trilens.detect.scene import Scene


def _story(
    loss, *, steps: int = 3600, seed: int = 1, noise: float = 0.012, total: int | None = None
) -> Story:
    story = Story(ranks=2, step_s=0.5, seconds=steps // 2, seed=seed, total_steps=total)
    random = np.random.default_rng(seed)
    for columns in story.steps:
        shaken = 1 + noise * random.standard_normal(len(columns.step))
        columns.loss = loss(columns.step.astype(float)) * shaken
    return story


def _found(story: Story, from_s: float = 100):
    return story.findings(Plateau(), from_s, story.seconds, 10)


def _falls(step: np.ndarray) -> np.ndarray:
    return 2 + 9 * (1 + step / 30) ** -0.42


def _stops(at: int):
    return lambda step: _falls(np.minimum(step, at))


@pytest.mark.parametrize("at", [600, 1200])
def test_a_loss_that_stops_falling(at: int) -> None:
    story = _story(_stops(at))
    at_s, finding = _found(story)[0]
    stopped_s = float(story.steps[0].end_s[at])
    assert (finding.code, finding.cause, finding.severity) == ("D006", "loss-flat", Severity.INFO)
    assert 300 <= at_s - stopped_s <= 540
    assert abs(finding.figures["step"] - at) <= 0.2 * at
    assert finding.figures["loss"] == pytest.approx(float(_falls(np.array(at))), rel=0.01)
    assert "learning rate" in finding.action


CALM = {
    "falls": _falls,
    "rests": lambda step: _falls(np.where((step > 1000) & (step < 1500), 1000, step)),  # for 4 minutes
    "falls-in-stairs": lambda step: 2 + 9 * (1 + np.floor(step / 150) * 150 / 30) ** -0.42,
    "never-fell": lambda step: np.full_like(step, 2.3),
    "rises": lambda step: 2 + step / 2000,
    "linear": lambda step: 10 - step / 600,
    "diverges": lambda step: _falls(step) * np.where(step > 1000, 1 + (step - 1000) / 500, 1),
    "jumps-up": lambda step: _falls(step) + np.where(step > 1000, 3, 0),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("how", CALM)
def test_calm_ones(how: str, seed: int) -> None:
    assert not _found(_story(CALM[how], seed=seed))


@pytest.mark.parametrize("noise", [0.05, 0.15])
def test_where_noise_hides_it_nothing_is_said(noise: float) -> None:
    assert not _found(_story(_falls, noise=noise))


def test_the_end_of_a_schedule_is_meant_to_be_flat() -> None:
    assert not _found(_story(_stops(600), steps=1200, total=900))


def test_it_ends_when_the_loss_falls_again() -> None:
    story = _story(lambda step: np.where(step < 1800, _stops(800)(step), 0.9 * _stops(800)(step)))
    fell_s = float(story.steps[0].end_s[1800])
    seen = [at_s for at_s, _ in _found(story)]
    assert seen[0] < fell_s
    assert not [at_s for at_s in seen if fell_s + 30 < at_s < fell_s + 130]  # later it is flat once more


def _after_a_restart(story: Story, at_s: float) -> tuple[Watch, Scene]:
    """What lasted then, and a scene of soon after, with the few steps that a server reads again."""
    before = Watch([Plateau()])
    for scene in story.scenes(100, at_s, 10):
        before.look(scene)
    (lasting,) = before.open
    for columns in story.steps:
        columns.keep(columns.end_s > at_s - 90)
    after = Watch([Plateau()])
    after.restore([lasting], lasting.seen_ms)
    return after, story.scene(at_s + 60)


def test_it_goes_on_after_a_restart_although_its_curve_is_not_known_any_more() -> None:
    watch, scene = _after_a_restart(_story(_stops(800)), 1500)
    (lasts,) = watch.look(scene).going_on
    assert lasts.seen_ms == scene.now_ms
    assert lasts.finding.figures["steps"] == pytest.approx(3120 - 800, rel=0.2)
    assert "factor of e" in lasts.finding.evidence[0].text
    assert not Watch([Plateau()]).look(scene).opened, "by these steps alone nobody could tell"


def test_it_is_over_after_a_restart_once_the_loss_falls_again() -> None:
    story = _story(lambda step: np.where(step < 3010, _stops(800)(step), 0.9 * _stops(800)(step)))
    watch, scene = _after_a_restart(story, 1500)
    assert watch.look(scene).ended


def test_what_began_anew_meanwhile_is_not_flat_yet() -> None:
    watch, scene = _after_a_restart(_story(_stops(800)), 1500)
    (job,) = scene.jobs
    ranks = [
        replace(one, process=replace(one.process, started_ms=scene.now_ms - 30_000)) for one in job.ranks
    ]
    assert watch.look(replace(scene, jobs=[replace(job, ranks=ranks)])).ended


def test_the_slope_has_an_interval() -> None:
    x = np.linspace(0, 1, 20)
    low, middle, high = slope_of(x, 3 * x + 0.05 * np.sin(40 * x))
    assert low < middle < high
    assert middle == pytest.approx(3, abs=0.1)
    assert low < 3 < high
