"""Without steps: inference servers by their requests, and pods that do not run yet by their phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from coarse_story import JOB, Story, pod

from trilens.model.life import Phase
from trilens.model.workload import Membership

BUSY, IDLE = "serving_busy requests load", "serving_idle no-requests load"
LOADING = "starting loading load"
KSERVE = ("serving.kserve.io", "InferenceService")
WORKS, NEVER = "productive busy gpu", "allocated_idle never-used gpu"


def test_minutes_with_requests_and_without() -> None:
    story = Story("wwwwwwwwww", since=-9).serves("5540000030")
    assert story.told() == [(BUSY, 3), (IDLE, 5), (BUSY, 1), (IDLE, 1)]


def test_a_server_that_is_asked_nothing_is_not_idle_as_a_job_is() -> None:
    assert Story("..........", since=-9).serves("0000000000").told() == [(IDLE, 10)]


def test_since_when_nobody_asks_is_told_of_what_lasts() -> None:
    story = Story("w" * 24, since=-9).serves("55 0000 0000 0000 5 000000000")
    assert story.told() == [(BUSY, 2), (IDLE, 12), (BUSY, 1), (IDLE, 9)]
    assert story.since() == [None, 2.0, None, None]


def test_before_its_first_answer_it_starts() -> None:
    story = Story("..ww......").serves("????000500")
    assert story.told() == [(LOADING, 4), (IDLE, 3), (BUSY, 1), (IDLE, 2)]
    assert story.since()[0] == 0.0
    older = Story("..ww......", since=-9).serves("????000500")  # it may have answered before
    assert older.told()[0] == ("serving_idle idle gpu", 2)


def test_a_server_by_its_kind_of_which_only_the_gpu_tells() -> None:
    story = Story("wwww......", since=-9).serves("??????????", kind=KSERVE)
    assert story.told() == [("serving_busy busy gpu", 4), ("serving_idle idle gpu", 6)]
    assert Story("??????????", since=-9).serves("??????????", kind=KSERVE).told() == [
        ("productive no-signal none", 10)
    ]


def test_other_pods_of_a_replica_work_for_the_one_that_answers() -> None:
    story = Story("hhhhhhhhhh", since=-9).serves("5550000000", name="leader-0")
    story.others = [Membership(pod("leader-0"), JOB, role="leader", group=0)]
    assert story.told() == [(BUSY, 3), (IDLE, 7)]


def test_of_several_replicas_each_has_its_own_requests() -> None:
    story = Story("wwwww", since=-9).serves("55555", name="leader-1")
    loads = np.array([[5.0] * 5, [0.0] * 5])
    story.serving = replace(
        story.serving,
        pods={("lab", "ml", "leader-1"): 0, ("lab", "ml", "leader-0"): 1},
        requests=loads,
        running=np.full(loads.shape, np.nan),
        tokens=np.full(loads.shape, np.nan),
    )
    story.others = [Membership(pod(f"leader-{at}"), JOB, role="leader", group=at) for at in (0, 1)]
    assert story.told() == [(IDLE, 5)]


def test_a_hole_in_what_is_told_is_as_before() -> None:
    story = Story("wwwwwwwwwwww", since=-9).serves("55??00??????")
    assert story.told() == [(BUSY, 4), (IDLE, 7), ("serving_busy busy gpu", 1)]


def test_a_pod_that_does_not_run_yet_starts() -> None:
    story = Story("......wwww").phase(Phase.PULLING, -3, 2.5).phase(Phase.STARTING, 2.5, 5)
    story.phase(Phase.RUNNING, 5, None)
    assert story.told() == [
        ("starting pulling phase", 2.5),
        ("starting loading phase", 2.5),
        (NEVER, 1),
        (WORKS, 4),
    ]
    assert story.since() == [-3.0, 2.5, 0.0, None]


def test_also_where_no_telemetry_tells() -> None:
    story = Story("??????????").phase(Phase.PULLING, 0, 4)
    assert story.told() == [("starting pulling phase", 4), ("productive no-signal none", 6)]


def test_who_has_computed_does_not_wait_for_those_that_look_for_a_node() -> None:
    """A Job of many tasks is said to be scheduling for as long as one of them has no node."""
    story = Story("wwww....ww").phase(Phase.SCHEDULING, -60, None)
    assert story.told() == [(WORKS, 4), ("allocated_idle idle gpu", 4), (WORKS, 2)]


def test_between_two_lives() -> None:
    story = Story("wwww....ww").phase(Phase.RESTARTING, 4.5, 7)
    assert [bucket for bucket, _ in story.told()] == [
        WORKS,
        "allocated_idle idle gpu",
        "starting restarting phase",
        "allocated_idle idle gpu",
        WORKS,
    ]


def test_the_phase_of_another_attempt_says_nothing() -> None:
    story = Story("..........").phase(Phase.PULLING, 0, 10, attempt=1)
    assert story.told() == [(NEVER, 10)]
