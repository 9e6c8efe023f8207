"""The night that `trilens demo` opens on: watched once in the cluster's own time, then kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from trilens.ledger.prices.book import default_book
from trilens.model.ledger import HOUR_MS
from trilens.serve.rehearsal.kept_night import MANIFEST, Night, keep
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

SCENARIO: Final = "bad-night"
HOURS: Final = 12
_BEFORE_MS: Final = 120_000  # a change detectors look, and so long after it
_AFTER_MS: Final = 8 * 60_000
_LAST_MS: Final = 6 * 60_000  # of the night, so that who goes on knows what is usual


def prepare(settings: Settings, cluster: str, seed: int, folder: Path, passed: Callable[[int], None]) -> None:
    """The last twelve hours that are over, each told to `passed`. The store of the settings takes them first,
    and must be new."""
    scenario = load_scenario(SCENARIO)
    end_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    begin_ms = end_ms - HOURS * HOUR_MS
    store = open_store(settings.storage, upkeep=False)
    try:
        world = _born(scenario, seed, begin_ms)
        watched = WatchedWorld(
            world, store, cluster, rule_groups(settings), default_book(), _dense(scenario, begin_ms, end_ms)
        )
        with watched:
            for hour_ms in range(begin_ms + HOUR_MS, end_ms + 1, HOUR_MS):
                watched.go_on(hour_ms)
                passed(1)
        told = world.telling.told_so_far()
    finally:
        store.close()
    keep(settings.storage.data_dir, folder, Night(begin_ms, end_ms, time.time_ns() // 1000, told))


def arguments_after(folder: Path, seed: int, end_ms: int) -> list[str]:
    """Of the simulator, to go on from where a kept night ends."""
    return [
        *("--scenario", SCENARIO, "--seed", str(seed), "--identity", _identity(seed)),
        *("--until", str(end_ms), "--age", f"{HOURS}h", "--told", str(folder / MANIFEST)),
        *("--telling-ranks", str(load_scenario(SCENARIO).gpus)),
    ]


def _born(scenario: Scenario, seed: int, begin_ms: int) -> World:
    """All its ranks tell."""
    ranks, identity = scenario.gpus, _identity(seed)
    return World(scenario, start_ms=begin_ms, seed=seed, telling_ranks=ranks, identity=identity)


def _identity(seed: int) -> str:
    """Whenever it begins, its runs are the same."""
    return f"{SCENARIO} {seed}"


def _dense(scenario: Scenario, begin_ms: int, end_ms: int) -> Callable[[int], bool]:
    """Around what changes. It only says when somebody looks, not what there is to see."""
    moments: list[float] = []
    for fault in scenario.faults:
        if fault.at is not None:
            moments += (fault.at, fault.at + fault.lasts)
    spans = [
        (begin_ms + round(1000 * at) - _BEFORE_MS, begin_ms + round(1000 * at) + _AFTER_MS) for at in moments
    ]
    spans.append((end_ms - _LAST_MS, end_ms))
    return lambda now_ms: any(first <= now_ms < last for first, last in spans)
