"""Without steps: what a GPU's own telemetry makes of its minutes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from coarse_story import HOUR_MS, JOB, MINUTE, UUID, Story, assert_covers, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.ledger.source import Signals
from trilens.ledger.telemetry.coarse import Asked, coarse_spans
from trilens.ledger.telemetry.idle_power import waiting_watts
from trilens.model.ledger_facts import Facts
from trilens.model.workload import GpuUuid
from trilens.simulate.hardware import MODELS

WORKS, IDLE, NEVER = "productive busy gpu", "allocated_idle idle gpu", "allocated_idle never-used gpu"
HUNG, UNTOLD = "stalled hung gpu", "productive no-signal none"


@pytest.mark.parametrize(
    ("letters", "told"),
    [
        ("wwwwwwwwww", [(WORKS, 10)]),
        ("wllwffwwww", [(WORKS, 10)]),
        ("www....www", [(WORKS, 3), (IDLE, 4), (WORKS, 3)]),
        ("www..wwwww", [(WORKS, 10)]),  # two quiet minutes in a row are a checkpoint, or late data
        (".w.w.w....", [(WORKS, 6), (IDLE, 4)]),
        ("wwhhhhhhhh", [(WORKS, 2), (HUNG, 8)]),
        ("wwwhhwwwww", [(WORKS, 10)]),
        ("wwwhhhh...", [(WORKS, 3), (HUNG, 4), (IDLE, 3)]),
        ("..........", [(NEVER, 10)]),
        ("....wwwwww", [(NEVER, 4), (WORKS, 6)]),
        ("ww???wwwww", [(WORKS, 10)]),  # what was last said holds for a while
        ("ww??????????", [(WORKS, 7), (UNTOLD, 5)]),
        ("????????ww", [(UNTOLD, 8), (WORKS, 2)]),
        ("??????????", [(UNTOLD, 10)]),
    ],
)
def test_minutes_by_what_the_gpu_did(letters: str, told: list[tuple[str, float]]) -> None:
    assert Story(letters).told() == told


def test_a_gpu_that_nobody_tells_of() -> None:
    story = Story("wwww")
    story.gpus = replace(story.gpus, gpus={("GPU-other", ""): 0})
    assert story.told() == [(UNTOLD, 4)]


def test_what_is_asked_beyond_the_signals_is_not_told() -> None:
    story = Story("wwww")
    story.from_ms -= 90_000
    story.to_ms += 30_000
    assert story.told() == [(UNTOLD, 1.5), (WORKS, 4), (UNTOLD, 0.5)]


def test_a_part_of_a_minute_is_as_that_minute() -> None:
    story = Story("wwww....")
    story.from_ms += 3 * MINUTE + 30_000
    story.to_ms -= 45_000
    assert story.told() == [(WORKS, 0.5), (IDLE, 3.25)]


def test_since_when_from_before_what_is_asked() -> None:
    assert Story("wwww...... ......", asked=10, since=0).since() == [4.0]
    assert Story("wwwwwhhhhh hhhhhh", asked=10, since=0).since() == [5.0]
    assert Story("wwwwwwwwww wwwwww", asked=10, since=0).since() == [None]  # work is no episode


def test_what_began_before_what_was_read_is_not_dated() -> None:
    story = Story("..........", since=-30)
    assert story.told() == [(IDLE, 10)]  # it may have worked before
    assert story.since() == [None]


def test_what_another_did_on_the_gpu_before_is_not_its_own() -> None:
    story = Story("wwwwwww... ....ww", asked=10, since=8)
    assert story.told() == [(NEVER, 4), (WORKS, 2)]
    assert story.since() == [8.0, None]
    assert Story("......... .wwww", asked=9, since=9).told() == [(WORKS, 5)]  # one quiet minute, beside work


def test_hung_is_by_the_model_s_own_power() -> None:
    assert Story("hhhhhh", model="NVIDIA L4").told() == [(WORKS, 6)]  # 121 W is more than an L4 can draw
    assert Story("wwwwww", model="NVIDIA B200").told() == [(WORKS, 6)]


def test_of_an_unknown_model_its_own_quiet_minutes_tell_what_little_power_is() -> None:
    assert Story("....hhhhhh", model="Rubin R100").told() == [(NEVER, 4), (HUNG, 6)]
    # At full load all the time, and never seen quiet: nothing says that this is little.
    assert Story("ffffffffff", model="Rubin R100").told() == [(WORKS, 10)]
    assert Story("ffff....ff", model="").told() == [(WORKS, 4), (IDLE, 4), (WORKS, 2)]


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_hang_of_the_simulator_is_one_and_its_work_is_not(model: str) -> None:
    found = MODELS[model]
    limit = waiting_watts(found.product)
    assert limit is not None
    assert found.idle_watts + 0.095 * (found.most_watts - found.idle_watts) <= limit
    assert limit < 0.55 * found.most_watts


def test_what_was_measured_on_an_h200() -> None:
    limit = waiting_watts("NVIDIA H200")
    assert limit is not None
    assert 141.3 < limit < 160
    assert waiting_watts("NVIDIA A1000") is None
    assert waiting_watts("NVIDIA H100 NVL") == waiting_watts("NVIDIA H800")


def test_activity_tells_where_utilisation_does_not() -> None:
    """Only profiling reports: with MIG, or where the exporter's file leaves utilisation out."""
    story = Story("?" * 6)
    busy = np.array([[0.4, 0.4, 0.4, 0.0, 0.0, 0.0]])
    story.gpus = replace(story.gpus, busy=busy)
    assert story.told() == [(WORKS, 3), (IDLE, 3)]


def test_a_mig_instance_is_told_apart_from_its_neighbour() -> None:
    story = Story("wwww")
    both = np.array([[0.9] * 4, [0.0] * 4])
    nan = np.full(both.shape, np.nan)
    gpus = replace(
        story.gpus, gpus={(UUID, "7"): 0, (UUID, "8"): 1}, active=both, busy=nan, watts=nan, throttled=nan
    )
    asked = [Asked(UUID, one, pod(f"mig-{one}"), JOB, story.from_ms, story.to_ms) for one in ("7", "8")]
    found = coarse_spans(asked, story.facts(), Signals(gpus, story.serving))
    assert [span.parts[0].bucket.value for (span,) in found] == ["productive", "allocated_idle"]


@settings(max_examples=30, deadline=None)
@given(
    letters=st.lists(st.text("wl.h?f", min_size=12, max_size=12), min_size=1, max_size=5),
    edges=st.tuples(st.integers(-100_000, 400_000), st.integers(1, 900_000)),
    since=st.integers(-5, 5),
)
def test_every_millisecond_is_in_one_span(letters: list[str], edges: tuple[int, int], since: int) -> None:
    story = Story(letters[0], since=since)
    read = [Story(one).gpus for one in letters]
    names = {(f"GPU-{at}", ""): at for at in range(len(letters))}
    gpus = replace(
        read[0],
        gpus=names,
        active=np.concatenate([one.active for one in read]),
        watts=np.concatenate([one.watts for one in read]),
        busy=np.concatenate([one.busy for one in read]),
    )
    from_ms = HOUR_MS + edges[0]
    asked = [
        Asked(GpuUuid(f"GPU-{at}"), "", pod(), JOB, from_ms, from_ms + edges[1]) for at in range(len(letters))
    ]
    for one, spans in zip(
        asked, coarse_spans(asked, story.facts(), Signals(gpus, story.serving)), strict=True
    ):
        assert_covers(one, spans)
        for before, after in pairwise(spans):
            assert (before.parts[0][:2], before.basis) != (after.parts[0][:2], after.basis)


def test_nothing_asked_and_nothing_told() -> None:
    story = Story("w")
    assert coarse_spans([], Facts(0, 1), Signals(story.gpus, story.serving)) == []
