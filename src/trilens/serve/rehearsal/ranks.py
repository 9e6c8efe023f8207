"""What the training ranks of a simulated cluster tell, taken in as if they had sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from trilens.collect.runs.intake import RunIntake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.collect.runs.sink import RunSink
    from trilens.model.run_commit import RunCommit
    from trilens.simulate.telling import Sending, TellingRank
    from trilens.simulate.world import World


class TellingRanks:
    """`every_s` is how far apart looks are: who is silent for longer than some of them is lost."""

    def __init__(
        self,
        world: World,
        runs: RunSink,
        every_s: float,
        on_kept: Callable[[RunCommit], None] | None = None,
    ) -> None:
        self._world = world
        self._every_s = every_s
        self.intake = RunIntake(runs, on_kept=on_kept, clock_s=self._now_s, time_s=self._now_s)

    def _now_s(self) -> float:
        return self._world.now_ms / 1000

    def look(self) -> None:
        """Everybody tells all that there is to tell, and it is kept."""
        for rank in list(self._world.telling.ranks.values()):
            for sending in self._told_by(rank):
                self.intake.receive(orjson.dumps(sending.line), "", for_dead=sending.for_dead)
        self.intake.settle()

    def _told_by(self, rank: TellingRank) -> Iterator[Sending]:
        has_more = True
        while has_more:
            sending = rank.next(self._world.now_ms, self._every_s)
            if sending is None:
                return
            yield sending
            has_more = rank.taken()

    def stop(self) -> None:
        self.intake.settle(everyone=True)
