"""Who a workload belongs to counts from when it was told otherwise, and stays known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilens.model.ledger_facts import Owner
from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.store.imports import ImportRecords
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.records import delete_expired_records
from trilens.store.runs import RunRecords
from trilens.store.workloads import WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.store.engine import Engine

NOON_MS = 1_768_392_000_000
MINUTE_MS = 60_000


def at(minutes: float) -> int:
    return NOON_MS + round(minutes * MINUTE_MS)


class Cluster:
    """Tells of one workload of its own, each time by another process."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.key = WorkloadKey("lab", "ml", "batch", "Job", name, "u1")
        self.pod = MembershipInterval(
            Membership(PodKey("lab", "ml", name, f"uid {name}"), self.key), "n", at(-60)
        )

    def tells(self, *told: tuple[float, str | None]) -> None:
        """Teams, at minutes after noon."""
        writer = RecordWriter(self.engine)
        records = WorkloadRecords(self.engine, writer)
        records.membership(self.pod)
        for minutes, team in told:
            records.workload(Workload(self.key, team=team, queue="fast"), at(minutes))
        writer.close()

    def owners(self) -> Sequence[Owner]:
        return owners(self.engine)[self.key]


def owners(engine: Engine) -> Mapping[WorkloadKey, Sequence[Owner]]:
    writer = RecordWriter(engine)
    machines, imports = MachineRecords(engine, writer), ImportRecords(engine)
    source = LedgerFacts(engine, RunRecords(engine), machines, imports, Ledger(engine))
    try:
        return source.facts(at(0), at(60)).owners
    finally:
        writer.close()


def owned(minutes: float, team: str | None) -> Owner:
    return Owner(at(minutes), team, None, None, "fast")


@pytest.fixture
def cluster(tables: Engine, request: pytest.FixtureRequest) -> Cluster:
    return Cluster(tables, request.node.name)


def test_a_label_that_changes_counts_from_then_on(cluster: Cluster) -> None:
    cluster.tells((0, "a"), (5, "a"), (10, "b"), (11.5, "b"), (20, None), (30, "b"))
    assert cluster.owners() == [owned(0, "a"), owned(10, "b"), owned(20, None), owned(30, "b")]


def test_what_follows_within_a_minute_was_meant_from_the_beginning(cluster: Cluster) -> None:
    cluster.tells((0, None), (0.1, "a"), (0.9, "b"), (3, "c"))
    assert cluster.owners() == [owned(0, "b"), owned(3, "c")]


def test_a_clock_that_was_set_back_does_not_bring_the_old_owner_back(cluster: Cluster) -> None:
    cluster.tells((30, "a"), (10, "b"), (45, "b"))
    assert cluster.owners() == [owned(30, "b")]


def test_another_process_goes_on_from_what_was_told(cluster: Cluster) -> None:
    cluster.tells((0, "a"))
    cluster.tells((10, "a"))
    cluster.tells((20, "b"))
    assert cluster.owners() == [owned(0, "a"), owned(20, "b")]


def test_a_workload_from_before_owners_were_kept(cluster: Cluster) -> None:
    cluster.tells((0, "a"))
    cluster.engine.command("TRUNCATE TABLE workload_owners")
    assert cluster.owners() == [Owner(0, "a", None, None, "fast")]


def test_they_go_with_their_workload(cluster: Cluster) -> None:
    cluster.tells((0, "a"), (10, "b"))
    later_ms = 4_000_000_000_000
    assert delete_expired_records(cluster.engine, later_ms) == 0  # a pod of it lasts
    cluster.engine.command("TRUNCATE TABLE memberships")
    assert delete_expired_records(cluster.engine, later_ms) > 0
    found = cluster.engine.query_arrow("SELECT count() AS n FROM workload_owners")
    assert found["n"][0].as_py() == 0
