"""/api/workloads/.../ranks over HTTP, and the matrix behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from trained_workload import NOON_MS, NOW_MS, PATH, RANKS, RUN, SLOW, minute, trained
from trilens.model.query import QueryGuard
from trilens.serve.pages.rank_heat_columns import HeatColumns
from trilens.serve.pages.rank_heat_matrix import (
    choose,
    column_medians,
    factors,
    matrix_of,
    shown_rows,
    steps_in_cell,
)
from trilens.serve.pages.timeline_grid import Grid
from trilens.store.step_grids import RunCourse, StepsOfRanks, StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.model.run import RunId

    Ask = Callable[..., httpx.Response]

SPAN = {"from": str(NOON_MS / 1000), "to": str(NOW_MS / 1000)}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with trained(tmp_path_factory.mktemp("trained")) as url:
        yield lambda **params: httpx.get(f"{url}{PATH}/ranks", params={**SPAN, **params}, timeout=30)


def cells(found: dict[str, Any]) -> list[list[int | None]]:
    flat, columns = found["cells_ms"], found["columns"]
    return [flat[at : at + columns] for at in range(0, len(flat), columns)]


def test_the_slow_rank_stands_out_with_the_place_where_it_was_slow(ask: Ask) -> None:
    found = ask(columns=30).json()["data"]
    assert (found["run"], found["measure"], found["ranks"]) == (RUN, "own", [*range(RANKS)])
    assert (found["from_ms"], found["step_ms"], found["columns"]) == (NOON_MS, 60_000, 30)
    rows = cells(found)
    assert [rows[SLOW][5], rows[SLOW][15], rows[SLOW][25]] == [4000, 6000, 4000]
    assert [rows[0][15], found["median_ms"][15]] == [4000, 4000]
    assert rows[0][21] is None  # it was being restarted
    assert found["factor"][SLOW] == 1.5
    assert [one for one in found["factor"] if one != 1.0] == [1.5]
    life = found["column_attempt"][found["worst_column"][SLOW]]
    assert (found["attempts"], life) == ([0, 1], 0)
    assert [nodes[SLOW] for nodes in found["nodes"]] == ["node-0-1", "node-1-1"]
    assert [gpus[SLOW] for gpus in found["gpus"]] == ["GPU-0-5", "GPU-1-5"]
    assert found["pods"][0][SLOW] == "train-1"


def test_whole_steps_are_as_long_for_all(ask: Ask) -> None:
    found = ask(columns=30, measure="step").json()["data"]
    assert {one for row in cells(found) for one in row} == {9000, None}
    assert set(found["factor"]) == {1.0}


def test_without_a_run_there_is_nothing(ask: Ask) -> None:
    found = ask(**{"from": str(minute(-60) / 1000), "to": str(minute(-50) / 1000)}).json()["data"]
    assert (found["run"], found["ranks"], found["cells_ms"]) == (None, [], [])


def test_what_is_asked_wrongly_is_refused(ask: Ask) -> None:
    for wrong in ({"columns": 201}, {"rows": 4097}, {"measure": "own time"}):
        assert ask(**wrong).status_code == 400


def test_of_very_many_ranks_the_worst_are_always_shown() -> None:
    factor = np.ones(10_000)
    factor[[7, 1234, 9999]] = 1.5, 1.2, np.nan
    rows = shown_rows(factor, 512)
    assert len(rows) == 512
    assert {7, 1234} <= {*rows.tolist()}
    assert np.all(np.diff(rows) > 0)
    assert rows[-1] > 9_900  # and the others are from everywhere
    assert shown_rows(factor[:512], 512).tolist() == [*range(512)]


def many(ranks: int, steps: int) -> tuple[StepTimes, StepsOfRanks]:
    """Of each step, all ranks; the last of them is slow."""
    number = np.arange(steps)
    times = StepTimes(number, np.zeros(steps, np.int64), number * 1_000_000)
    step, rank = (one.ravel() for one in np.meshgrid(number, np.arange(ranks), indexing="ij"))
    us = np.where(rank == ranks - 1, 300_000, 100_000) + step % 3 * 1_000
    return times, StepsOfRanks(step, np.zeros(len(step), np.int64), rank, us, np.zeros(len(step), np.int64))


def test_of_many_steps_as_many_are_read_as_there_is_time_for() -> None:
    times, _ = many(1, 2_000)
    grid = Grid(0, 10_000, 200)
    assert len(choose(times, grid, steps_in_cell(4_096, grid.slots)).places) == 200  # one of each column
    few = choose(times, grid, steps_in_cell(8, grid.slots))
    assert len(few.places) == 200 * 9
    assert np.all(np.diff(few.places) > 0)
    assert np.all(times.t_us[few.places] // 10_000_000 == few.column)
    assert len(choose(times, Grid(0, 10_000, 400), 9).places) == 200 * 9  # nothing where there are no steps


def test_a_cell_is_the_median_of_its_steps() -> None:
    times, read = many(64, 90)
    grid = Grid(0, 9_000, 10)
    found = matrix_of(read, read.us, times, choose(times, grid, steps_in_cell(64, 10)), np.arange(64), grid)
    assert found.shape == (64, 10)
    assert set(found[:-1].ravel().round().tolist()) == {101}
    assert column_medians(found) == pytest.approx(np.full(10, 101), abs=0.01)
    factor, _ = factors(found, column_medians(found))
    assert factor[-1] == pytest.approx(2.98, abs=0.01)


class CountedGrids:
    """Every second a step, of two ranks; what they tell they tell of one in `told_every`."""

    def __init__(self, told_every: int = 1) -> None:
        self.asked: list[int] = []
        self._told_every = told_every

    def course(self, _run: RunId, from_us: int, width_us: int, slots: int, _guard: Any) -> RunCourse:
        to_us = from_us + width_us * slots
        number = np.arange(from_us // 1_000_000, to_us // 1_000_000, self._told_every)
        return RunCourse([], StepTimes(number, np.zeros(len(number), np.int64), number * 1_000_000))

    def steps(self, _run: RunId, steps: list[int], *, guard: Any = None) -> StepsOfRanks:
        self.asked.append(len(steps))
        step = np.repeat(np.array(steps), 2)
        same = np.zeros(len(step), np.int64)
        return StepsOfRanks(step, same, np.tile([0, 1], len(steps)), step * 1_000, same)


def test_columns_that_are_over_are_read_once() -> None:
    grids = CountedGrids()
    columns = HeatColumns(grids)  # type: ignore[arg-type]
    ranks, now_ms = np.arange(2), 3_600_000

    def read(start_ms: int, whose: Any = ranks) -> list[float]:
        found = columns.read(RUN, whose, Grid(start_ms, 60_000, 40), now_ms, QueryGuard())
        return [float(one.step_ms[0]) for one in found]

    first = read(now_ms - 40 * 60_000)
    later = read(now_ms - 39 * 60_000)
    assert later[:-1] == first[1:]
    assert grids.asked == [40 * 9, 3 * 9]
    read(now_ms - 40 * 60_000, np.arange(1))  # others than before
    assert grids.asked[-1] == 40 * 9


def test_steps_that_told_no_value_are_known_too() -> None:
    columns = HeatColumns(CountedGrids(told_every=10))  # type: ignore[arg-type]
    found = columns.read(RUN, np.arange(2), Grid(0, 60_000, 40), 3_600_000, QueryGuard())
    assert {(one.steps_known, one.steps_read) for one in found} == {(60, 6)}
