"""D005: programs that make their steps without their GPU, and those that only wait."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from scenes import IDLE, START_MS, Story
from trilens.detect.cpu_fallback import CpuFallback
from trilens.detect.scene import Figure, Steps
from trilens.detect.watch import Watch
from trilens.model.finding import Severity

RESTS = {**IDLE, Figure.POWER: (125.0, 0.5), Figure.SM_CLOCK: (1.98e9, 0.0)}


def _found(story: Story, from_s: float = 650, to_s: float = 950):
    return story.findings(CpuFallback(), from_s, to_s)


def _without(figure: Figure):
    def leave_out(scene):
        figures = {one: values for one, values in scene.telemetry.figures.items() if one is not figure}
        return replace(scene, telemetry=replace(scene.telemetry, figures=figures))

    return leave_out


def _since(steps: Steps, from_ms: int) -> Steps:
    first = int(np.searchsorted(steps.end_ms, from_ms))
    return Steps(*(getattr(steps, one.name)[first:] for one in fields(steps)))


@pytest.mark.parametrize("has_sm", [True, False], ids=["sm", "power"])
@pytest.mark.parametrize("every_s", [5, 30])
def test_steps_that_go_on_without_the_gpu(has_sm: bool, every_s: int) -> None:
    story = Story(ranks=4, seed=1, telemetry_every_s=every_s)
    story.state(RESTS, from_s=800)
    if not has_sm:
        story.change = _without(Figure.SM)
    at_s, finding = _found(story)[0]
    assert 30 <= at_s - 800 <= (40 if every_s == 5 else 75)
    assert (finding.code, finding.cause, finding.severity) == ("D005", "fell-back", Severity.WARNING)
    assert abs(finding.onset_ms - START_MS - 800_000) <= 1000 * every_s
    assert (finding.subject.workload, finding.subject.rank) == (story.workload, None)
    assert "no longer uses its GPU" in finding.text


def test_what_was_found_goes_on_at_the_first_look_after_a_restart() -> None:
    story = Story(ranks=4, seed=1)
    story.state(RESTS, from_s=800)
    before = Watch([CpuFallback()])
    for scene in story.scenes(650, 900):
        before.look(scene)
    (lasting,) = before.open
    after = Watch([CpuFallback()])
    after.restore([lasting], lasting.seen_ms)
    scene = story.scene(910)
    (again,) = after.look(scene).going_on
    assert (again.seen_ms, again.finding.cause) == (scene.now_ms, "fell-back")
    assert again.finding.onset_ms == lasting.finding.onset_ms
    assert "goes on with its steps" in again.finding.text


def test_what_works_again_after_a_restart_is_over() -> None:
    story = Story(ranks=4, seed=1)
    story.state(RESTS, from_s=800, to_s=900)
    before = Watch([CpuFallback()])
    for scene in story.scenes(650, 900):
        before.look(scene)
    after = Watch([CpuFallback()])
    after.restore(before.open, START_MS + 900_000)
    assert any(after.look(scene).ended for scene in story.scenes(915, 995))


def test_one_rank_that_falls_back_is_named_with_how_slow_it_is() -> None:
    story = Story(ranks=4, seed=2)
    story.state(RESTS, rows=[2], from_s=800)
    late = story.steps[0].end_s > 800
    for columns in story.steps:
        columns.s[late] *= 4
        columns.end_s = np.cumsum(columns.s)
    found = _found(story)
    _, finding = found[-1]
    assert {(one.subject.rank, one.subject.gpu) for _, one in found} == {(2, "GPU-llm-2")}
    assert finding.figures["slowdown"] == pytest.approx(4, rel=0.1)


def test_a_program_that_never_used_its_gpu() -> None:
    story = Story(ranks=1, seed=3)
    story.state({**RESTS, Figure.POWER: (72.0, 1.0)})
    at_s, finding = _found(story, 20, 600)[0]
    assert 120 <= at_s <= 130
    assert (finding.cause, finding.subject.rank) == ("never-used", 0)


def test_a_rank_that_never_had_its_gpu_and_keeps_the_others_waiting() -> None:
    story = Story(ranks=4, seed=3)
    story.state(RESTS, rows=[2])
    for rank, columns in enumerate(story.steps):
        columns.sync_s = (0.05 if rank == 2 else 0.8) * columns.s
    _, finding = _found(story, 20, 600)[0]
    assert (finding.cause, finding.subject.rank) == ("never-used", 2)


@pytest.mark.parametrize(
    "what",
    [
        "stopped",
        "data",
        "data-bound",
        "data-bound-no-prof",
        "checkpoint",
        "light",
        "coordinator",
        "moment",
        "waits",
        "gap",
    ],
)
def test_calm_ones(what: str) -> None:
    story = Story(ranks=4, seed=4)
    match what:
        case "stopped":
            story.stop(800)
            story.state(RESTS, from_s=800)
        case "data":  # it waits for data nearly all the time
            story.state(RESTS, from_s=800)
            for columns in story.steps:
                columns.data_s = np.where(columns.end_s > 800, 0.8 * columns.s, columns.data_s)
        case "data-bound":  # utilisation reads 0, power and SM activity do not
            story.level(Figure.UTILIZATION, 0, from_s=800, noise=0)
            story.level(Figure.POWER, 280, from_s=800, noise=25)
            story.level(Figure.SM, 0.2, from_s=800)
        case "data-bound-no-prof":
            story.change = _without(Figure.SM)
            story.level(Figure.UTILIZATION, 0, from_s=800, noise=0)
            story.level(Figure.POWER, 220, from_s=800, noise=5)
        case "checkpoint":
            story.pause(800, 90, doing="checkpoint")
            story.state(RESTS, from_s=800, to_s=890)
        case "light":
            story.level(Figure.UTILIZATION, 0.1, from_s=800)
            story.level(Figure.POWER, 130, from_s=800)
        case "coordinator":
            story.state(RESTS, rows=[0])
        case "moment":
            story.state(RESTS, from_s=800, to_s=820)
        case "waits":
            story.state(RESTS, rows=[1], from_s=800)
            story.steps[1].sync_s = 0.9 * story.steps[1].s
        case "gap":
            story.gap(800, 1000)
    assert not _found(story)


@pytest.mark.parametrize("every_s", [5, 30])
@pytest.mark.parametrize("doing", ["compile", None], ids=["announced", "unannounced"])
def test_after_a_pause_readings_of_it_say_nothing_of_the_steps(every_s: int, doing: str | None) -> None:
    story = Story(ranks=2, seed=5, step_s=0.4, telemetry_every_s=every_s)
    story.pause(690, 83, doing=doing)
    story.state(RESTS, from_s=690, to_s=773)
    assert not _found(story)


@pytest.mark.parametrize("every_s", [5, 30])
def test_a_gpu_that_rested_before_its_program_began_again_says_nothing(every_s: int) -> None:
    """A job that was preempted or drained comes back to a GPU that nobody had for minutes: its first steps
    are told before a reading shows them, which stands for the seconds until the next one."""
    story = Story(ranks=2, seed=5, step_s=0.4, telemetry_every_s=every_s)
    again_s = 807
    story.state(RESTS, from_s=700, to_s=again_s + 4)
    for columns in story.steps:
        columns.keep((columns.end_s <= 700) | (columns.end_s > again_s))

    def begin_again(scene):
        at_s = (scene.now_ms - START_MS) / 1000
        (job,) = scene.jobs
        if at_s < again_s:
            return scene if at_s < 700 else replace(scene, jobs=[replace(job, rows=())])
        ranks = [
            replace(
                one,
                steps=_since(one.steps, START_MS + 1000 * again_s),
                process=replace(one.process, attempt=1),
            )
            for one in job.ranks
        ]
        return replace(scene, jobs=[replace(job, ranks=ranks)])

    story.change = begin_again
    assert not _found(story)


def test_it_ends_when_the_gpu_works_again() -> None:
    story = Story(ranks=2, seed=5)
    story.state(RESTS, from_s=700, to_s=800)
    seen = [at_s for at_s, _ in _found(story)]
    assert 725 <= seen[0] <= 740
    assert 790 <= seen[-1] <= 800
