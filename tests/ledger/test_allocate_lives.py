"""Which life of a rank ran on which GPU, and what a holding's time outside of lives went into."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledger_fleets import (
    NOON_MS,
    FleetBuilder,
    PlainPrices,
    at,
    no_signals,
    pod,
    steady_later,
    steady_minutes,
    workload,
)
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.holdings import held
from trilens.ledger.allocation.lives_held import lives_of
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.life import Phase, PhaseInterval
from trilens.model.run import RunId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.ledger import LedgerHour, LedgerRow

MIN = 60_000
EIGHT = [f"GPU-{i}" for i in range(8)]


def ranks_on(fleet: FleetBuilder) -> dict[str, list[tuple[str, int]]]:
    """By GPU: run and rank of the lives on it."""
    facts = fleet.facts
    holdings = held(facts, NOON_MS, NOON_MS + HOUR_MS).holdings
    lives = lives_of(holdings, facts.lives, {one.gpu.key: one.gpu.index for one in facts.gpus})
    return {holdings[i].gpu.uuid: [(life.run, life.rank) for life in found] for i, found in lives.items()}


def a_pod(gpus: Sequence[str] = EIGHT, ranks: Sequence[int | None] = ()) -> FleetBuilder:
    return FleetBuilder().node("node-a", gpus).pod("train", gpus, ranks=ranks)


def test_by_the_gpus_that_a_life_tells() -> None:
    fleet = (
        a_pod()
        .life("run-a", "train", rank=0, gpus=["GPU-3"])
        .life("run-a", "train", rank=1, gpus=["GPU-1", "GPU-2"])
    )
    assert ranks_on(fleet) == {"GPU-3": [("run-a", 0)], "GPU-1": [("run-a", 1)], "GPU-2": [("run-a", 1)]}


def test_by_the_rank_that_an_agent_saw_on_the_gpu() -> None:
    fleet = a_pod(EIGHT[:2], ranks=[5, 4]).life("run-a", "train", rank=4).life("run-a", "train", rank=5)
    assert ranks_on(fleet) == {"GPU-0": [("run-a", 5)], "GPU-1": [("run-a", 4)]}


def test_a_pod_with_one_life_has_all_its_gpus_for_it() -> None:
    assert ranks_on(a_pod().life("run-a", "train")) == {gpu: [("run-a", 0)] for gpu in EIGHT}


def test_eight_lives_on_eight_gpus_go_by_their_local_rank() -> None:
    fleet = a_pod()
    for local_rank in reversed(range(8)):
        fleet.life("run-a", "train", rank=8 + local_rank, local_rank=local_rank)
    assert ranks_on(fleet) == {f"GPU-{i}": [("run-a", 8 + i)] for i in range(8)}


def test_the_number_of_a_gpu_counts_not_its_name() -> None:
    fleet = FleetBuilder().gpu("GPU-a", "node-a", number="10").gpu("GPU-b", "node-a", number="9")
    fleet.pod("train", ["GPU-a", "GPU-b"]).life("run-a", "train", rank=0).life("run-a", "train", rank=1)
    assert ranks_on(fleet) == {"GPU-b": [("run-a", 0)], "GPU-a": [("run-a", 1)]}


def test_four_lives_on_eight_gpus_have_two_neighbours_each() -> None:
    fleet = a_pod()
    for rank in range(4):
        fleet.life("run-a", "train", rank=rank, local_rank=rank)
    assert ranks_on(fleet) == {f"GPU-{i}": [("run-a", i // 2)] for i in range(8)}


def test_more_lives_than_gpus_share_them() -> None:
    fleet = a_pod(EIGHT[:2])
    for rank in range(4):
        fleet.life("run-a", "train", rank=rank, local_rank=rank)
    assert ranks_on(fleet) == {"GPU-0": [("run-a", 0), ("run-a", 1)], "GPU-1": [("run-a", 2), ("run-a", 3)]}


def test_lives_that_do_not_tell_have_what_the_others_leave() -> None:
    fleet = a_pod(EIGHT[:2]).life("run-a", "train", rank=0, gpus=["GPU-0"]).life("run-a", "train", rank=1)
    assert ranks_on(fleet) == {"GPU-0": [("run-a", 0)], "GPU-1": [("run-a", 1)]}


def test_a_life_that_began_again_has_the_same_gpu() -> None:
    fleet = a_pod(EIGHT[:2])
    for attempt, (begin, end) in enumerate([(-50.0, 10.0), (12.0, None)]):
        for rank in range(2):
            fleet.life("run-a", "train", rank=rank, local_rank=rank, attempt=attempt, begin=begin, end=end)
    assert ranks_on(fleet) == {"GPU-0": [("run-a", 0)] * 2, "GPU-1": [("run-a", 1)] * 2}


def test_a_pod_by_its_name_is_the_one_that_was_there_then() -> None:
    fleet = FleetBuilder().node("node-a", EIGHT[:2]).pod("train", ["GPU-0"], end=20)
    fleet.pod("train", ["GPU-1"], begin=30)
    second = replace(fleet.facts.members[1].membership, pod=pod("train")._replace(uid="another"))
    binding = fleet.facts.bindings[1]
    fleet.facts = replace(
        fleet.facts,
        members=[fleet.facts.members[0], replace(fleet.facts.members[1], membership=second)],
        bindings=[
            fleet.facts.bindings[0],
            binding._replace(binding=replace(binding.binding, pod=second.pod)),
        ],
    )
    fleet.life("run-a", "train", begin=-10, end=19, pod_uid=None)
    fleet.life("run-b", "train", begin=31, pod_uid=None)
    assert ranks_on(fleet) == {"GPU-0": [("run-a", 0)], "GPU-1": [("run-b", 0)]}


def test_of_two_pods_of_one_name_the_one_on_the_node_of_the_life_is_meant() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).node("node-b", ["GPU-1"])
    fleet.pod("train", ["GPU-0"], "node-a").pod("train", ["GPU-1"], "node-b")
    other = fleet.facts.bindings[1]
    member = fleet.facts.members[1]
    key = pod("train")._replace(cluster="other", uid="another")
    fleet.facts = replace(
        fleet.facts,
        bindings=[fleet.facts.bindings[0], other._replace(binding=replace(other.binding, pod=key))],
        members=[
            fleet.facts.members[0],
            replace(member, membership=replace(member.membership, pod=key)),
        ],
    )
    alone = fleet.facts
    fleet.life("run-a", "train", pod_uid=None, node="node-b")
    assert ranks_on(fleet) == {"GPU-1": [("run-a", 0)]}
    # Of another cluster it says itself, whatever its node is called; and where nobody knows, none is meant.
    for cluster, expected in (("other", {"GPU-1": [("run-a", 0)]}), ("elsewhere", {}), (None, {})):
        fleet.facts = alone
        fleet.life("run-a", "train", pod_uid=None, node="node-c", cluster=cluster)
        assert ranks_on(fleet) == expected


def test_a_process_without_a_pod_is_found_by_its_number_or_its_gpu() -> None:
    fleet = a_pod(EIGHT[:2]).life("run-a", None, gpus=["GPU-1"])
    assert ranks_on(fleet) == {"GPU-1": [("run-a", 0)]}


def test_a_life_in_another_pod_is_not_here() -> None:
    assert ranks_on(a_pod(EIGHT[:2]).life("run-a", "elsewhere", gpus=["GPU-1"])) == {}


def test_containers_of_a_pod_have_lives_of_their_own() -> None:
    fleet = a_pod(EIGHT[:2])
    first, second = fleet.facts.bindings
    fleet.facts = replace(
        fleet.facts, bindings=[first, second._replace(binding=replace(second.binding, container="side"))]
    )
    fleet.life("run-a", "train", container="side").life("run-b", "train", container="main")
    assert ranks_on(fleet) == {"GPU-0": [("run-b", 0)], "GPU-1": [("run-a", 0)]}


def booked(fleet: FleetBuilder, *, step_lives: bool = False) -> LedgerHour:
    if step_lives:
        ranks = sorted({(life.run, life.rank) for life in fleet.facts.lives})
        later = steady_later(ranks, fleet.facts.to_ms)
        fleet.facts = replace(fleet.facts, minutes=steady_minutes(ranks, 60), later=later)
    return allocate(fleet.facts, no_signals(), [], PlainPrices(), NOON_MS, at(600))


def story(rows: Sequence[LedgerRow]) -> list[tuple[Bucket, str, float, int | None, str | None]]:
    return sorted((row.bucket, row.cause, row.gpu_ms / MIN, row.since_ms, row.holder.run) for row in rows)


def test_time_outside_of_lives() -> None:
    """Held from 12:05 on; the program runs from 12:10 to 12:20 and from 12:25 to 12:40."""
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"], begin=5)
    fleet.life("run-a", "train", begin=10, end=20).life("run-a", "train", attempt=1, begin=25, end=40)
    assert story(booked(fleet).rows) == [
        (Bucket.ALLOCATED_IDLE, "ended", 20, at(40), "run-a"),
        (Bucket.PRODUCTIVE, "no-signal", 25, None, "run-a"),
        (Bucket.STARTING, "loading", 5, at(5), "run-a"),
        (Bucket.STARTING, "restarting", 5, at(20), "run-a"),
        (Bucket.UNALLOCATED, "free", 5, None, None),
    ]


def test_after_a_run_that_another_one_follows_a_gpu_is_idle() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("notebook", ["GPU-0"])
    fleet.life("run-a", "notebook", end=20).life("run-b", "notebook", begin=50)
    idle = [row for row in story(booked(fleet).rows) if row[0] is Bucket.ALLOCATED_IDLE]
    assert idle == [(Bucket.ALLOCATED_IDLE, "ended", 30, at(20), "run-a")]


def test_a_program_that_ended_in_an_earlier_hour_still_counts_as_ended() -> None:
    fleet = a_pod(["GPU-0"]).life("run-a", "train", begin=-50, end=-20)
    assert story(booked(fleet).rows) == [(Bucket.ALLOCATED_IDLE, "ended", 60, at(-20), "run-a")]


def test_a_program_that_begins_soon_after_the_hour_is_starting_in_it() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"], begin=40)
    starting = story(booked(fleet.life("run-a", "train", begin=70)).rows)[0]
    assert starting == (Bucket.STARTING, "loading", 20, at(40), "run-a")


def test_what_a_program_that_starts_waits_for_is_told_where_it_is_known() -> None:
    fleet = (
        FleetBuilder()
        .node("node-a", ["GPU-0"])
        .pod("train", ["GPU-0"], begin=0)
        .life("run-a", "train", begin=30)
    )
    pulling = PhaseInterval(workload("train"), 0, Phase.PULLING, "", at(0), at(10))
    running = PhaseInterval(workload("train"), 0, Phase.RUNNING, "", at(10))
    fleet.facts = replace(fleet.facts, phases=[pulling, running])
    starting = [row for row in booked(fleet).rows if row.bucket is Bucket.STARTING]
    assert [(row.cause, row.gpu_ms / MIN, row.holder.run) for row in starting] == [
        ("loading", 20, "run-a"),
        ("pulling", 10, "run-a"),
    ]


def test_what_is_held_for_long_before_a_program_begins_is_not_starting() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("notebook", ["GPU-0"], begin=-300)
    rows = booked(fleet.life("run-a", "notebook", begin=30)).rows
    assert Bucket.STARTING not in {row.bucket for row in rows}


def test_a_life_without_an_end_is_over_when_its_rank_begins_again() -> None:
    fleet = a_pod(["GPU-0"]).life("run-a", "train").life("run-a", "train", attempt=1, begin=30)
    hour = booked(fleet)
    assert (sum(row.gpu_ms for row in hour.rows), hour.warnings) == (HOUR_MS, ())


def test_steps_of_a_life_are_booked_on_all_gpus_of_its_pod() -> None:
    hour = booked(a_pod(EIGHT[:2]).life("run-a", "train", begin=-50), step_lives=True)
    useful = {row.gpu: row.gpu_ms for row in hour.rows if row.bucket is Bucket.PRODUCTIVE}
    assert useful == pytest.approx({"GPU-0": 0.8 * HOUR_MS, "GPU-1": 0.8 * HOUR_MS}, rel=0.01)
    assert {row.basis for row in hour.rows} == {Basis.STEPS}


def test_two_runs_that_tell_steps_have_half_of_each() -> None:
    fleet = a_pod(["GPU-0"]).life("run-a", "train").life("run-b", "train")
    hour = booked(fleet, step_lives=True)
    of_runs = {
        run: sum(row.gpu_ms for row in hour.rows if row.holder.run == run) for run in ("run-a", "run-b")
    }
    assert of_runs == {"run-a": HOUR_MS // 2, "run-b": HOUR_MS // 2}
    assert {row.doubts for row in hour.rows} == {("runs-share-gpu",)}


def test_a_life_that_hangs_beside_its_successor_does_not_tell_for_it() -> None:
    fleet = (
        a_pod(["GPU-0"]).life("run-a", "train", rank=1, begin=-50).life("run-a", "train", rank=0, begin=-40)
    )
    ranks = [(RunId("run-a"), 0)]
    later = steady_later(ranks, fleet.facts.to_ms)
    fleet.facts = replace(fleet.facts, minutes=steady_minutes(ranks, 60), later=later)
    rows = allocate(fleet.facts, no_signals(), [], PlainPrices(), NOON_MS, at(600)).rows
    assert Bucket.PRODUCTIVE in {row.bucket for row in rows if row.basis is Basis.STEPS}
