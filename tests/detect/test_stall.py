"""D001: jobs that stop making steps, and those that only look so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenes import HUNG, IDLE, START_MS, Story
from trilens.detect.scene import Figure, Steps, ToldBy
from trilens.detect.stall import Stall
from trilens.model.finding import Severity
from trilens.model.life import Phase
from trilens.model.run import Ending


def _found(story: Story, from_s: float = 300, to_s: float = 1000):
    return story.findings(Stall(), from_s, to_s)


@pytest.mark.parametrize("step_s", [0.5, 1.0, 2.0, 5.0])
def test_a_stall_is_named_within_seconds_of_its_own_rhythm(step_s: float) -> None:
    story = Story(step_s=step_s, seed=3)
    story.stop(at_s=800)
    at_s, finding = _found(story)[0]
    assert 8 <= at_s - 800 <= 20
    assert finding.code == "D001"
    assert finding.severity is Severity.CRITICAL
    assert abs(finding.onset_ms - (START_MS + 800_000)) <= step_s * 1000
    assert finding.subject.workload == story.workload
    assert finding.subject.rank is None
    assert finding.text
    assert finding.action


def test_slow_steps_are_given_their_time() -> None:
    story = Story(step_s=60.0, seconds=3600, seed=3)
    story.stop(at_s=3000)
    at_s, _ = story.findings(Stall(), 2000, 3500)[0]
    assert 60 < at_s - 3000 < 180


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_a_calm_run_stays_quiet(seed: int, noise: float) -> None:
    assert not _found(Story(ranks=4, noise=noise, seed=seed), 0, 1500)


@pytest.mark.parametrize("doing", ["checkpoint", "validation", "compile"])
def test_an_announced_pause_is_none(doing: str) -> None:
    story = Story(ranks=4)
    story.pause(at_s=700, for_s=240, doing=doing)
    assert not _found(story, 300, 1200)


def test_an_announced_pause_that_does_not_end_is_one() -> None:
    story = Story(ranks=4, seconds=3600)
    story.pause(at_s=700, for_s=20, doing="checkpoint")
    story.pause(at_s=1200, for_s=2000, doing="checkpoint")
    found = story.findings(Stall(), 300, 2400)
    at_s, finding = found[0]
    assert 300 <= at_s - 1200 <= 320
    assert finding.cause == "checkpoint"


def test_after_a_long_announced_pause_the_next_step_has_its_time() -> None:
    story = Story(ranks=4)
    for rank in range(4):
        story.says(rank, "checkpoint", 700, 760)
        story.steps[rank].pause(700, 66)  # goes on 6 s after the checkpoint has ended
    assert not _found(story, 300, 1200)


def test_a_pause_of_the_same_length_every_n_steps_is_learnt() -> None:
    story = Story(ranks=2, step_s=1.0, seconds=1800)
    for at_step in (137, 274, 411, 548, 685):
        story.pause(at_s=float(story.steps[0].end_s[at_step]) - 0.01, for_s=40)
    found = [at_s for at_s, _ in story.findings(Stall(), 60, 1200)]
    assert len({round(at_s) for at_s in found if at_s > 400}) == 0  # the first one nobody could know


def test_a_pause_after_the_same_time_is_learnt() -> None:
    story = Story(ranks=2, step_s=1.0, noise=0.4, seconds=3000, seed=5)
    for at_s in range(163, 2900, 180):
        story.pause(at_s=at_s, for_s=30)
    steps = [int(end) for end in story.steps[0].end_s[story.steps[0].s > 20]]
    assert len(steps) > 10
    found = [at_s for at_s, _ in story.findings(Stall(), 60, 2800)]
    assert max(found, default=0) < 600  # the first ones nobody could know


def test_a_first_pause_at_a_round_number_of_steps_is_taken_for_a_checkpoint() -> None:
    story = Story(ranks=2, step_s=2.0)
    story.pause(at_s=float(story.steps[0].end_s[100]) - 0.01, for_s=60)
    assert not _found(story, 60, 600)


def test_a_stall_at_a_round_number_is_found_later() -> None:
    story = Story(ranks=2, step_s=2.0)
    story.stop(at_s=float(story.steps[0].end_s[99]))
    assert _found(story, 60, 600)


def test_the_first_steps_may_take_long() -> None:
    story = Story(ranks=2, step_s=2.0)
    story.pause(at_s=0, for_s=500)
    story.pause(at_s=505, for_s=100)
    assert not _found(story, 0, 1000)


def test_steps_of_before_the_first_look_are_not_missed() -> None:
    story = Story(ranks=2, seconds=7200)
    story.stop(at_s=10)  # it has made some, of which nothing is known

    def unknown(scene):
        (job,) = scene.jobs
        ranks = [replace(one, steps=story.steps[0].until(0)) for one in job.ranks]
        return replace(scene, jobs=[replace(job, ranks=ranks)])

    story.change = unknown
    assert not story.findings(Stall(), 5400, 7000, 60)


@pytest.mark.parametrize("how", ["finished", "total-steps", "phase"])
def test_a_job_that_ends_is_none(how: str) -> None:
    story = Story(ranks=4)
    if how == "total-steps":
        last = story.steps[0].step[story.steps[0].end_s <= 800][-1]
        story = Story(ranks=4, total_steps=int(last) + 1)
    story.stop(at_s=800)
    if how == "finished":
        for rank in range(4):
            story.end(rank, 801 + 10 * rank, Ending.FINISHED)
    elif how == "phase":
        story.phase(Phase.SUCCEEDED, 803)
    assert not _found(story, 300, 1000)


def test_the_rank_that_lags_is_named() -> None:
    story = Story()
    story.stop(at_s=800, ranks=[5])
    story.stop(at_s=802.5)
    at_s, finding = _found(story)[0]
    assert finding.subject.rank == 5
    assert finding.subject.node == "node-0"
    assert finding.subject.gpu == "GPU-llm-5"
    assert at_s <= 820


def test_the_rank_in_another_phase_is_named_with_what_it_waits_for() -> None:
    story = Story()
    story.stop(at_s=800)
    for rank in range(8):
        story.says(rank, "data" if rank == 2 else "grad_sync", 800)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("data", 2)


def test_all_that_wait_for_data_are_no_single_ones_fault() -> None:
    story = Story()
    story.stop(at_s=800)
    for rank in range(8):
        story.says(rank, "data", 800)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("data", None)


def test_a_collective_is_told_by_the_gpus() -> None:
    story = Story()
    story.stop(at_s=800)
    story.state(HUNG, from_s=800)
    _, finding = _found(story)[0]
    assert finding.cause == "collective"


def _lose(story: Story, rank: int, at_s: float) -> None:
    """As the intake tells it: not heard, then taken for lost."""
    story.stop(at_s=at_s)
    story.silence(rank, at_s)
    story.end(rank, at_s + 6, Ending.LOST)


def test_a_process_whose_gpu_keeps_its_memory_is_frozen() -> None:
    story = Story()
    _lose(story, 4, 800)
    story.state(HUNG, from_s=800)
    story.state(IDLE, rows=[4], from_s=800)  # IDLE has the memory of before
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("gil-held", 4)


def test_a_rank_that_is_missed_before_it_is_taken_for_lost_is_known_to_be_locked_in_the_end() -> None:
    story = Story()
    story.stop(at_s=800)
    for rank in range(8):
        story.says(rank, "forward" if rank == 4 else "grad_sync", 800)
    story.silence(4, 801)
    story.end(4, 830, Ending.LOST)
    story.state(HUNG, from_s=800)
    story.state(IDLE, rows=[4], from_s=800)
    told = [(one.cause, one.subject.rank) for _, one in _found(story)]
    assert told[0] == ("collective", 4)
    assert told[-1] == ("gil-held", 4)


def test_a_note_tells_that_an_interpreter_is_locked() -> None:
    story = Story()
    story.stop(at_s=800)
    story.note(0, "frozen", 835, rank=6)
    found = _found(story)
    assert [(one.cause, one.subject.rank) for _, one in found][-1] == ("gil-held", 6)


def test_a_process_whose_gpu_has_let_its_memory_go_is_dead() -> None:
    story = Story()
    _lose(story, 4, 800)
    story.state(IDLE, rows=[4], from_s=805)
    story.level(Figure.MEMORY_USED, 0.0, rows=[4], from_s=805, noise=0)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("process-dead", 4)


@pytest.mark.parametrize(
    ("listens", "cause", "says"),
    [
        (True, "gil-held", "is alive"),
        (False, "process-dead", "is dead"),
        (None, "process-dead", "is not heard: dead, or locked"),
    ],
)
def test_a_socket_that_is_open_tells_a_locked_process_from_a_dead_one(
    listens: bool | None, cause: str, says: str
) -> None:
    story = Story(ranks=3)
    _lose(story, 1, 800)

    def without_gpus(scene):
        (job,) = scene.jobs
        ranks = [replace(one, row=None, listens=listens if one.rank == 1 else None) for one in job.ranks]
        return replace(scene, jobs=[replace(job, ranks=ranks, rows=(), pods=())])

    story.change = without_gpus
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == (cause, 1)
    assert says in finding.text


def test_a_node_that_is_gone_is_named() -> None:
    story = Story(ranks=16)
    story.stop(at_s=800)
    for rank in range(8, 16):
        _lose(story, rank, 800)
    story.gap(800, 1800, rows=range(8, 16))
    story.node_ready("node-1", 800, is_ready=False)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.node) == ("node-gone", "node-1")


def test_programs_that_are_not_heard_while_their_gpus_work_are_none() -> None:
    story = Story()
    for rank in range(8):
        story.silence(rank, 800)
        story.end(rank, 806, Ending.LOST)
    assert not _found(story)


def test_a_server_that_was_down_says_nothing_at_once() -> None:
    story = Story()
    for rank in range(8):
        story.silence(rank, 800)
        story.end(rank, 806, Ending.LOST)
    story.state(IDLE, from_s=800)
    detector = Stall()
    assert not [*story.findings(detector, 300, 795), *story.findings(detector, 860, 880)]


def test_records_that_come_later_than_heartbeats_are_no_stall() -> None:
    story = Story(ranks=2)
    ahead = int(story.steps[0].step[-1])
    story.stop(at_s=800)

    def say_more(scene):
        (job,) = scene.jobs
        ranks = [replace(one, process=replace(one.process, step=ahead)) for one in job.ranks]
        return replace(scene, jobs=[replace(job, ranks=ranks)])

    story.change = say_more
    assert not _found(story)


def test_a_job_that_tells_only_metrics_is_watched_too() -> None:
    story = Story(ranks=2, told_by=ToldBy.METRICS)
    story.pause(at_s=500, for_s=20)
    story.stop(at_s=800)
    at_s, finding = _found(story)[0]
    assert 10 <= at_s - 800 <= 60  # twice as long as it has paused before
    assert finding.subject.workload == story.workload
    assert not _found(Story(ranks=2, told_by=ToldBy.METRICS))


def test_a_program_that_cannot_announce_anything_may_save_for_the_first_time() -> None:
    story = Story(ranks=2, told_by=ToldBy.METRICS)
    story.pause(at_s=763, for_s=90)
    assert not _found(story)
    told = Story(ranks=2)
    told.pause(at_s=763, for_s=90)
    assert _found(told)
    story.stop(at_s=900)
    assert 120 <= story.findings(Stall(), 300, 1400)[0][0] - 900 <= 200
    story = Story(ranks=2, told_by=ToldBy.METRICS)
    story.stop(at_s=800)
    assert 120 <= _found(story)[0][0] - 800 <= 130


def test_a_stall_that_ended_is_no_pause_to_wait_for() -> None:
    story = Story(ranks=2, told_by=ToldBy.METRICS, seconds=3000)
    story.pause(at_s=400, for_s=800)
    story.stop(at_s=1800)
    assert min(at_s for at_s, _ in story.findings(Stall(), 300, 2200) if at_s > 1800) - 1800 <= 130


def test_a_run_that_has_become_slow_does_not_stall_at_each_step() -> None:
    story = Story(ranks=4, seed=2)
    for columns in story.steps:
        slow = np.where(columns.end_s > 600, 12.0, 0.0)
        columns.s += slow
        columns.end_s += np.cumsum(slow)
    found = [at_s for at_s, _ in _found(story, 300, 1300)]
    assert max(found, default=0) < 640  # that the first ones would end, nobody could know


def test_a_locked_rank_at_a_round_number_of_steps_saves_nothing() -> None:
    story = Story(ranks=4, step_s=2.0)
    stop_s = float(story.steps[0].end_s[99])
    story.stop(at_s=stop_s)
    story.silence(2, stop_s)
    story.end(2, stop_s + 6, Ending.LOST)
    story.state(IDLE, rows=[2], from_s=stop_s)
    at_s, finding = _found(story, 60, 600)[0]
    assert at_s - stop_s <= 30
    assert (finding.cause, finding.subject.rank) == ("gil-held", 2)


def test_who_waits_for_data_at_a_round_number_of_steps_saves_nothing() -> None:
    story = Story(ranks=4, step_s=2.0)
    stop_s = float(story.steps[0].end_s[99])
    story.stop(at_s=stop_s)
    for rank in range(4):
        story.says(rank, "data", stop_s)
    at_s, finding = _found(story, 60, 600)[0]
    assert at_s - stop_s <= 20
    assert finding.cause == "data"


@pytest.mark.parametrize("every_s", [15, 30])
def test_metrics_that_are_scraped_seldom_are_enough(every_s: int) -> None:
    def scraped(scene, story):
        """What the last scrapes have shown: where it stood then."""
        (job,) = scene.jobs
        now_s = (scene.now_ms - START_MS) / 1000
        last_s = now_s - now_s % every_s
        ranks = []
        for rank in job.ranks:
            columns = story.steps[rank.rank].until(last_s)
            at = [START_MS + 1000 * t for t in range(every_s, int(last_s) + 1, every_s)]
            shown = sorted({int(i) - 1 for i in np.searchsorted(columns.end_ms, at, "right") if i > 0})
            cut = {name: getattr(columns, name)[shown] for name in columns.__dataclass_fields__}
            ranks.append(replace(rank, steps=Steps(**cut), heard_ms=START_MS + int(last_s * 1000)))
        return replace(scene, jobs=[replace(job, ranks=ranks)])

    story = Story(ranks=2, told_by=ToldBy.METRICS)
    story.change = lambda scene: scraped(scene, story)
    assert not _found(story, 400, 1000)
    story.stop(at_s=800)
    at_s, _ = _found(story, 400, 1000)[0]
    assert at_s - 800 <= every_s + 130  # it may save for the first time


def test_a_stall_ends_with_the_next_step() -> None:
    story = Story(ranks=2)
    story.pause(at_s=800, for_s=50)
    times = [at_s for at_s, _ in _found(story)]
    assert times
    assert max(times) < 860


def test_what_is_found_again_is_the_same() -> None:
    story = Story()
    story.stop(at_s=800)
    keys = {(finding.key, finding.onset_ms) for _, finding in _found(story)}
    assert len(keys) == 1


def test_doubtful_telemetry_lowers_the_confidence() -> None:
    story = Story()
    story.stop(at_s=800, ranks=[5])
    story.stop(at_s=802.5)
    _, sure = _found(story)[0]
    from trilens.model.workload import Doubt

    story.change = lambda scene: replace(scene, suspects={5: (Doubt("gap", "nothing was said"),)})
    _, unsure = _found(story)[0]
    assert unsure.confidence < sure.confidence
    assert unsure.doubts
