"""What a case has of runs: the last steps of every rank, notes, files, of those that are in the workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from run_records import OTHER, RUN, facts, process, step
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.run import ArtifactRecord, NoteRecord
from trilens.model.run_commit import RunCommit
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.serve.cases import run_records
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns, KnownRuns
from trilens.serve.cases.subjects import Subjects
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.store import Store

NOW_MS = 10_000_000
JOB = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
ELSEWHERE = JOB._replace(name="other", uid="u2")
STEPS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    settings = load_settings(overrides={"storage.data_dir": str(folder)}, environ={})
    store = open_store(settings.storage, upkeep=False)
    for key, node in ((JOB, "node-a"), (ELSEWHERE, "node-b")):
        store.workloads.workload(Workload(key))
        store.workloads.phase(PhaseInterval(key, 0, Phase.RUNNING, "", 1_000))
        pod = PodKey("lab", "ml", f"{key.name}-0", f"uid-{key.name}")
        store.workloads.membership(MembershipInterval(Membership(pod, key), node, 1_000))
    ranks = [
        process(rank, attempt, pod_uid="uid-train", heard_ms=NOW_MS, step=STEPS - 1, node="node-a")
        for rank, attempt in ((0, 0), (1, 0), (1, 1))
    ]
    others = [process(0, run=OTHER, pod_uid="uid-other", heard_ms=NOW_MS, step=1, node="node-b")]
    told = [
        step(
            number,
            rank,
            attempt,
            phases={"data": 2_000, "forward": 5_000},
            values={"train/loss": 1.5} if number else {"loss": float("nan")},
        )
        for rank, attempt in ((0, 0), (1, 0), (1, 1))
        for number in range(STEPS)
    ]
    dumps = [
        ArtifactRecord(RUN, 0, 0, n, NOW_MS - 10 + n, "stacks", f"dump {n}", b"x" * (10 + n)) for n in (0, 1)
    ]
    store.runs.commit(
        RunCommit(
            facts=[facts(), facts(OTHER)],
            processes=[*ranks, *others],
            steps=told,
            notes=[NoteRecord(RUN, 1, 1, 0, NOW_MS - 5, "stalled", "no step for 40 s")],
            artifacts=dumps,
        )
    )
    assert store.records_settled(30)
    yield store
    store.close()


def _read(store: Store, written: str) -> KnownRuns:
    span = Span(500, NOW_MS)
    nodes = [("lab", "node-a"), ("lab", "node-b")]
    meant = Subjects(store.workloads, store.gpus, lambda: nodes).find(written, None, NOW_MS, None)
    known = CaseRecords(store.workloads, store.gpus, store.events, store.findings).read(meant, span, None)
    return CaseRuns(store.runs, store.workloads).read(meant, known, span, None)


@pytest.mark.parametrize("written", ["train", "pod/train-0", "node/node-a"])
def test_only_runs_of_whom_it_is_about(store: Store, written: str) -> None:
    found = _read(store, written)
    assert [one.run for one in found.runs] == [RUN]
    assert [(one.rank, one.attempt) for one in found.ranks] == [(0, 0), (1, 0), (1, 1)]
    assert [one.text for one in found.notes] == ["no step for 40 s"]
    assert [(one.name, len(one.content)) for one in found.artifacts] == [("dump 1", 11)]  # the latest


def test_steps_are_columns_of_the_last_life_of_each_rank(store: Store) -> None:
    first, second = _read(store, "train").steps
    assert [(one.rank, one.attempt) for one in (first, second)] == [(0, 0), (1, 1)]
    assert second.step == tuple(range(STEPS))
    assert second.ms == (400.0,) * STEPS
    assert second.data_ms == (2.0,) * STEPS
    assert second.sync_ms == (None,) * STEPS  # nobody told, which is not zero
    assert second.loss[1:] == (1.5,) * (STEPS - 1)
    assert second.loss[0] != second.loss[0]  # as it was told: not a number
    assert second.grad_norm == (None,) * STEPS


def test_of_very_many_ranks_there_are_fewer_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_records, "_STEPS_IN_ALL", 6)
    monkeypatch.setattr(run_records, "_FEWEST_STEPS", 2)
    assert [one.step for one in _read(store, "train").steps] == [(3, 4, 5)] * 2


def test_files_that_are_too_large_together_are_told_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_records, "_ARTIFACT_BYTES", 10)
    found = _read(store, "train")
    assert found.artifacts == ()
    assert "1 files that ranks sent" in found.missing[0].what
