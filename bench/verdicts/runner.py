"""Simulated episodes side by side."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

from bench.verdicts.simulated import live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.verdicts.labelled import Case
    from bench.verdicts.simulated import Turn


def live_all(turns: Sequence[Turn], processes: int) -> list[Case]:
    # Processes of their own, not copies of this one: an episode must not depend on what ran before it.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return [case for cases in pool.map(live, turns) for case in cases]
