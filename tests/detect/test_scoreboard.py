"""The scoreboard's own parts, and some of its episodes: what is scored is what a server would have said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench.detect import report
from bench.detect.episodes import CALM, FAULTS, all_episodes, calm_episodes, fault_episodes
from bench.detect.samples import AskedSamples, Samples
from bench.detect.scoring import run

from trilens.detect.figures import COLUMN_MS, FIELDS, KEY_LABELS
from trilens.model.finding import FindingKind
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.own_queries import Times

if TYPE_CHECKING:
    from bench.detect.scoring import Outcome

SEED = 11


def test_there_are_enough_of_both_and_none_is_twice() -> None:
    episodes = all_episodes(SEED)
    of_faults = Counter(one.fault is not None for one in episodes)
    assert of_faults[True] >= 200
    assert of_faults[False] >= of_faults[True]
    assert len({one.seed for one in episodes}) == len(episodes)
    assert not {one.seed for one in episodes} & {one.seed for one in all_episodes(SEED + 1)}
    assert [one.key for one in all_episodes(SEED)] == [one.key for one in episodes]
    assert {kind for one in FAULTS for kind in one.named_by} == set(FindingKind), "each kind is asked for"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """One episode of each of these, without what takes long."""
    wanted = {"hang: collective", "crash: exception"}
    faults = [one for one in FAULTS if one.name in wanted]
    calm = [one for one in CALM if one.name == "long checkpoint"]
    chosen = {one.name: one for one in [*fault_episodes(SEED, faults), *calm_episodes(SEED, calm)]}
    return {name: run(one, slow=False, rules=name.startswith("crash")) for name, one in chosen.items()}


def test_a_hang_is_named_in_seconds_with_its_rank(outcomes: dict[str, Outcome]) -> None:
    score = outcomes["hang: collective"].trilens
    assert score.named_s is not None
    assert score.named_s <= 60
    assert (score.right_cause, score.right_rank, score.false) == (True, True, [])


def test_a_crash_is_seen_by_the_classic_rules_too_but_not_whose_it_was(outcomes: dict[str, Outcome]) -> None:
    found = outcomes["crash: exception"]
    assert (found.trilens.right_cause, found.trilens.right_rank) == (True, True)
    assert found.classic.named_s is not None
    assert (found.classic.right_cause, found.classic.right_rank) == (True, False)


def test_a_long_checkpoint_is_no_trouble(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["long checkpoint"].trilens.false == []
    assert not any(found.defects for found in outcomes.values())


def test_the_last_line_and_the_tables(outcomes: dict[str, Outcome]) -> None:
    line = report.last_line(list(outcomes.values()))
    assert line.startswith("detect: precision 1.000 recall 1.000 median_s ")
    assert line.endswith(" rank 1.000")
    told = report.main_tables(list(outcomes.values()), SEED)
    assert "| hang: collective | 1 |" in told
    assert "| long checkpoint | 1 | 0 |" in told


def test_what_is_said_for_nothing_lowers_precision(outcomes: dict[str, Outcome]) -> None:
    calm = outcomes["long checkpoint"]
    calm.trilens.false += ["stall (data) at 300 s: x", "stall (data) at 400 s: again", "hang (-) at 300 s: y"]
    try:
        figures = report.figures(list(outcomes.values()), lambda one: one.trilens)
        assert (figures.named, figures.false, figures.precision) == (2, 2, 0.5)
    finally:
        calm.trilens.false.clear()


def test_questions_are_answered_as_the_engine_answers_them() -> None:
    samples, start_ms = Samples(), 1_768_392_000_000
    random = np.random.default_rng(1)
    names = ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_PROF_NVLINK_TX_BYTES"]
    # A GPU of which two series tell, one that stops, and one that says that it does.
    told = [("GPU-0", "a"), ("GPU-0", "b"), ("GPU-1", "a"), ("GPU-2", "a")]
    for second in range(0, 40, 5):
        for name in names:
            for uuid, pod in told:
                if uuid == "GPU-1" and second >= 25:
                    continue
                labels = make_labels({METRIC_NAME: name, "UUID": uuid, "pod": pod})
                at_ms = start_ms + 1000 * second + int(random.integers(0, 4_000))
                samples.add(labels, at_ms, float(random.integers(0, 1000)))
        if second == 30:
            gone = [h for h, labels in enumerate(samples.labels) if labels["UUID"] == "GPU-2"]
            samples.end(np.array(gone), start_ms + 34_500)
            told = told[:3]
    times = Times(start_ms + 30_000, COLUMN_MS, 3)
    asked, engine = AskedSamples(samples, {"now": times.end_ms}), Engine(samples)  # type: ignore[arg-type]
    for field in FIELDS:
        answer = asked.matrix(field.query, times, KEY_LABELS)
        right = engine.range(field.query, times.start_ms, times.end_ms, COLUMN_MS, QueryGuard())
        present = right.present if right.present is not None else np.ones(right.values.shape, bool)
        wanted = {
            (right.labels.labels(row).get("UUID", ""), ""): np.where(present[row], right.values[row], np.nan)
            for row in range(len(right.labels))
        }
        assert set(answer.keys) == set(wanted), field.name
        for row, key in enumerate(answer.keys):
            np.testing.assert_array_equal(answer.values[row], wanted[key], field.name)
    shown = asked.vector('timestamp(DCGM_FI_DEV_POWER_USAGE{run=""})')
    assert {one.labels["UUID"] for one in shown} == {"GPU-0", "GPU-1"}
