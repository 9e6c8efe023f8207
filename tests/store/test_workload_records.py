"""Workloads, memberships and phases: written behind the teller's back, read back for any moment."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from trilens.model.errors import StoreError
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Doubt, Membership, PodKey, Step, Workload, WorkloadKey
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import Span, WorkloadHistory, WorkloadRecords

if TYPE_CHECKING:
    from trilens.store.engine import Engine

TRAIN = WorkloadKey("prod", "ml", "kubeflow.org", "PyTorchJob", "train", "uid-train")
SERVE = WorkloadKey("prod", "web", "apps", "Deployment", "serve", "uid-serve")
RECORD = Workload(
    TRAIN,
    created_ms=1_000,
    attempt=1,
    team="vision",
    steps=(Step("prepare", "Succeeded", 1, None, None),),
    doubts=(Doubt("owner-gone", "it's \\ gone", "look"), Doubt("clock-skew", "5 s")),
)


def member(pod: str, workload: WorkloadKey = TRAIN, **place: int) -> Membership:
    return Membership(PodKey(workload.cluster, workload.namespace, pod, f"uid-{pod}"), workload, **place)


class Told:
    """Writes, closes the writer so that all is on disk, and reads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self, *told: Workload | MembershipInterval | PhaseInterval) -> WorkloadRecords:
        writer = RecordWriter(self.engine)
        records = WorkloadRecords(self.engine, writer)
        for one in told:
            if isinstance(one, Workload):
                records.workload(one)
            elif isinstance(one, PhaseInterval):
                records.phase(one)
            else:
                records.membership(one)
        writer.close()
        return records


@pytest.fixture
def told(engine: Engine) -> Told:
    return Told(engine)


def at(records: WorkloadRecords, ms: int) -> dict[str, WorkloadHistory]:
    return {found.record.key.name: found for found in records.during(Span(ms, ms))}


def test_everything_comes_back_as_it_was_told(told: Told) -> None:
    place = MembershipInterval(replace(member("train-0", node_rank=0), doubts=RECORD.doubts), "", 1_000)
    phase = PhaseInterval(TRAIN, 1, Phase.SPOT_RECLAIMED, "it's taken", 1_500)
    (found,) = told(RECORD, place, phase).during(Span(2_000, 2_000))
    assert (found.record, found.members, found.phases) == (RECORD, [place], [phase])


def test_what_is_told_again_replaces_what_was_told(told: Told) -> None:
    begun = MembershipInterval(member("train-0"), "", 1_000)
    told(RECORD, begun)
    ended = replace(begun, node="n1", to_ms=5_000)
    records = told(replace(RECORD, team="nlp"), ended)
    (found,) = records.named("train", cluster="prod", namespace="ml", kind="PyTorchJob", until_ms=9_000)
    assert found.record.team == "nlp"
    assert found.members == [ended]


def test_a_moment_is_answered_by_the_members_of_that_moment(told: Told) -> None:
    first = MembershipInterval(member("train-0"), "n1", 1_000, 5_000)
    second = MembershipInterval(member("train-0b", attempt=1), "n2", 5_000)
    records = told(
        RECORD,
        first,
        second,
        PhaseInterval(TRAIN, 0, Phase.RUNNING, "", 1_000, 5_000),
        PhaseInterval(TRAIN, 1, Phase.RUNNING, "", 5_000),
    )
    assert at(records, 999) == {}
    then = at(records, 4_999)["train"]
    assert then.members == [replace(first, to_ms=None)]  # its end was still to come
    assert [phase.attempt for phase in then.phases] == [0]
    assert at(records, 5_000)["train"].members == [second]
    (both,) = records.during(Span(4_000, 6_000))
    assert both.members == [first, second]


def test_two_phases_may_begin_in_the_same_millisecond(told: Told) -> None:
    quick = PhaseInterval(TRAIN, 0, Phase.STARTING, "", 1_000, 1_000)
    after = PhaseInterval(TRAIN, 0, Phase.RUNNING, "", 1_000)
    (found,) = told(after, quick).unfinished("prod")
    assert found.phases == [quick, after]


def test_filters(told: Told) -> None:
    records = told(
        Workload(SERVE),
        RECORD,
        MembershipInterval(member("serve-a", SERVE), "n1", 1_000),
        MembershipInterval(member("train-0"), "n1", 1_000),
        PhaseInterval(TRAIN._replace(cluster="lab"), 0, Phase.RUNNING, "", 1_000),
    )
    now = Span(2_000, 2_000)

    def names(**wanted: str) -> list[tuple[str, str]]:
        return [(f.record.key.cluster, f.record.key.name) for f in records.during(now, **wanted)]

    assert names(namespace="web") == [("prod", "serve")]
    assert names(cluster="lab") == [("lab", "train")]
    assert names(cluster="prod", namespace="ml") == [("prod", "train")]
    assert names(namespace="none' OR 1 = 1 --") == []


def test_what_is_unfinished_comes_with_its_past(told: Told) -> None:
    over = MembershipInterval(member("train-0"), "n1", 1_000, 5_000)
    lasting = PhaseInterval(TRAIN, 1, Phase.RESTARTING, "", 5_000)
    records = told(
        RECORD,
        over,
        PhaseInterval(TRAIN, 0, Phase.RUNNING, "", 1_000, 5_000),
        lasting,
        Workload(SERVE),
        MembershipInterval(member("serve-a", SERVE), "n1", 1_000, 2_000),
    )
    (found,) = records.unfinished("prod")
    assert found.record == RECORD
    assert found.members == [over]
    assert [phase.attempt for phase in found.phases] == [0, 1]
    assert records.unfinished("lab") == []


def test_a_later_process_wins_although_its_clock_is_behind(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(RECORD, MembershipInterval(member("train-0"), "n1", 1_000))
    monkeypatch.setattr("trilens.store.record_writer.time.time_ns", lambda: 7)
    records = told(MembershipInterval(member("train-0"), "n1", 1_000, 5_000))
    assert records.unfinished("prod") == []


class FailingEngine:
    """Refuses inserts until it is told not to, as a full disk does."""

    def __init__(self, engine: Engine, fault: Exception | None = None) -> None:
        self.query_arrow = engine.query_arrow
        self._insert = engine.insert_arrow
        self._fault = fault or StoreError("the disk is full")
        self.refused = threading.Event()
        self.healed = False

    def insert_arrow(self, *rows: object) -> None:
        if not self.healed:
            self.refused.set()
            raise self._fault
        self._insert(*rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", [StoreError("the disk is full"), RuntimeError("nobody foresaw it")])
def test_a_write_that_fails_is_tried_again_and_meanwhile_said(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr("trilens.store.record_writer._FIRST_RETRY_S", 0.01)
    failing = FailingEngine(embedded, fault)
    writer = RecordWriter(failing)  # type: ignore[arg-type]
    records = WorkloadRecords(embedded, writer)
    place = MembershipInterval(member("train-0"), "n1", 1_000)
    records.membership(place)
    assert failing.refused.wait(10)
    records.membership(replace(place, to_ms=3_000))  # telling does not wait
    failing.healed = True
    writer.close()
    assert records.trouble is None
    (found,) = records.during(Span(0, 9_000))
    assert found.members == [replace(place, to_ms=3_000)]


def test_a_row_that_fits_no_table_does_not_take_others_with_it(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    fine = MembershipInterval(member("train-0"), "n1", 1_000)
    records = told(fine, MembershipInterval(member("train-1", attempt=10**30), "n1", 1_000))
    (found,) = records.during(Span(2_000, 2_000))
    assert found.members == [fine]
    assert "a record cannot be kept" in caplog.text


def test_what_cannot_be_written_at_the_end_is_said(
    embedded: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trilens.store.record_writer._FIRST_RETRY_S", 0.01)
    writer = RecordWriter(FailingEngine(embedded))  # type: ignore[arg-type]
    WorkloadRecords(embedded, writer).workload(RECORD)
    writer.close()
    assert writer.trouble == "the disk is full"
    assert "records are lost" in caplog.text
