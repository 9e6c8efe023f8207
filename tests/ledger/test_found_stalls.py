"""A stall that was found while it lasted is booked as one, however short it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from told_steps import HOUR, Told, booked_s, facts_of, is_whole

from trilens.ledger import causes
from trilens.ledger.lives.spans import life_spans
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.ledger_facts import FoundStall
from trilens.model.run import RunId

if TYPE_CHECKING:
    from trilens.ledger.span import Span

LATER = HOUR + 30 * HOUR_MS


def found(from_s: float, to_s: float, run: str = "pretrain") -> FoundStall:
    return FoundStall(RunId(run), HOUR + round(from_s * 1000), HOUR + round(to_s * 1000))


def booked(*lives: Told, stalls: list[FoundStall], now_ms: int = LATER) -> list[list[Span]]:
    facts = replace(facts_of(*lives), stalls=stalls)
    spans = life_spans(facts, [], now_ms)
    for its in spans.values():
        assert is_whole(its, its[0].from_ms, its[-1].to_ms)
    return [spans[life.key] for life in lives]


def waiting(rank: int = 0, waits: float = 14.0) -> Told:
    """Steps of a second; of the 101st the data, or another rank, come late."""
    told = Told(rank=rank).does(100, phases={"data": 0.1})
    phase = "data" if rank == 0 else "grad_sync"
    return told.does(1, waits + 1, phases={phase: waits}).does(85, phases={"data": 0.1}).ends()


def test_a_short_stall_is_one_of_all_ranks_and_is_not_booked_twice() -> None:
    lives = [waiting(0), waiting(1)]
    before = [booked_s(spans) for spans in booked(*lives, stalls=[])]
    assert [one.get("stalled") for one in before] == [None, None]
    after = booked(*lives, stalls=[found(100, 114)])
    for was, spans in zip(before, map(booked_s, after), strict=True):
        assert spans["stalled"] == 14.0
        assert round(sum(spans.values()), 3) == round(sum(was.values()), 3)
    for was, spans, wait in zip(before, map(booked_s, after), ("data_wait", "sync_wait"), strict=True):
        assert round(was[wait] - spans.get(wait, 0), 3) == 14.0
    [stall] = [one for one in after[0] if one.parts[0].bucket is Bucket.STALLED]
    assert (stall.since_ms, stall.parts[0].cause) == (HOUR + 100_000, causes.NO_STEP)
    assert (stall.from_ms, stall.to_ms) == (HOUR + 100_000, HOUR + 114_000)


def test_one_found_twice_is_one_and_of_another_run_none() -> None:
    [spans] = booked(waiting(), stalls=[found(100, 110), found(100, 114), found(20, 40, "other")])
    assert booked_s(spans)["stalled"] == 14.0


def test_what_the_steps_show_as_a_stall_stays_whole() -> None:
    told = Told().does(100).passes(300).does(50).ends()
    [spans] = booked(told, stalls=[found(100, 395)])
    assert booked_s(spans) == booked_s(booked(told, stalls=[])[0])
    assert booked_s(spans)["stalled"] == 301.0


def test_a_rank_that_goes_on_meanwhile_is_not_stalled() -> None:
    stops, goes_on = waiting(0, waits=80), Told(rank=1).does(260).ends()
    of_first, of_second = booked(stops, goes_on, stalls=[found(100, 180)])
    assert booked_s(of_first)["stalled"] >= 80.0
    assert "stalled" not in booked_s(of_second)


def test_a_checkpoint_and_a_start_stay_what_they_are() -> None:
    told = Told().passes(30).does(100).saves(40).does(50).ends()
    [spans] = booked(told, stalls=[found(5, 20), found(132, 150)])
    assert booked_s(spans)["checkpoint"] == 40.0
    assert booked_s(spans)["starting"] == 30.0


def test_one_that_lasts_is_booked_until_now() -> None:
    told = Told().does(100)
    [spans] = booked(told, stalls=[found(100, 160)], now_ms=HOUR + 120_000)
    assert booked_s(spans) == {"productive": 100.0, "stalled": 20.0}
