"""Whose the time of a GPU is: each rule of docs/ledger.md, "Whose time it is"."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_fleets import CLUSTER, NOON_MS, FleetBuilder, PlainPrices, at, no_signals, pod, workload
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.doubts import IN_WORDS
from trilens.ledger.verify import verify
from trilens.model.gpu import BindingInterval, ClaimSource, GpuBinding, GpuKey
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.ledger_facts import Owner
from trilens.model.life import MembershipInterval
from trilens.model.run import RunFacts, RunId
from trilens.model.workload import GpuUuid, Membership, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.ledger import LedgerHour, LedgerRow

MIN = 60_000
DOCS = Path(__file__).parents[2] / "docs" / "ledger.md"


def booked(fleet: FleetBuilder, now: float = 600) -> LedgerHour:
    hour = allocate(fleet.facts, no_signals(), [], PlainPrices(), NOON_MS, at(now))
    assert verify(hour.bills, hour.rows) == []
    return hour


def minutes_by(hour: LedgerHour, key: Callable[[LedgerRow], object]) -> dict[object, float]:
    found: defaultdict[object, int] = defaultdict(int)
    for row in hour.rows:
        found[key(row)] += row.gpu_ms
    return {name: ms / MIN for name, ms in found.items()}


def by_workload(hour: LedgerHour) -> dict[object, float]:
    return minutes_by(hour, lambda row: row.holder.workload.name if row.holder.workload else row.bucket)


def codes(hour: LedgerHour) -> dict[str, float]:
    return {warned.doubt.code: warned.gpu_ms / MIN for warned in hour.warnings}


def a_node(*gpus: str) -> FleetBuilder:
    return FleetBuilder().node("node-a", gpus or ("GPU-0",))


def test_a_pod_holds_its_gpu_and_nobody_holds_the_other() -> None:
    hour = booked(a_node("GPU-0", "GPU-1").pod("train", ["GPU-0"]).owner("train", "vision", queue="gold"))
    held, free = sorted(hour.rows, key=lambda row: row.gpu)
    assert (held.holder.workload, held.holder.team, held.holder.queue) == (
        workload("train"),
        "vision",
        "gold",
    )
    assert (held.gpu, held.gpu_ms, held.model, held.purchase) == ("GPU-0", HOUR_MS, free.model, "on-demand")
    assert (free.bucket, free.gpu_ms, free.holder.team) == (Bucket.UNALLOCATED, HOUR_MS, None)
    assert hour.warnings == ()


def test_a_binding_that_lasts_longer_than_its_pod_ends_with_it() -> None:
    hour = booked(a_node().pod("train", ["GPU-0"], end=30, bound=(-60, 30.25)))
    assert by_workload(hour) == {"train": 30, Bucket.UNALLOCATED: 30}
    assert hour.warnings == ()  # so much later it is told


def test_a_binding_of_a_pod_that_nobody_knows_holds_nothing_and_is_told() -> None:
    fleet = a_node().pod("train", ["GPU-0"])
    fleet.facts = replace(fleet.facts, members=())
    hour = booked(fleet)
    assert by_workload(hour) == {Bucket.UNALLOCATED: 60}
    assert codes(hour) == {"holder-unknown": 60}


def test_a_pod_without_an_end_holds_until_now() -> None:
    hour = booked(a_node().pod("train", ["GPU-0"]), now=45)
    assert (hour.upto_ms, by_workload(hour)) == (at(45), {"train": 45})


def test_a_pod_without_an_end_holds_until_its_node_is_gone() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"], end=20).pod("train", ["GPU-0"])
    hour = booked(fleet)
    assert by_workload(hour) == {"train": 20}
    assert codes(hour) == {"pod-without-end": 20}
    assert hour.rows[0].doubts == ("pod-without-end",)


def test_a_pod_on_a_node_that_is_gone_all_the_hour_holds_nothing_and_is_told() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"], end=-20).pod("train", ["GPU-0"]))
    assert (hour.rows, hour.bills) == ((), ())
    assert codes(hour) == {"pod-without-end": 60}


def test_overlapping_bindings_are_scaled_down_to_the_gpu() -> None:
    fleet = (
        a_node()
        .pod("one", ["GPU-0"])
        .pod("two", ["GPU-0"], begin=20, end=40)
        .pod("three", ["GPU-0"], begin=20, end=40)
    )
    hour = booked(fleet)
    assert by_workload(hour) == pytest.approx({"one": 40 + 20 / 3, "two": 20 / 3, "three": 20 / 3}, abs=1e-4)
    assert codes(hour) == {"overlapping-bindings": 20}


def test_shares_are_of_the_device_and_what_nobody_took_is_unallocated() -> None:
    fleet = (
        a_node().pod("half", ["GPU-0"], share=Fraction(1, 2)).pod("slice", ["GPU-0"], share=Fraction(1, 7))
    )
    hour = booked(fleet)
    assert sum(row.gpu_ms for row in hour.rows) == HOUR_MS
    of = minutes_by(hour, lambda row: row.holder.workload and row.holder.workload.name)
    assert of == pytest.approx({"half": 30, "slice": 60 / 7, None: 60 * 5 / 14}, abs=1e-4)
    assert hour.warnings == ()


def test_instances_of_one_gpu_are_one_device() -> None:
    fleet = FleetBuilder().node("node-a", told=1)
    for instance in ("1", "2"):
        fleet.gpu("GPU-0", "node-a", instance=instance)
        fleet.pod(f"mig-{instance}", ["GPU-0"], share=Fraction(3, 7), instance=instance)
    hour = booked(fleet)
    assert (len(hour.bills), hour.bills[0].gpu_ms) == (1, HOUR_MS)
    assert by_workload(hour) == pytest.approx(
        {"mig-1": 180 / 7, "mig-2": 180 / 7, Bucket.UNALLOCATED: 60 / 7}, abs=1e-4
    )


def test_a_share_that_nobody_knows_is_an_equal_part_of_the_rest() -> None:
    fleet = a_node().pod("known", ["GPU-0"], share=Fraction(1, 2))
    hour = booked(fleet.pod("one", ["GPU-0"], share=None).pod("two", ["GPU-0"], share=None))
    assert by_workload(hour) == {"known": 30, "one": 15, "two": 15}
    assert codes(hour) == {"share-unknown": 30}


def test_a_label_that_changes_counts_from_then_on() -> None:
    fleet = a_node().pod("train", ["GPU-0"]).owner("train", "vision").owner("train", "speech", begin=15)
    hour = booked(fleet)
    assert minutes_by(hour, lambda row: row.holder.team) == {"vision": 15, "speech": 45}
    assert codes(hour) == {"team-changed": 60}


def test_the_first_owner_holds_for_all_time_before() -> None:
    hour = booked(a_node().pod("train", ["GPU-0"]).owner("train", "vision", begin=30))
    assert minutes_by(hour, lambda row: row.holder.team) == {"vision": 60}


def test_an_attempt_is_a_holder_of_its_own() -> None:
    fleet = a_node().pod("train", ["GPU-0"])
    place = Membership(pod("train"), workload("train"), 1)
    first = replace(fleet.facts.members[0], to_ms=at(20))
    fleet.facts = replace(fleet.facts, members=[first, MembershipInterval(place, "node-a", at(20), None)])
    assert minutes_by(booked(fleet), lambda row: row.holder.attempt) == {0: 20, 1: 40}


def test_an_interval_that_ends_before_it_begins_is_empty_and_told() -> None:
    fleet = a_node().pod("train", ["GPU-0"], begin=30, end=10, bound=(0, None))
    hour = booked(fleet)
    assert by_workload(hour) == {Bucket.UNALLOCATED: 60}
    assert codes(hour)["clock-jumped"] == 20


def test_two_runs_on_one_gpu_have_equal_parts() -> None:
    fleet = a_node().pod("notebook", ["GPU-0"]).life("run-a", "notebook").life("run-b", "notebook", begin=30)
    hour = booked(fleet)
    assert minutes_by(hour, lambda row: row.holder.run) == {"run-a": 45, "run-b": 15}
    assert codes(hour) == {"runs-share-gpu": 30}


def test_two_programs_that_tell_of_one_rank_are_one_run() -> None:
    fleet = a_node().pod("train", ["GPU-0"]).life("run-a", "train", end=30)
    hour = booked(fleet.life("run-a", "train", attempt=1, begin=-10))
    assert minutes_by(hour, lambda row: row.holder.run) == {"run-a": 60}
    assert codes(hour) == {"run-told-twice": 30}


def test_a_run_over_several_workloads_and_namespaces_is_one_run() -> None:
    fleet = a_node("GPU-0", "GPU-1").pod("prefill", ["GPU-0"]).pod("decode", ["GPU-1"], namespace="other")
    fleet.life("run-a", "prefill", rank=0).life("run-a", "decode", rank=1, namespace="other", attempt=0)
    hour = booked(fleet)
    assert minutes_by(hour, lambda row: row.holder.run) == {"run-a": 120}
    assert {row.holder.namespace for row in hour.rows} == {"ml", "other"}


def test_the_experiment_of_a_run_comes_before_that_of_its_workload() -> None:
    fleet = a_node("GPU-0", "GPU-1").pod("told", ["GPU-0"]).pod("untold", ["GPU-1"])
    fleet.life("run-a", "told", experiment="sweep")
    owners = {workload(name): [Owner(0, None, None, "of-the-workload", None)] for name in ("told", "untold")}
    fleet.facts = replace(fleet.facts, owners=owners)
    assert minutes_by(booked(fleet), lambda row: row.holder.experiment) == {
        "sweep": 60,
        "of-the-workload": 60,
    }


def test_a_process_outside_of_kubernetes_stands_where_a_pod_does() -> None:
    fleet = FleetBuilder().gpu("GPU-0", "desk", begin=-10, cluster="")
    uid = f"desk:4711:{at(-20)}"
    key = pod("x")._replace(cluster="local", name="python-4711@desk", uid=uid)
    job = WorkloadKey("local", "", "", "Process", "train", "u")
    binding = GpuBinding(GpuKey(GpuUuid("GPU-0")), key, "", Fraction(1), (ClaimSource.PROCESS,))
    fleet.pod("x", ["GPU-0"])
    fleet.facts = replace(
        fleet.facts,
        bindings=[fleet.facts.bindings[0]._replace(binding=binding)],
        members=[MembershipInterval(Membership(key, job), "desk", at(-20))],
    )
    fleet.life("run-a", None, node="desk", pid=4711, process_started_ms=at(-20) + 1_000)
    hour = booked(fleet)
    assert minutes_by(hour, lambda row: (row.node, row.holder.workload, row.holder.run)) == {
        ("desk", job, "run-a"): 60
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 48))
def test_against_a_count_minute_by_minute(seed: int) -> None:
    """Pods that come and go at whole minutes on GPUs that are always there, counted the slow way."""
    chance = random.Random(seed)
    gpus = ["GPU-0", "GPU-1", "GPU-2"]
    fleet = a_node(*gpus)
    told: list[tuple[str, str, int, int, Fraction | None]] = []
    for number in range(chance.randint(0, 6)):
        name, begin = f"pod-{number}", chance.randint(-5, 55)
        end = chance.choice([None, begin + chance.randint(0, 60)])
        bound = (chance.randint(-5, 60), chance.choice([None, chance.randint(-5, 65)]))
        share = chance.choice([None, Fraction(1), Fraction(1, 2), Fraction(2, 7), Fraction(1, 3)])
        own = chance.sample(gpus, chance.randint(1, 3))
        fleet.pod(name, own, begin=begin, end=end, bound=bound, share=share)
        first, last = (
            max(begin, bound[0]),
            min(99 if end is None else end, 99 if bound[1] is None else bound[1]),
        )
        if bound[1] is None or bound[1] >= bound[0]:
            told += [(gpu, name, first, last, share) for gpu in own]
    expected: defaultdict[tuple[str, str | None], Fraction] = defaultdict(Fraction)
    for gpu in gpus:
        for minute in range(60):
            now = [
                (name, share) for on, name, first, last, share in told if on == gpu and first <= minute < last
            ]
            known = sum((share for _, share in now if share is not None), Fraction())
            unknown = [name for name, share in now if share is None]
            for name, share in now:
                part = (
                    max(1 - known, Fraction()) / len(unknown)
                    if share is None
                    else share / max(known, Fraction(1))
                )
                expected[gpu, name] += part * MIN
            expected[gpu, None] += (0 if unknown else max(1 - known, Fraction())) * MIN
    counted: defaultdict[tuple[str, str | None], int] = defaultdict(int)
    for row in booked(fleet).rows:
        counted[row.gpu, row.holder.workload.name if row.holder.workload else None] += row.gpu_ms
    for key in expected.keys() | counted.keys():
        assert (
            abs(counted[key] - expected[key]) <= 14
        )  # a millisecond for each time that somebody came or went


def test_a_holder_that_nobody_saw_yet_is_a_guess_that_is_told() -> None:
    fleet = a_node("GPU-0").pod("train", ["GPU-0"], bound=(5, 20)).pod("train", ["GPU-0"], bound=(20, None))
    (guessed, begin, end), seen = fleet.facts.bindings
    doubt = IN_WORDS["held-before-seen"]
    fleet.facts = replace(
        fleet.facts,
        members=fleet.facts.members[:1],
        bindings=[BindingInterval(replace(guessed, doubts=(doubt,)), begin, end), seen],
    )
    hour = booked(fleet)
    assert [(warned.doubt.code, warned.gpu_ms) for warned in hour.warnings] == [
        ("held-before-seen", 15 * MIN)
    ]
    held = [(row.doubts, row.gpu_ms) for row in hour.rows if row.holder.workload is not None]
    assert sorted(held) == [((), 40 * MIN), (("held-before-seen",), 15 * MIN)]


def test_what_is_not_over_is_not_booked() -> None:
    hour = booked(a_node().pod("train", ["GPU-0"]), now=0)
    assert (hour.rows, hour.bills, hour.upto_ms) == ((), (), NOON_MS)


def test_the_cluster_of_a_gpu_that_nobody_told_is_that_of_its_node() -> None:
    fleet = FleetBuilder().node("node-a", told=1).gpu("GPU-0", "node-a", cluster="")
    (bill,) = booked(fleet).bills
    assert (bill.cluster, bill.node, bill.gpu_ms) == (CLUSTER, "node-a", HOUR_MS)


def test_a_run_without_facts_has_the_experiment_of_its_workload() -> None:
    fleet = a_node().pod("train", ["GPU-0"]).life("run-a", "train")
    fleet.facts = replace(
        fleet.facts,
        runs={RunId("run-b"): RunFacts(RunId("run-b"), 0, experiment="another")},
        owners={workload("train"): [Owner(0, None, None, "own", None)]},
    )
    assert minutes_by(booked(fleet), lambda row: row.holder.experiment) == {"own": 60}


@pytest.mark.parametrize("code", sorted(IN_WORDS))
def test_every_doubt_is_in_the_docs(code: str) -> None:
    assert f"| `{code}` |" in DOCS.read_text()
