"""Each rule of docs/ledger.md by which the time of a life goes into a bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from told_steps import HOUR, Told, booked_s, facts_of, is_whole

from trilens.ledger import causes
from trilens.ledger.lives.spans import life_spans
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.run import Ending, RunId

if TYPE_CHECKING:
    from trilens.ledger.span import Span

END = HOUR + HOUR_MS
LATER = HOUR + 30 * HOUR_MS


def at(seconds: float) -> int:
    return HOUR + round(seconds * 1000)


def booked(*lives: Told, now_ms: int = LATER) -> list[Span]:
    """Of the first of them."""
    spans = life_spans(facts_of(*lives), [], now_ms)[lives[0].key]
    if spans:
        assert is_whole(spans, spans[0].from_ms, spans[-1].to_ms)
    return spans


def only(spans: list[Span], bucket: Bucket) -> Span:
    [span] = [span for span in spans if any(part.bucket is bucket for part in span.parts)]
    return span


def cause_of(span: Span, bucket: Bucket) -> str:
    [cause] = {part.cause for part in span.parts if part.bucket is bucket}
    return cause


# -- before the first step


def test_until_its_first_step_begins_a_life_starts() -> None:
    spans = booked(Told(10).passes(50).does(40).ends())
    assert booked_s(spans) == {"productive": 40.0, "starting": 50.0}
    start = only(spans, Bucket.STARTING)
    assert (start.from_ms, start.since_ms, start.basis) == (at(10), at(10), Basis.STEPS)
    assert cause_of(start, Bucket.STARTING) == causes.LOADING


def test_a_life_that_began_hours_ago_and_has_not_stepped_before_still_starts() -> None:
    start = only(booked(Told(-5000).at_s(600).does(40).ends()), Bucket.STARTING)
    assert (start.from_ms, start.to_ms, start.since_ms) == (HOUR, at(600), at(-5000))


def test_reading_a_checkpoint_is_a_part_of_the_start() -> None:
    spans = booked(Told().passes(5).loads(99, 20).passes(7).does(40).ends())
    start = only(spans, Bucket.STARTING)
    assert [(part.cause, part.ms) for part in start.parts] == [
        (causes.RESTORING, 20_000),
        (causes.LOADING, 12_000),
    ]
    assert "checkpoint" not in booked_s(spans)


def test_a_first_step_that_takes_as_long_as_a_stall_is_a_part_of_the_start() -> None:
    assert booked_s(booked(Told().passes(5).does(1, 300).does(40).ends())) == {
        "productive": 40.0,
        "starting": 305.0,
    }
    in_progress = Told().at_s(3400).does(1, 900).does(40)
    assert booked_s(booked(in_progress)) == {"starting": 3600.0}


def test_a_first_step_over_the_full_hour_is_worked_on() -> None:
    spans = booked(Told(3500).at_s(3590).does(40, 20))
    assert booked_s(spans) == {"productive": 10.0, "starting": 90.0}


def test_of_a_life_without_any_step_others_have_to_tell() -> None:
    silent = Told(rank=1)
    spans = life_spans(facts_of(Told().does(40), silent), [], LATER)
    assert spans[silent.key] == []


def test_a_life_that_fell_over_before_its_first_step_only_started() -> None:
    fell = Told(100, attempt=1).at_s(160).ends(Ending.FAILED)
    before = Told(-100).does(100).at_s(90).ends(Ending.FAILED)
    assert booked_s(booked(fell, before)) == {"starting": 60.0}


def test_a_life_has_not_come_so_far_where_one_of_an_earlier_hour_has() -> None:
    before, waits = Told(-1000).does(100).ends(Ending.FAILED), Told(-100, attempt=1)
    facts = replace(facts_of(waits), lives=[before.process, waits.process])
    assert booked_s(life_spans(facts, [], at(200))[waits.key]) == {"starting": 200.0}
    # One that says that it has done steps, of which none arrived, is nothing that is known.
    facts = replace(facts, lives=[before.process, replace(waits.process, step=150)])
    assert life_spans(facts, [], at(200))[waits.key] == []


# -- phases


def test_waits_are_those_of_the_phases() -> None:
    phases = {"data": 0.25, "forward": 0.5, "grad_sync": 0.1, "barrier": 0.05}
    spans = booked(Told().does(200, phases=phases).ends())
    assert booked_s(spans) == {"data_wait": 50.0, "productive": 120.0, "sync_wait": 30.0}
    assert len(spans) == 1


def test_data_that_was_waited_for_before_the_step_counts_as_well() -> None:
    """The time of a step begins with that wait, if it was told."""
    assert booked_s(booked(Told().does(100, 2.0, between=0.5, phases={"data": 1.0}).ends())) == {
        "data_wait": 100.0,
        "productive": 149.5,
        "starting": 0.5,
    }


def test_phases_that_are_longer_than_the_time_are_cut() -> None:
    spans = booked(Told().does(60, phases={"data": 0.9, "grad_sync": 0.9}).ends())
    assert booked_s(spans) == {"data_wait": 54.0, "sync_wait": 6.0}
    assert booked_s(booked(Told().does(60, phases={"data": 1.5}).ends())) == {"data_wait": 60.0}


def test_where_the_gpu_tells_its_phases_count() -> None:
    """The loader is late by 0.6 s, of which the GPU still computes 0.4; the program does not see its sync."""
    told = Told().does(
        100,
        phases={"data": 0.6, "forward": 0.2, "grad_sync": 0.0},
        device={"forward": 0.5, "grad_sync": 0.3, "data": 0.2},
    )
    assert booked_s(booked(told.ends())) == {"data_wait": 20.0, "productive": 50.0, "sync_wait": 30.0}


def test_the_others_wait_for_a_straggler() -> None:
    slow = Told(rank=0).does(100, 2.0).ends()
    fast = Told(rank=1).does(100, 2.0, phases={"grad_sync": 1.0}).ends()
    assert booked_s(booked(slow, fast)) == {"productive": 200.0}
    assert booked_s(booked(fast, slow)) == {"productive": 100.0, "sync_wait": 100.0}


# -- stalls


def test_a_minute_without_a_step_is_a_stall() -> None:
    spans = booked(Told().does(100).passes(60).does(100).ends())
    stall = only(spans, Bucket.STALLED)
    assert (stall.from_ms, stall.to_ms) == (at(100), at(161))
    assert (stall.since_ms, stall.step, cause_of(stall, Bucket.STALLED)) == (at(100), 99, causes.NO_STEP)
    assert booked_s(spans) == {"productive": 199.0, "stalled": 61.0}


def test_less_is_none() -> None:
    assert booked_s(booked(Told().does(100).passes(58).does(100).ends())) == {"productive": 258.0}


def test_a_run_of_long_steps_has_five_of_them() -> None:
    assert "stalled" not in booked_s(booked(Told().does(20, 40).passes(155).does(20, 40).ends()))
    assert booked_s(booked(Told().does(20, 40).passes(165).does(20, 40).ends()))["stalled"] == 205.0


def test_a_hang_in_the_middle_of_a_step_is_a_stall_whatever_phase_it_is_in() -> None:
    usual = {"data": 0.2, "grad_sync": 0.1}
    for phase in ("data", "grad_sync", "backward"):
        hung = {**usual, phase: usual.get(phase, 0.5) + 400}
        told = Told().does(100, phases=usual).does(1, 401, phases=hung).does(100, phases=usual).ends()
        assert booked_s(booked(told)) == {
            "data_wait": 40.0,
            "productive": 140.0,
            "stalled": 401.0,
            "sync_wait": 20.0,
        }, phase


def test_a_stall_over_several_hours_is_one() -> None:
    told = Told(-4000).does(100).at_s(9000).does(100).ends()
    for hour in range(-1, 3):
        from_ms = HOUR + hour * HOUR_MS
        facts = facts_of(told, from_ms=from_ms, to_ms=from_ms + HOUR_MS)
        spans = life_spans(facts, [], LATER)[told.key]
        stall = only(spans, Bucket.STALLED)
        assert (stall.since_ms, stall.step) == (at(-3900), 99), hour
        assert is_whole(spans, max(from_ms, at(-4000)), min(from_ms + HOUR_MS, at(9100)))


def test_a_gap_that_is_still_open_is_a_stall_once_it_is_longer() -> None:
    told = Told().does(100)
    assert booked_s(booked(told, now_ms=at(159))) == {"productive": 159.0}
    assert booked_s(booked(told, now_ms=at(161))) == {"productive": 100.0, "stalled": 61.0}
    assert booked_s(booked(told, now_ms=LATER)) == {"productive": 100.0, "stalled": 3500.0}


def test_records_that_are_on_their_way_are_no_stall() -> None:
    assert "stalled" in booked_s(booked(Told(untold=1).does(100), now_ms=at(400)))  # the step in progress
    assert booked_s(booked(Told(untold=250).does(100), now_ms=at(400))) == {"productive": 400.0}


def test_only_the_rank_that_stops_is_stalled() -> None:
    stops, goes_on = Told(rank=0).does(300).at_s(3000).does(100).ends(), Told(rank=1).does(3600)
    assert booked_s(booked(stops, goes_on))["stalled"] == 2701.0
    assert booked_s(booked(goes_on, stops)) == {"productive": 3600.0}


def test_ranks_that_stop_together_are_told_of_as_one() -> None:
    lives = [
        Told(rank=0).does(100).at_s(3000).does(9).ends(),
        Told(0.4, rank=1).does(101).at_s(3001).does(9).ends(),
        Told(2, rank=0, run=RunId("other")).does(100).at_s(3000).does(9).ends(),
    ]
    spans = life_spans(facts_of(*lives), [], LATER)
    stalls = [only(spans[life.key], Bucket.STALLED) for life in lives]
    assert [(stall.since_ms, stall.step) for stall in stalls] == [(at(100), 99), (at(100), 99), (at(102), 99)]


def test_one_step_after_a_stall_does_not_make_it_the_usual() -> None:
    told = Told(-1000).does(500).at_s(3000).does(1, 5)
    assert booked_s(booked(told))["stalled"] == 3600.0


def test_the_median_is_of_steps_and_not_of_minutes() -> None:
    told = Told().does(60)
    for _ in range(9):
        told.passes(300).does(1)
    assert booked_s(booked(told.ends()))["stalled"] == 9 * 301.0


def test_steps_may_be_longer_than_an_hour() -> None:
    told = Told(-20_000).does(3, 6000).at_s(9000)
    assert booked_s(booked(told, now_ms=at(9000))) == {"productive": 3600.0}
    assert booked_s(booked(told, now_ms=at(40_000))) == {"stalled": 3600.0}
    told.at_s(-2000).does(1, 6000)
    assert booked_s(booked(told)) == {"productive": 3600.0}


# -- checkpoints and validations


def test_a_checkpoint_between_steps_is_waited_for() -> None:
    spans = booked(Told().does(100).saves(20).does(100).ends())
    assert booked_s(spans) == {"checkpoint": 20.0, "productive": 200.0}


def test_one_that_failed_took_its_time_as_well() -> None:
    assert booked_s(booked(Told().does(100).saves(20, ok=False).does(100).ends()))["checkpoint"] == 20.0


def test_one_beside_steps_costs_nothing() -> None:
    assert booked_s(booked(Told().does(100).saves(90, waits=False).does(200).ends())) == {"productive": 300.0}


def test_one_inside_of_a_step_is_waited_for() -> None:
    told = Told().does(100).saves(20, waits=False).does(1, 21).does(100).ends()
    assert booked_s(booked(told)) == {"checkpoint": 20.0, "productive": 201.0}


def test_a_phase_of_that_name_is_one_and_counts_once() -> None:
    phases = {"checkpoint": 20.0}
    alone = Told().does(100).does(1, 21, phases=phases).does(100).ends()
    both = Told().does(100).saves(20, waits=False).does(1, 21, phases=phases).does(100).ends()
    assert booked_s(booked(alone)) == booked_s(booked(both)) == {"checkpoint": 20.0, "productive": 201.0}


def test_the_other_ranks_wait_for_the_one_that_writes() -> None:
    writes = Told(rank=0).does(100).saves(20).does(100).ends()
    between = Told(rank=1).does(100).passes(20).does(100).ends()
    inside = Told(rank=2).does(100, phases={"grad_sync": 0.1})
    inside.does(1, 21, phases={"grad_sync": 20.1}).does(99, phases={"grad_sync": 0.1}).ends()
    assert booked_s(booked(between, writes)) == {"checkpoint": 20.0, "productive": 200.0}
    assert booked_s(booked(inside, writes)) == {"checkpoint": 20.0, "productive": 180.0, "sync_wait": 20.0}


def test_two_that_write_at_the_same_time_do_not_count_twice() -> None:
    ranks = [Told(rank=rank).does(100).saves(20).does(100).ends() for rank in range(2)]
    assert booked_s(booked(*ranks)) == {"checkpoint": 20.0, "productive": 200.0}


def test_long_checkpoints_and_validations_are_no_stalls() -> None:
    told = Told().does(100).saves(300).does(100).validates(400).does(100).ends()
    assert booked_s(booked(told)) == {"checkpoint": 300.0, "productive": 700.0}
    told = Told().does(100).does(1, 301, phases={"checkpoint": 300}).does(100).ends()
    assert booked_s(booked(told)) == {"checkpoint": 300.0, "productive": 201.0}


def test_what_a_stall_has_of_them_is_taken_out() -> None:
    spans = booked(Told().does(100).saves(30).passes(500).validates(40).does(100).ends())
    assert booked_s(spans) == {"checkpoint": 30.0, "productive": 239.0, "stalled": 501.0}
    assert {part.cause for span in spans for part in span.parts} == {
        causes.STEPS,
        causes.SAVING,
        causes.VALIDATION,
        causes.NO_STEP,
    }


def test_one_that_goes_on_is_known_by_what_the_program_says() -> None:
    told = Told().does(100)
    told.phase = "checkpoint"
    assert booked_s(booked(told, now_ms=at(1000))) == {"checkpoint": 900.0, "productive": 100.0}
    told.phase = "validation"
    spans = booked(told, now_ms=at(1000))
    assert booked_s(spans) == {"productive": 1000.0}
    assert spans[-1].parts[0].cause == causes.VALIDATION
    # For so long nobody writes.
    assert booked_s(booked(told, now_ms=at(2000))) == {"productive": 100.0, "stalled": 1900.0}
    told.at_s(1000).ends(Ending.LOST)
    assert booked_s(booked(told)) == {"productive": 100.0, "stalled": 900.0}


# -- the end


def test_a_program_may_take_a_moment_to_end() -> None:
    spans = booked(Told().does(100).saves(70).passes(50).ends())
    assert booked_s(spans) == {"checkpoint": 70.0, "productive": 150.0}
    assert spans[-1].parts[-1].cause == causes.FINISHING


def test_one_that_does_not_end_is_stalled() -> None:
    assert booked_s(booked(Told().does(100).saves(70).passes(90).ends())) == {
        "checkpoint": 70.0,
        "productive": 100.0,
        "stalled": 90.0,
    }


def test_a_step_over_the_full_hour_is_divided_as_the_minute_before() -> None:
    told = Told(3540).does(6, 11, phases={"data": 5.5}).ends()
    assert booked_s(booked(told)) == {"data_wait": 30.0, "productive": 30.0}
    spans = life_spans(facts_of(told, from_ms=END, to_ms=END + HOUR_MS), [], LATER)[told.key]
    assert booked_s(spans) == {"data_wait": 3.0, "productive": 3.0}


# -- bad input


def test_of_two_programs_that_tell_of_one_rank_the_first_tells() -> None:
    first = Told(0, attempt=0).does(600, phases={"data": 0.5})
    second = Told(100, attempt=1).passes(50).does(600)
    spans = life_spans(facts_of(first.ends(), second.ends()), [], LATER)
    twice = [span for span in spans[second.key] if "run-told-twice" in span.doubts]
    assert (twice[0].from_ms, twice[-1].to_ms) == (at(150), at(600))
    assert booked_s(twice) == {"data_wait": 225.0, "productive": 225.0}
    assert booked_s(span for span in spans[first.key] if span.doubts) == booked_s(twice)
    assert booked_s(spans[second.key]) == {"data_wait": 225.0, "productive": 375.0, "starting": 50.0}
    assert all(is_whole(of, of[0].from_ms, of[-1].to_ms) for of in spans.values())


def test_one_that_hangs_beside_its_successor_does_not_tell_for_it() -> None:
    hangs = Told(attempt=0).does(100).at_s(2000).ends(Ending.LOST)
    goes_on = Told(300, attempt=1).passes(50).does(600).ends()
    assert booked_s(booked(goes_on, hangs)) == {"productive": 600.0, "starting": 50.0}
    assert booked_s(booked(hangs, goes_on)) == {"productive": 100.0, "stalled": 1900.0}


def test_a_life_that_nobody_ends_is_over_when_the_next_one_begins() -> None:
    gone, next_one = Told().does(100), Told(1000, attempt=1).passes(10).does(100).ends()
    spans = booked(gone, next_one)
    assert spans[-1].to_ms == at(1000)
    assert not any(span.doubts for span in booked(next_one, gone))


def test_one_that_fell_silent_lived_until_its_last_step() -> None:
    told = Told().does(50)
    told.ends(Ending.LOST).does(50)
    assert booked_s(booked(told)) == {"productive": 100.0}


@pytest.mark.parametrize(
    "jumped",
    [Told(-500).does(100), Told(200).does(100), Told(3000).does(100), Told(1200).does(1, -20)],
    ids=["before the hour", "before the process", "in the future", "backwards"],
)
def test_steps_that_cannot_be_count_as_none(jumped: Told) -> None:
    told = Told(1000).passes(10).does(100)
    told.steps = sorted(told.steps + jumped.steps, key=lambda one: one.start_us)
    spans = life_spans(facts_of(told), [], at(1150))[told.key]
    assert booked_s(spans) == {"productive": 140.0, "starting": 10.0}
    assert {span.doubts for span in spans} == {("clock-jumped",)}


def test_clocks_may_differ_a_little() -> None:
    spans = booked(Told().passes(10).does(100), now_ms=at(55))
    assert (booked_s(spans), spans[-1].doubts) == ({"productive": 45.0, "starting": 10.0}, ())


def test_a_life_that_ends_before_it_begins_is_empty() -> None:
    told = Told(100).at_s(50).ends()
    assert life_spans(facts_of(told), [], LATER).get(told.key, []) == []
