"""How ranks are named in sentences: the same everywhere, and short however many they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_SHOWN: Final = 8  # spans


def ranks_name(ranks: Collection[int]) -> str:
    """rank 3; ranks 0, 2, 5; ranks 0-6; ranks 0-2, 4-254."""
    return f"rank{'s' if len(ranks) > 1 else ''} {rank_spans(ranks)}"


def rank_spans(ranks: Collection[int]) -> str:
    """Without the word: 0-2, 4-254."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [
        part
        for run in runs
        for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]
    more = f" and more, {len(ranks)} in all" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
