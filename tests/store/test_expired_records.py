"""Records of what was over long ago go; what lasts stays, and nothing that ended lasts again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.store.access import ACCESS_TOKENS
from trilens.store.options import StoreOptions
from trilens.store.record_writer import RecordWriter
from trilens.store.records import RECORD_TABLES, delete_expired_records
from trilens.store.store import Store
from trilens.store.workload_rows import OWNERS, TABLES, WORKLOADS
from trilens.store.workloads import Span, WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.store.engine import Engine

DAY = 86_400_000
NOW = 1_700_000_000_000
LIMIT = NOW - 400 * DAY
LONG_AGO, LATELY = NOW - 500 * DAY, NOW - 5 * DAY
EVER = Span(0, NOW)


def key(name: str) -> WorkloadKey:
    return WorkloadKey("prod", "ml", "batch", "Job", name, f"uid-{name}")


def member(workload: WorkloadKey, from_ms: int, to_ms: int | None) -> MembershipInterval:
    pod = PodKey("prod", "ml", f"{workload.name}-0", f"uid-{workload.name}-0")
    return MembershipInterval(Membership(pod, workload), "n1", from_ms, to_ms)


def running(workload: WorkloadKey, from_ms: int, to_ms: int | None) -> PhaseInterval:
    return PhaseInterval(workload, 0, Phase.RUNNING, "", from_ms, to_ms)


@pytest.fixture
def tell(engine: Engine) -> Callable[[Callable[[WorkloadRecords], None]], None]:
    """Each call is on disk in parts of its own when it returns, as told long ago."""

    def told(what: Callable[[WorkloadRecords], None]) -> None:
        writer = RecordWriter(engine)
        what(WorkloadRecords(engine, writer))
        writer.close()

    return told


def rows(engine: Engine, table: str) -> int:
    return int(engine.query_arrow(f"SELECT count() AS n FROM {table}")["n"][0].as_py())


def names(engine: Engine) -> set[str]:
    writer = RecordWriter(engine)
    try:
        found = WorkloadRecords(engine, writer).during(EVER)
    finally:
        writer.close()
    return {history.record.key.name for history in found}


def life(engine: Engine, tell: Callable[..., None], name: str, begin: int, end: int | None) -> None:
    """Told when it begins, and again when it ends: two rows of one key."""
    workload = key(name)

    def beginning(records: WorkloadRecords) -> None:
        records.workload(Workload(workload, begin))
        records.membership(member(workload, begin, None))
        records.phase(running(workload, begin, None))

    def ending(records: WorkloadRecords) -> None:
        records.membership(member(workload, begin, end))
        records.phase(running(workload, begin, end))

    tell(beginning)
    if end is not None:
        tell(ending)


def test_what_was_over_long_ago_goes_and_what_lasts_stays(
    engine: Engine, tell: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "time.time_ns", lambda: LONG_AGO * 1_000_000
    )  # a record's version is when it was told
    for table in TABLES:  # no merges by itself, so that the rows of one interval meet the deletion apart
        setting = "max_bytes_to_merge_at_max_space_in_pool = 1"
        engine.command(f"ALTER TABLE {table.name} MODIFY SETTING {setting}")
    life(engine, tell, "old", LONG_AGO, LONG_AGO + DAY)
    life(engine, tell, "lasting", LONG_AGO, None)
    life(engine, tell, "ended-lately", LONG_AGO, LATELY)
    life(engine, tell, "new", LATELY, LATELY + DAY)
    assert delete_expired_records(engine, LIMIT) > 0
    assert names(engine) == {"lasting", "ended-lately", "new"}
    assert rows(engine, WORKLOADS.name) == 3
    # Not even after a merge does the row from its beginning come back.
    for table in RECORD_TABLES:
        engine.command(f"OPTIMIZE TABLE {table.name} FINAL")
    assert names(engine) == {"lasting", "ended-lately", "new"}
    assert delete_expired_records(engine, LIMIT) == 0


def test_a_workload_told_lately_waits_for_its_intervals(engine: Engine, tell: Callable[..., None]) -> None:
    tell(lambda records: records.workload(Workload(key("soon"))))
    assert delete_expired_records(engine, LIMIT) == 0
    assert rows(engine, WORKLOADS.name) == 1


def test_the_upkeep_keeps_records_as_long_as_it_is_told(
    directory: Path,
) -> None:
    now = time.time_ns() // 1_000_000
    options = StoreOptions(data_dir=directory, retention_records=timedelta(days=10))
    old, recent = key("old"), key("recent")
    store = Store.open(options, upkeep=False)
    store.workloads.phase(running(old, now - 30 * DAY, now - 11 * DAY))
    store.workloads.phase(running(recent, now - 30 * DAY, now - 9 * DAY))
    store.close()
    store = Store.open(options, upkeep=False)
    try:
        assert store._upkeep.delete_expired_records() == 1
        found = store.workloads.during(Span(0, now))
    finally:
        store.close()
    assert [history.record.key for history in found] == [recent]


def test_every_table_says_when_a_row_is_over() -> None:
    for table in RECORD_TABLES:
        goes_with_others = table in (WORKLOADS, OWNERS)
        stays = table is ACCESS_TOKENS  # a revocation that went first would make the token valid again
        assert goes_with_others or stays or table.over in table.columns, f"{table.name} would never expire"
