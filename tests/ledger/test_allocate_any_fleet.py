"""Whatever a fleet is told to be: its rows add up to its bill, and the same facts give the same rows."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_fleets import (
    NOON_MS,
    FleetBuilder,
    PlainPrices,
    any_fleet,
    any_prices,
    no_signals,
    signals_of,
    steady_minutes,
)
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.hour_facts import facts_of
from trilens.ledger.causes import ENDED
from trilens.ledger.verify import verify
from trilens.model.ledger import HOUR_MS, QUANTA_PER_UNIT, Bucket
from trilens.model.ledger_facts import LastStep, LifeKey
from trilens.model.run import RunId

if TYPE_CHECKING:
    from trilens.ledger.source import Signals
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts

SEEDS = st.integers(0, 1 << 48)
SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _signals(chance: random.Random, facts: Facts) -> Signals:
    if chance.random() < 0.3:
        return no_signals()
    minutes = (facts.to_ms - facts.from_ms) // 60_000
    told = signals_of({one.gpu.key: None for one in facts.gpus}, facts.from_ms, minutes)
    shape = told.gpus.active.shape
    numbers = np.random.default_rng(chance.getrandbits(32))
    active = numbers.choice([0.0, 1.0, np.nan], shape)
    return replace(
        told, gpus=replace(told.gpus, active=active, throttled=numbers.choice([0.0, 0.3, np.nan], shape))
    )


def _hour(seed: int) -> tuple[LedgerHour, Facts, object]:
    chance = random.Random(seed)
    facts = any_fleet(chance)
    prices = any_prices(chance, facts.from_ms, facts.to_ms)
    now_ms = NOON_MS + chance.choice([0, 1, HOUR_MS // 3, HOUR_MS, 5 * HOUR_MS])
    return allocate(facts, _signals(chance, facts), [], prices, NOON_MS, now_ms), facts, prices


@SOME
@given(SEEDS)
def test_rows_add_up_to_the_bills(seed: int) -> None:
    hour, _, _ = _hour(seed)
    assert verify(hour.bills, hour.rows) == []
    assert all(row.gpu_ms > 0 for row in hour.rows)
    assert all((row.bucket.is_fleet) == (row.holder.workload is None) for row in hour.rows)
    assert len(set(hour.rows)) == len(hour.rows)


@SOME
@given(SEEDS)
def test_a_bill_is_price_times_time(seed: int) -> None:
    chance = random.Random(seed)
    facts = any_fleet(chance)
    prices = any_prices(chance, facts.from_ms, facts.to_ms)
    hour = allocate(facts, no_signals(), [], prices, NOON_MS, NOON_MS + HOUR_MS)
    for bill in hour.bills:
        if bill.quanta is None or bill.there_ms == 0 or prices.changes:
            continue
        # All GPUs cost the same, and so does each node beside them: no need to know which stretches it had.
        assert prices.per_gpu is not None
        exact = (Fraction(prices.per_gpu) * bill.gpu_ms + Fraction("0.37") * bill.there_ms) / HOUR_MS
        assert abs(bill.quanta - exact * QUANTA_PER_UNIT) <= 60  # half a quantum for each stretch


@SOME
@given(SEEDS)
def test_the_order_in_which_facts_are_told_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    facts = any_fleet(chance)
    signals = _signals(chance, facts)
    prices = any_prices(chance, facts.from_ms, facts.to_ms)
    hour = allocate(facts, signals, [], prices, NOON_MS, NOON_MS + HOUR_MS)
    names = ("machines", "gpus", "bindings", "members", "faults", "lives")
    shuffled = {name: chance.sample(getattr(facts, name), len(getattr(facts, name))) for name in names}
    owners = {key: [*reversed(told)] for key, told in reversed(facts.owners.items())}
    again = allocate(
        replace(facts, owners=owners, **shuffled), signals, [], prices, NOON_MS, NOON_MS + HOUR_MS
    )
    assert again == hour


@SOME
@given(SEEDS)
def test_an_hour_out_of_a_longer_time_is_the_same_hour(seed: int) -> None:
    chance = random.Random(seed)
    facts = any_fleet(chance, hours=3)
    signals = _signals(chance, facts)
    prices = any_prices(chance, facts.from_ms, facts.to_ms)
    begin = NOON_MS + HOUR_MS
    whole = allocate(facts, signals, [], prices, begin, begin + 9 * HOUR_MS)
    alone = replace(facts_of(facts, begin, begin + HOUR_MS), lives=facts.lives)
    assert allocate(alone, signals, [], prices, begin, begin + 9 * HOUR_MS) == whole


def test_steps_beside_an_hour_out_of_a_longer_time() -> None:
    """A step a second; none from 12:55 to 13:05, and none from 13:50 to 14:10."""
    long = training(3, without=[*range(55, 65), *range(110, 130)])
    begin_us, end_us = (NOON_MS + HOUR_MS) * 1_000, (NOON_MS + 2 * HOUR_MS) * 1_000
    minute = NOON_MS // 60_000
    life = LifeKey(RunId("run-a"), 0, 0)
    before_us, after_us = begin_us - 301_000_000, end_us + 600_000_000
    alone = replace(
        long,
        from_ms=NOON_MS + HOUR_MS,
        to_ms=NOON_MS + 2 * HOUR_MS,
        minutes=long.minutes.picked(
            (long.minutes.minute >= minute + 60) & (long.minutes.minute < minute + 120)
        ),
        earlier={life: LastStep(55 * 60 - 1, before_us - 1_000_000, before_us, 1_000_000)},
        later={life: LastStep(130 * 60, after_us - 1_000_000, after_us, 1_000_000)},
    )
    hours = [
        allocate(facts, no_signals(), [], PlainPrices(), NOON_MS + HOUR_MS, NOON_MS + 9 * HOUR_MS)
        for facts in (long, alone)
    ]
    assert hours[0] == hours[1]
    stalls = {row.since_ms for row in hours[0].rows if row.bucket is Bucket.STALLED}
    assert stalls == {before_us // 1_000, NOON_MS + 110 * 60_000 - 1_000}


def training(hours: int, without: list[int]) -> Facts:
    fleet = FleetBuilder(hours).node("node-a", ["GPU-0"]).pod("train", ["GPU-0"]).life("run-a", "train")
    table = steady_minutes([(RunId("run-a"), 0)], hours * 60)
    quiet = [NOON_MS // 60_000 + minute for minute in without]
    return replace(fleet.facts, minutes=table.picked(~np.isin(table.minute, quiet)))


def test_the_step_after_the_hour_is_known() -> None:
    """Or the last second of it would be a stall: nothing else came after it, as far as the hour knows."""
    hour = allocate(training(2, without=[]), no_signals(), [], PlainPrices(), NOON_MS, NOON_MS + 9 * HOUR_MS)
    assert Bucket.STALLED not in {row.bucket for row in hour.rows}


def test_a_life_of_an_earlier_hour_counts_only_where_it_would_be_read_with_this_one() -> None:
    """By the uid of its pod: those are asked for, with all that held a GPU in the hour."""
    begin = NOON_MS + HOUR_MS
    for uid, ended in (("uid-ml-train", True), (None, False)):
        fleet = FleetBuilder(2).node("node-a", ["GPU-0"]).pod("train", ["GPU-0"])
        fleet.life("run-a", "train", end=30, pod_uid=uid)
        hour = allocate(fleet.facts, no_signals(), [], PlainPrices(), begin, begin + HOUR_MS)
        assert [row.cause == ENDED for row in hour.rows] == [ended]
