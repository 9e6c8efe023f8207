"""/api/workloads/.../timeline over HTTP, from records in a real engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from trained_workload import KEY, NOON_MS, NOW_MS, PATH, RANKS, RUN, SLOW, SUMMED_WATTS, minute, trained
from trilens.model.errors import RequestError
from trilens.serve.openapi import document
from trilens.serve.own_queries import Matrix, Times
from trilens.serve.pages.timeline_gpu_memory import GpuMemory
from trilens.serve.pages.timeline_gpu_sums import gpu_sums, summed_layer
from trilens.serve.pages.timeline_gpus import WorkloadGpus, gpu_layer
from trilens.serve.pages.timeline_grid import Grid, told
from trilens.serve.pages.timeline_program import role_of, steps_counted, steps_per_second
from trilens.store.step_grids import StepTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with trained(tmp_path_factory.mktemp("trained")) as url:
        yield lambda path=PATH, **params: httpx.get(f"{url}{path}/timeline", params=params, timeout=30)


@pytest.fixture(scope="module")
def whole(ask: Ask) -> dict[str, Any]:
    """Minute by minute, from ten minutes before it began."""
    span = {"from": str(minute(-10) / 1000), "to": str(NOW_MS / 1000)}
    answer: dict[str, Any] = ask(**span, points=40, rank=SLOW).json()["data"]
    return answer


def at(whole: dict[str, Any], minutes: float, values: list[Any]) -> Any:
    return values[(minute(minutes) - whole["from_ms"]) // whole["step_ms"]]


def test_every_list_has_one_entry_for_each_slot(whole: dict[str, Any]) -> None:
    assert whole["workload"] == KEY._asdict()
    assert (whole["from_ms"], whole["step_ms"], whole["points"]) == (minute(-10), 60_000, 40)
    program, money = whole["program"], whole["money"]
    lists = [program["step"], program["steps_per_second"], whole["platform"]["placed"], money["total"]]
    lists += [whole["gpus"]["gpus"], whole["rank"]["own_ms"], *money["buckets"].values()]
    lists += [one["mean"] for one in (*program["values"], *whole["gpus"]["figures"])]
    assert {len(one) for one in lists} == {40}


def test_what_the_program_told(whole: dict[str, Any]) -> None:
    program = whole["program"]
    assert (program["runs"], program["run"], program["ranks"]) == ([RUN], RUN, RANKS)
    loss, rate = program["values"]
    assert [(one["name"], one["role"]) for one in (loss, rate)] == [
        ("loss", "loss"),
        ("train/lr", "learning_rate"),
    ]
    assert at(whole, 2, loss["mean"]) == pytest.approx(
        np.mean([10 / (1 + n) for n in range(12, 18)]), rel=1e-4
    )
    assert at(whole, -1, loss["mean"]) is None
    assert loss["not_finite"] == [
        (minute(5) - whole["from_ms"]) // 60_000
    ]  # step 30, and its slot has others
    assert at(whole, 5, loss["mean"]) is not None
    assert at(whole, 2, program["step"]) == 17
    assert at(whole, 25, rate["mean"]) == 0.5


def test_throughput_is_nothing_in_a_pause_and_unknown_before_it_began(whole: dict[str, Any]) -> None:
    program = whole["program"]
    assert at(whole, 5, program["steps_per_second"]) == pytest.approx(0.1)
    assert at(whole, 5, program["samples_per_second"]) == pytest.approx(0.1 * 16 * RANKS)
    assert at(whole, -2, program["steps_per_second"]) is None
    assert at(whole, 21.5, program["steps_per_second"]) < 0.1
    assert set(program["tokens_per_second"]) == {None}


def test_pods_phases_and_what_hit_them(whole: dict[str, Any]) -> None:
    platform = whole["platform"]
    assert [at(whole, t, platform["placed"]) for t in (-5, 5, 19, 25)] == [None, 2, 0, 2]
    assert at(whole, 5, platform["waiting"]) == 0
    assert [one["phase"] for one in platform["phases"]] == ["running", "restarting", "running"]
    (mark,) = platform["marks"]  # twice the same is one, and another workload's is none
    assert (mark["kind"], mark["code"], mark["text"], mark["count"]) == ("xid", 79, "fell off the bus", 2)


def test_what_hit_others_takes_no_room_and_what_is_left_out_is_told(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.serve.pages.timeline.EVENTS_READ", 1)
    answer = ask(**{"from": str(minute(-10) / 1000), "to": str(NOW_MS / 1000)}, points=40).json()
    (mark,) = answer["data"]["platform"]["marks"]  # though the latest of all hit another workload
    assert (mark["code"], mark["count"]) == (79, 1)
    assert answer["warnings"] == ["only the latest 1 events are shown: a shorter span has others"]


def test_gpus_as_recorded_else_as_their_exporter_said(whole: dict[str, Any]) -> None:
    (power,) = whole["gpus"]["figures"]
    assert (power["figure"], power["unit"]) == ("power", "watts")
    for minutes, watts in ((5, 300), (25, 600)):
        assert at(whole, minutes, power["least"]) == watts
        assert at(whole, minutes, power["mean"]) == watts + 3.5
        assert at(whole, minutes, power["most"]) == watts + 7
        assert at(whole, minutes, whole["gpus"]["gpus"]) == RANKS
    assert at(whole, -5, power["mean"]) is None


def test_what_rules_recorded_of_all_its_gpus_is_shown_and_of_a_rank_its_own(ask: Ask) -> None:
    span = {"from": str(minute(22) / 1000), "to": str(NOW_MS / 1000)}
    second: dict[str, Any] = ask(**span, points=40, rank=SLOW).json()["data"]
    (power,) = second["gpus"]["figures"]
    assert {over: at(second, 25, power[over]) for over in SUMMED_WATTS} == {
        "mean": 603.2, "least": 600.2, "most": 607.2
    }  # fmt: skip
    assert at(second, 25, second["gpus"]["gpus"]) == RANKS
    assert at(second, 25, second["rank"]["figures"]["power"]) == 605


def test_a_rank_by_itself_with_the_gpu_that_it_had_then(whole: dict[str, Any]) -> None:
    rank = whole["rank"]
    assert (rank["rank"], rank["pod"], rank["node"], rank["gpu"]) == (SLOW, "train-1", "node-1-1", "GPU-1-5")
    assert [at(whole, t, rank["own_ms"]) for t in (5, 15, 25)] == [4000, 6000, 4000]
    assert at(whole, 15, rank["step_ms"]) == 9000
    assert [at(whole, t, rank["figures"]["power"]) for t in (5, 25)] == [305, 605]


def test_troubles_are_those_of_this_workload(whole: dict[str, Any]) -> None:
    (one,) = whole["troubles"]
    assert (one["what"], one["name"], one["title"]) == ("finding", "D003", "rank 5 is slow")
    assert (one["from_ms"], one["to_ms"], one["rank"]) == (minute(10), minute(20), SLOW)


def test_money_lies_evenly_over_the_time_that_it_was_there(whole: dict[str, Any]) -> None:
    money = whole["money"]
    assert (money["currency"], money["spread"], money["upto_ms"]) == ("USD", "hour", NOW_MS)
    assert money["per_hour"] == pytest.approx(12.0)
    assert money["spent"] == pytest.approx(6.0)
    assert at(whole, 10, money["buckets"]["productive"]) == pytest.approx(4 / 30, rel=1e-4)
    assert at(whole, 10, money["buckets"]["stalled"]) == pytest.approx(2 / 30, rel=1e-4)
    assert at(whole, 29, money["total"]) == pytest.approx(6.0)
    assert at(whole, -5, money["total"]) is None


def test_a_span_without_data_is_empty_and_no_error(ask: Ask) -> None:
    span = {"from": str(minute(-600) / 1000), "to": str(minute(-500) / 1000)}
    found = ask(**span, points=50).json()["data"]
    assert found["program"]["run"] is None
    assert set(found["platform"]["placed"]) == {None}
    assert found["gpus"]["figures"] == []


def test_what_is_asked_wrongly_is_refused(ask: Ask) -> None:
    assert ask("/api/workloads/lab/ml/PyTorchJob/none").status_code == 404
    span = {"from": str(NOON_MS / 1000)}
    assert ask(**span, rank=99).status_code == 404
    for wrong in ({"rank": "one"}, {"points": 601}, {"points": 5}, {"from": "soon"}, {"from": "0"}):
        assert ask(**{**span, **wrong}).status_code == 400


def test_it_is_in_the_schema() -> None:
    paths = document()["paths"]
    assert "/api/workloads/{cluster}/{namespace}/{kind}/{name}/timeline" in paths
    assert "/api/workloads/{cluster}/{namespace}/{kind}/{name}/ranks" in paths


def test_a_grid_stays_the_same_for_who_asks_a_moment_later() -> None:
    first = Grid.over(NOON_MS + 1_000, NOON_MS + 43_201_000, 300)
    later = Grid.over(NOON_MS + 4_000, NOON_MS + 43_204_000, 300)
    assert first == later
    assert (first.width_ms, first.slots) == (180_000, 241)
    assert Grid.over(NOON_MS, NOON_MS, 10).slots == 1
    with pytest.raises(RequestError):
        Grid.over(0, 2**60, 10)


def test_figures_are_cut_to_what_can_be_drawn() -> None:
    assert told(np.array([1 / 3, np.nan, 0.0, -12345.678, np.inf]), 4) == [0.3333, None, 0.0, -12350.0, None]


def test_names_of_values_tell_what_they_are() -> None:
    assert [role_of(name) for name in ("loss", "val_loss", "grad_norm", "optim/lr", "clr", "mfu")] == [
        "loss",
        "validation",
        "gradient_norm",
        "learning_rate",
        "other",
        "other",
    ]


def test_a_long_step_is_a_low_rate_and_no_gap() -> None:
    grid = Grid(0, 1_000, 40)
    began = np.arange(4) * 10_000_000
    times = StepTimes(np.arange(4), np.zeros(4, np.int64), began)
    rate = steps_per_second(times, grid, 40_000)
    assert rate == pytest.approx(np.full(40, 0.1))
    wide = Grid(-30_000, 60_000, 2)  # it began in the middle of the first, and the second is not over
    assert steps_per_second(times, wide, 40_000) == pytest.approx([0.1, 0.1])
    assert np.isnan(steps_per_second(StepTimes(*([np.zeros(0, np.int64)] * 3)), grid, 0)).all()


def every_tenth(first: int, last: int, attempt: int, from_s: int) -> StepTimes:
    """Of a run that does one step a second, and tells of every tenth."""
    step = np.arange(first, last, 10)
    return StepTimes(step, np.full(len(step), attempt), (step - first + from_s) * 1_000_000)


def test_steps_that_told_no_value_were_done_too() -> None:
    rate = steps_per_second(every_tenth(10, 610, 0, 0), Grid(0, 60_000, 10), 600_000)
    assert rate == pytest.approx(np.full(10, 1.0))
    parts = every_tenth(10, 310, 0, 0), every_tenth(200, 500, 1, 300)  # it began again at an earlier step
    times = StepTimes(
        *(np.concatenate([getattr(one, name) for one in parts]) for name in StepTimes.__slots__)
    )
    assert steps_counted(times).tolist() == [10] * 60
    assert steps_per_second(times, Grid(0, 60_000, 10), 600_000) == pytest.approx(np.full(10, 1.0))


def test_steps_of_which_nothing_arrived_were_not_done_in_a_moment() -> None:
    step = np.array([*range(10), *range(1_000, 1_010)])
    times = StepTimes(step, np.zeros(20, np.int64), step * 1_000_000)
    rate = steps_per_second(times, Grid(0, 10_000, 101), 1_010_000)
    assert rate == pytest.approx(np.full(101, 1.0))


class CountedQueries:
    """Every GPU says the number of the moment at which it is asked about."""

    def __init__(self) -> None:
        self.asked: list[Times] = []

    async def matrix(self, _query: str, times: Times, _labels: tuple[str, ...]) -> Matrix:
        self.asked.append(times)
        moments = times.start_ms + times.step_ms * np.arange(times.moments)
        return Matrix([("GPU-a",), ("GPU-b",)], np.tile(moments / 1000.0, (2, 1)))


async def no_bindings() -> list[Any]:
    return []


class AskedQueries:
    """Every GPU of a workload is told of from the tenth slot on."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        assert labels == ("over",)
        self.queries.append(query)
        row = np.where(np.arange(times.moments) < 10, np.nan, 8.0)
        overs = [("",)] if "workload_gpus" in query else [("mean",), ("least",), ("most",)]
        return Matrix(overs, np.tile(row, (len(overs), 1)))


def test_a_long_slot_has_the_least_and_the_most_of_all_its_moments() -> None:
    queries = AskedQueries()
    there = np.arange(50) >= 10
    found = asyncio.run(gpu_sums(queries, KEY, there, Grid(0, 600_000, 50)))  # type: ignore[arg-type]
    assert found is not None
    assert summed_layer(found).gpus == [0] * 10 + [8] * 40
    assert len(queries.queries) == 5
    whose = 'cluster="lab", namespace="ml", kind="PyTorchJob", workload="train"'
    assert queries.queries[1] == " or ".join(
        f'{how}_over_time(trilens:workload_gpu_power:watts{{{whose}, over="{over}"}}[600000ms])'
        for over, how in (("mean", "avg"), ("least", "min"), ("most", "max"))
    )


def test_where_rules_recorded_nothing_for_long_each_gpu_is_asked_about() -> None:
    there = np.ones(50, np.bool_)
    asked = gpu_sums(AskedQueries(), KEY, there, Grid(0, 600_000, 50))  # type: ignore[arg-type]
    assert asyncio.run(asked) is None


def test_of_gpus_only_what_is_new_is_asked() -> None:
    queries = CountedQueries()
    now_ms = 3_600_000
    memory = GpuMemory(queries, lambda: now_ms)  # type: ignore[arg-type]

    async def looked(start_ms: int) -> list[float]:
        grid = Grid(start_ms, 60_000, 50)
        whose = WorkloadGpus(KEY, np.ones(50, np.bool_), no_bindings)
        read = await memory.read(whose, grid)
        assert await memory.read(whose, grid) is read, "several who look have the same answer"
        assert read.layer == gpu_layer(read.readings, grid)
        return read.readings.figures["power"][1].tolist()  # type: ignore[no-any-return]

    async def both() -> None:
        first = await looked(now_ms - 49 * 60_000)
        later = await looked(now_ms - 48 * 60_000)
        assert later[:-1] == first[1:]
        assert later[-1] == first[-1] + 60

    asyncio.run(both())
    assert [one.moments for one in queries.asked] == [50] * 4 + [4] * 4
