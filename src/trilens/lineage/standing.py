"""How a run stands: alive or dead, since when and how, how far it is, and how long it will take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from trilens.lineage.pace import LOOKS_BACK, pace
from trilens.model.progress import Progress
from trilens.model.run import Ending
from trilens.model.run_sums import LastSteps, Tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.lineage.pace import Pace
    from trilens.lineage.source import RunSource
    from trilens.model.progress import TimeLeft
    from trilens.model.query import QueryGuard
    from trilens.model.run import RankProcess, RunFacts, RunId
    from trilens.model.run_sums import StepTime

# The slowest of usual pauses, a checkpoint or a validation, is no stall; they are told as a phase besides.
_LEAST_STALL_S: Final = 60.0
_STALL_STEPS: Final = 10.0
_NO_STALL: Final = frozenset({"checkpoint", "validation"})
_NO_STEPS: Final = LastSteps([], {})


class RunState(StrEnum):
    RUNNING = "running"
    STALLED = "stalled"  # its processes live, and no step has ended for long
    FINISHED = "finished"  # all ranks said so
    FAILED = "failed"  # a rank ended with an error
    LOST = "lost"  # a rank fell silent: killed, or its machine is gone


@dataclass(frozen=True, slots=True)
class Standing:
    """`state` is None where no process told of itself. `since_ms` is when it ended, or when its last step did
    where it is stalled. `dead` are ranks that ended while others live on. `step` is the one it is at, and
    `steps_done` how many lie behind it, also in earlier lives: programs count from 0 or from 1, and the
    lowest number in any of its lives tells from which."""

    state: RunState | None
    since_ms: int | None
    error: str | None
    error_rank: int | None
    attempts: int
    ranks: int
    dead: tuple[int, ...]
    started_ms: int | None
    heard_ms: int | None
    step: int | None
    steps_done: int | None
    progress: float | None
    time_left: TimeLeft | None  # None unless it goes on: nobody knows when a stall ends
    phase: str | None
    values: Mapping[str, float]  # of the last step of its lowest rank
    pace: Pace | None


def standings(
    runs: Sequence[RunFacts],
    told: Iterable[RankProcess],
    source: RunSource,
    now_ms: int,
    guard: QueryGuard | None = None,
) -> dict[RunId, Standing]:
    """In two questions, however many runs there are; `told` are all their processes, and maybe others'."""
    wanted_runs = {one.run for one in runs}
    processes: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
    for process in told:
        if process.run in wanted_runs:
            processes[process.run].append(process)
    current = {run: current_lives(lives) for run, lives in processes.items()}
    lowest = [one for lives in current.values() for one in _lowest(lives)]
    back = [Tail(one.run, one.rank, one.attempt, max(0, step - LOOKS_BACK)) for one, step in lowest]
    latest = source.latest(back, guard=guard) if back else {}
    firsts = source.first_steps([*latest], guard=guard) if latest else {}
    return {
        one.run: _standing(
            processes[one.run],
            current.get(one.run, []),
            latest.get(one.run, _NO_STEPS),
            Progress(one.total_steps, firsts.get(one.run)),
            now_ms,
        )
        for one in runs
    }


def current_lives(processes: Iterable[RankProcess]) -> list[RankProcess]:
    """The last life of each rank; of a job that came back with fewer ranks, only of these."""
    last: dict[int, RankProcess] = {}
    for process in sorted(processes, key=lambda one: (one.attempt, one.started_ms)):
        last[process.rank] = process
    if not last:
        return []
    newest = max(last.values(), key=lambda one: one.started_ms)
    ranks = newest.world_size if newest.world_size is not None else max(last) + 1
    return [last[rank] for rank in sorted(last) if rank < max(ranks, newest.rank + 1)]


def _lowest(lives: Sequence[RankProcess]) -> list[tuple[RankProcess, int]]:
    """The lowest rank with a step, and that: one that only writes checkpoints has none."""
    return [(one, one.step) for one in lives if one.step is not None][:1]


def _standing(
    processes: Sequence[RankProcess],
    current: Sequence[RankProcess],
    latest: LastSteps,
    progress: Progress,
    now_ms: int,
) -> Standing:
    steps = _last_way(latest.times)[-LOOKS_BACK - 1 :]
    for one in steps:
        progress.add(one.step, (one.start_us + one.duration_us) * 1000)
    alive = [one for one in current if one.ending is None]
    ended = [one for one in current if one.ending is not None]
    at_pace = pace(steps)
    state, since_ms = _state(alive, ended, steps, at_pace, now_ms)
    cause = min(
        (one for one in ended if one.ending is Ending.FAILED), key=lambda one: one.ended_ms or 0, default=None
    )
    return Standing(
        state,
        since_ms,
        cause.error if cause is not None else None,
        cause.rank if cause is not None else None,
        max((one.attempt + 1 for one in processes), default=0),
        len(current),
        tuple(one.rank for one in ended) if alive else (),
        min((one.started_ms for one in processes), default=None),
        max((one.heard_ms for one in processes), default=None),
        max((one.step for one in current if one.step is not None), default=None),
        progress.done_steps,
        progress.ratio,
        progress.time_left() if state is RunState.RUNNING else None,
        next((one.phase for one in alive if one.phase is not None), None),
        latest.values,
        at_pace,
    )


def _last_way(steps: Sequence[StepTime]) -> list[StepTime]:
    """Without what came before a process went back."""
    way: list[StepTime] = []
    for one in sorted(steps, key=lambda one: one.n, reverse=True):
        if way and one.step >= way[-1].step:
            break
        way.append(one)
    return way[::-1]


def _state(
    alive: Sequence[RankProcess],
    ended: Sequence[RankProcess],
    steps: Sequence[StepTime],
    at_pace: Pace | None,
    now_ms: int,
) -> tuple[RunState | None, int | None]:
    if alive:
        last_ms = (steps[-1].start_us + steps[-1].duration_us) // 1000 if steps else None
        patience_s = max(_LEAST_STALL_S, _STALL_STEPS * at_pace.step_s if at_pace is not None else 0.0)
        pauses = any(one.phase in _NO_STALL for one in alive)
        if last_ms is not None and not pauses and now_ms - last_ms > patience_s * 1000:
            return RunState.STALLED, last_ms
        return RunState.RUNNING, None
    if not ended:
        return None, None
    endings = {one.ending for one in ended}
    since_ms = max(one.ended_ms or 0 for one in ended)
    if Ending.FAILED in endings:
        return RunState.FAILED, since_ms
    return (RunState.LOST if Ending.LOST in endings else RunState.FINISHED), since_ms
