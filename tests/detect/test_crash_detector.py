"""D010: who crashed, and who only followed."""

from __future__ import annotations

from dataclasses import replace

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
    assert followed == "ranks 0-2, 4-7 followed"


def test_a_killed_rank_is_the_first_though_it_is_known_last() -> None:
    story = Story()
    _kill(story, 5, 800)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        story.end(rank, 801, Ending.FAILED, "DistBackendError: NCCL communicator was aborted")
    found = _found(story)
    assert {(one.cause, one.subject.rank) for _, one in found} == {("killed", 5)}
    assert found[0][0] <= 815


@pytest.mark.parametrize("lost_s", [810, 840])
def test_those_that_follow_are_not_blamed_while_another_is_silent(lost_s: float) -> None:
    """However long it takes until it is missed: ranks of large jobs tell rarely."""
    story = Story()
    _kill(story, 5, 800, lost_after_s=lost_s - 800)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        story.end(rank, 801, Ending.FAILED, "RuntimeError: [gloo] Connection closed by peer [10.0.0.3]")
    found = _found(story)
    assert {(one.cause, one.subject.rank) for _, one in found} == {("killed", 5)}
    assert lost_s <= found[0][0] <= lost_s + 5


def test_one_that_was_killed_soon_after_somebody_began_to_look_is_named() -> None:
    story = Story()
    _kill(story, 5, 800)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        story.end(rank, 801, Ending.FAILED, "RuntimeError: [gloo] Connection closed by peer [10.0.0.3]")
    found = _found(story, 780, 820)
    assert {(one.cause, one.subject.rank) for _, one in found} == {("killed", 5)}


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
    assert 805 <= at_s <= 815
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


def _drained(asked_s: float = 800, fell_s: float = 806, **last: object) -> Story:
    """The pod of the second node is sent away; the other one falls for want of it."""
    story = Story(ranks=16)
    story.pod(1, asked_s, state="Running", asked_to_go_ms=_ms(asked_s), created_ms=START_MS)
    story.pod(1, asked_s + 4, state="Gone", reason="Error", exit_code=143, gone_ms=_ms(asked_s + 4))
    for rank in range(8, 16):
        _kill(story, rank, asked_s + 3)
    for rank in range(8):
        _kill(story, rank, fell_s)
    how = {"state": "Failed", "reason": "Error", "exit_code": 134, "created_ms": START_MS, **last}
    story.pod(0, fell_s, **how)
    return story


def _ms(at_s: float) -> int:
    return START_MS + round(1000 * at_s)


def test_who_is_taken_away_on_purpose_has_not_crashed_nor_have_those_that_needed_it() -> None:
    assert not _found(_drained())


@pytest.mark.parametrize(
    ("fell_s", "last", "cause"),
    [
        pytest.param(806, {"reason": "OOMKilled", "exit_code": 137}, "oom-killed", id="reason-of-its-own"),
        pytest.param(795, {}, "exit-code", id="before"),
        pytest.param(820, {"created_ms": START_MS + 810_000}, "exit-code", id="next-life"),
    ],
)
def test_a_crash_during_a_drain_is_one(fell_s: float, last: dict, cause: str) -> None:
    found = _found(_drained(fell_s=fell_s, **last))
    assert {(one.cause, one.subject.node) for _, one in found} == {(cause, "node-0")}


@pytest.mark.parametrize("serves", [True, False])
def test_a_pod_that_ends_because_it_is_told_to(serves: bool) -> None:
    """Kubernetes shows it as failed for a moment, before it lets it go."""
    story = Story(serves=serves)
    for rank in range(8):
        _kill(story, rank, 799)
    story.pod(0, 800, state="Failed", reason="Error", exit_code=143, asked_to_go_ms=_ms(797))
    assert not _found(story)


def test_an_exception_during_a_drain_is_one() -> None:
    story = _drained()
    story.end(3, 804, Ending.FAILED, "ValueError: batch 12 has no labels")
    assert {(one.cause, one.subject.rank) for _, one in _found(story)} == {("exception", 3)}


def test_a_controller_that_then_takes_the_others_away_does_not_hide_the_first() -> None:
    story = _drained(asked_s=804, fell_s=801, exit_code=1)
    assert {(one.cause, one.subject.node) for _, one in _found(story)} == {("exit-code", "node-0")}


@pytest.mark.parametrize("has_uid", [True, False])
def test_a_pod_of_the_same_name_is_another_one(has_uid: bool) -> None:
    """A job that was preempted comes back: what its last life left is nobody's crash."""
    story = Story()
    for rank in range(8):
        _kill(story, rank, 800)
    story.phase(Phase.QUEUED, 800)
    story.phase(Phase.RUNNING, 860)

    def come_back(scene):
        (job,) = scene.jobs
        if has_uid:
            ranks = [replace(one, process=replace(one.process, pod_uid="pod-llm-0")) for one in job.ranks]
            job = replace(job, ranks=ranks)
        if scene.now_ms >= _ms(850):
            (old,) = job.pods
            new = old._replace(pod=old.pod._replace(uid="another"), created_ms=_ms(850))
            job = replace(job, pods=[new])
        return replace(scene, jobs=[job])

    story.change = come_back
    assert not _found(story)


def test_the_next_pod_of_the_same_name_may_fail_before_its_ranks_say_a_word() -> None:
    story = Story()
    for rank in range(8):
        _kill(story, rank, 800)

    def come_back(scene):
        (job,) = scene.jobs
        ranks = [replace(one, process=replace(one.process, pod_uid="pod-llm-0")) for one in job.ranks]
        pods = [one._replace(asked_to_go_ms=_ms(799)) for one in job.pods]
        if scene.now_ms >= _ms(850):
            fell = {"state": "Failed", "reason": "Error", "exit_code": 1, "changed_ms": _ms(849)}
            pods = [
                one._replace(pod=one.pod._replace(uid="b"), created_ms=_ms(840), **fell) for one in job.pods
            ]
        return replace(scene, jobs=[replace(job, ranks=ranks, pods=pods)])

    story.change = come_back
    found = _found(story)
    assert {(one.cause, one.subject.rank) for _, one in found} == {("exit-code", None)}
    assert found[0][0] == 850


def test_a_failed_pod_that_is_gone_is_told_of_for_a_while() -> None:
    story = Story(serves=True)
    story.pod(0, 800, state="Failed", reason="OOMKilled", exit_code=137, gone_ms=_ms(801))
    times = [at_s for at_s, _ in _found(story, 700, 1000)]
    assert times[0] == 800
    assert 915 <= times[-1] <= 925


def test_a_pod_of_the_last_life_is_told_of_once() -> None:
    """Its ranks did; that it still lies about when the next ones live is not another crash."""
    story = Story()
    for rank in range(8):
        _kill(story, rank, 800)
    story.pod(0, 801, state="Failed", reason="Error", exit_code=1, created_ms=START_MS)

    def begin_again(scene):
        if scene.now_ms < _ms(840):
            return scene
        (job,) = scene.jobs
        new = job.pods[0].pod._replace(name="llm-worker-0-b", uid="another")
        ranks = [
            replace(one, process=replace(one.process, attempt=1, pod=new.name, ending=None))
            for one in job.ranks
        ]
        again = job.pods[0]._replace(pod=new, state="Running", exit_code=None, created_ms=_ms(835))
        return replace(scene, jobs=[replace(job, ranks=ranks, pods=[*job.pods, again])])

    story.change = begin_again
    found = _found(story)
    assert found
    assert max(at_s for at_s, _ in found) < 840


def test_a_node_of_which_nothing_is_heard_is_gone_before_kubernetes_says_so() -> None:
    story = Story(ranks=16)
    for rank in range(8, 16):
        story.silence(rank, 800)
        story.end(rank, 808, Ending.LOST)
    story.gap(800, 1800, rows=range(8, 16))
    story.stop(801)
    at_s, finding = _found(story)[0]
    assert at_s <= 820
    assert (finding.cause, finding.subject.node) == ("node-gone", "node-1")
    assert "nothing is heard of its node" in finding.text
    assert finding.confidence < 0.9


@pytest.mark.parametrize("how", ["goes on", "all silent", "exporter only", "one heard"])
def test_a_node_that_is_only_not_heard(how: str) -> None:
    story = Story(ranks=16)
    silent = range(8, 15) if how == "one heard" else range(8, 16)
    if how != "exporter only":
        for rank in silent:
            story.silence(rank, 800)
            story.end(rank, 808, Ending.LOST)
    if how != "goes on":
        story.stop(801)
    story.gap(800, 1800, rows=range(16) if how == "all silent" else range(8, 16))
    assert not [one for _, one in _found(story, 700, 860) if one.cause == "node-gone"]


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
