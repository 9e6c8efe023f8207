"""Findings over their life."""

from __future__ import annotations

import logging

import pytest

from scenes import START_MS, Story
from trilens.detect.watch import Watch
from trilens.model.finding import Finding, FindingKind, Severity, Subject


class Scripted:
    """Finds what it is told to, at these seconds."""

    def __init__(self, *at_s: float, code: str = "D900") -> None:
        self.code = code
        self._at_s = at_s

    def look(self, scene):
        at_s = (scene.now_ms - START_MS) / 1000
        if at_s in self._at_s:
            yield Finding(
                self.code,
                FindingKind.STALL,
                Subject(node="n"),
                Severity.WARNING,
                "why",
                scene.now_ms - 1000,
                f"seen at {at_s:g}",
                "do",
            )


class Broken:
    code = "D901"

    def __init__(self) -> None:
        self.is_broken = False

    def look(self, scene):
        if self.is_broken:
            raise RuntimeError("a defect")
        return Scripted(*range(0, 1000, 5), code="D901").look(scene)


@pytest.fixture(scope="module")
def story() -> Story:
    return Story(ranks=1, seconds=300)


def test_a_finding_opens_goes_on_and_ends(story: Story) -> None:
    watch = Watch([Scripted(10, 15, 25)])
    seen = {}
    for scene in story.scenes(0, 60):
        changes = watch.look(scene)
        at_s = (scene.now_ms - START_MS) // 1000
        seen[at_s] = (len(changes.opened), len(changes.going_on), len(changes.ended))
        if changes.ended:
            (ended,) = changes.ended
            assert ended.detected_ms == START_MS + 10_000
            assert ended.finding.onset_ms == START_MS + 9_000
            assert ended.finding.text == "seen at 25"
            assert ended.ended_ms == ended.seen_ms == START_MS + 25_000
    assert seen[10] == (1, 0, 0)
    assert seen[15] == seen[20] == seen[40] == (0, 1, 0)
    assert seen[45] == (0, 0, 1)
    assert seen[50] == (0, 0, 0)
    assert not watch.open


def test_a_detector_that_fails_silences_no_other_and_ends_nothing(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    watch = Watch([broken, Scripted(*range(0, 300, 5))])
    watch.look(story.scene(5))
    broken.is_broken = True
    with caplog.at_level(logging.ERROR):
        for scene in story.scenes(10, 100):
            changes = watch.look(scene)
            assert {one.finding.code for one in changes.going_on} == {"D900", "D901"}
    assert watch.failures == {"D901": 19}
    assert len(caplog.records) == 1


def test_what_lasted_before_a_restart_goes_on_or_ends(story: Story) -> None:
    before = Watch([Scripted(10)])
    (interval,) = before.look(story.scene(10)).opened
    goes_on = Watch([Scripted(110)])
    goes_on.restore([interval], START_MS + 100_000)
    assert not goes_on.look(story.scene(105)).opened
    (again,) = goes_on.look(story.scene(110)).going_on
    assert again.detected_ms == interval.detected_ms
    ends = Watch([])
    ends.restore([interval], START_MS + 100_000)
    assert not ends.look(story.scene(105)).ended
    (ended,) = ends.look(story.scene(120)).ended
    assert ended.ended_ms == START_MS + 10_000
