"""Findings and incidents are kept whole; told again they replace what was told; and they expire."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from trilens.model.finding import Evidence, Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import Incident, IncidentState, Moment, MomentKind, Symptom, SymptomKind
from trilens.model.run import RunId
from trilens.model.workload import Doubt, GpuUuid, PodKey, WorkloadKey
from trilens.store.findings import FindingRecords
from trilens.store.incidents import IncidentRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.records import delete_expired_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.store.engine import Engine

JOB = WorkloadKey("prod", "ml", "batch", "Job", "it's a \\ job", "uid-1")
WHOLE = Subject(
    JOB, "vision", RunId("r1"), 3, PodKey("prod", "ml", "job-3", "uid-p"), "prod", "gpu-3", GpuUuid("GPU-3")
)
STALL = Finding(
    "D001",
    FindingKind.STALL,
    WHOLE,
    Severity.CRITICAL,
    "gil-held",
    1_000,
    "no step for 14 s",
    "Restart rank 3.",
    0.9,
    (Evidence("steps of 2 s", "training_step"), Evidence("none since")),
    (Doubt("stale", "old", None),),
    {"waited_seconds": 14.0},
)
HOT = Finding(
    "D004", FindingKind.THROTTLING, Subject(node="gpu-1"), Severity.WARNING, "", 5_000, "hot", "cool"
)
STALLED = FindingInterval(STALL, 15_000, 20_000)
HEATED = FindingInterval(HOT, 6_000, 9_000, 9_000)

SYMPTOM = Symptom(
    SymptomKind.ALERT, "k", "GpuHot", WHOLE, Severity.WARNING, 5_000, "hot", "cool", (("a", "b"),), None
)
OPEN = Incident(
    "one",
    IncidentState.OPEN,
    Severity.CRITICAL,
    "a GPU is hot",
    WHOLE,
    ("ml/Job/train",),
    (SYMPTOM, replace(SYMPTOM, kind=SymptomKind.EVENT, subject=Subject(), ended_ms=6_000)),
    (Moment(5_000, MomentKind.ONSET, "hot"), Moment(6_000, MomentKind.NOTIFIED, "slack")),
    5_000,
    6_000,
    lost_quanta=10**20,
    currency="USD",
)
OVER = replace(OPEN, id="two", state=IncidentState.RESOLVED, onset_ms=1_000, resolved_ms=3_000)


def kept(
    engine: Engine, findings: Sequence[FindingInterval] = (), incidents: Sequence[Incident] = ()
) -> tuple[FindingRecords, IncidentRecords]:
    writer = RecordWriter(engine)
    records = FindingRecords(engine, writer), IncidentRecords(engine, writer)
    records[0].put(findings)
    records[1].put(incidents)
    writer.close()
    return records


def test_all_of_a_finding_is_read_back(engine: Engine) -> None:
    records, _ = kept(engine, [STALLED, HEATED])
    assert records.during(0, 30_000) == [HEATED, STALLED]
    assert records.during(9_001, 30_000) == [STALLED]
    assert records.during(0, 4_999) == [STALLED]
    assert records.during(0, 30_000, kinds={FindingKind.THROTTLING}) == [HEATED]
    assert records.during(0, 30_000, causes={"gil-held", "other"}) == [STALLED]
    assert records.during(0, 30_000, causes={"other"}) == []
    assert records.open() == [STALLED]


def test_those_that_name_a_workload_or_a_gpu(engine: Engine) -> None:
    records, _ = kept(engine, [STALLED, HEATED])
    assert records.during(0, 99_000, naming=JOB) == [STALLED]
    assert records.during(0, 99_000, naming=GpuUuid("GPU-3")) == [STALLED]
    assert records.during(0, 99_000, naming=JOB._replace(uid="uid-2")) == []
    assert records.during(0, 99_000, naming=GpuUuid("GPU-30")) == []


def test_a_figure_that_is_no_number_is_left_out(engine: Engine) -> None:
    records, _ = kept(engine, [replace(HEATED, finding=replace(HOT, figures={"a": float("nan"), "b": 1.5}))])
    assert records.during(0, 9_000)[0].finding.figures == {"b": 1.5}


def test_a_finding_told_again_is_one_and_seen_anew_is_another(engine: Engine) -> None:
    ended = replace(STALLED, seen_ms=40_000, ended_ms=40_000)
    kept(engine, [STALLED])
    again = FindingInterval(STALL, 90_000, 90_000)
    records, _ = kept(engine, [ended, again])
    assert records.during(0, 100_000) == [ended, again]
    assert records.open() == [again]


def test_a_finding_of_which_more_is_known_later_is_the_same_one(engine: Engine) -> None:
    kept(engine, [STALLED])
    sharper = replace(STALL, cause="data", subject=WHOLE._replace(rank=5))
    known = replace(STALLED, finding=sharper, seen_ms=25_000, opened_as=STALL.key)
    records, _ = kept(engine, [known])
    assert records.open() == [known]
    assert records.open()[0].key == STALL.key


def test_a_subject_of_an_older_version_is_read() -> None:
    before = msgspec.json.encode(WHOLE[:8])
    assert msgspec.json.decode(before, type=Subject) == WHOLE


def test_all_of_an_incident_is_read_back_the_latest_first(engine: Engine) -> None:
    _, records = kept(engine, incidents=[OVER, OPEN])
    assert records.during(0, 10_000) == [OPEN, OVER]
    assert records.during(0, 10_000, limit=1) == [OPEN]
    assert records.during(3_001, 10_000) == [OPEN]
    assert records.get("two") == OVER
    assert records.get("it's none") is None
    assert records.open() == [OPEN]


def test_incidents_of_one_workload_are_found_among_many(engine: Engine) -> None:
    assert WHOLE.workload is not None
    quoted = WHOLE.workload._replace(name='it\'s "quoted"')
    others = [replace(OPEN, id=f"o{n}", subject=Subject(), workloads=("ml/Job/trainer",)) for n in range(3)]
    others = [replace(one, symptoms=(), onset_ms=6_000) for one in others]
    whole = replace(OVER, id="whole", workloads=(), symptoms=(), subject=Subject(workload=quoted))
    _, records = kept(engine, incidents=[*others, OPEN, whole])
    assert records.during(0, 10_000, naming=WHOLE.workload, limit=1) == [OPEN]
    assert records.during(0, 10_000, naming=quoted) == [whole]
    assert records.during(6_001, 10_000, naming=quoted) == []


def test_what_is_over_for_long_expires_and_what_lasts_stays(engine: Engine) -> None:
    kept(engine, [replace(HEATED, ended_ms=None)], [replace(OVER, resolved_ms=None)])
    findings, incidents = kept(engine, [STALLED, HEATED], [OPEN, OVER])
    delete_expired_records(engine, 10_000)
    assert findings.during(0, 99_999) == [STALLED]
    assert incidents.during(0, 99_999) == [OPEN]
