"""What runs did, read once for each hour as it is booked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from empty_records import NoFacts
from ledger_nights import NIGHT_MS, hour
from memory_book import MemoryBook
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import Facts, RankSteps, no_minutes
from trilens.model.query import QueryGuard
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.serve.money.worked_hours import WorkedHours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.ledger_facts import StepMinutes
    from trilens.model.ledger_sums import BookedHour

RUN = RunId("run")
MINUTE_MS = 60_000


class AStepAMinute(NoFacts):
    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []  # minutes since the beginning of the night
        self.lives = [RankProcess(RUN, 0, WriterId("w"), NIGHT_MS)]
        self.by_minute = False

    def programs(self, from_ms: int, to_ms: int, *, guard: object = None) -> Facts:
        self.asked.append(((from_ms - NIGHT_MS) // MINUTE_MS, (to_ms - NIGHT_MS) // MINUTE_MS))
        return Facts(from_ms, to_ms, lives=self.lives)

    def rank_steps(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: object = None
    ) -> RankSteps:
        run, steps = np.zeros(len(lives), np.int32), np.full(len(lives), (to_ms - from_ms) // MINUTE_MS)
        return RankSteps((RUN,), run, run, steps, 100 * steps, np.zeros_like(steps))

    def step_minutes(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: object = None
    ) -> StepMinutes:
        """Both lives of the rank tell of all of them."""
        self.by_minute = True
        minute = np.tile(np.arange(from_ms // MINUTE_MS, to_ms // MINUTE_MS, dtype=np.int64), 2)
        one, nothing = np.ones_like(minute), np.zeros_like(minute)
        times = ("step_us", "data_us", "sync_us", "checkpoint_us", "device_us", "device_sync_us")
        return replace(
            no_minutes(),
            runs=(RUN,),
            run=nothing.astype(np.int32),
            rank=nothing.astype(np.int32),
            attempt=np.repeat(np.arange(2, dtype=np.int32), len(minute) // 2),
            minute=minute,
            steps=one,
            first_step=minute,
            last_step=minute,
            first_start_us=minute * 60_000_000,
            first_end_us=minute * 60_000_000 + 1,
            last_end_us=minute * 60_000_000 + 1,
            tokens=100 * one,
            samples=nothing,
            **dict.fromkeys(times, nothing),
        )


class Night:
    def __init__(self, minutes: int) -> None:
        self.facts = AStepAMinute()
        self.book = MemoryBook()
        self.now_ms = NIGHT_MS
        self.worked = WorkedHours(self.facts, lambda: self.now_ms)
        self.go_on(minutes)

    def go_on(self, minutes: int) -> None:
        """All hours are booked until then."""
        first_ms = self.now_ms // HOUR_MS * HOUR_MS
        self.now_ms = NIGHT_MS + minutes * MINUTE_MS
        for hour_ms in range(first_ms, self.now_ms, HOUR_MS):
            self.book.write(hour(hour_ms, upto_ms=min(self.now_ms, hour_ms + HOUR_MS)))

    @property
    def booked(self) -> Sequence[BookedHour]:
        return self.book.hours(NIGHT_MS, NIGHT_MS + 24 * HOUR_MS)

    def done(self) -> tuple[int, int | None]:
        found = self.worked.done([(NIGHT_MS, self.now_ms)], self.booked, QueryGuard())[RUN]
        return found.steps, found.tokens


def test_of_an_hour_that_is_over_nothing_is_read_again_and_of_an_open_one_what_is_new() -> None:
    night = Night(150)
    assert night.done() == (150, 15_000)
    assert night.facts.asked == [(0, 150)]
    night.go_on(155)
    assert night.done() == (155, 15_500)
    assert night.facts.asked[1:] == [(140, 155)], "ranks tell a little later: the last piece is read again"


def test_who_asks_before_the_hour_is_booked_again_reads_nothing() -> None:
    night = Night(150)
    night.done()
    night.facts.asked.clear()
    night.now_ms += 89_000
    spans = [(NIGHT_MS, NIGHT_MS + 150 * MINUTE_MS)]
    assert night.worked.done(spans, night.booked, QueryGuard())[RUN].steps == 150
    assert night.facts.asked == []
    night.now_ms += 1_000
    night.worked.done(spans, night.booked, QueryGuard())
    assert night.facts.asked == [(140, 150)], "ranks may have told more of it"
    night.worked.done(spans, night.booked, QueryGuard(), anew=True)
    assert night.facts.asked == [(140, 150)] * 2, "and at each booking"
    night.facts.asked.clear()
    night.now_ms += 90_000
    night.worked.done(spans, night.booked, QueryGuard())
    night.now_ms += HOUR_MS
    night.worked.done(spans, night.booked, QueryGuard(), anew=True)
    assert night.facts.asked == [(140, 150)], "once it is settled, for the last time"


def test_an_hour_that_is_booked_anew_is_read_anew() -> None:
    night = Night(123)
    night.done()
    night.facts.asked.clear()
    revised = [
        one._replace(revision=one.revision + 1) if one.hour_ms == NIGHT_MS + HOUR_MS else one
        for one in night.booked
    ]
    night.worked.done([(NIGHT_MS, night.now_ms)], revised, QueryGuard())
    assert (60, 120) in [(begin, min(end, 120)) for begin, end in night.facts.asked]
    assert all(begin >= 60 for begin, _ in night.facts.asked)


def test_hours_that_are_over_are_read_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.serve.money.worked_hours._AT_ONCE", 4)
    night = Night(6 * 60 + 5)
    whole = range(NIGHT_MS, NIGHT_MS + 6 * HOUR_MS, HOUR_MS)
    night.worked.prepare(whole, night.booked, QueryGuard())
    assert night.facts.asked == [(300, 360), (240, 300), (180, 240), (120, 180)], "a few at a time"
    night.worked.prepare(whole, night.booked, QueryGuard())
    night.facts.asked.clear()
    assert night.done() == (365, 36_500)
    assert night.facts.asked == [(360, 365)]


@pytest.mark.parametrize("minutes", [7, 60, 61, 119, 120])
def test_pieces_add_up(minutes: int) -> None:
    assert Night(minutes).done() == (minutes, 100 * minutes)


def test_lives_that_tell_of_the_same_rank_are_told_apart_by_the_minute() -> None:
    night = Night(60)
    night.done()
    assert not night.facts.by_minute
    night = Night(60)
    night.facts.lives.append(replace(night.facts.lives[0], attempt=1))
    steps, _ = night.done()
    assert night.facts.by_minute
    assert steps == 62, "of the second life the minutes in between do not count"
