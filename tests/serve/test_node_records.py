"""What the store has of a node: also what broke there under a job that has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trilens.diagnose.case_file import CaseSubject, SubjectKind
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import Incident, IncidentState
from trilens.model.workload import WorkloadKey
from trilens.serve.cases.gathering import Cases
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Meant, Subjects
from trilens.serve.cases.wish import Wish
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.store.store import Store

NOW_MS = 10_000_000
SPAN = Span(0, NOW_MS)
GONE = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
ELSEWHERE = GONE._replace(cluster="prod", uid="u2")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    settings = load_settings(overrides={"storage.data_dir": str(tmp_path)}, environ={})
    opened = open_store(settings.storage, upkeep=False)
    yield opened
    opened.close()


def _found(text: str, kind: FindingKind, workload: WorkloadKey, node: str) -> FindingInterval:
    subject = Subject(workload=workload, node=node, gpu="GPU-1")
    finding = Finding("D000", kind, subject, Severity.CRITICAL, text, NOW_MS - 9_000, text, "")
    return FindingInterval(finding, NOW_MS - 5_000, NOW_MS - 1_000)


def test_a_fault_is_the_nodes_own_though_the_job_that_had_the_gpu_has_gone(store: Store) -> None:
    store.findings.put(
        [
            _found("its GPU is lost", FindingKind.GPU_FAULT, GONE, "node-a"),
            _found("it stalls", FindingKind.STALL, GONE, "node-a"),  # where it stood is not what it is about
            _found("of another node", FindingKind.GPU_FAULT, GONE, "node-b"),
            _found("of another cluster", FindingKind.GPU_FAULT, ELSEWHERE, "node-a"),
        ]
    )
    assert store.records_settled(30)
    records = CaseRecords(store.workloads, store.gpus, store.events, store.findings)
    meant = Meant(CaseSubject(SubjectKind.NODE, "lab", "", "node-a"))
    known = records.read(meant, SPAN, None)
    found = records.findings_of(meant, known, {"node-a"}, (), SPAN, None)
    assert [one.finding.text for one in found] == ["its GPU is lost"]


def test_a_case_of_a_node_begins_before_the_incident_that_it_is_in(store: Store) -> None:
    root, onset_ms = Subject(cluster="lab", node="node-a", gpu="GPU-1"), NOW_MS - 5_000_000
    lasting = Incident(
        "i-1", IncidentState.OPEN, Severity.CRITICAL, "lost", root, (), (), (), onset_ms, onset_ms
    )
    nobody: Any = None
    cases = Cases(
        Subjects(store.workloads, store.gpus, lambda: [("lab", "node-a")]),
        CaseRecords(store.workloads, store.gpus, store.events, store.findings),
        CaseRuns(store.runs, store.workloads),
        *[nobody] * 6,
        lambda: [lasting],
    )
    kept = cases.read(Wish("node/node-a", None, NOW_MS - 3_600_000, NOW_MS), None)
    assert (kept.case.from_ms, kept.case.to_ms) == (onset_ms - 1_800_000, NOW_MS)
