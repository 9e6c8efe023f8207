"""What happens to real jobs, hour by hour: whose the time is, in which bucket, and as how many episodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from told_steps import HOUR, Told, history_of
from told_steps import facts_of as told_facts

from ledger_fleets import CLUSTER, NOON_MS, FleetBuilder, PlainPrices, at, no_signals, pod
from memory_book import MemoryBook
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.hour_facts import facts_of
from trilens.ledger.answers.why import why
from trilens.ledger.lives.lost_work import lost_steps
from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.ledger.verify import verify
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_sums import Window
from trilens.model.run import Ending, RunId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.ledger.answers.why import Found
    from trilens.model.ledger import LedgerHour, LedgerRow
    from trilens.model.run import RankProcess

MIN = 60_000
LATER = NOON_MS + 100 * HOUR_MS
FOUR = [f"GPU-{i}" for i in range(4)]
assert HOUR == NOON_MS


class Story:
    """A fleet, and programs in its pods; each hour is booked from what the store would tell of it."""

    def __init__(self, fleet: FleetBuilder) -> None:
        self.fleet = fleet
        self._programs: list[tuple[Told, dict[str, object]]] = []

    def runs(self, told: Told, in_pod: str, **more: object) -> Story:
        self._programs.append((told, {"pod": in_pod, "pod_uid": pod(in_pod).uid, "namespace": "ml", **more}))
        return self

    def hour(self, number: int = 0, signals: Signals | None = None) -> LedgerHour:
        begin, end = NOON_MS + number * HOUR_MS, NOON_MS + (number + 1) * HOUR_MS
        told = [one for one, _ in self._programs]
        always = replace(self.fleet.facts, from_ms=0, to_ms=LATER)
        steps = told_facts(*told, from_ms=begin, to_ms=end)
        facts = replace(
            facts_of(always, begin, end),
            lives=[self._process(one, more) for one, more in self._programs],
            **{name: getattr(steps, name) for name in ("minutes", "earlier", "later", "checkpoints")},
        )
        runs = defaultdict(list)
        for one in told:
            runs[one.run].append(one)
        lost = [each for lives in runs.values() for each in lost_steps(history_of(*lives))]
        hour = allocate(facts, signals or no_signals(), lost, PlainPrices(), begin, LATER)
        assert verify(hour.bills, hour.rows) == []
        return hour

    @staticmethod
    def _process(told: Told, more: dict[str, object]) -> RankProcess:
        return replace(told.process, **more)  # type: ignore[arg-type]


def telemetry(letters: Mapping[str | tuple[str, str], str], begin: float = 0) -> Signals:
    """A minute a letter: `w` works, `.` is quiet, `?` is not told."""
    told = {"w": 0.9, ".": 0.0, "?": np.nan}
    keys = [key if isinstance(key, tuple) else (key, "") for key in letters]
    active = np.array([[told[letter] for letter in row] for row in letters.values()])
    nothing, silent = np.full(active.shape, np.nan), np.zeros((0, active.shape[1]))
    gpus = GpuMinutes(at(begin), {key: i for i, key in enumerate(keys)}, active, nothing, nothing, nothing)
    return Signals(gpus, ServingMinutes(at(begin), {}, silent, silent, silent))


def minutes(hour: LedgerHour, key: Callable[[LedgerRow], object]) -> dict[object, float]:
    found: defaultdict[object, int] = defaultdict(int)
    for row in hour.rows:
        found[key(row)] += row.gpu_ms
    return {name: round(ms / MIN, 2) for name, ms in found.items()}


def by_cause(row: LedgerRow) -> str:
    return f"{row.bucket} {row.cause}"


def by_run(row: LedgerRow) -> str | None:
    return row.holder.run


def test_a_pod_that_is_evicted_in_a_step_and_goes_on_elsewhere_from_its_checkpoint() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).node("node-b", ["GPU-1"])
    fleet.pod("first", ["GPU-0"], of="job", begin=-5, end=20)
    fleet.pod("second", ["GPU-1"], "node-b", of="job", begin=25)
    evicted = Told(-240).does(600).saves(12).does(600).passes(18).ends(Ending.LOST)
    back = Told(26 * 60, attempt=1).passes(30).loads(599, 20).passes(10).does(1_800).ends()
    hour = Story(fleet).runs(evicted, "first").runs(back, "second").hour()
    assert minutes(hour, by_cause) == {
        "productive steps": 6 + 30,
        "checkpoint saving": 0.2,
        "recompute lost-work": 10,
        "productive finishing": 0.3,  # the step that it was in
        "allocated_idle ended": 3.5 + 3,
        "unallocated free": 40 + 25,
        "starting loading": 1 + 0.67,
        "starting restoring": 0.33,
    }
    assert {(row.holder.run, row.holder.workload.name) for row in hour.rows if row.holder.workload} == {
        ("pretrain", "job")
    }


def test_torchrun_starts_its_ranks_again_in_one_pod_and_they_end_one_after_the_other() -> None:
    story = Story(FleetBuilder().node("node-a", FOUR).pod("train", FOUR, begin=-5))
    for rank in range(4):
        first = Told(-240, rank=rank).does(84, 10).passes(rank).ends(Ending.FAILED)
        again = Told(610 + rank, rank=rank, attempt=1).loads(59).does(120, 10).ends()
        story.runs(first, "train", local_rank=rank).runs(again, "train", local_rank=rank)
    hours = [story.hour(number) for number in (0, 1)]
    for hour in hours:
        idle = [row for row in hour.rows if row.cause == "ended"]
        assert {row.since_ms for row in idle} == {at((610 + 1_200) / 60)}, "one episode"
        assert len(idle) == 4
    assert {row.since_ms for row in hours[0].rows if row.cause == "restarting"} == {at(10)}
    assert minutes(hours[0], by_cause)["recompute lost-work"] == 4 * 4


@pytest.mark.parametrize("tells", [True, False], ids=["tells its GPUs", "does not tell"])
def test_a_pod_that_trains_one_thing_after_another(tells: bool) -> None:
    """Four ranks, and then one program that uses all GPUs: neither takes GPUs away from the other."""
    story = Story(FleetBuilder().node("node-a", FOUR).pod("dev", FOUR, begin=-1))
    for rank in range(4):
        own = tuple(FOUR[rank : rank + 1]) if tells and rank < 3 else ()
        told = Told(rank=rank, run=RunId("ddp")).does(60, 10).ends()
        story.runs(told, "dev", local_rank=rank, gpus=own)
    story.runs(Told(900, run=RunId("one")).does(60, 10).ends(), "dev")
    hour = story.hour()
    works = minutes(hour, lambda row: (row.gpu, row.holder.run, row.bucket))
    assert {key: own for key, own in works.items() if key[2] is Bucket.PRODUCTIVE} == {  # type: ignore[index]
        (gpu, run, Bucket.PRODUCTIVE): 10 for gpu in FOUR for run in ("ddp", "one")
    }
    assert not hour.warnings


def test_what_a_pod_trains_hours_later_does_not_change_an_hour() -> None:
    """Read with a whole day, or alone: only the lives of the pod that begin in the hour after it count."""
    story = Story(FleetBuilder().node("node-a", FOUR).pod("dev", FOUR, begin=-1))
    story.runs(Told(rank=0, run=RunId("first")).does(300, 10).ends(), "dev", local_rank=0)
    story.runs(Told(rank=1, run=RunId("first")).does(300, 10).ends(), "dev", local_rank=1)
    alone = story.hour()
    for rank in range(2, 4):
        later = Told(3 * 3_600, rank=rank, step=300, run=RunId("first")).does(60)
        story.runs(later, "dev", local_rank=rank)
    assert story.hour() == alone


@pytest.mark.parametrize(
    ("world", "others", "run"),
    [(4, "", "pretrain"), (2, "", None), (None, "", None), (4, "another", None)],
    ids=["silent ranks", "all ranks tell", "nobody knows", "two runs"],
)
def test_only_some_ranks_have_the_sdk(world: int | None, others: str, run: str | None) -> None:
    fleet = FleetBuilder().node("node-a", [*FOUR, "GPU-4"]).pod("one", FOUR[:2], of="job", begin=0)
    fleet.pod("two", FOUR[2:], of="job", begin=0).pod("other", ["GPU-4"], of="other", begin=0)
    story = Story(fleet)
    for rank in range(2):
        told = Told(rank=rank).does(360, 10)
        story.runs(told, "one", gpus=(FOUR[rank],), world_size=world)
    if others:
        story.runs(Told(run=RunId(others)).does(360, 10), "two", gpus=(FOUR[2],), world_size=1)
    hour = story.hour(signals=telemetry({FOUR[3]: "w" * 40 + "." * 20}))
    rows = [row for row in hour.rows if row.gpu == FOUR[3]]
    assert {(row.holder.run, row.basis) for row in rows} == {(run, Basis.GPU)}
    assert {row.bucket: row.gpu_ms / MIN for row in rows} == {
        Bucket.PRODUCTIVE: 40,
        Bucket.ALLOCATED_IDLE: 20,
    }
    assert {row.holder.run for row in hour.rows if row.gpu == "GPU-4"} == {None}, "another workload"


@pytest.mark.parametrize("ending", [Ending.FINISHED, Ending.LOST], ids=str)
def test_after_its_end_a_pod_sleeps_unless_something_else_works_in_it(ending: Ending) -> None:
    """A notebook goes on, an evaluation tells of no run, a program cannot reach the server any more."""
    story = Story(FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"], begin=0))
    story.runs(Told().does(630).ends(ending), "train")
    asleep = minutes(story.hour(signals=telemetry({"GPU-0": "w" * 11 + "." * 49})), by_cause)
    assert asleep == {"productive steps": 10.5, "allocated_idle ended": 49.5}
    assert minutes(story.hour(), by_cause) == asleep, "also where no telemetry tells"
    awake = story.hour(signals=telemetry({"GPU-0": "w" * 31 + "." * 29}))
    assert minutes(awake, by_cause) == {
        "productive steps": 10.5,
        "productive busy": 20.5,
        "allocated_idle ended": 29,
    }
    assert {row.since_ms for row in awake.rows if row.cause == "ended"} == {at(10.5)}


def test_actors_on_one_gpu_of_which_one_hangs_while_the_other_goes_on() -> None:
    story = Story(FleetBuilder().node("node-a", ["GPU-0"]).pod("ray", ["GPU-0"], begin=0))
    story.runs(Told(rank=0).does(60, 10), "ray").runs(Told(rank=1).does(180, 10).does(1), "ray")
    assert minutes(story.hour(), by_cause) == {"productive steps": 30.02, "stalled no-step": 29.98}


def test_a_server_that_was_trained_in_its_pod_is_idle_as_a_server() -> None:
    story = Story(FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"], begin=0))
    story.runs(Told().does(60, 10).ends(), "train")
    requests = np.array([[np.nan] * 10 + [1.0] * 20 + [0.0] * 30])
    silent = np.full(requests.shape, np.nan)
    serving = ServingMinutes(NOON_MS, {(CLUSTER, "ml", "train"): 0}, silent, requests, silent)
    signals = replace(telemetry({"GPU-0": "?" * 60}), serving=serving)
    assert minutes(story.hour(signals=signals), by_cause) == {
        "productive steps": 10,
        "serving_busy requests": 20,
        "serving_idle no-requests": 30,
    }


@pytest.mark.parametrize(
    ("held", "works", "unknown"),
    [
        (None, {"GPU-0": "w" * 50 + "." * 10}, 50),
        (None, {"GPU-0": "ww...ww...ww" + "." * 48}, 0),
        ((0.0, 30.0), {"GPU-0": "w" * 60}, 30),
        ((0.0, None), {"GPU-0": "w" * 60}, 0),
        ((1.0, 59.0), {"GPU-0": "w" * 60}, 0),
    ],
    ids=["nobody", "for moments", "no more", "somebody", "seen a moment later"],
)
def test_a_gpu_that_works_while_nobody_is_known_to_hold_it(
    held: tuple[float, float | None] | None, works: Mapping[str | tuple[str, str], str], unknown: float
) -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"])
    if held is not None:
        fleet.pod("train", ["GPU-0"], begin=held[0], end=held[1])
    hour = Story(fleet).hour(signals=telemetry(works))
    told = {warned.doubt.code: warned.gpu_ms / MIN for warned in hour.warnings}
    assert told == ({"holder-unknown": unknown} if unknown else {})


def test_a_part_of_a_gpu_works_for_who_has_it_and_the_whole_for_all_of_them() -> None:
    fleet = FleetBuilder().node("node-a", told=1)
    for instance in ("1", "2"):
        fleet.gpu("GPU-0", "node-a", instance=instance)
    fleet.pod("notebook", ["GPU-0"], instance="1", share=Fraction(1, 7), begin=0)
    works = telemetry({("GPU-0", "1"): "w" * 60, ("GPU-0", "2"): "." * 60, ("GPU-0", ""): "w" * 60})
    assert not Story(fleet).hour(signals=works).warnings
    works.gpus.active[1] = 0.9
    assert [(one.doubt.code, one.gpu_ms / MIN) for one in Story(fleet).hour(signals=works).warnings] == [
        ("holder-unknown", 60)
    ]


@pytest.mark.parametrize(
    ("first_hour", "cause", "since"),
    [("w" * 20 + "." * 40, "idle", 20), ("." * 60, "never-used", 0)],
    ids=["idle", "never used"],
)
def test_a_notebook_on_a_part_of_a_gpu_that_idles_over_night_is_one_cause(
    first_hour: str, cause: str, since: float
) -> None:
    fleet = FleetBuilder().node("node-a", told=1).gpu("GPU-0", "node-a", instance="3")
    fleet.pod("notebook", ["GPU-0"], instance="3", share=Fraction(2, 7), begin=0)
    book = MemoryBook(*booked(fleet, ("GPU-0", "3"), first_hour + "." * 60 * 7))
    (found,) = idle(book, 8)
    assert (found.episode.cause, found.episode.since_ms, found.times) == (cause, at(since), 1)
    assert round(found.episode.gpu_ms / MIN, 2) == round((8 * 60 - since) * 2 / 7, 2)
    assert (found.episode.first_ms, found.episode.last_ms) == (NOON_MS, NOON_MS + 7 * HOUR_MS)


def booked(fleet: FleetBuilder, gpu: tuple[str, str], letters: str) -> list[LedgerHour]:
    """Signals are read from the hour before on."""
    hours = []
    for number in range(len(letters) // 60):
        first = 60 * max(number - 1, 0)
        hours.append(Story(fleet).hour(number, telemetry({gpu: letters[first : 60 * (number + 1)]}, first)))
    return hours


def idle(book: MemoryBook, hours: int) -> list[Found]:
    window = Window(NOON_MS, NOON_MS + hours * HOUR_MS)
    found = why(book, window, limit=20).largest
    return [one for one in found if one.episode.bucket is Bucket.ALLOCATED_IDLE]


def test_two_nights_are_two_times() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("notebook", ["GPU-0"], begin=0)
    (found,) = idle(MemoryBook(*booked(fleet, ("GPU-0", ""), ("w" * 30 + "." * 270) * 2)), 10)
    assert (found.episode.since_ms, found.times, found.episode.gpu_ms / MIN) == (None, 2, 2 * 270)


def test_gpus_that_go_idle_within_a_minute_do_so_together() -> None:
    fleet = FleetBuilder().node("node-a", FOUR).pod("notebook", FOUR, begin=0)
    quiet_since = dict(zip(FOUR, (20, 21, 20, 40), strict=True))
    signals = telemetry({gpu: "w" * begin + "." * (60 - begin) for gpu, begin in quiet_since.items()})
    rows = [row for row in Story(fleet).hour(signals=signals).rows if row.cause == "idle"]
    assert {row.gpu: row.since_ms for row in rows} == {
        gpu: at(40 if begin == 40 else 20) for gpu, begin in quiet_since.items()
    }
    assert [row.gpu_ms / MIN for row in rows] == [60 - begin for begin in quiet_since.values()]


@pytest.mark.parametrize(("worked", "broken"), [((), True), ((-1,), False), ((-4,), True), ((0,), True)])
def test_a_gpu_that_worked_since_its_fault_is_free_and_not_broken(
    worked: tuple[int, ...], broken: bool
) -> None:
    """As booked in earlier hours: not before the fault, and not in this hour, which tells by itself."""
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).xid(62, "GPU-0", -200)
    hours = [NOON_MS + hour * HOUR_MS for hour in worked]
    fleet.facts = replace(fleet.facts, worked={"GPU-0": hours})
    (row,) = Story(fleet).hour().rows
    assert (row.bucket, row.cluster) == (Bucket.BROKEN if broken else Bucket.UNALLOCATED, CLUSTER)
