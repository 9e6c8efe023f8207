"""What the training ranks of a simulated cluster tell, taken in as if they had sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from trilens.collect.runs.intake import RunIntake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.simulate.telling import Sending, TellingRank
    from trilens.simulate.world import World
    from trilens.store.store import Store

_WAIT_S: Final = 60.0  # for the disk


class TellingRanks:
    """`every_s` is how far apart looks are: who is silent for longer than some of them is lost."""

    def __init__(self, world: World, store: Store, every_s: float) -> None:
        self._world = world
        self._every_s = every_s
        self.intake = RunIntake(store.runs, clock_s=self._now_s, time_s=self._now_s)
        self.intake.start()

    def _now_s(self) -> float:
        return self._world.now_ms / 1000

    def look(self) -> None:
        """Everybody tells all that there is to tell."""
        waiting = []
        for rank in list(self._world.telling.ranks.values()):
            for sending in self._told_by(rank):
                body = orjson.dumps(sending.line)
                waiting.append(self.intake.receive(body, "", for_dead=sending.for_dead).taken)
        for taken in waiting:
            taken.result(_WAIT_S)

    def _told_by(self, rank: TellingRank) -> Iterator[Sending]:
        has_more = True
        while has_more:
            sending = rank.next(self._world.now_ms, self._every_s)
            if sending is None:
                return
            yield sending
            has_more = rank.taken()

    def stop(self) -> None:
        self.intake.stop()
