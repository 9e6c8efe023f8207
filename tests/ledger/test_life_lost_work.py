"""Which steps count as lost, and that their time is booked as work to be done again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from told_steps import HOUR, Told, booked_s, facts_of, history_of, is_whole, minutes_of

from memory_runs import MemoryRuns
from trilens.ledger import causes
from trilens.ledger.lives.lost_work import LostSteps, lost_steps
from trilens.ledger.lives.spans import life_spans
from trilens.ledger.lives.work_done import WorkDone, work_done
from trilens.lineage.history import History
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.run import Ending, RunId

LATER = HOUR + 30 * HOUR_MS


def numbers(*lives: Told) -> list[tuple[int, int | None, int, int]]:
    """Attempt, rank, first and last step of what was lost; lineage, which asks for more, says the same."""
    lost = lost_steps(history_of(*lives))
    steps = [step for life in lives for step in life.steps]
    runs = MemoryRuns(
        told_processes=[life.process for life in lives],
        told_steps=steps,
        told_checkpoints=sorted(
            (one for life in lives for one in life.checkpoints), key=lambda one: one.start_ms
        ),
    )
    lineage = History(runs, lives[0].run)
    thrown = {
        (portion.attempt, step)
        for part in lineage.thrown_away(lineage.now(), len(lineage.stretches))
        for portion in lineage.portions(part)
        for step in range(portion.first_step, portion.last_step + 1)
    }
    assert thrown == {
        (one.attempt, step)
        for one in lost
        if one.reason == "done-again"
        for step in range(one.first_step, one.last_step + 1)
    }
    return [(one.attempt, one.rank, one.first_step, one.last_step) for one in lost]


def seconds(life: Told, *lives: Told) -> dict[str, float]:
    spans = life_spans(facts_of(*lives), lost_steps(history_of(*lives)), LATER)[life.key]
    assert is_whole(spans, spans[0].from_ms, spans[-1].to_ms)
    return booked_s(spans)


def test_what_came_after_the_checkpoint_that_was_loaded_is_lost() -> None:
    phases = {"data": 0.4, "grad_sync": 0.1}
    crashed = Told().does(100, phases=phases).saves(10).does(90, phases=phases).ends(Ending.FAILED)
    again = Told(300, attempt=1).loads(99).passes(5).does(200).ends()
    [lost] = lost_steps(history_of(crashed, again))
    assert lost == LostSteps(
        crashed.run, 0, None, 100, 189, HOUR + 200_000, "done-again", since_ms=HOUR + 100_000
    )
    assert seconds(crashed, crashed, again) == {
        "checkpoint": 10.0,
        "data_wait": 40.0,
        "productive": 50.0,
        "recompute": 90.0,
        "sync_wait": 10.0,
    }
    assert "recompute" not in seconds(again, crashed, again)
    spans = life_spans(facts_of(crashed, again), [lost], LATER)[crashed.key]
    assert {
        (span.since_ms, span.step, part.cause)
        for span in spans
        for part in span.parts
        if part.bucket is Bucket.RECOMPUTE
    } == {(HOUR + 100_000, 100, causes.LOST_WORK)}


def test_it_is_so_in_every_hour() -> None:
    crashed = Told(-4000).does(100).saves(10).does(7000).ends(Ending.LOST)
    again = Told(4000, attempt=1).loads(99).passes(5).does(20).ends()
    lost = lost_steps(history_of(crashed, again))
    recompute = 0.0
    for hour in (-2, -1, 0):
        facts = facts_of(crashed, from_ms=HOUR + hour * HOUR_MS, to_ms=HOUR + (hour + 1) * HOUR_MS)
        spans = life_spans(facts, lost, LATER)[crashed.key]
        assert {span.since_ms for span in spans if span.step is not None} == {HOUR - 3_900_000}
        recompute += booked_s(spans)["recompute"]
    assert recompute == 7000.0


def test_without_a_load_the_first_step_tells() -> None:
    crashed = Told().does(100).ends(Ending.FAILED)
    assert numbers(crashed, Told(300, attempt=1, step=60).does(100)) == [(0, None, 60, 99)]
    assert numbers(crashed, Told(300, attempt=1, step=0).does(100)) == [(0, None, 0, 99)]


def test_a_checkpoint_named_after_the_steps_done_holds_one_less() -> None:
    crashed = Told().does(100).saves(10).does(90).ends(Ending.FAILED)
    crashed.checkpoints = [replace(crashed.checkpoints[0], step=100)]
    again = Told(300, attempt=1)
    again.loads(100).step = 100
    assert numbers(crashed, again.does(50)) == [(0, None, 100, 189)]


def test_a_checkpoint_that_failed_saves_nothing() -> None:
    crashed = Told().does(50).saves(1).does(100).saves(30, ok=False).does(100).ends(Ending.FAILED)
    assert numbers(crashed) == [(0, None, 50, 249)]
    assert seconds(crashed, crashed) == {"checkpoint": 31.0, "productive": 50.0, "recompute": 200.0}


def test_one_that_was_tried_again_is_good() -> None:
    crashed = Told().does(50).saves(1, ok=False).saves(1).does(10).ends(Ending.FAILED)
    assert numbers(crashed) == [(0, None, 50, 59)]


def test_a_process_may_go_back_by_itself() -> None:
    """Within one minute the same numbers are lost and done again."""
    told = Told().does(100).saves(0).does(40).loads(99).does(200).ends()
    assert numbers(told) == [(0, None, 100, 139)]
    assert seconds(told, told) == {"productive": 300.0, "recompute": 40.0}
    briefly = Told().does(100).saves(0).does(5).loads(99).does(200).ends()
    assert seconds(briefly, briefly) == {"productive": 300.0, "recompute": 5.0}


def test_what_went_back_twice_was_lost_twice() -> None:
    told = Told().does(100).saves(0).does(70).loads(99).does(80).loads(99).does(200).ends()
    assert numbers(told) == [(0, None, 100, 169), (0, None, 100, 179)]
    assert seconds(told, told) == {"productive": 300.0, "recompute": 150.0}


def test_a_try_that_was_given_up_does_not_take_what_was_kept_with_it() -> None:
    told = Told().does(50).saves(1).does(50).saves(1).loads(49).does(30).loads(99).does(100).ends()
    assert seconds(told, told) == {"checkpoint": 2.0, "productive": 200.0, "recompute": 30.0}


def test_a_job_may_come_back_with_more_ranks_or_fewer() -> None:
    first = [Told(rank=rank, world_size=2).does(100).saves(1).does(50).ends(Ending.LOST) for rank in range(2)]
    more = [
        Told(300, rank=rank, attempt=int(rank < 2), world_size=3).loads(99).does(80).ends(Ending.LOST)
        for rank in range(3)
    ]
    fewer = [Told(600, attempt=2, world_size=1).loads(99).does(300)]
    lives = [*first, *more, *fewer]
    assert numbers(*lives) == [(0, None, 100, 149), (1, None, 100, 179), (0, None, 100, 179)]
    assert seconds(first[0], *lives)["recompute"] == seconds(first[1], *lives)["recompute"] == 50.0
    assert [seconds(life, *lives)["recompute"] for life in more] == [80.0, 80.0, 80.0]


def test_ranks_that_go_back_at_different_times_are_told_apart() -> None:
    lives = [
        Told(rank=0, world_size=2).does(100).saves(1).does(50).loads(99).does(100),
        Told(rank=1, world_size=2).does(100).saves(1).does(150, 0.2).loads(99).does(100),
    ]
    assert numbers(*lives) == [(0, 0, 100, 149), (0, 1, 100, 249)]
    assert seconds(lives[0], *lives)["recompute"] == 50.0


def test_so_are_those_that_had_come_to_different_steps() -> None:
    lives = [
        Told(rank=0, world_size=2).does(100).saves(1).does(50).loads(99).does(100),
        Told(rank=1, world_size=2).does(100).saves(1).does(100, 0.5).loads(99).does(100),
    ]
    assert numbers(*lives) == [(0, 0, 100, 149), (0, 1, 100, 199)]
    assert seconds(lives[0], *lives)["recompute"] == 50.0


def test_a_last_crash_loses_what_no_checkpoint_has() -> None:
    crashed = Told().does(100).saves(10).does(90).ends(Ending.LOST)
    [lost] = lost_steps(history_of(crashed))
    assert (lost.first_step, lost.last_step, lost.reason) == (100, 189, "crashed")
    assert seconds(crashed, crashed)["recompute"] == 90.0


def test_so_it_does_while_the_next_life_has_not_stepped() -> None:
    crashed = Told().does(100).saves(10).does(90).ends(Ending.LOST)
    assert numbers(crashed, Told(300, attempt=1)) == [(0, None, 100, 189)]


@pytest.mark.parametrize("ending", [Ending.FINISHED, None])
def test_a_run_that_finished_or_lives_has_lost_nothing(ending: Ending | None) -> None:
    told = Told().does(100).saves(10).does(90)
    assert numbers(told.ends(ending) if ending else told) == []


def test_a_run_that_tells_of_no_checkpoints_may_have_some() -> None:
    assert numbers(Told().does(100).ends(Ending.FAILED)) == []
    assert numbers(Told().loads(5).does(100).ends(Ending.FAILED)) == []


def test_one_rank_that_fell_silent_after_the_others_finished_is_no_crash() -> None:
    done = Told(rank=0, world_size=2).does(100).saves(10).does(90).ends()
    assert numbers(done, Told(rank=1, world_size=2).does(190).ends(Ending.LOST)) == []
    assert numbers(done, Told(rank=1, world_size=2).does(190).ends(Ending.FAILED)) != []


def test_ranks_that_write_together_have_saved_only_when_all_did() -> None:
    lives = [Told(rank=rank, world_size=2).does(50).saves(1).does(50) for rank in range(2)]
    lives[0].saves(1).does(20).ends(Ending.LOST)
    lives[1].saves(1, ok=False).does(20).ends(Ending.LOST)
    assert numbers(*lives) == [(0, None, 50, 119)]


# -- how much was done


def test_steps_are_counted_once_and_tokens_of_all_ranks() -> None:
    lives = [Told(rank=rank).does(120, tokens=10) for rank in range(1, 4)]
    minutes = minutes_of([step for life in lives for step in life.steps])
    assert work_done(minutes, [], HOUR, HOUR + HOUR_MS) == {lives[0].run: WorkDone(120, 3600, None)}
    assert work_done(minutes, [], HOUR, HOUR + 60_000) == {lives[0].run: WorkDone(59, 1770, None)}
    assert work_done(minutes, [], HOUR + HOUR_MS, LATER) == {}


def test_what_was_lost_is_not_done() -> None:
    crashed = Told().does(100, tokens=10).saves(1).does(50, tokens=10).ends(Ending.LOST)
    again = Told(400, attempt=1).loads(99).does(20, tokens=10).ends()
    other = Told(rank=0, run=RunId("other")).does(7)
    minutes = minutes_of(crashed.steps + again.steps + other.steps)
    lost = lost_steps(history_of(crashed, again))
    assert work_done(minutes, lost, HOUR, HOUR + HOUR_MS) == {
        crashed.run: WorkDone(120, 1200, None),
        other.run: WorkDone(7, None, None),
    }


def test_what_two_programs_tell_is_done_once() -> None:
    first, second = Told().does(600), Told(120, attempt=1).does(300)
    minutes = minutes_of(first.steps + second.steps)
    assert work_done(minutes, [], HOUR, HOUR + HOUR_MS)[first.run].steps == 600
