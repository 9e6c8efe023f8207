"""The night that `trilens demo` opens on: watched once in the cluster's own time, then kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from trilens.ledger.prices.book import default_book
from trilens.model.errors import StoreError
from trilens.model.ledger import HOUR_MS
from trilens.serve.money.cost import CostRules
from trilens.serve.money.cost_metrics import CostMetrics
from trilens.serve.rehearsal.bill import book
from trilens.serve.rehearsal.kept_night import Moment, Night, keep, keep_moment
from trilens.serve.rehearsal.night_cluster import CLUSTER, HOURS, SCENARIO, identity
from trilens.serve.rehearsal.night_sources import made_by, night_key
from trilens.serve.rehearsal.rule_blocks import STEP_MS
from trilens.serve.rehearsal.watched import WatchedWorld
from trilens.serve.rules import rule_groups
from trilens.serve.storage import open_store
from trilens.simulate.scenario import load_scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.settings.tree import Settings
    from trilens.simulate.scenario import Scenario
    from trilens.store.store import Store

_BEFORE_MS: Final = 120_000  # a change detectors look, and so long after it
_AFTER_MS: Final = 8 * 60_000
_USUAL_MS: Final = 6 * 60_000  # before it may end, so that who goes on knows what is usual
_SETTLED_S: Final = 60.0
_OPEN_MS: Final = 60_000  # an hour that lacks a minute is open: booked to its end, it is not corrected


def prepare(settings: Settings, seed: int, folder: Path, passed: Callable[[int], None]) -> None:
    """Twelve hours, and one in which it may end, each told to `passed`. The store of the settings takes them
    first, and must be new."""
    scenario = load_scenario(SCENARIO)
    begin_ms = (time.time_ns() // 1_000_000 // HOUR_MS - HOURS - 1) * HOUR_MS
    last_ms = begin_ms + HOURS * HOUR_MS
    store = open_store(settings.storage, upkeep=False)
    moments = []
    try:
        world = _born(scenario, seed, begin_ms)
        groups, dense = rule_groups(settings), _dense(scenario, begin_ms, last_ms)
        rules = CostRules(budgets=settings.budgets.limits)
        costs = CostMetrics(store.ledger, lambda: rules, store)
        with WatchedWorld(world, store, CLUSTER, groups, default_book(), dense, costs.tell) as watched:
            for hour_ms in range(begin_ms, last_ms, HOUR_MS):
                watched.go_on(hour_ms + HOUR_MS)
                book(world, store, default_book(), hour_ms, lambda _: None, open_ms=_OPEN_MS)
                passed(1)
            book(world, store, default_book(), begin_ms, lambda _: None)  # with what was lost later
            for at_ms in range(last_ms, last_ms + HOUR_MS + 1, STEP_MS):
                watched.go_on(at_ms)
                watched.settle()
                moments.append(_kept_moment(store, folder, world))
            passed(1)
    finally:
        store.close()
    night = Night(begin_ms, time.time_ns() // 1000, tuple(moments), night_key(seed), made_by())
    keep(settings.storage.data_dir, folder, night)


def _kept_moment(store: Store, folder: Path, world: World) -> Moment:
    if not store.records_settled(_SETTLED_S):
        raise StoreError("what was seen of the night does not come onto the disk")
    moment = Moment(world.now_ms, time.time_ns() // 1000)
    keep_moment(store.engine, folder, moment, world.telling.told_so_far())
    return moment


def _born(scenario: Scenario, seed: int, begin_ms: int) -> World:
    """All its ranks tell."""
    return World(scenario, start_ms=begin_ms, seed=seed, telling_ranks=scenario.gpus, identity=identity(seed))


def _dense(scenario: Scenario, begin_ms: int, last_ms: int) -> Callable[[int], bool]:
    """Around what changes, and where it may end. It only says when somebody looks, not what there is to
    see."""
    moments: list[float] = []
    for fault in scenario.faults:
        if fault.at is not None:
            moments += (fault.at, fault.at + fault.lasts)
    spans = [
        (begin_ms + round(1000 * at) - _BEFORE_MS, begin_ms + round(1000 * at) + _AFTER_MS) for at in moments
    ]
    spans.append((last_ms - _USUAL_MS, last_ms + 2 * HOUR_MS))
    return lambda now_ms: any(first <= now_ms < last for first, last in spans)
