"""What is usual for a GPU, and since when it is otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scenes import Story
from trilens.detect.readings import LatestReadings, Usual, began, is_fast, last_told
from trilens.detect.scene import Figure, Telemetry


def _learnt(story: Story, usual: Usual, from_s: int, to_s: int) -> Usual:
    for scene in story.scenes(from_s, to_s):
        usual.look(scene.telemetry, LatestReadings(scene.telemetry))
    return usual


def test_what_is_usual_is_that_of_work_and_trouble_does_not_become_it() -> None:
    story = Story(ranks=2)
    story.level(Figure.UTILIZATION, 0, to_s=300, noise=0)
    story.level(Figure.POWER, 80, to_s=300)
    story.level(Figure.POWER, 125, from_s=900)  # it spins
    usual = _learnt(story, Usual(Figure.POWER, follows_to=0.7), 600, 1500)
    assert np.allclose(usual.levels, 620, rtol=0.05)
    assert usual.is_known.all()


def test_it_follows_work_that_becomes_lighter_only_slowly() -> None:
    story = Story(ranks=1, seconds=3600)
    story.level(Figure.POWER, 500, from_s=900)
    usual = Usual(Figure.POWER, follows_to=0.7)
    assert _learnt(story, usual, 600, 960).levels[0] > 580
    assert _learnt(story, usual, 965, 3500).levels[0] < 530


def test_another_job_on_the_same_gpu_begins_anew() -> None:
    story = Story(ranks=1)
    usual = _learnt(story, Usual(Figure.POWER, follows_to=0.7), 600, 700)
    scene = story.scene(705)
    other = [place._replace(pod=None, workload=None) for place in scene.telemetry.places]
    nothing = {figure: values[:, -1:] for figure, values in scene.telemetry.figures.items()}
    later = Telemetry(other, scene.telemetry.times_ms[-1:], nothing)
    usual.look(later, LatestReadings(later))
    assert not usual.is_known.any()


def test_rows_may_move() -> None:
    story = Story(ranks=3)
    story.level(Figure.POWER, 300, rows=[1], noise=0)
    usual = _learnt(story, Usual(Figure.POWER, follows_to=0.7), 600, 700)
    scene = story.scene(705)
    order = [2, 0, 1]
    telemetry = replace(
        scene.telemetry,
        places=[scene.telemetry.places[row] for row in order],
        figures={figure: values[order] for figure, values in scene.telemetry.figures.items()},
    )
    usual.look(telemetry, LatestReadings(telemetry))
    assert usual.levels[2] == 300
    assert (usual.levels[:2] > 550).all()


def test_the_last_that_was_told() -> None:
    nan = np.nan
    assert last_told(np.array([[1, 2, nan], [3, nan, nan]], np.float32)).tolist() == [2, 3]
    assert np.isnan(last_told(np.array([[nan, nan]], np.float32))).all()


def test_since_when() -> None:
    told = np.array([True, True, False, True, True])
    assert began(np.array([False, True, False, True, True]), told) == 1
    assert began(np.array([True] * 5), told) == 0
    assert began(np.array([True, True, True, True, False]), told) is None
    assert began(np.array([True] * 5), ~told & told) is None


def test_how_often_it_reports() -> None:
    assert is_fast(Story(ranks=1).scene(600).telemetry, 0)
    assert not is_fast(Story(ranks=1, telemetry_every_s=30).scene(600).telemetry, 0)
