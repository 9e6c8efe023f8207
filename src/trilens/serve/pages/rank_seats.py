"""Where the ranks of a run are, and were in their earlier lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.run import RankProcess

_LIVES: Final = 4  # of each rank, where all are asked for


class Seat(NamedTuple):
    """Where one life of a rank is, or was."""

    rank: int
    attempt: int
    started_ms: int
    pod: str | None
    node: str
    gpu: str | None  # the first of those that it told


def seats_of(processes: Iterable[RankProcess]) -> list[Seat]:
    """Of processes by rank and attempt, in this order; of each rank the latest few: a job may have been
    restarted hundreds of times."""
    found: list[Seat] = []
    lives: list[Seat] = []
    for process in processes:
        if lives and lives[-1].rank != process.rank:
            found += lives[-_LIVES:]
            lives = []
        lives.append(_seat(process))
    return found + lives[-_LIVES:]


def seats_of_rank(processes: Iterable[RankProcess], rank: int) -> list[Seat]:
    """All its lives."""
    return [_seat(process) for process in processes if process.rank == rank]


def _seat(process: RankProcess) -> Seat:
    return Seat(
        process.rank,
        process.attempt,
        process.started_ms,
        process.pod,
        process.node,
        process.gpus[0] if process.gpus else None,
    )
