"""D010: who crashed, and who only followed."""

from __future__ import annotations

import pytest

from scenes import IDLE, START_MS, Story
from trilens.detect.crash import Crash
from trilens.detect.scene import Figure
from trilens.model.life import Phase
from trilens.model.run import Ending


def _found(story: Story, from_s: float = 700, to_s: float = 900):
    return story.findings(Crash(), from_s, to_s)


def _free(story: Story, rank: int, at_s: float) -> None:
    """Its GPU, when its process is dead."""
    story.state(IDLE, rows=[rank], from_s=at_s)
    story.level(Figure.MEMORY_USED, 0.0, rows=[rank], from_s=at_s, noise=0)


def _kill(story: Story, rank: int, at_s: float, *, lost_after_s: float = 6) -> None:
    story.silence(rank, at_s)
    story.end(rank, at_s + lost_after_s, Ending.LOST)
    _free(story, rank, at_s)


def test_a_calm_job_has_not_crashed() -> None:
    assert not _found(Story(), 0, 900)


def test_an_exception_is_named_at_once_with_its_words() -> None:
    story = Story()
    story.end(3, 800, Ending.FAILED, "Traceback ...\nValueError: batch 12 has no labels")
    at_s, finding = _found(story)[0]
    assert at_s == 800
    assert (finding.cause, finding.subject.rank) == ("exception", 3)
    assert "batch 12 has no labels" in finding.text
    assert finding.onset_ms == START_MS + 800_000


def test_the_first_to_fall_is_apart_from_those_that_followed() -> None:
    story = Story()
    story.end(3, 800.5, Ending.FAILED, "torch.OutOfMemoryError: CUDA out of memory. Tried to ...")
    for rank in (0, 1, 2, 4, 5, 6, 7):
        story.end(rank, 800.2, Ending.FAILED, "RuntimeError: [gloo] Connection closed by peer [10.0.0.3]")
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("out-of-memory", 3)
    (followed,) = [one.text for one in finding.evidence if "followed" in one.text]
    assert followed == "ranks 0, 1, 2, 4, 5, 6, 7 followed"


def test_a_killed_rank_is_the_first_though_it_is_known_last() -> None:
    story = Story()
    _kill(story, 5, 800)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        story.end(rank, 801, Ending.FAILED, "DistBackendError: NCCL communicator was aborted")
    found = _found(story)
    assert {(one.cause, one.subject.rank) for _, one in found} == {("killed", 5)}
    assert found[0][0] <= 815


def test_one_with_a_reason_of_its_own_goes_before_those_that_were_then_killed() -> None:
    story = Story()
    story.end(2, 801, Ending.FAILED, "KeyError: 'input_ids'")
    for rank in (0, 1, 3, 4, 5, 6, 7):
        _kill(story, rank, 800)  # last heard before it, killed by the launcher after it
    assert {(one.cause, one.subject.rank) for _, one in _found(story)} == {("exception", 2)}
    all_at_once = story.findings(Crash(), 700, 840, 20)
    assert {(one.cause, one.subject.rank) for _, one in all_at_once} == {("exception", 2)}


def test_one_that_was_killed_long_before_any_reason_was_the_first() -> None:
    story = Story()
    _kill(story, 4, 785)
    story.end(2, 801, Ending.FAILED, "ValueError: a batch is missing")
    all_at_once = story.findings(Crash(), 702, 850, 25)
    assert {(one.cause, one.subject.rank) for at_s, one in all_at_once if at_s > 802} == {("killed", 4)}


def test_ranks_that_only_followed_are_told_of_when_no_other_turns_up() -> None:
    story = Story()
    for rank in (2, 3):
        story.end(rank, 800, Ending.FAILED, "RuntimeError: [gloo] Connection closed by peer")
    at_s, finding = _found(story)[0]
    assert 810 <= at_s <= 815
    assert finding.subject.rank == 2


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        ({"reason": "OOMKilled", "exit_code": 137}, "oom-killed"),
        ({"reason": "Evicted"}, "evicted"),
        ({"reason": "Error", "exit_code": 1}, "exit-code"),
        ({"reason": "Error", "exit_code": 137}, "killed"),
    ],
    ids=["oom", "evicted", "exit", "killed"],
)
def test_a_failed_pod_says_how(pod: dict, cause: str) -> None:
    story = Story()
    for rank in range(8):
        _kill(story, rank, 800)
    story.pod(0, 801, state="Failed", **pod)
    finding = _found(story)[-1][1]
    assert finding.cause == cause
    assert finding.subject.pod is not None


def test_a_pod_of_which_no_program_tells() -> None:
    story = Story(serves=True)
    story.pod(0, 800, state="Failed", reason="OOMKilled", exit_code=137)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("oom-killed", None)


def test_a_container_that_was_started_again() -> None:
    story = Story(serves=True)
    story.pod(0, 800, restarts=1, reason="Error", exit_code=1)
    times = [at_s for at_s, _ in _found(story, 700, 1000)]
    assert times[0] == 800
    assert times[-1] <= 920


def test_a_node_that_is_gone() -> None:
    story = Story(ranks=16)
    for rank in range(8, 16):
        story.silence(rank, 800)
        story.end(rank, 806, Ending.LOST)
    story.gap(800, 1800, rows=range(8, 16))
    story.node_ready("node-1", 804, is_ready=False)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.node) == ("node-gone", "node-1")


@pytest.mark.parametrize("how", ["finished", "frozen", "unheard", "drained", "suspended", "succeeded"])
def test_what_is_no_crash(how: str) -> None:
    story = Story()
    for rank in range(8):
        if how == "finished":
            story.end(rank, 800 + rank, Ending.FINISHED)
            continue
        story.silence(rank, 800)
        story.end(rank, 806, Ending.LOST)
    if how == "frozen":
        story.state(IDLE, from_s=800)
    elif how == "drained":
        story.pod(0, 803, state="Gone")
    elif how == "suspended":
        story.phase(Phase.SUSPENDED, 799)
    elif how == "succeeded":
        story.phase(Phase.SUCCEEDED, 799)
    assert not _found(story)


def test_a_crash_is_told_as_one_finding_while_it_lasts() -> None:
    story = Story()
    story.end(3, 800, Ending.FAILED, "ValueError: no")
    for rank in (0, 1, 2, 4):
        story.end(rank, 800 + 4 * rank, Ending.FAILED, "RuntimeError: Connection reset by peer")
    assert len({one.key for _, one in _found(story)}) == 1


def test_a_crash_is_over_when_its_ranks_live_again() -> None:
    story = Story(ranks=2)
    story.end(1, 800, Ending.FAILED, "ValueError: no")
    detector = Crash()
    assert story.findings(detector, 795, 800)
    assert not Story(ranks=2).findings(detector, 805, 830)


def test_after_a_start_what_is_silent_has_its_time_to_come_back() -> None:
    story = Story()
    for rank in range(8):
        _kill(story, rank, 700)
    story.end(3, 790, Ending.FAILED, "ValueError: from before")
    assert not _found(story, 800, 840)
    assert _found(story, 800, 860)
    again = Story()
    again.end(3, 805, Ending.FAILED, "ValueError: since then")
    assert _found(again, 800, 810)
