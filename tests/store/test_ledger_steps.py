"""Steps by the minute, and the steps next to a span, against the same worked out step by step."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from sizes import tables_alone_and_on_a_cluster

from run_records import writer
from trilens.collect.runs.records import grown
from trilens.ledger.allocation.hour_facts import facts_of
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import LastStep, LifeKey
from trilens.model.run import Ending, RankProcess, RunId, StepRecord
from trilens.model.run_commit import Position, RunCommit
from trilens.store import step_sums
from trilens.store.imports import ImportRecords
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.ledger_facts import StepMinutes
    from trilens.store.engine import Engine

pytestmark = tables_alone_and_on_a_cluster

NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z
NOON_US = NOON_MS * 1000
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US


class Life(NamedTuple):
    key: LifeKey
    steps: list[StepRecord]
    offset_us: int | None
    ended_ms: int | None

    def __hash__(self) -> int:
        return hash(self.key)


def life(
    run: str,
    rank: int,
    ends: list[float],
    *,
    attempt: int = 0,
    first_step: int = 0,
    again_after: int | None = None,
    offset_us: int | None = None,
    ended: float | None = None,
) -> Life:
    """Steps that end so many minutes after noon by the clock of rank 0, each a third of the time before.
    After `again_after` of them it begins again with the first."""
    rng = random.Random(f"{run} {rank} {attempt}")
    steps, before = [], ends[0] - 0.1 if ends else 0.0
    for n, end in enumerate(ends):
        us = round((end - before) * MINUTE_US / 3)
        start_us = NOON_US + round(end * MINUTE_US) - us - (offset_us or 0)
        phases = {"data": rng.randrange(us // 3 + 1), "grad_sync": us // 7, "forward": us // 9}
        phases |= {"barrier": 5} if n % 2 else {"checkpoint": us // 11}
        steps.append(
            StepRecord(
                RunId(run),
                first_step + n % (again_after or len(ends)),
                rank,
                attempt,
                n,
                start_us,
                us,
                phases,
                {"data": 3, "grad_sync": us // 8, "forward": us // 9} if rank else {},
                {},
                16 if n % 3 else None,
                2048 if n % 3 else None,
            )
        )
        before = end
    ended_ms = None if ended is None else NOON_MS + round(ended * 60_000)
    return Life(LifeKey(RunId(run), rank, attempt), steps, offset_us, ended_ms)


def every(seconds: float, first: float, last: float) -> list[float]:
    """Minutes."""
    count = round((last - first) * 60 / seconds)
    return [first + i * seconds / 60 for i in range(count)]


LIVES = [
    life("steady", 0, every(7, -190, 200)),
    life("steady", 1, every(7, -190, 200), offset_us=1_234_567),
    life("steady", 2, every(7, -190, 200), offset_us=-3 * HOUR_US),  # a clock that is far off
    life("slow", 0, every(400, -300, 300)),
    life("stalled", 0, [*every(2, -400, -370), *every(2, 500, 520)]),  # in the middle of a way forward
    life("stuck", 0, every(2, -3000, -2970)),  # two days ago
    life("late-start", 0, every(5, 90, 100)),
    life("later-start", 0, every(5, 2000, 2005)),
    life("back", 0, every(2, 1, 5), ended=5.5),
    life("back", 0, every(2, 6, 30), attempt=1, first_step=60),
    life("gone-back", 0, every(5, 10, 20), again_after=50),  # within a minute
    life("numbered-by-the-clock", 0, every(7, 2, 9), first_step=(1 << 52) + (3 << 37) - 9),
    life("silent", 0, []),
    life("over", 0, every(2, -30, -20), ended=-19),
    life("long-first", 0, [0.01, 5.0]),
    life("at-the-edge", 0, [-1.0, 0.0, 59.5, 60.0, 61.0]),
]


@pytest.fixture(scope="module")
def facts(tables: Engine) -> Iterator[LedgerFacts]:
    records, runs = RecordWriter(tables), RunRecords(tables)
    rng = random.Random(4)
    pieces = []
    for one in LIVES:
        cut = rng.randrange(len(one.steps) + 1)
        pieces += [one.steps[:cut], one.steps[cut:]]
    rng.shuffle(pieces)  # what is early may come late
    for steps in pieces:
        runs.commit(RunCommit(steps=steps))
    for number, one in enumerate(LIVES):
        runs.commit(RunCommit(processes=[process_of(one, number)], positions=[position_of(one, number)]))
    yield LedgerFacts(tables, runs, MachineRecords(tables, records), ImportRecords(tables), Ledger(tables))
    records.close()


def process_of(one: Life, number: int) -> RankProcess:
    first = one.steps[0].start_us // 1000 - 1 if one.steps else NOON_MS - 3
    ending = Ending.FINISHED if one.ended_ms is not None else None
    return RankProcess(
        one.key.run,
        one.key.rank,
        writer(number),
        min(first, NOON_MS - 2 - (one.offset_us or 0) // 1000),
        one.key.attempt,
        clock_offset_us=one.offset_us,
        ended_ms=one.ended_ms,
        ending=ending,
    )


def position_of(one: Life, number: int) -> Position:
    return Position(one.key.run, one.key.rank, writer(number), one.key.attempt, 1, grown((), one.steps))


def ended_us(step: StepRecord, offset_us: int | None) -> int:
    return step.start_us + step.duration_us + (offset_us or 0)


def by_hand(
    one: Life, from_us: int, to_us: int
) -> tuple[list[tuple[int, ...]], LastStep | None, LastStep | None]:
    minutes: defaultdict[int, list[StepRecord]] = defaultdict(list)
    for step in one.steps:
        minutes[ended_us(step, one.offset_us) // MINUTE_US].append(step)
    rows = []
    for minute, steps in sorted(minutes.items()):
        steps = [step for step in steps if from_us <= ended_us(step, one.offset_us) < to_us]
        if steps:
            rows.append((minute, *summed(steps, one.offset_us)))
    before = [step for step in one.steps if ended_us(step, one.offset_us) < from_us]
    after = [step for step in one.steps if ended_us(step, one.offset_us) >= to_us]
    last = near_step(before[-1], minutes, one) if before else None
    if last is not None and last.pace_us is not None:  # among several it is as long as the others
        beside = minutes[last.end_us // MINUTE_US]
        last = last._replace(start_us=last.end_us - sum(step.duration_us for step in beside) // len(beside))
    return rows, last, near_step(after[0], minutes, one) if after else None


def near_step(step: StepRecord, minutes: dict[int, list[StepRecord]], one: Life) -> LastStep:
    end_us = ended_us(step, one.offset_us)
    ends = [ended_us(other, one.offset_us) for other in minutes[end_us // MINUTE_US]]
    pace_us = (ends[-1] - ends[0]) // (len(ends) - 1) if len(ends) > 1 else None
    return LastStep(step.step, step.start_us + (one.offset_us or 0), end_us, pace_us)


def summed(steps: list[StepRecord], offset_us: int | None) -> tuple[int, ...]:
    def phases(*names: str) -> int:
        return sum(step.phases.get(name, 0) for step in steps for name in names)

    def device(*names: str) -> int:
        return sum(us for step in steps for name, us in step.device_phases.items() if name in names)

    return (
        len(steps),
        steps[0].step,
        steps[-1].step,
        steps[0].start_us + (offset_us or 0),
        ended_us(steps[0], offset_us),
        ended_us(steps[-1], offset_us),
        sum(step.duration_us for step in steps),
        phases("data"),
        phases("grad_sync", "barrier"),
        phases("checkpoint"),
        device("grad_sync", "forward"),
        device("grad_sync"),
        sum(step.tokens or 0 for step in steps),
        sum(step.samples or 0 for step in steps),
    )


def told(minutes: StepMinutes) -> dict[LifeKey, list[tuple[int, ...]]]:
    found: defaultdict[LifeKey, list[tuple[int, ...]]] = defaultdict(list)
    columns = [
        minutes.minute,
        minutes.steps,
        minutes.first_step,
        minutes.last_step,
        minutes.first_start_us,
        minutes.first_end_us,
        minutes.last_end_us,
        minutes.step_us,
        minutes.data_us,
        minutes.sync_us,
        minutes.checkpoint_us,
        minutes.device_us,
        minutes.device_sync_us,
        minutes.tokens,
        minutes.samples,
    ]
    for at in range(len(minutes)):
        run = minutes.runs[minutes.run[at]]
        life = LifeKey(run, int(minutes.rank[at]), int(minutes.attempt[at]))
        found[life].append(tuple(int(column[at]) for column in columns))
    return found


def overlaps(one: Life, from_ms: int) -> bool:
    return one.ended_ms is None or one.ended_ms > from_ms


@pytest.mark.parametrize("hours", [1, 3], ids=["an hour", "several"])
def test_minutes_and_the_steps_beside_them(facts: LedgerFacts, hours: int) -> None:
    found = facts.facts(NOON_MS, NOON_MS + hours * HOUR_MS)
    minutes = told(found.minutes)
    for one in LIVES:
        rows, earlier, later = by_hand(one, NOON_US, NOON_US + hours * HOUR_US)
        assert minutes.pop(one.key, []) == rows, one.key
        if overlaps(one, NOON_MS):
            assert found.earlier.get(one.key) == earlier, one.key
            assert found.later.get(one.key) == later, one.key
    assert minutes == {}


@pytest.mark.parametrize("minutes", [60, 10.5], ids=["an hour", "some minutes"])
def test_steps_of_lives_are_those_of_their_minutes(facts: LedgerFacts, minutes: float) -> None:
    upto_ms = NOON_MS + round(minutes * 60_000)
    lives = facts.programs(NOON_MS, upto_ms).lives
    expected: defaultdict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    by_minute = facts.step_minutes(lives, NOON_MS, upto_ms)
    for row in range(len(by_minute)):
        key = by_minute.runs[by_minute.run[row]], int(by_minute.rank[row])
        columns = by_minute.steps, by_minute.tokens, by_minute.samples
        expected[key].append(tuple(int(column[row]) for column in columns))  # type: ignore[arg-type]
    found: defaultdict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    by_life = facts.rank_steps(lives, NOON_MS, upto_ms)
    for row in range(len(by_life.run)):
        key = by_life.runs[by_life.run[row]], int(by_life.rank[row])
        found[key].append((int(by_life.steps[row]), int(by_life.tokens[row]), int(by_life.samples[row])))
    assert {key: added(each) for key, each in found.items()} == {
        key: added(each) for key, each in expected.items()
    }
    assert told(by_minute) == told(facts.facts(NOON_MS, upto_ms).minutes) != {}


def added(each: list[tuple[int, int, int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*each, strict=True)))


def test_an_hour_that_is_not_over(facts: LedgerFacts) -> None:
    """It ends in the middle of a minute."""
    upto_us = NOON_US + 10 * MINUTE_US + 30_500_000
    found = facts.facts(NOON_MS, upto_us // 1000)
    minutes = told(found.minutes)
    for one in LIVES:
        rows, _, _ = by_hand(one, NOON_US, upto_us)
        assert minutes.pop(one.key, []) == rows, one.key


@pytest.mark.parametrize("hours", [1, 4], ids=["of an hour", "of several"])
def test_records_of_a_longer_time_with_the_steps_of_a_part(facts: LedgerFacts, hours: int) -> None:
    """As hours are booked: an hour comes out as if it had been read alone."""
    records = facts.records(NOON_MS - 2 * HOUR_MS, NOON_MS + 3 * HOUR_MS)
    assert not len(records.minutes)
    begin = NOON_MS - hours // 2 * HOUR_MS
    read = facts.with_steps(records, begin, begin + hours * HOUR_MS)
    found = facts_of(read, NOON_MS, NOON_MS + HOUR_MS)
    alone = facts_of(facts.facts(NOON_MS, NOON_MS + HOUR_MS), NOON_MS, NOON_MS + HOUR_MS)
    nothing = np.zeros(len(alone.minutes), np.int64)
    assert told(found.minutes) == told(replace(alone.minutes, tokens=nothing, samples=nothing)) != {}
    assert found.lives == alone.lives
    for life in alone.lives:
        key = LifeKey(life.run, life.rank, life.attempt)
        assert found.earlier.get(key) == alone.earlier.get(key), key
        assert found.later.get(key) == alone.later.get(key), key


def test_what_is_too_much_for_one_question_is_asked_for_in_pieces(
    facts: LedgerFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = NOON_MS - HOUR_MS, NOON_MS + 3 * HOUR_MS
    whole = facts.facts(*span)
    monkeypatch.setattr(step_sums, "_LIVES_AT_ONCE", 2)
    monkeypatch.setattr(step_sums, "_ROWS_AT_ONCE", 150)
    in_pieces = facts.facts(*span)
    assert told(in_pieces.minutes) == told(whole.minutes) != {}
    assert list(told(in_pieces.minutes)) == list(told(whole.minutes))
    assert (in_pieces.earlier, in_pieces.later) == (whole.earlier, whole.later)


def test_only_lives_that_are_asked_for_are_told_of(facts: LedgerFacts) -> None:
    records, span = facts.records(NOON_MS, NOON_MS + HOUR_MS), (NOON_MS, NOON_MS + HOUR_MS)
    some = [one for one in records.lives if (one.run, one.rank) == ("steady", 1)]
    every_life, found = (
        facts.with_steps(records, *span),
        facts.with_steps(replace(records, lives=some), *span),
    )
    key = LifeKey(RunId("steady"), 1, 0)
    assert told(found.minutes) == {key: told(every_life.minutes)[key]}
    assert (found.earlier, found.later) == ({key: every_life.earlier[key]}, {key: every_life.later[key]})


def test_rows_are_in_order(facts: LedgerFacts) -> None:
    minutes = facts.facts(NOON_MS, NOON_MS + HOUR_MS).minutes
    order = list(zip(minutes.run, minutes.rank, minutes.attempt, minutes.minute, strict=True))
    assert order == sorted(order)
    assert list(minutes.runs) == sorted(minutes.runs)


def test_times_of_a_life_are_of_the_same_clock_as_its_steps(facts: LedgerFacts) -> None:
    found = {(life.run, life.rank): life for life in facts.facts(NOON_MS, NOON_MS + HOUR_MS).lives}
    steady = [life for life in LIVES if life.key.run == "steady"]
    for one in steady:
        first_ms = (one.steps[0].start_us + (one.offset_us or 0)) // 1000
        assert abs(found[one.key.run, one.key.rank].started_ms - first_ms) <= 2


def test_which_runs_went_forward_more_than_once(facts: LedgerFacts) -> None:
    everything = sorted({one.key.run for one in LIVES})
    assert facts.repeating(everything) == {"back": 2, "gone-back": 3}
    assert facts.repeating([]) == {}
