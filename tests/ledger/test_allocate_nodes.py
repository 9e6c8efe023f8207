"""Which GPUs a node has in an hour, and which of them could not be held."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ledger_fleets import (
    CLUSTER,
    NOON_MS,
    FleetBuilder,
    PlainPrices,
    at,
    no_signals,
    signals_of,
    steady_later,
    steady_minutes,
)
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.verify import verify
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.machine import MachineState
from trilens.model.run import RunId

if TYPE_CHECKING:
    from trilens.ledger.source import Signals
    from trilens.model.ledger import LedgerHour

MIN = 60_000


def booked(fleet: FleetBuilder, signals: Signals | None = None, hour_ms: int = NOON_MS) -> LedgerHour:
    hour = allocate(fleet.facts, signals or no_signals(), [], PlainPrices(), hour_ms, at(6_000))
    assert verify(hour.bills, hour.rows) == []
    return hour


def minutes(hour: LedgerHour) -> dict[tuple[str, str, str], float]:
    """By GPU, bucket and cause."""
    found: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for row in hour.rows:
        found[row.gpu, row.bucket, row.cause] += row.gpu_ms
    return {name: ms / MIN for name, ms in found.items()}


def training(fleet: FleetBuilder, name: str, gpus: list[str], **more: float) -> FleetBuilder:
    """A pod that makes a step a second on its first GPU, all the time."""
    fleet.pod(name, gpus, **more).life(f"run-{name}", name, gpus=gpus[:1])
    ranks = sorted((life.run, life.rank) for life in fleet.facts.lives)
    later = steady_later(ranks, fleet.facts.to_ms)
    fleet.facts = replace(fleet.facts, minutes=steady_minutes(ranks, 60), later=later)
    return fleet


def test_a_node_has_as_many_gpus_as_it_says() -> None:
    hour = booked(FleetBuilder().node("node-a", told=8))
    (bill,) = hour.bills
    assert (bill.there_ms, bill.gpu_ms) == (HOUR_MS, 8 * HOUR_MS)
    assert minutes(hour) == {("", Bucket.UNALLOCATED, "free"): 8 * 60}  # nobody reports: not lost, unknown


def test_a_node_that_does_not_say_has_those_that_were_seen() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0", "GPU-1"], told=None))
    assert hour.bills[0].gpu_ms == 2 * HOUR_MS


def test_a_node_without_a_machine_is_there_while_its_gpus_report() -> None:
    fleet = FleetBuilder().gpu("GPU-0", "desk", begin=10, end=40).gpu("GPU-1", "desk", begin=10, end=50)
    hour = booked(fleet)
    (bill,) = hour.bills
    assert (bill.cluster, bill.node, bill.there_ms, bill.gpu_ms) == (CLUSTER, "desk", 40 * MIN, 80 * MIN)
    assert minutes(hour) == {
        ("GPU-0", Bucket.UNALLOCATED, "free"): 30,
        ("GPU-0", Bucket.BROKEN, "gpu-lost"): 10,
        ("GPU-1", Bucket.UNALLOCATED, "free"): 40,
    }


def test_a_node_that_goes_and_comes_back_is_not_there_meanwhile() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"], end=10).node("node-a", told=1, begin=40)
    hour = booked(fleet.gpu("GPU-0", "node-a", begin=40))
    assert hour.bills[0].there_ms == 30 * MIN
    assert minutes(hour) == {("GPU-0", Bucket.UNALLOCATED, "free"): 30}


def test_of_two_machines_at_a_time_the_one_told_last_counts() -> None:
    fleet = FleetBuilder().node("node-a", told=4).node("node-a", told=8, begin=30)
    assert booked(fleet).bills[0].gpu_ms == (4 * 30 + 8 * 30) * MIN


def test_a_node_without_any_gpu_is_told() -> None:
    hour = booked(FleetBuilder().node("node-a", told=None))
    assert (hour.bills, hour.rows) == ((), ())
    assert [warned.doubt.code for warned in hour.warnings] == ["gpus-unknown"]


def test_more_gpus_than_a_node_says_count_and_are_told() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0", "GPU-1"], told=1))
    assert hour.bills[0].gpu_ms == 2 * HOUR_MS
    assert [warned.doubt.code for warned in hour.warnings] == ["more-gpus-than-told"]


def test_a_gpu_that_was_exchanged_is_not_counted_twice() -> None:
    fleet = FleetBuilder().node("node-a", told=1).gpu("GPU-old", "node-a", end=20)
    hour = booked(fleet.gpu("GPU-new", "node-a", begin=40))
    assert hour.bills[0].gpu_ms == HOUR_MS
    assert minutes(hour) == {
        ("GPU-old", Bucket.UNALLOCATED, "free"): 40,  # until another one is there; nobody else reports
        ("GPU-new", Bucket.UNALLOCATED, "free"): 20,
    }


def test_of_those_that_report_no_more_the_last_is_there_also_where_its_node_came_later() -> None:
    fleet = FleetBuilder().node("node-a", told=1, begin=30).gpu("GPU-0", "node-a", end=10)
    hour = booked(fleet.gpu("GPU-1", "node-a", end=20))
    assert minutes(hour) == {("GPU-1", Bucket.UNALLOCATED, "free"): 30}


def test_a_gpu_that_moves_is_on_one_node_at_a_time() -> None:
    fleet = FleetBuilder().node("node-a", told=None, end=30).gpu("GPU-0", "node-a", end=30)
    hour = booked(
        fleet.node("node-b", told=1, begin=30).gpu("GPU-0", "node-b", begin=30).pod("train", ["GPU-0"])
    )
    assert {row.node: row.gpu_ms for row in hour.rows} == {"node-a": 30 * MIN, "node-b": 30 * MIN}


def test_a_gpu_that_reports_no_more_while_others_do_is_lost() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"], told=3).gpu("GPU-1", "node-a", end=15)
    hour = booked(fleet)
    assert minutes(hour) == {
        ("GPU-0", Bucket.UNALLOCATED, "free"): 60,
        ("GPU-1", Bucket.UNALLOCATED, "free"): 15,
        ("GPU-1", Bucket.BROKEN, "gpu-lost"): 45,
        ("", Bucket.BROKEN, "gpu-lost"): 60,
    }
    lost = next(row for row in hour.rows if row.gpu == "GPU-1" and row.bucket is Bucket.BROKEN)
    assert (lost.since_ms, lost.holder.workload) == (at(15), None)


def test_a_look_that_misses_a_gpu_does_not_make_it_lost() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"], told=2).gpu("GPU-1", "node-a", end=59.5)
    assert minutes(booked(fleet))["GPU-1", Bucket.UNALLOCATED, "free"] == 60


def test_where_nobody_reports_nothing_is_lost() -> None:
    fleet = (
        FleetBuilder().node("node-a", told=2).gpu("GPU-0", "node-a", end=15).gpu("GPU-1", "node-a", end=15)
    )
    assert {bucket for _, bucket, _ in minutes(booked(fleet))} == {Bucket.UNALLOCATED}


def test_a_node_that_is_not_ready_is_broken_also_where_it_is_held() -> None:
    fleet = (
        FleetBuilder()
        .node("node-a", ["GPU-0"], end=30)
        .node("node-a", told=1, begin=30, state=MachineState.NOT_READY)
    )
    hour = booked(fleet.gpu("GPU-0", "node-a", begin=30).pod("train", ["GPU-0"]))
    assert minutes(hour) == {
        ("GPU-0", Bucket.PRODUCTIVE, "no-signal"): 30,
        ("GPU-0", Bucket.BROKEN, "not-ready"): 30,
    }
    broken = next(row for row in hour.rows if row.bucket is Bucket.BROKEN)
    assert (broken.holder.workload, broken.since_ms) == (None, at(30))


def test_a_cordoned_node_is_broken_only_where_it_is_free() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0", "GPU-1"], state=MachineState.CORDONED)
    assert minutes(booked(fleet.pod("train", ["GPU-0"]))) == {
        ("GPU-0", Bucket.PRODUCTIVE, "no-signal"): 60,
        ("GPU-1", Bucket.BROKEN, "cordoned"): 60,
    }


def test_a_gpu_on_which_steps_are_made_is_not_broken() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"], state=MachineState.NOT_READY)
    hour = booked(training(fleet, "train", ["GPU-0"]).xid(79, "GPU-0", 10))
    assert Bucket.BROKEN not in {row.bucket for row in hour.rows}


@pytest.mark.parametrize(("code", "broken"), [(79, 50), (62, 50), (13, 0), (45, 0), (None, 0)])
def test_an_xid_takes_a_gpu_out_if_it_asks_for_that(code: int, broken: float) -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]).xid(code, "GPU-0", 10))
    assert minutes(hour).get(("GPU-0", Bucket.BROKEN, "fault"), 0) == broken
    assert minutes(hour)["GPU-1", Bucket.UNALLOCATED, "free"] == 60


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)", 50),
        ("NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00000004 0x00000001)", 0),
        ("a line that was cut", 0),
    ],
)
def test_an_nvlink_xid_takes_a_gpu_out_if_its_sub_code_asks_for_that(text: str, broken: float) -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).xid(149, "GPU-0", 10)
    fleet.facts = replace(fleet.facts, faults=[replace(fleet.facts.faults[0], text=text)])
    assert minutes(booked(fleet)).get(("GPU-0", Bucket.BROKEN, "fault"), 0) == broken


def test_an_xid_of_the_day_before_still_counts_and_says_since_when() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"]).xid(48, "GPU-0", -300))
    (row,) = hour.rows
    assert (row.bucket, row.cause, row.since_ms) == (Bucket.BROKEN, "fault", at(-300))
    assert (
        booked(FleetBuilder().node("node-a", ["GPU-0"], begin=-6_000).xid(48, "GPU-0", -1_500)).rows[0].cause
        == "free"
    )


def test_a_fault_is_over_when_the_gpu_works_again() -> None:
    fleet = (
        FleetBuilder()
        .node("node-a", ["GPU-0"])
        .xid(62, "GPU-0", 10)
        .pod("train", ["GPU-0"], begin=20, end=50)
    )
    fleet.life("run-a", "train", begin=25, end=50)
    table = steady_minutes([(RunId("run-a"), 0)], 60)
    works = (table.minute >= at(30) // MIN) & (table.minute < at(50) // MIN)
    columns = {name: getattr(table, name)[works] for name in table.__slots__ if name != "runs"}
    fleet.facts = replace(fleet.facts, minutes=replace(table, **columns))
    found = minutes(booked(fleet))
    assert found["GPU-0", Bucket.UNALLOCATED, "free"] == 10 + 10
    assert found["GPU-0", Bucket.BROKEN, "fault"] == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("how", ["reports", "ready"])
def test_a_fault_is_over_when_the_gpu_or_its_node_is_back(how: str) -> None:
    fleet = FleetBuilder().xid(79, "GPU-0", 10)
    if how == "reports":
        fleet.node("node-a", told=1).gpu("GPU-0", "node-a", end=12).gpu("GPU-0", "node-a", begin=30)
    else:
        fleet.node("node-a", ["GPU-0"], end=20).node("node-a", told=1, begin=30).gpu("GPU-0", "node-a")
    assert minutes(booked(fleet))["GPU-0", Bucket.BROKEN, "fault"] == (20 if how == "reports" else 10)


def test_an_xid_without_a_uuid_means_the_gpu_of_that_number() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]).xid(79, "GPU-1", 10)
    fleet.facts = replace(fleet.facts, faults=[replace(fleet.facts.faults[0], uuid=None, gpu=1)])
    assert minutes(booked(fleet))["GPU-1", Bucket.BROKEN, "fault"] == 50


def test_an_xid_of_a_node_of_that_name_in_another_cluster_means_another_gpu() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]).xid(79, "GPU-1", 10)
    elsewhere = replace(fleet.facts.faults[0], uuid=None, gpu=1, cluster="elsewhere")
    fleet.facts = replace(fleet.facts, faults=[elsewhere])
    assert ("GPU-1", Bucket.BROKEN, "fault") not in minutes(booked(fleet))
    fleet.gpu("GPU-far", "node-a", number="1", cluster="elsewhere")
    assert minutes(booked(fleet))["GPU-far", Bucket.BROKEN, "fault"] == 50
    fleet.facts = replace(fleet.facts, faults=[replace(elsewhere, cluster="")])
    assert not [key for key in minutes(booked(fleet)) if key[1] is Bucket.BROKEN]  # it may be either


def test_throttled_time_is_shown_inside_of_useful_time() -> None:
    fleet = training(FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]), "train", ["GPU-0"])
    signals = signals_of([one.gpu.key for one in fleet.facts.gpus], NOON_MS, 60)
    throttled = np.full((2, 60), np.nan)
    throttled[:, 30:40] = 0.5
    hour = booked(fleet, replace(signals, gpus=replace(signals.gpus, throttled=throttled)))
    slow = {row.bucket: row.throttled_ms for row in hour.rows if row.throttled_ms}
    useful = sum(row.gpu_ms for row in hour.rows if row.bucket is Bucket.PRODUCTIVE and row.gpu == "GPU-0")
    assert slow == {Bucket.PRODUCTIVE: pytest.approx(useful * 5 / 60, rel=0.01)}


def test_what_could_not_be_asked_is_told() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]).pod("train", ["GPU-0"])
    (warned,) = booked(fleet, no_signals(("the source did not answer",))).warnings
    assert (warned.doubt.code, warned.doubt.text, warned.gpu_ms) == (
        "signals-missing",
        "the source did not answer",
        HOUR_MS,
    )


def test_a_gpu_that_does_not_report_is_on_the_node_of_its_pod() -> None:
    hour = booked(FleetBuilder().node("node-a", told=2).pod("train", ["GPU-9"]))
    assert {(row.gpu, row.bucket) for row in hour.rows} == {
        ("GPU-9", Bucket.PRODUCTIVE),
        ("", Bucket.UNALLOCATED),
    }
