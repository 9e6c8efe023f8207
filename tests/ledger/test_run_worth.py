"""How far a metric came, what it cost, and when it stopped."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_nights import NIGHT_MS, first_hour, holder, hour, row
from memory_book import MemoryBook
from trilens.ledger.answers.run_cost import RunLife, run_costs, spent_after
from trilens.ledger.answers.worth import (
    Course,
    Point,
    default_metric,
    pareto_front,
    stepped_course,
    stopped_improving,
    validated_course,
    wants_more,
)
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.run import RunId, ValidationRecord
from trilens.model.run_curve import Curve
from trilens.model.run_sums import CurvePoint

RUN = RunId("run-1")
UNIT = 10**9


def course(*values: float, maximize: bool = False) -> Course:
    points = tuple(Point(1_000 * at, at, value) for at, value in enumerate(values))
    return Course("loss", "validation", maximize, points)


def test_final_best_and_improvement() -> None:
    found = course(4.0, 1.0, 1.0, 2.0)
    assert (found.final, found.best) == (Point(3_000, 3, 2.0), Point(1_000, 1, 1.0))
    assert found.improvement_percent == 75.0
    assert course(0.5, 0.75, maximize=True).improvement_percent == 50.0
    assert course(1.0).improvement_percent is None
    assert course(0.0, 1.0, maximize=True).improvement_percent is None


@pytest.mark.parametrize("name", ["accuracy", "val_acc", "eval/f1", "top1", "mean_reward", "mAP"])
def test_more_is_better_of(name: str) -> None:
    assert wants_more(name)


@pytest.mark.parametrize("name", ["loss", "perplexity", "wer", "tracked_error", "step_time", "swap"])
def test_less_is_better_of(name: str) -> None:
    assert not wants_more(name)


def test_the_metric_that_is_meant() -> None:
    assert default_metric(["acc", "loss"], ["loss"]) == "loss"
    assert default_metric(["acc", "eval_loss"], ["loss"]) == "eval_loss"
    assert default_metric(["acc"], ["loss"]) == "acc"
    assert default_metric([], ["lr", "train_loss"]) == "train_loss"
    assert default_metric([], ["lr"]) is None


def test_validations_are_of_one_rank_in_their_order_and_finite() -> None:
    told = [
        ValidationRecord(RUN, step, rank, 0, step, t_ms, None, {"loss": value})
        for step, rank, t_ms, value in [
            (3, 1, 30, 9.0),
            (2, 0, 20, 2.0),
            (1, 0, 10, 3.0),
            (4, 0, 40, math.nan),
        ]
    ]
    assert [one.value for one in validated_course("loss", told).points] == [3.0, 2.0]
    assert validated_course("acc", told).points == ()


def test_steps_count_by_hundredths() -> None:
    curve = Curve.of(
        CurvePoint(step, 0, 1_000_000 * step, 0.0 if step == 500 else 1.0, 1.0, 0) for step in range(1_000)
    )
    found = stepped_course("loss", curve)
    assert len(found.points) == 100
    assert found.best is not None and found.best.value == 1.0, "one lucky batch is no best value"
    assert stepped_course("loss", Curve.of([])).points == ()


def test_a_run_had_stopped_improving() -> None:
    stopped = stopped_improving(course(2.0, 1.5, 1.0, 0.995, 0.993, 0.992), 5_000)
    assert stopped is not None
    assert (stopped.at.step, stopped.values) == (2, 3)
    small = course(1.0, 0.995, 0.990, 0.985, 0.980, 0.975)
    found = stopped_improving(small, 5_000)
    assert found is None, "small steps that add up count"
    assert stopped_improving(small, 5_000, least_gain=0.5) is not None
    assert stopped_improving(course(2.0, 1.0, 1.0, 1.0), 3_000) is None, "two values are a pause"
    assert stopped_improving(course(0.1, 0.5, 0.5, 0.5, 0.5, maximize=True), 4_000) is not None
    assert stopped_improving(course(), 0) is None


@settings(max_examples=60)
@given(
    st.dictionaries(st.text("abcdef", max_size=3), st.tuples(st.integers(0, 5), st.integers(0, 5))),
    st.booleans(),
)
def test_the_front_is_what_no_other_beats(found: dict[str, tuple[int, int]], maximize: bool) -> None:
    runs = {RunId(name): (cost, float(value)) for name, (cost, value) in found.items()}

    def beats(one: tuple[int, float], other: tuple[int, float]) -> bool:
        as_good = one[1] >= other[1] if maximize else one[1] <= other[1]
        return one[0] <= other[0] and as_good and one != other

    expected = {run for run, one in runs.items() if not any(beats(other, one) for other in runs.values())}
    assert pareto_front(runs, maximize=maximize) == expected


def booked(*numbers: int) -> MemoryBook:
    """Hours of a run with two GPUs."""
    return MemoryBook(
        *(
            hour(
                NIGHT_MS + n * HOUR_MS,
                row(NIGHT_MS + n * HOUR_MS, holder("a", "x", RUN), Bucket.PRODUCTIVE, gpus=2),
            )
            for n in numbers
        )
    )


def test_a_run_costs_what_its_hours_say() -> None:
    life = RunLife(RUN, NIGHT_MS, NIGHT_MS + 3 * HOUR_MS)
    found = run_costs(booked(0, 1, 2), [life], life.to_ms)[RUN]
    assert (found.quanta, found.currency, found.time.gpu_ms) == (24 * UNIT, "USD", 6 * HOUR_MS)


def test_a_run_that_was_paid_in_two_currencies_has_no_one_amount() -> None:
    """Its time is known all the same, and another run beside it has its own."""
    at, other = NIGHT_MS, RunId("other")
    ours = [
        row(at, holder("a", "x", RUN), Bucket.PRODUCTIVE, gpus=2),
        row(at, holder("a", "x", RUN), Bucket.PRODUCTIVE, node="eu-01", currency="EUR"),
        row(at, holder("b", "x", other), Bucket.PRODUCTIVE, node="eu-01", currency="EUR"),
    ]
    book, now_ms = MemoryBook(hour(at, *ours)), at + HOUR_MS
    found = run_costs(book, [RunLife(run, at, now_ms) for run in (RUN, other)], now_ms)
    assert (found[RUN].quanta, found[RUN].currency) == (None, None)
    assert (found[RUN].time.quanta, found[RUN].time.currency) == (0, ""), "dollars and euros are no sum"
    assert found[RUN].time.gpu_ms == 3 * HOUR_MS
    assert (found[other].quanta, found[other].currency) == (4 * UNIT, "EUR")
    after = spent_after(book, {RUN: at}, now_ms)[RUN]
    assert (after.quanta, after.currency, after.time.gpu_ms) == (None, None, 3 * HOUR_MS)


def test_a_part_is_not_taken_for_the_whole() -> None:
    now_ms = NIGHT_MS + 3 * HOUR_MS
    assert run_costs(booked(1, 2), [RunLife(RUN, NIGHT_MS, now_ms)], now_ms) == {}
    assert run_costs(booked(0, 2), [RunLife(RUN, NIGHT_MS, now_ms)], now_ms) == {}
    running = RunLife(RUN, NIGHT_MS, now_ms - 1)
    assert RUN in run_costs(booked(0, 1), [running], now_ms - 1), "the open hour may not be computed yet"
    assert run_costs(booked(0, 1), [], now_ms) == {}


def test_a_run_that_began_before_the_ledger_did_has_no_cost() -> None:
    known_ms = NIGHT_MS + HOUR_MS - 600_000
    ours = row(NIGHT_MS, holder("a", "x", RUN), Bucket.PRODUCTIVE, ms=600_000)
    book, now_ms = MemoryBook(first_hour(NIGHT_MS, 600_000, ours)), NIGHT_MS + HOUR_MS - 1
    assert run_costs(book, [RunLife(RUN, known_ms - 120_000, now_ms)], now_ms) == {}
    assert RUN in run_costs(book, [RunLife(RUN, known_ms - 20_000, now_ms)], now_ms), "its GPUs are read late"
    book.write(hour(NIGHT_MS - HOUR_MS))
    assert RUN in run_costs(book, [RunLife(RUN, known_ms - 120_000, now_ms)], now_ms), "the node came later"


def test_what_was_spent_after_a_moment() -> None:
    moment = NIGHT_MS + HOUR_MS + HOUR_MS // 4
    found = spent_after(booked(0, 1, 2), {RUN: moment}, NIGHT_MS + 3 * HOUR_MS)[RUN]
    assert (found.quanta, found.time.gpu_ms) == (14 * UNIT, 2 * HOUR_MS * 7 // 4)
