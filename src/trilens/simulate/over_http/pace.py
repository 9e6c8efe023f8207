"""How fast simulated time passes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trilens.simulate.telling import MOST_RANKS
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.scenario import Scenario


def grown(
    scenario: Scenario, *, now_ms: int, age_ms: int, seed: int = 0, telling_ranks: int = MOST_RANKS,
    identity: str = "",
) -> World:  # fmt: skip
    """A world that has had so much time already: jobs run, some have ended, pods have an age."""
    world = World(
        scenario, start_ms=now_ms - age_ms, seed=seed, telling_ranks=telling_ranks, identity=identity
    )
    world.advance(now_ms)
    return world


class Pace:
    """From now on, simulated time passes `speed` times as fast as time does."""

    def __init__(
        self, start_ms: int, speed: float = 1.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if not speed > 0:
            raise ValueError(f"time must pass, and not backwards: speed {speed:g} is not above 0")
        self._start_ms = start_ms
        self._speed = speed
        self._monotonic = monotonic
        self._began_s = monotonic()

    def now_ms(self) -> int:
        return self._start_ms + int(1000 * self._speed * (self._monotonic() - self._began_s))
