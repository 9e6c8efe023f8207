"""D003: ranks that become slow, and spreads that only are what they are."""

from __future__ import annotations

import csv
from functools import partial

import numpy as np
import pytest

from scenes import START_MS, Story, joined
from servers import require_corpus
from trilens.detect.scene import ToldBy
from trilens.detect.straggler import Straggler
from trilens.detect.straggler_table import slow_spells
from trilens.model.finding import Severity


def _found(story: Story, from_s: float = 380, to_s: float = 600):
    return story.findings(Straggler(), from_s, to_s)


def _work(story: Story, *, spread: float = 0.0, noise: float = 0.02) -> list[np.ndarray]:
    """What each rank needs itself in each step; the rest of a step it waits."""
    random = np.random.default_rng(story.seed)
    paces = 1 + spread * random.standard_normal(story.ranks)
    steps = len(story.steps[0].step)
    return [story.step_s * 0.8 * pace * (1 + noise * random.standard_normal(steps)) for pace in paces]


def _synchronous(story: Story, work: list[np.ndarray]) -> None:
    """All wait for the slowest."""
    s = np.max(work, axis=0) + 0.1 * story.step_s
    for columns, own in zip(story.steps, work, strict=True):
        columns.s, columns.end_s, columns.sync_s = s, np.cumsum(s), s - own


def _slow(story: Story, rank: int, factor: float, *, from_step: int = 200, to_step: int = 10_000) -> Story:
    work = _work(story)
    work[rank][from_step:to_step] *= factor
    _synchronous(story, work)
    return story


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("factor", [1.15, 1.3, 2.0])
def test_the_rank_that_becomes_slow(ranks: int, factor: float) -> None:
    story = _slow(Story(ranks=ranks, seed=1), 1, factor)
    began_s = float(story.steps[0].end_s[199])
    at_s, finding = _found(story)[0]
    assert at_s - began_s <= 20 * factor * story.step_s
    assert (finding.code, finding.cause, finding.severity) == ("D003", "compute", Severity.WARNING)
    assert (finding.subject.rank, finding.subject.gpu) == (1, "GPU-llm-1")
    assert finding.onset_ms == pytest.approx(START_MS + began_s * 1000, abs=2 * factor * 2000)
    assert finding.figures["slowdown"] == pytest.approx(factor, rel=0.05)
    assert finding.figures["job_slowdown"] == pytest.approx(factor * 0.89 + 0.1, rel=0.1)
    assert {one.subject.rank for _, one in _found(story)} == {1}


def test_it_ends_when_the_rank_is_as_fast_as_before() -> None:
    story = _slow(Story(ranks=4, seed=2), 2, 1.4, to_step=260)
    ended_s = float(story.steps[0].end_s[260])
    last_s, _ = _found(story)[-1]
    assert -5 <= last_s - ended_s <= 30 * story.step_s


def test_one_that_comes_and_goes_is_one_straggler() -> None:
    story = Story(ranks=4, seed=2)
    work = _work(story)
    for first in range(200, 700, 50):
        work[2][first : first + 35] *= 1.4  # and 15 steps as before
    _synchronous(story, work)
    found = [at_s for at_s, _ in _found(story, 380, 1100)]
    assert max(np.diff(found)) <= 5
    assert found[-1] == 1100


@pytest.mark.parametrize("for_s", [40, 300])
def test_a_checkpoint_does_not_end_it(for_s: float) -> None:
    story = _slow(Story(ranks=4, seed=2), 2, 1.4)
    story.pause(at_s=700, for_s=for_s, doing="checkpoint")
    found = [at_s for at_s, _ in _found(story, 380, 1200)]
    assert max(np.diff(found)) <= 5
    assert found[-1] == 1200
    story = _slow(Story(ranks=4, seed=2), 2, 1.4)
    story.stop(at_s=700)  # what makes no steps is stalled, and no longer slow
    assert _found(story, 380, 1200)[-1][0] <= 780


def test_a_rank_that_waits_for_its_data() -> None:
    story = _slow(Story(ranks=4, seed=3), 2, 1.5)
    story.steps[2].data_s[200:] += 0.4 * story.step_s
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.rank) == ("data", 2)
    assert "loader" in finding.action


def test_all_of_a_node_are_that_node() -> None:
    story = Story(ranks=24, seed=4)
    work = _work(story)
    for rank in range(8, 16):
        work[rank][200:] *= 1.3
    _synchronous(story, work)
    found = _found(story)
    assert {(one.subject.rank, one.subject.node) for _, one in found} == {(None, "node-1")}
    assert "ranks 8-15" in found[0][1].text


def test_the_worst_of_a_node_is_the_one() -> None:
    story = Story(ranks=16, seed=5)  # the others of its tensor-parallel group wait within their work
    work = _work(story)
    for rank in range(8, 16):
        work[rank][200:] *= 1.6 if rank == 11 else 1.2
    _synchronous(story, work)
    assert {one.subject.rank for _, one in _found(story)} == {11}


CALM = {
    "spread": lambda story: _work(story, spread=0.15),
    "noisy": lambda story: _work(story, noise=0.25),
    "all-slower": lambda story: [np.where(np.arange(len(own)) > 200, 1.5, 1) * own for own in _work(story)],
    "a-few": lambda story: [
        np.where((np.arange(len(own)) % 50 < 3) & (rank == 1), 3, 1) * own
        for rank, own in enumerate(_work(story))
    ],
    "first-steps": lambda story: [
        np.where((np.arange(len(own)) < 5) & (rank == 1), 20, 1) * own
        for rank, own in enumerate(_work(story))
    ],
    "drift": lambda story: [
        own * (1 + 0.00005 * rank * np.arange(len(own))) for rank, own in enumerate(_work(story))
    ],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", CALM)
def test_calm_ones(how: str, seed: int) -> None:
    story = Story(ranks=8, seed=seed)
    _synchronous(story, CALM[how](story))
    assert not _found(story, 20, 900)


def test_a_restart_begins_anew_and_what_came_before_the_first_look_counts() -> None:
    story = _slow(Story(ranks=4, seed=6), 2, 1.4)
    began_s = float(story.steps[0].end_s[199])
    (_, finding), *_ = _found(story, began_s + 60, began_s + 70)  # seen with its history
    assert finding.subject.rank == 2


def test_metrics_do_not_tell_who_waits_for_whom() -> None:
    assert not _found(_slow(Story(ranks=4, seed=7, told_by=ToldBy.METRICS), 2, 1.5))


def test_jobs_are_told_apart() -> None:
    calm, slow = Story(ranks=4, seed=8), _slow(Story(ranks=4, seed=9, name="other"), 3, 1.4)
    detector = Straggler()
    found = [
        one
        for at_s in range(380, 600, 5)
        for one in detector.look(joined(calm.scene(at_s), slow.scene(at_s)))
    ]
    assert {(one.subject.workload, one.subject.rank) for one in found} == {(slow.workload, 3)}


# Tables


@pytest.fixture(scope="module")
def production() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten workers of one job: worker, time, and how long a step took."""
    with require_corpus("stragglers", "job_2_norm.csv").open() as file:
        rows = list(csv.DictReader(file))
    column = lambda name: np.array([float(row[name]) for row in rows])  # noqa: E731
    return column("worker").astype(np.intp), column("time"), column("batch_time_norm")


def test_a_stable_spread_of_production_stays_quiet(production) -> None:
    assert slow_spells(*production) == []


def test_the_same_workers_step_by_step_stay_quiet(production) -> None:
    workers, _, took = production
    story = Story(ranks=10, step_s=1.0, seconds=240)
    for rank, columns in enumerate(story.steps):
        own = took[workers == rank] / 1000
        columns.keep(np.arange(len(columns.step)) < len(own))
        columns.s, columns.sync_s = own[: len(columns.step)], np.zeros(len(columns.step))
        columns.end_s = np.cumsum(columns.s)
    assert not _found(story, 20, 240)


@pytest.mark.parametrize(
    ("first", "last", "factor"), [(1000, 1500, 1.15), (1, 600, 1.3), (300, 2600, 1.3), (700, 900, 2.0)]
)
@pytest.mark.parametrize("worker", [0, 5, 8])
def test_a_spell_in_production_is_found_with_its_edges(
    production, worker: int, first: float, last: float, factor: float
) -> None:
    workers, when, took = production
    is_slow = (workers == worker) & (when >= first) & (when <= last)
    (spell,) = slow_spells(workers, when, np.where(is_slow, factor * took, took))
    assert spell.worker == worker
    assert abs(when[spell.first] - when[is_slow].min()) <= 50  # five steps
    assert abs(when[spell.last] - when[is_slow].max()) <= 50
    assert spell.slowdown == pytest.approx(factor, rel=0.06)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_noise_alone_is_no_straggler(noise: float) -> None:
    random = np.random.default_rng(1)
    rows = partial(np.tile, reps=8)
    took = np.exp(noise * random.standard_normal((8, 500)) + 0.15 * random.standard_normal((8, 1)))
    workers = np.repeat(np.arange(8), 500)
    assert slow_spells(workers, rows(np.arange(500.0)), took.ravel()) == []
