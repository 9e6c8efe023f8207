"""How ranks and times are named in verdicts on dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

_SHOWN: Final = 8


def ranks_name(ranks: Collection[int]) -> str:
    """rank 3; ranks 0, 2, 5; ranks 0-6; ranks 0-2, 4-254."""
    ordered = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [
        part
        for run in runs
        for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]
    shown = ", ".join(parts[:_SHOWN])
    more = f" and more, {len(ordered)} in all" if len(parts) > _SHOWN else ""
    return f"rank{'s' if len(ordered) > 1 else ''} {shown}{more}"


def has(ranks: Collection[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def waits(ranks: Collection[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def span(ms: float) -> str:
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
