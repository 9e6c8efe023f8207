"""What the intake of runs needs from whoever keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.run import RankProcess, RunFacts, RunId
    from trilens.model.run_commit import Position, RunCommit


class RunSink(Protocol):
    """Thread-safe."""

    def commit(self, commit: RunCommit) -> None:
        """On disk on return. After a StoreError nothing of it counts, and it may be given again."""

    def heard(self, process: RankProcess) -> None:
        """How a process stands now: shown from now on, and on disk once it is in a commit."""

    def positions(self, run: RunId) -> list[Position]:
        """How far each writer of the run was taken in."""

    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]: ...

    def runs(self, *, run: RunId | None = None) -> list[RunFacts]: ...

    def unfinished(self, since_ms: int) -> list[RankProcess]:
        """The processes of which no end is known and that were heard since then."""
