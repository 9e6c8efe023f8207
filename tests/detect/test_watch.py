"""Findings over their life."""

from __future__ import annotations

import logging

import pytest

from scenes import START_MS, Story
from trilens.detect.watch import Watch
from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.run import RunId
from trilens.model.workload import GpuUuid, WorkloadKey
from trilens.serve.detection.finding_series import finding_samples


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


class Learning:
    """Finds, at every look, what is next in a list; None is nothing."""

    code = "D902"

    def __init__(self, *told: Finding | tuple[Finding, ...] | None) -> None:
        self._told = iter(told)

    def look(self, _scene):
        one = next(self._told)
        return [] if one is None else one if isinstance(one, tuple) else [one]


def told(kind: FindingKind, *, cause: str = "", severity: Severity = Severity.WARNING, **subject) -> Finding:
    return Finding("D902", kind, Subject(**subject), severity, cause, START_MS, f"{cause} {subject}", "do")


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
    assert not ends.look(story.scene(185)).ended, "a detector takes its time to see it again"
    (ended,) = ends.look(story.scene(190)).ended
    assert ended.ended_ms == START_MS + 10_000


JOB = WorkloadKey("c1", "ml", "batch", "Job", "llm", "u")
RUN, OTHER_RUN = RunId("r1"), RunId("r2")
GPU = GpuUuid("GPU-elsewhere")
STALL, HANG, SLOW, FAULT = FindingKind.STALL, FindingKind.HANG, FindingKind.STRAGGLER, FindingKind.GPU_FAULT


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (told(STALL, workload=JOB), told(STALL, workload=JOB, rank=3, node="n1", gpu=GPU)),
        (
            told(STALL, workload=JOB, rank=3, cause="unknown"),
            told(STALL, workload=JOB, rank=5, cause="gil-held"),
        ),
        (told(HANG, workload=JOB), told(HANG, workload=JOB, run=RUN, team="vision")),
        (told(HANG, workload=JOB, run=RUN), told(HANG, workload=JOB)),
        (told(HANG, run=RUN), told(HANG, run=RUN, workload=JOB)),
        (told(STALL, job_name="train"), told(STALL, job_name="train", rank=1, node="n1")),
        (told(SLOW, workload=JOB, rank=3), told(SLOW, workload=JOB, rank=3, node="n1", cause="data")),
        (
            told(FAULT, gpu=GPU, cause="lost"),
            told(FAULT, gpu=GPU, node="n1", workload=JOB, rank=2, cause="lost"),
        ),
        (told(FAULT, gpu=GPU, severity=Severity.CRITICAL), told(FAULT, gpu=GPU, node="n1")),
    ],
    ids=["rank", "cause", "run", "run-lost", "workload", "name", "straggler", "holder", "less-grave"],
)
def test_a_finding_of_which_more_is_learnt_is_the_same(story: Story, first: Finding, later: Finding) -> None:
    watch = Watch([Learning(first, later, later, None)])
    (opened,) = watch.look(story.scene(5)).opened
    labels = [one.labels for one in finding_samples(watch.open)]
    changes = watch.look(story.scene(10))
    assert not changes.opened
    assert changes.sharpened == changes.going_on
    (known,) = changes.going_on
    assert (known.key, known.detected_ms) == (opened.key, opened.detected_ms)
    assert (known.finding.subject, known.finding.cause) == (later.subject, later.cause)
    assert known.finding.severity is first.severity
    *same, info = [one.labels for one in finding_samples(watch.open)]
    assert same == labels[:-1]
    assert info != labels[-1]
    assert not watch.look(story.scene(15)).sharpened
    (ended,) = watch.look(story.scene(35)).ended
    assert ended.key == opened.key
    assert not watch.open


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (told(STALL, workload=JOB), told(STALL, workload=JOB._replace(name="other"))),
        (told(STALL, workload=JOB, run=RUN), told(STALL, workload=JOB, run=OTHER_RUN)),
        (told(STALL, job_name="train"), told(STALL, job_name="other")),
        (told(SLOW, workload=JOB, rank=3), told(SLOW, workload=JOB, rank=4)),
        (told(FAULT, gpu=GPU, cause="lost"), told(FAULT, gpu=GPU, cause="xid-79")),
        (told(FAULT, node="n1"), told(FAULT, node="n2")),
    ],
    ids=["workload", "run", "name", "rank", "cause", "node"],
)
def test_findings_of_two_things_are_two(story: Story, one: Finding, other: Finding) -> None:
    watch = Watch([Learning(one, (one, other), (other, one), other, other, other, other, None)])
    looks = [watch.look(scene) for scene in story.scenes(5, 35)]
    assert [len(look.opened) for look in looks] == [1, 1, 0, 0, 0, 0, 0]
    assert [interval.finding.text for look in looks for interval in look.ended] == [one.text]
    assert [interval.finding.text for interval in watch.open] == [other.text]


def test_what_becomes_graver_is_told_anew(story: Story) -> None:
    risen = told(FindingKind.DIVERGENCE, workload=JOB, cause="loss-rising")
    broken = told(FindingKind.DIVERGENCE, workload=JOB, cause="nan", severity=Severity.CRITICAL)
    watch = Watch([Learning(risen, broken, broken, broken, risen, risen)])
    looks = [watch.look(scene) for scene in story.scenes(5, 30)]
    assert [len(look.opened) for look in looks] == [1, 1, 0, 0, 0, 0]
    assert [one.key.cause for look in looks for one in look.ended] == ["loss-rising"]
    (known,) = watch.open
    assert (known.key.cause, known.finding.severity) == ("nan", Severity.CRITICAL)


def test_a_workload_whose_runs_become_known_has_one_finding_more_for_each_further_run(story: Story) -> None:
    runs = told(STALL, workload=JOB, run=RUN), told(STALL, workload=JOB, run=OTHER_RUN)
    watch = Watch([Learning(told(STALL, workload=JOB), runs, runs[::-1])])
    assert [len(watch.look(story.scene(at_s)).opened) for at_s in (5, 10, 15)] == [1, 1, 0]
    assert sorted(one.finding.subject.run or "" for one in watch.open) == ["r1", "r2"]


def test_a_finding_knows_its_gpu_by_number_and_its_team(story: Story) -> None:
    scene = story.scene(5)
    place, job = scene.telemetry.places[0], scene.jobs[0]
    watch = Watch([Learning(told(FAULT, gpu=place.uuid, workload=job.workload))])
    ((subject),) = [one.finding.subject for one in watch.look(scene).opened]
    assert (subject.gpu_number, subject.node, subject.cluster) == (place.number, place.node, place.cluster)
    assert subject.team == job.team
    assert subject.team
