"""D002: jobs that hang in a collective, which rank is not in it, and pauses that only look so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenes import HUNG, IDLE, START_MS, Story
from trilens.detect.hang import Hang
from trilens.detect.scene import Figure, Scene, ToldBy
from trilens.model.finding import Severity
from trilens.model.life import Phase
from trilens.model.run import Ending

RESTS = {**IDLE, Figure.POWER: (125.0, 0.5), Figure.SM_CLOCK: (1.98e9, 0.0)}  # with a CUDA context


def _found(story: Story, from_s: float = 700, to_s: float = 960):
    return story.findings(Hang(), from_s, to_s)


def _silent_program(scene: Scene) -> Scene:
    """Nothing but telemetry tells of the job."""
    return replace(scene, jobs=[replace(job, run=None, ranks=[]) for job in scene.jobs])


def _hang(story: Story, odd: int | None, at_s: float = 800) -> None:
    story.stop(at_s)
    story.state(HUNG, from_s=at_s)
    if odd is not None:
        story.state(RESTS, rows=[odd], from_s=at_s)


@pytest.mark.parametrize("every_s", [5, 30])
@pytest.mark.parametrize("ranks", [2, 8, 16])
def test_telemetry_alone_names_the_odd_rank(ranks: int, every_s: int) -> None:
    odd = ranks - 3 if ranks > 2 else 1
    story = Story(ranks=ranks, seed=ranks, telemetry_every_s=every_s)
    _hang(story, odd)
    story.change = _silent_program
    at_s, finding = _found(story)[0]
    assert 10 <= at_s - 800 <= (20 if every_s == 5 else 60)
    assert (finding.code, finding.cause, finding.severity) == ("D002", "rank-missing", Severity.CRITICAL)
    assert (finding.subject.rank, finding.subject.gpu) == (odd, f"GPU-llm-{odd}")
    assert finding.subject.workload == story.workload
    assert abs(finding.onset_ms - START_MS - 800_000) <= every_s * 1000
    assert f"rank {odd}" in finding.text
    assert "py-spy" in finding.action


def test_telemetry_alone_where_no_gpu_differs() -> None:
    story = Story(seed=2)
    _hang(story, None)
    story.change = _silent_program
    at_s, finding = _found(story)[0]
    assert 30 <= at_s - 800 <= 40
    assert (finding.cause, finding.subject.rank) == ("all-waiting", None)
    assert finding.confidence < 0.8


def test_what_the_sm_counter_says_does_not_matter() -> None:
    story = Story(seed=2)  # a spinning kernel may hold one SM or all of them
    _hang(story, 5)
    story.level(Figure.SM, 0.98, from_s=800)
    story.change = _silent_program
    assert _found(story)[0][1].subject.rank == 5


@pytest.mark.parametrize("step_s", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("has_gpus", [True, False], ids=["gpus", "records"])
def test_with_the_sdk_within_twenty_seconds_of_the_last_step(step_s: float, has_gpus: bool) -> None:
    story = Story(step_s=step_s, seed=4)
    at_s = float(story.steps[0].end_s[int(800 / step_s)])
    _hang(story, 5 if has_gpus else None, at_s)
    if not has_gpus:
        story.figures = {figure: np.full_like(values, np.nan) for figure, values in story.figures.items()}
    for rank in range(8):
        story.says(rank, "backward" if rank == 5 else "grad_sync", at_s)
    found_s, finding = _found(story)[0]
    assert 8 <= found_s - at_s <= 20
    assert (finding.cause, finding.subject.rank) == ("rank-missing", 5)
    assert abs(finding.onset_ms - START_MS - at_s * 1000) <= 10
    assert finding.subject.run == "run-llm"
    assert finding.confidence >= 0.85


@pytest.mark.parametrize("how", ["behind", "barrier", "frozen", "furthest", "gpu", "unheard"])
def test_who_it_is_by_whatever_tells(how: str) -> None:
    story = Story(seed=5)
    _hang(story, 3 if how == "gpu" else None)
    for rank in range(8):
        story.says(rank, "grad_sync", 800)
    match how:
        case "behind":
            story.stop(797, [3])
        case "barrier":
            for rank in set(range(8)) - {3}:
                story.note(rank, "barrier", 805, missing=[3])
        case "frozen":
            story.note(2, "frozen", 805, rank=3)
        case "furthest":
            for rank in set(range(8)) - {3}:
                story.note(rank, "stalled", 805, furthest_behind=[3])
        case "unheard":
            story.silence(3, 800)
    found = _found(story)
    assert found[0][0] <= 825
    assert {finding.subject.rank for at_s, finding in found if at_s >= 830} == {3}


def test_several_on_one_node_are_that_node() -> None:
    story = Story(ranks=16, seed=6)
    _hang(story, None)
    for rank in range(16):
        story.says(rank, "backward" if rank in (9, 12) else "grad_sync", 800)
    _, finding = _found(story)[0]
    assert (finding.subject.rank, finding.subject.node) == (None, "node-1")
    assert "ranks 9, 12" in finding.text


def test_it_lasts_longer_than_the_telemetry_goes_back() -> None:
    story = Story(seed=7, seconds=3600)
    _hang(story, 5)
    story.change = _silent_program
    detector = Hang()
    assert [
        finding.subject.rank for scene in story.scenes(780, 2400, 20) for finding in detector.look(scene)
    ][-1] == 5


CALM = [
    "checkpoint",
    "checkpoint-of-one",
    "validation",
    "validation-of-one",
    "compile",
    "data",
    "ends",
    "total-steps",
    "over",
    "crash",
    "light-work",
    "traffic",
    "short",
    "gap",
]


@pytest.mark.parametrize("told", [True, False], ids=["sdk", "telemetry"])
@pytest.mark.parametrize("what", CALM)
def test_calm_ones(what: str, told: bool) -> None:
    story = Story(seed=8, seconds=1200)
    if not told:
        story.change = _silent_program
    match what:
        case "checkpoint":
            story.pause(800, 90, doing="checkpoint")
            story.state(RESTS, from_s=800, to_s=890)
        case "checkpoint-of-one":  # it saves, the others wait for it
            story.pause(800, 90, doing="checkpoint")
            story.state(HUNG, from_s=800, to_s=890)
            story.state(RESTS, rows=[0], from_s=800, to_s=890)
        case "validation":
            story.pause(800, 60, doing="validation")
        case "validation-of-one":
            story.pause(800, 60, doing="validation")
            story.state(HUNG, rows=range(1, 8), from_s=800, to_s=860)
        case "compile":
            story.pause(800, 60, doing="compile")
            story.state(RESTS, from_s=800, to_s=860)
        case "data":
            story.pause(800, 60)
            story.state(RESTS, from_s=800, to_s=860)
            for rank in range(8):
                story.says(rank, "data", 800, 860)
        case "ends":
            story.stop(800)
            story.state({**IDLE, Figure.MEMORY_USED: (0.0, 0.0)}, from_s=800)
            for rank in range(8):
                story.end(rank, 801, Ending.FINISHED)
        case "total-steps":
            last = int(story.steps[0].step[story.steps[0].end_s <= 800][-1])
            story.run = replace(story.run, total_steps=last + 1)
            story.stop(800)
            story.state(RESTS, from_s=800)
        case "over":
            _hang(story, 5)
            story.phase(Phase.SUCCEEDED, 803)
        case "crash":
            story.end(5, 800, Ending.FAILED, "RuntimeError")
            story.stop(800)
            story.state({**IDLE, Figure.MEMORY_USED: (0.0, 0.0)}, from_s=800)
        case "light-work":  # it always was like that
            story.state(HUNG)
            story.level(Figure.POWER, 140)
        case "traffic":  # a collective that is slow, but goes on
            story.state(HUNG, from_s=800, to_s=860)
            story.level(Figure.NVLINK, 4e10, from_s=800, to_s=860)
        case "short":
            story.state(HUNG, from_s=800, to_s=809)
        case "gap":
            story.gap(800, 900)
    assert not _found(story)


def test_after_the_last_step_one_may_save_while_the_others_wait() -> None:
    story = Story(seed=8)
    last = int(story.steps[0].step[story.steps[0].end_s <= 800][-1])
    _hang(story, 0)
    for rank in range(8):
        story.says(rank, "barrier" if rank else "forward", 800)
    assert _found(story)
    story.run = replace(story.run, total_steps=last + 1)
    assert not _found(story)


def test_a_first_saver_that_does_not_end_is_found_later() -> None:
    story = Story(seed=9)
    _hang(story, 0)
    story.change = _silent_program
    at_s, finding = _found(story)[0]
    assert 120 <= at_s - 800 <= 130
    assert finding.subject.rank == 0


def test_after_a_short_announced_pause_the_next_step_has_its_time() -> None:
    story = Story(step_s=4.0, seed=8)
    at_s = float(story.steps[0].end_s[200])
    story.pause(at_s, 7)
    for rank in range(8):
        story.says(rank, "checkpoint", at_s, at_s + 7)
        story.says(rank, "grad_sync" if rank % 3 else "backward", at_s + 7, at_s + 16)
        story.steps[rank].pause(at_s, 5)
    assert not _found(story)


def test_records_that_come_late_are_no_hang() -> None:
    story = Story(seed=8)
    _hang(story, None)
    for rank in range(8):
        story.says(rank, "grad_sync", 800)

    def heartbeats(scene: Scene) -> Scene:
        (job,) = scene.jobs
        ranks = [replace(one, process=replace(one.process, step=10_000)) for one in job.ranks]
        return replace(scene, jobs=[replace(job, ranks=ranks)])

    assert _found(story)
    story.change = heartbeats
    assert not _found(story)


def test_a_rank_that_computes_while_the_others_wait_is_given_time() -> None:
    story = Story(seed=9)  # a validation that nobody announces, or a loop that does not end
    story.stop(800)
    story.state(HUNG, rows=range(1, 8), from_s=800)
    for rank in range(8):
        story.says(rank, "forward" if rank == 0 else "barrier", 800)
    at_s, finding = _found(story)[0]
    assert 120 <= at_s - 800 <= 130
    assert finding.subject.rank == 0


def test_a_pause_that_came_before_is_known() -> None:
    story = Story(seed=10)
    story.change = _silent_program
    for at_s in (500, 700):
        story.state(HUNG, from_s=at_s, to_s=at_s + 45)
        story.state(RESTS, rows=[5], from_s=at_s, to_s=at_s + 45)
    seen = [at_s for at_s, _ in _found(story, 450)]
    assert all(at_s < 560 for at_s in seen)  # the first nobody could know


def test_how_long_the_first_rank_saves_is_learnt() -> None:
    story = Story(seed=10)
    story.change = _silent_program
    story.state(HUNG, from_s=500, to_s=525)
    story.state(RESTS, rows=[0], from_s=500, to_s=525)
    _hang(story, 0)
    at_s, finding = _found(story, 450)[0]
    assert 40 <= at_s - 800 <= 60  # and not two minutes, as where nothing is known
    assert finding.subject.rank == 0


def test_where_all_gpus_wait_nobody_saves() -> None:
    story = Story(seed=15, told_by=ToldBy.METRICS)
    _hang(story, None)
    at_s, finding = _found(story)[0]
    assert 30 <= at_s - 800 <= 40
    assert finding.cause == "all-waiting"
    story.state(RESTS, rows=[0], from_s=800)  # the first may save
    assert _found(story)[0][0] - 800 >= 120


@pytest.mark.parametrize(("odd", "is_first"), [(8, True), (0, False)])
def test_the_first_gpu_is_that_of_the_first_pod_where_nobody_tells_ranks(odd: int, is_first: bool) -> None:
    story = Story(ranks=16, seed=14)
    _hang(story, odd)

    def unranked(scene: Scene) -> Scene:
        places = [
            place._replace(
                rank=None,
                pod=place.pod._replace(name="llm-master-0") if place.node == "node-1" else place.pod,
            )
            for place in scene.telemetry.places
        ]
        return _silent_program(replace(scene, telemetry=replace(scene.telemetry, places=places)))

    story.change = unranked
    at_s, finding = _found(story)[0]
    assert finding.subject.gpu == f"GPU-llm-{odd}"
    assert (at_s - 800 >= 120) is is_first


def test_all_in_the_collective_of_one_slow_step_are_none() -> None:
    story = Story(seed=12)
    last_s = float(story.steps[0].end_s[story.steps[0].end_s <= 801][-1])
    story.pause(at_s=last_s + 0.01, for_s=815.9 - last_s - story.step_s)
    for rank in range(8):
        story.says(rank, "forward", last_s, 813)
        story.says(rank, "grad_sync", 813, 816)
    assert not _found(story)


def _recorded(
    story: Story, rank: int, at_s: float, entered: int, pending: int | None, **other: object
) -> None:
    group = {"group": "0", "description": "default_pg", "first": 0, "size": 8, "operation": "all_reduce"}
    told = {**group, "entered": entered, "pending": pending, **other}
    story.note(rank, "collectives", at_s, groups=[told])


@pytest.mark.parametrize("how", ["not entered", "not come to", "another"])
def test_flight_recorders_name_the_rank_that_is_not_in_the_collective(how: str) -> None:
    story = Story(seed=13)
    _hang(story, None)
    for rank in range(8):
        story.says(rank, "backward", 800)  # where PyTorch waits, as programs see it
        ahead = rank % 3  # programs run ahead of their GPUs
        if rank != 6:
            _recorded(story, rank, 875, 42 + ahead, 42)
    match how:
        case "not entered":
            _recorded(story, 6, 876, 41, None, operation="")
        case "not come to":
            _recorded(story, 6, 876, 43, 40)
        case "another":
            _recorded(story, 6, 876, 42, 42, operation="broadcast")
    found = _found(story)
    before = [finding for at_s, finding in found if at_s < 875]
    after = [finding for at_s, finding in found if at_s >= 880]
    assert {(finding.cause, finding.subject.rank) for finding in before} == {("all-waiting", None)}
    assert {(finding.cause, finding.subject.rank) for finding in after} == {("rank-missing", 6)}
    assert after[0].confidence > max(finding.confidence for finding in before)
    assert any("all_reduce 42 of default_pg" in one.text for one in after[0].evidence)


@pytest.mark.parametrize("size", [8, 0], ids=["size", "unknown"])
def test_a_few_flight_recorders_name_nobody(size: int) -> None:
    story = Story(seed=13)
    _hang(story, None)
    for rank in range(4):  # of 8: the others may be where they are
        story.says(rank, "backward", 800)
        _recorded(story, rank, 835, 42 if rank else 41, 42 if rank else None, size=size)
    story.note(7, "collectives", 835, groups=[{"group": 5, "size": "many"}, "all"])
    assert {finding.subject.rank for _, finding in _found(story)} == {None}


def test_a_server_of_inference_is_none() -> None:
    story = Story(seed=11, serves=True)
    story.state(HUNG, from_s=800)
    assert not _found(story)
