"""D007: losses and gradients that run away, and those that come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenes import START_MS, Story, joined
from trilens.detect.divergence import Divergence
from trilens.detect.scene import ToldBy
from trilens.model.finding import Severity

STEP = 300  # at which it begins


def _found(story: Story, from_s: float = 500, to_s: float = 1000):
    return story.findings(Divergence(), from_s, to_s)


def _when(story: Story, step: int = STEP) -> float:
    return float(story.steps[0].end_s[step])


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_loss_that_is_not_a_number(ranks: int) -> None:
    story = Story(ranks=ranks, seed=1)
    for rank, columns in enumerate(story.steps):
        columns.loss[STEP:] = np.nan
        story.note(rank, "nonfinite", _when(story), value="loss")
        story.notes[-1] = type(story.notes[-1])(**{**_fields(story.notes[-1]), "step": STEP})
    at_s, finding = _found(story)[0]
    assert at_s - _when(story) <= 3 * story.step_s + 7
    assert (finding.code, finding.cause, finding.severity) == ("D007", "nan", Severity.CRITICAL)
    assert (finding.figures["step"], finding.subject.rank) == (STEP, None)
    assert abs(finding.onset_ms - START_MS - 1000 * _when(story)) <= 10
    assert f"before step {STEP}" in finding.action


def _fields(note):
    return {name: getattr(note, name) for name in note.__dataclass_fields__}


def test_the_rank_that_was_first() -> None:
    story = Story(ranks=4, seed=2)
    for rank, columns in enumerate(story.steps):
        columns.loss[STEP + (rank != 2) :] = np.inf
    _, finding = _found(story)[0]
    assert (finding.subject.rank, finding.figures["step"]) == (2, STEP)
    assert "first on rank 2" in finding.text


def test_metrics_alone_tell_of_it_with_less_confidence() -> None:
    story = Story(ranks=2, seed=3, told_by=ToldBy.METRICS)
    for columns in story.steps:
        columns.loss[STEP:] = np.nan
    _, finding = _found(story)[0]
    assert finding.cause == "nan"
    assert finding.confidence < 0.9


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("how", ["jumps", "climbs"])
def test_a_loss_that_rises_and_stays(how: str, every: int) -> None:
    story, first = Story(ranks=4, seed=4, seconds=2400), 2 * STEP
    later = np.arange(len(story.steps[0].step)) - first
    for columns in story.steps:
        up = 2.0 if how == "jumps" else np.clip(later / 40, 0, None)
        columns.loss = np.where(later >= 0, columns.loss + up, columns.loss)
        columns.loss[columns.step % every != 0] = np.nan
    at_s, finding = _found(story, 1000, 2000)[0]
    assert (finding.cause, finding.subject.rank) == ("loss-rising", None)
    until_far = 60 if how == "climbs" else 0  # steps, until it is 30 % above
    assert at_s - _when(story, first) <= (11 * every + until_far) * story.step_s + 7
    assert abs(finding.figures["step"] - first) <= until_far + 4
    assert finding.figures["value"] > 1.3 * finding.figures["usual"]


@pytest.mark.parametrize("how", ["explosion", "vanishing", "nothing"])
def test_gradients_that_run_away(how: str) -> None:
    story = Story(ranks=2, seed=5)
    for columns in story.steps:
        columns.grad_norm[STEP:] *= {"explosion": 80, "vanishing": 1e-4, "nothing": 1e-9}[how]
    at_s, finding = _found(story)[0]
    assert finding.cause == ("gradient-explosion" if how == "explosion" else "gradient-vanishing")
    assert finding.figures["step"] == STEP
    assert at_s - _when(story) <= 11 * story.step_s + 7


CALM = [
    "calm",
    "spike",
    "bad-batch",
    "skipped",
    "noisy",
    "not-logged",
    "warm-up",
    "rare-log",
    "negative",
    "zero",
]


@pytest.mark.parametrize("how", CALM)
def test_calm_ones(how: str) -> None:
    story = Story(ranks=3, seed=6)
    after = np.arange(len(story.steps[0].step)) - STEP
    random = np.random.default_rng(6)
    for rank, columns in enumerate(story.steps):
        match how:
            case "spike":
                columns.loss[STEP : STEP + 6] *= 4
                columns.grad_norm[STEP : STEP + 3] *= 100
            case "bad-batch":  # comes down by a factor of e in six steps
                columns.loss = np.where(after >= 0, columns.loss * (1 + 4 * np.exp(-after / 6)), columns.loss)
            case "skipped":  # mixed precision found an infinity, and went on
                columns.grad_norm[STEP::50] = np.inf
                columns.loss[STEP] = np.nan
                story.note(rank, "nonfinite", _when(story), value="loss")
            case "noisy":
                columns.loss = 2 + 0.6 * np.abs(random.standard_normal(len(after)))
            case "not-logged":
                columns.loss[STEP:] = np.nan
            case "warm-up":
                columns.grad_norm = 1.2 + 8 * np.exp(-columns.step / 10)
            case "rare-log":
                columns.loss[columns.step % 20 != 0] = np.nan
            case "negative":  # a log likelihood
                columns.loss = -3 + 0.05 * random.standard_normal(len(after))
            case "zero":
                columns.loss = 1e-4 * np.random.default_rng(3).standard_normal(len(after))
    assert not _found(story, 20, 1200)


def test_it_ends_when_the_loss_is_back() -> None:
    story = Story(ranks=2, seed=7)
    for columns in story.steps:
        columns.loss[STEP : STEP + 60] += 2
    seen = [at_s for at_s, _ in _found(story)]
    assert seen
    assert seen[-1] <= _when(story, STEP + 60) + 6 * story.step_s + 5


def test_a_run_that_goes_on_long_after_is_still_found() -> None:
    story = Story(ranks=2, seed=8, step_s=0.5)
    for columns in story.steps:
        columns.loss[1200:] += 2  # what was usual is long out of sight
    assert _found(story, 500, 1700)[-1][0] >= 1690


def test_jobs_that_only_their_metrics_name_are_told_apart() -> None:
    stories = [Story(ranks=1, seed=seed, name=name) for seed, name in enumerate(("a", "b"))]
    for columns in stories[1].steps:
        columns.loss[STEP:] += 4
    detector, found = Divergence(), []
    for at_s in range(500, 800, 5):
        scene = joined(*(story.scene(at_s) for story in stories))
        jobs = [
            replace(job, workload=None, run=None, name=story.name)
            for job, story in zip(scene.jobs, stories, strict=True)
        ]
        found += detector.look(replace(scene, jobs=jobs))
    assert {finding.text.partition(" diverges")[0] for finding in found} == {"job b"}
