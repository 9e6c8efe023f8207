"""The scoreboard's own parts, and some of its episodes: what is scored is what a server would have said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bench.detect import report
from bench.detect.episodes import CALM, FAULTS, all_episodes, calm_episodes, fault_episodes
from bench.detect.real_faults import WRONGS, outcome
from bench.detect.samples import AskedSamples, Samples
from bench.detect.scoring import jobs_hit, run, score
from bench.detect.watched import Said

from trilens.detect.figures import COLUMN_MS, FIELDS, KEY_LABELS
from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.model.workload import WorkloadKey
from trilens.promql.engine import Engine
from trilens.serve.own_queries import Times
from trilens.simulate.truth import FaultTruth, RankOnGpu

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
        assert (figures.named, figures.false, figures.precision) == (2, 3, 0.4)
    finally:
        calm.trilens.false.clear()


TRAIN, OTHER = (WorkloadKey("sim", "ml", "batch", "Job", name, f"{name}-uid") for name in ("train", "other"))
HANG = next(one for one in FAULTS if one.name == "hang: collective")
NODE_GONE = next(one for one in FAULTS if one.name == "crash: node gone")
ONSET_MS = 300_000
TRUTH = FaultTruth("hang", ONSET_MS, job_uid=TRAIN.uid, gpu_uuid="GPU-3", rank=3, node="node-1")


def said(kind: FindingKind, subject: Subject, after_s: float = 10, *, is_new: bool = True) -> Said:
    finding = Finding("D000", kind, subject, Severity.WARNING, "collective", ONSET_MS, "", "", 0.9)
    return Said(finding, ONSET_MS + round(1000 * after_s), is_new)


def test_only_what_is_said_of_the_right_job_after_the_onset_names_it() -> None:
    right = said(FindingKind.HANG, Subject(workload=TRAIN, rank=3), 20)
    early = said(FindingKind.HANG, Subject(workload=TRAIN, rank=3), -40)
    elsewhere = said(FindingKind.STALL, Subject(workload=OTHER))
    follows = said(FindingKind.STALL, Subject(workload=TRAIN), 30)
    unlike = said(FindingKind.STRAGGLER, Subject(workload=TRAIN, rank=3))
    found = score([early, elsewhere, unlike, right, follows], HANG, TRUTH, frozenset({TRAIN.uid}))
    assert (found.named_s, found.right_cause, found.right_rank) == (20.0, True, True)
    assert [text.partition(" ")[0] for text in found.false] == ["hang", "stall", "straggler"]


def test_each_false_finding_counts_and_one_that_is_told_more_exactly_does_not_count_again() -> None:
    wrong = said(FindingKind.STRAGGLER, Subject(workload=OTHER, rank=1))
    sharper = said(FindingKind.STRAGGLER, Subject(workload=OTHER, rank=1, node="n"), 20, is_new=False)
    again = said(FindingKind.STRAGGLER, Subject(workload=OTHER, rank=2), 30)
    assert len(score([wrong, sharper, again], None, None, frozenset()).false) == 2
    assert len(score([wrong, sharper, again], HANG, TRUTH, frozenset({TRAIN.uid})).false) == 2


@pytest.mark.parametrize(
    ("ranks", "is_right"), [((3,), True), ((2,), False), ((2, 3), False), ((None,), False), ((None, 3), True)]
)
def test_the_right_rank_is_the_only_one_that_is_blamed_at_first(
    ranks: tuple[int | None, ...], is_right: bool
) -> None:
    first = [said(FindingKind.HANG, Subject(workload=TRAIN, rank=rank)) for rank in ranks]
    later = said(FindingKind.HANG, Subject(workload=TRAIN, rank=3), 25, is_new=False)
    assert score([*first, later], HANG, TRUTH, frozenset({TRAIN.uid})).right_rank is is_right


def test_what_a_node_does_is_done_to_the_jobs_that_were_on_it() -> None:
    truth = FaultTruth("node-not-ready", ONSET_MS, node="node-1")
    on_gpus = [
        RankOnGpu(TRAIN.uid, 0, "p", 0, 0, "node-1", "GPU-3", "", None, 0),
        RankOnGpu(OTHER.uid, 0, "q", 0, 0, "node-2", "GPU-9", "", None, 0),
        RankOnGpu("gone-before", 0, "r", 0, 0, "node-1", "GPU-4", "", None, 0, 10_000),
    ]
    hit = jobs_hit(truth, on_gpus)
    assert hit == {TRAIN.uid}
    of_both = [said(FindingKind.CRASH, Subject(workload=one)) for one in (OTHER, TRAIN)]
    found = score(of_both, NODE_GONE, truth, hit)
    assert found.named_s == 10.0
    assert len(found.false) == 1


def test_of_a_real_fault_counts_what_was_said_first() -> None:
    wrong = WRONGS[0]
    early = {"kind": "stall", "cause": "-", "detected_ms": 90_000, "rank": 1, "confidence": 0.9}
    unsure = {"kind": "hang", "cause": "-", "detected_ms": 104_000, "rank": 1, "confidence": 0.3}
    first = {"kind": "crash", "cause": "killed", "detected_ms": 112_000, "rank": 2, "confidence": 0.9}
    second = {**first, "detected_ms": 115_000, "rank": 1}
    found = outcome(wrong, 1, 100.0, iter([[early, unsure], [early, unsure, first, second]]))
    assert found == (wrong.what, "crash (killed)", 12.0, False, 1)
    assert outcome(wrong, 1, 100.0, iter([[early]])).named_s is None
    told = report.real_table([found, found._replace(right_rank=True)])
    assert "| 2 | 2 | crash (killed) | 12 | 12 | 1 | 2 |" in told


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
