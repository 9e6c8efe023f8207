"""Many episodes, side by side."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from bench.detect.scoring import Outcome, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.detect.episodes import Episode

_TELL_EVERY: Final = 20


def main_part(at: int, episode: Episode) -> Outcome:
    # At 30 s all that must be named soon, and every other of the rest: it takes a third of the time.
    has_slow = (episode.fault is not None and episode.fault.is_fast) or at % 2 == 0
    return run(episode, slow=has_slow)


def sweep_part(at: int, episode: Episode) -> Outcome:
    del at
    return run(episode, slow=False, rules=False)


def each(part: Callable[[int, Episode], Outcome], episodes: list[Episode], processes: int) -> list[Outcome]:
    """One that fails is told and left out: a defect, and no reason to lose the others."""
    jobs = list(enumerate(episodes))
    # Processes of their own, not copies of this one: an episode must not depend on what ran before it.
    spawned = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawned) as pool:
        waiting = [pool.submit(part, *job) for job in jobs]
        found = []
        for number, (done, episode) in enumerate(zip(waiting, episodes, strict=True), 1):
            try:
                found.append(done.result())
            except Exception as e:
                print(f"{episode.key} failed: {e!r}", file=sys.stderr, flush=True)
            if sys.stderr.isatty() or number % _TELL_EVERY == 0:
                print(f"{number} of {len(jobs)} episodes", file=sys.stderr, flush=True)
        return found
