"""The layer of the program: what training told of itself, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.serve.pages.timeline_answers import ProgramLayer, ValueLine
from trilens.serve.pages.timeline_grid import told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trilens.model.query import QueryGuard
    from trilens.serve.pages.timeline_grid import Floats, Grid
    from trilens.serve.pages.timeline_work import WorkOfSteps
    from trilens.store.step_grids import Ints, RunSeen, StepGrids, StepTimes, ValueSlots

_VALUES: Final = 12  # a program may tell of hundreds
_ROWS_READ: Final = 50_000  # of steps and ranks: how much a step takes in hardly changes
_LEAST_STEPS: Final = 12
_PAUSES: Final = 10  # so many usual steps without one is a pause, and no slow step
_ATTEMPTS: Final = 1 << 20  # of one rank, at most
_ROLES: Final = (  # by what names have in them, the first that fits
    ("validation", ("val_loss", "val/loss", "valid", "eval")),
    ("loss", ("loss",)),
    ("gradient_norm", ("grad_norm", "gradnorm", "gradient_norm", "grad/norm")),
    ("learning_rate", ("lr", "learning_rate", "learning-rate")),
)


class ProgramSeen(NamedTuple):
    """The layer, and the steps of the grid that its latest run began."""

    layer: ProgramLayer
    times: StepTimes | None


def program_layer(
    grids: StepGrids,
    work: WorkOfSteps,
    runs: Sequence[RunSeen],
    count_ranks: Callable[[], int | None],
    grid: Grid,
    guard: QueryGuard,
) -> ProgramSeen:
    """Of the latest of the runs, if there is any: of others the page has links."""
    nothing: list[float | None] = [None] * grid.slots
    if not runs:
        layer = ProgramLayer([], None, None, [None] * grid.slots, [], nothing, nothing, nothing)
        return ProgramSeen(layer, None)
    run = runs[-1]
    start_us, width_us = grid.start_ms * 1000, grid.width_ms * 1000
    values, times = grids.course(run.run, start_us, width_us, grid.slots, guard)
    rate = steps_per_second(times, grid, run.heard_ms)
    ranks = count_ranks()
    samples, tokens = _work(work, run, times, ranks or 1, grid, guard)
    layer = ProgramLayer(
        [one.run for one in runs],
        run.run,
        ranks,
        _steps(times, grid),
        _lines(values, grid),
        told(rate),
        told(rate * samples),
        told(rate * tokens),
    )
    return ProgramSeen(layer, times)


def role_of(name: str) -> str:
    """By the names that people give."""
    lower = name.lower()
    last = lower.rpartition("/")[2]
    for role, parts in _ROLES:
        if any(part in lower if role != "learning_rate" else last == part for part in parts):
            return role
    return "other"


def steps_per_second(times: StepTimes, grid: Grid, heard_ms: int) -> Floats:
    """Steps count over the time until the next one that is told, unless that is a pause. Until it was last
    heard of, a run without steps has a rate of 0; before its first step, and afterwards, nobody knows."""
    rate = grid.empty()
    if not len(times):
        return rate
    began, counted = times.t_us / 1000, steps_counted(times)
    gaps = np.diff(began)
    usual = float(np.median(gaps / counted[:-1])) if len(gaps) else float(grid.width_ms)
    lasted = np.append(np.minimum(gaps, _PAUSES * max(usual, 1.0) * counted[:-1]), usual * counted[-1])
    # How many steps were done by any moment: it rises over each step, and is level in pauses.
    moments = np.stack([began, began + np.maximum(lasted, 1e-3)], axis=1).ravel()
    after = np.cumsum(counted)
    done = np.stack([after - counted, after], axis=1).ravel()
    until_ms = max(float(heard_ms), float(moments[-1]))
    # Of the first slot and of the last it may have been there for a part only.
    edges = np.clip(grid.edges_ms, began[0], until_ms)
    spent_s = np.diff(edges) / 1000
    known = spent_s > 0
    rate[known] = np.diff(np.interp(edges, moments, done))[known] / spent_s[known]
    return rate


def steps_counted(times: StepTimes) -> Ints:
    """How many steps each of these stands for, those until the next one of its attempt: a program may tell of
    every tenth only. The last of an attempt stands for as many as is usual."""
    order = np.lexsort((times.t_us, times.attempt))
    apart = np.maximum(np.diff(times.step[order]), 1)
    goes_on = np.diff(times.attempt[order]) == 0
    counted = np.full(len(times), np.median(apart[goes_on]) if goes_on.any() else 1, np.int64)
    counted[order[:-1][goes_on]] = apart[goes_on]
    return counted


def some_steps(times: StepTimes, most: int) -> NDArray[np.intp]:
    """Places of about so many of them, evenly over what there is: if possible those whose numbers a power of
    two divides, since who asks a moment later wants the same, and few more."""
    if len(times) <= most:
        return np.arange(len(times))
    places = np.flatnonzero(times.step % (1 << (len(times) // most - 1).bit_length()) == 0)
    if most // 4 <= len(places) <= 2 * most:
        return places
    return np.unique(np.linspace(0, len(times) - 1, most).astype(np.intp))


def places_of(times: StepTimes, step: Ints, attempt: Ints) -> NDArray[np.intp]:
    """Where among the times these steps are; -1 for those that are not."""
    known = times.step * _ATTEMPTS + times.attempt
    order = np.argsort(known)
    wanted = step * _ATTEMPTS + attempt
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    return np.where(known[order[at]] == wanted, order[at], -1)


def _work(
    work: WorkOfSteps, run: RunSeen, times: StepTimes, ranks: int, grid: Grid, guard: QueryGuard
) -> tuple[Floats, Floats]:
    """Samples and tokens of one step in each slot, by the nearest step that was read. Of the latest not all
    ranks have told yet: it is the mean of those that have, times the ranks."""
    if not len(times):
        return grid.empty(), grid.empty()
    chosen = some_steps(times, max(_LEAST_STEPS, min(2 * grid.slots, _ROWS_READ // ranks)))
    samples, tokens = work.of(run, times, chosen, guard)
    when = times.t_us[chosen] / 1000
    middles = (grid.edges_ms[:-1] + grid.width_ms / 2).astype(np.float64)
    return _nearest(when, samples * ranks, middles), _nearest(when, tokens * ranks, middles)


def _nearest(when: Floats, values: Floats, moments: Floats) -> Floats:
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(moments), np.nan)
    order = np.argsort(when[known])
    at, what = when[known][order], values[known][order]
    after = np.clip(np.searchsorted(at, moments), 1, max(len(at) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(at) - 1)
    is_after = np.abs(at[after] - moments) < np.abs(at[before] - moments)
    nearest: Floats = what[np.where(is_after, after, before)]
    return nearest


def _steps(times: StepTimes, grid: Grid) -> list[int | None]:
    found: list[int | None] = [None] * grid.slots
    slots = (times.t_us // 1000 - grid.start_ms) // grid.width_ms
    for at in np.flatnonzero(np.diff(slots, append=-1)).tolist():
        found[int(slots[at])] = int(times.step[at])
    return found


def _lines(values: Sequence[ValueSlots], grid: Grid) -> list[ValueLine]:
    order = [role for role, _ in _ROLES]
    ranked = sorted(
        values, key=lambda one: order.index(role) if (role := role_of(one.name)) in order else len(order)
    )
    lines = []
    for one in ranked[:_VALUES]:
        mean = grid.empty()
        mean[one.slot] = one.mean
        lines.append(ValueLine(one.name, role_of(one.name), told(mean), one.slot[one.odd > 0].tolist()))
    return lines
