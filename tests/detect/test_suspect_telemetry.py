"""D008: readings that are not to be believed, and whom that makes doubtful."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenes import HUNG, IDLE, START_MS, Story
from trilens.detect.scene import Figure
from trilens.detect.suspect_telemetry import SuspectTelemetry
from trilens.detect.watch import Watch
from trilens.model.run import Ending


def _found(story: Story, from_s: float = 600, to_s: float = 1300, every_s: float = 5):
    return story.findings(SuspectTelemetry(), from_s, to_s, every_s)


@pytest.mark.parametrize("every_s", [5, 30])
@pytest.mark.parametrize("seed", range(2))
def test_calm_telemetry_is_believed(every_s: int, seed: int) -> None:
    assert not _found(Story(telemetry_every_s=every_s, seed=seed))


@pytest.mark.parametrize("state", [IDLE, HUNG], ids=["idle", "hung"])
def test_idle_and_hung_gpus_are_believed(state: dict) -> None:
    story = Story()
    story.state(state, from_s=700)
    assert not _found(story)


@pytest.mark.parametrize("every_s", [5, 30])
def test_counters_at_0_under_load_are_stuck(every_s: int) -> None:
    story = Story(telemetry_every_s=every_s)
    for figure in (Figure.SM, Figure.TENSOR):
        story.level(figure, 0.0, rows=[2], from_s=800, noise=0)
    at_s, finding = _found(story)[0]
    assert at_s - 800 <= 8 * every_s
    assert (finding.cause, finding.subject.gpu) == ("prof-stuck", "GPU-llm-2")
    assert finding.subject.rank == 2
    assert finding.text
    assert finding.action


def test_without_sm_activity_work_that_needs_no_tensor_cores_is_believed() -> None:
    story = Story()
    del story.figures[Figure.SM]
    story.figures[Figure.TENSOR][3] = 0.0
    assert not _found(story)


@pytest.mark.parametrize(("every_s", "least_s", "most_s"), [(5, 60, 150), (30, 120, 210), (60, 240, 420)])
def test_readings_that_freeze_to_the_bit_are_not_believed(every_s: int, least_s: int, most_s: int) -> None:
    story = Story(telemetry_every_s=every_s)
    for values in story.figures.values():
        later = values[1, 160:]  # from 800 s on
        later[~np.isnan(later)] = later[~np.isnan(later)][0]
    at_s, finding = _found(story)[0]
    assert finding.cause == "frozen"
    assert least_s <= at_s - 800 <= most_s
    assert abs(finding.onset_ms - story.scene(800).now_ms) <= every_s * 1000


def test_a_node_of_which_nothing_is_said_is_a_gap() -> None:
    story = Story(ranks=16)
    story.gap(800, 1800, rows=range(8, 16))
    at_s, finding = _found(story)[0]
    assert (finding.cause, finding.subject.node, finding.subject.gpu) == ("gap", "node-1", None)
    assert 40 <= at_s - 800 <= 60


def test_a_gpu_that_never_said_anything_hides_no_gap() -> None:
    story = Story(ranks=16)
    story.gap(0, 1800, rows=[15])
    story.gap(800, 1800, rows=range(8, 15))
    assert ("gap", "node-1") in {(one.cause, one.subject.node) for _, one in _found(story)}


def test_many_nodes_that_fall_silent_together_are_one_finding() -> None:
    """Also while the first of them are due, and while the last ones come back."""
    story = Story(ranks=96)
    for node in range(12):
        story.gap(800 + 2 * node, 1000 + 2 * node, rows=range(8 * node, 8 * node + 8))
    found = _found(story)
    assert {(one.cause, one.subject.node, one.subject.gpu) for _, one in found} == {("gap", None, None)}
    assert {one.subject.cluster for _, one in found} == {story.scene(800).telemetry.places[0].cluster}
    assert max(one.figures["count"] for _, one in found) == 96
    assert any("12 of 12 nodes" in one.text for _, one in found)


def test_a_few_nodes_that_fall_silent_are_told_each() -> None:
    story = Story(ranks=96)
    story.gap(800, 1000, rows=range(72))
    nodes = {one.subject.node for _, one in _found(story)}
    assert nodes == {f"node-{number}" for number in range(9)}


def test_a_short_gap_and_a_node_that_is_off_are_none() -> None:
    story = Story(ranks=16)
    story.gap(700, 735)
    story.gap(800, 1800, rows=range(8, 16))
    story.node_ready("node-1", 800, is_ready=False)
    assert not _found(story)


def test_a_node_that_was_taken_away_is_no_gap() -> None:
    story = Story(ranks=16)
    story.gap(800, 1800, rows=range(8, 16))
    story.change = lambda scene: replace(scene, nodes=scene.nodes[:1])
    assert not _found(story)


def test_several_gpus_of_a_node_with_one_trouble_are_one_finding() -> None:
    story = Story()
    for figure in (Figure.SM, Figure.TENSOR):
        story.level(figure, 0.0, from_s=800, noise=0)
    found = [one for at_s, one in _found(story) if at_s == 1000]
    assert [(one.subject.node, one.subject.gpu) for one in found] == [("node-0", None)]
    assert found[0].figures["count"] == 8


def test_what_dcgm_does_not_know_any_more_is_suspect() -> None:
    story = Story()
    blank = np.array([row == 4 for row in range(8)])

    def with_blanks(scene):
        telemetry = replace(scene.telemetry, blanks={Figure.TEMPERATURE: blank})
        return replace(scene, telemetry=telemetry)

    story.change = with_blanks
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.gpu) == ("sentinel", "GPU-llm-4")
    story.figures[Figure.TEMPERATURE][4] = np.nan  # never known: not supported
    assert not _found(story)


def test_a_grave_xid_that_the_gauge_holds_is_told_as_old() -> None:
    story = Story()
    story.figures[Figure.XID][0] = 79
    story.figures[Figure.XID][1] = 31  # a program's: they abound
    found = _found(story)
    assert {(one.cause, one.subject.gpu) for _, one in found} == {("latched-xid", "GPU-llm-0")}


def test_a_pods_name_that_vanishes_while_the_pod_runs() -> None:
    story = Story()

    def without_labels(scene):
        named = scene.now_ms < START_MS + 800_000
        places = [place._replace(is_labelled=named or place.rank != 3) for place in scene.telemetry.places]
        return replace(scene, telemetry=replace(scene.telemetry, places=places))

    story.change = without_labels
    at_s, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("lost-labels", 3)
    assert 30 <= at_s - 800 <= 40
    story.pod(0, 805, state="Succeeded")
    assert not _found(story)


def test_programs_that_nobody_hears_while_their_gpus_work() -> None:
    story = Story()
    for rank in range(8):
        story.silence(rank, 800)
        story.end(rank, 806, Ending.LOST)
    at_s, finding = _found(story)[0]
    assert (finding.cause, finding.subject.workload) == ("programs-silent", story.workload)
    assert at_s - 800 <= 40


def test_what_is_suspect_is_known_to_the_detectors_that_come_after() -> None:
    story = Story()
    for figure in (Figure.SM, Figure.TENSOR):
        story.level(figure, 0.0, rows=[2], from_s=800, noise=0)
    seen = {}

    class Later:
        code = "D999"

        def look(self, scene):
            seen.update({row: [doubt.code for doubt in why] for row, why in scene.suspects.items()})
            return ()

    watch = Watch([Later(), SuspectTelemetry()])
    for scene in story.scenes(900, 950):
        watch.look(scene)
    assert seen == {2: ["telemetry-prof-stuck"]}
