"""The same jobs, told to the real store: it answers as the lists do, so what is worked out of it holds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from simulated_job import Job
from trilens.lineage.contents import checkpoints, contents
from trilens.lineage.history import History
from trilens.lineage.sightings import seen
from trilens.lineage.standing import standings
from trilens.model.run import ArtifactRecord, RunId
from trilens.model.run_commit import Position, RunCommit
from trilens.model.run_sums import Tail
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_runs import MemoryRuns
    from trilens.lineage.source import RunSource
    from trilens.model.run_sums import AttemptSpan


def jobs() -> Job:
    """All that is odd at once: a rank that fell over early, a process that goes back, fewer ranks, shards,
    and a run that begins with another's checkpoint."""
    job = Job(sharded=True)
    job.start(3)
    job.dies_before_its_first_step(2)
    job.train(6)
    first = job.save()
    job.train(4)
    job.load(first)
    job.train(3)
    second = job.save()
    job.train(2)
    job.crash()
    job.start(2, second)
    job.train(4)
    last = job.save()
    job.source.told_artifacts.append(
        ArtifactRecord(job.run, 1, 0, 0, job.now_ms, "stacks", "stacks.txt", b"\x00\xff")
    )
    tuned = Job(source=job.source, run=RunId("run-b"), now_ms=job.now_ms + 1_000)
    tuned.start(1, last)
    tuned.train(3)
    tuned.save()
    return tuned


def committed(told: MemoryRuns) -> RunCommit:
    spans: defaultdict[tuple[RunId, int, int], list[AttemptSpan]] = defaultdict(list)
    for facts in told.facts:
        for span in told.spans(facts.run):
            spans[facts.run, span.rank, span.attempt].append(span)
    return RunCommit(
        told.facts,
        told.told_processes,
        told.told_steps,
        told.told_batches,
        told.told_checkpoints,
        artifacts=told.told_artifacts,
        positions=[
            Position(
                one.run, one.rank, one.writer, one.attempt, 0, tuple(spans[one.run, one.rank, one.attempt])
            )
            for one in told.told_processes
        ],
    )


@pytest.fixture(scope="module")
def told() -> MemoryRuns:
    return jobs().source


@pytest.fixture(scope="module")
def store(told: MemoryRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunSource]:
    with Engine.open(tmp_path_factory.mktemp("runs")) as engine:
        migrate(engine)
        records = RunRecords(engine)
        records.commit(committed(told))
        yield records


RUNS = [RunId("run-a"), RunId("run-b")]


def test_every_question_is_answered_alike(told: MemoryRuns, store: RunSource) -> None:
    assert store.runs() == told.runs()
    assert store.runs(run=RUNS[0]) == told.runs(run=RUNS[0])
    assert store.processes(RUNS) == sorted(
        told.processes(RUNS), key=lambda one: (one.run, one.rank, one.attempt)
    )
    assert store.first_steps([*RUNS, RunId("nobody")]) == told.first_steps(RUNS) != {}
    for run in RUNS:
        assert sorted(store.spans(run)) == sorted(told.spans(run))
        assert store.steps(run, 3, 7) == told.steps(run, 3, 7)
        assert store.steps(run, 3, 7, rank=1, limit=2) == told.steps(run, 3, 7, rank=1, limit=2)
        assert store.batches(run, 2, 9, attempt=0) == told.batches(run, 2, 9, attempt=0)
        assert store.checkpoints(run) == sorted(
            told.checkpoints(run), key=lambda one: (one.start_ms, one.step, one.rank, one.attempt, one.n)
        )
        assert [*store.curve(run, "loss", 0, 99)] == [*told.curve(run, "loss", 0, 99)]
        assert store.artifacts(run) == told.artifacts(run)
    for sample in (0, 3, 40, 10_000):
        assert store.sightings(sample) == told.sightings(sample)
    path = "/ckpt/run-a/6"
    assert store.written_at(path) == told.written_at(path)
    tails = [Tail(RUNS[0], 0, 1, 8), Tail(RUNS[1], 0, 0, 2)]
    assert store.tails(tails) == told.tails(tails)
    assert store.latest(tails) == told.latest(tails) != {}
    found = store.artifact(RUNS[0], 1, 0, 0)
    assert found is not None
    assert found.content == b"\x00\xff"
    assert store.artifact(RUNS[0], 1, 0, 1) is None


def test_what_is_worked_out_of_it_is_the_same(told: MemoryRuns, store: RunSource) -> None:
    for run in RUNS:
        in_store, in_lists = History(store, run), History(told, run)
        assert in_store.stretches == in_lists.stretches
        for one, other in zip(checkpoints(in_store), checkpoints(in_lists), strict=True):
            assert one == other
            assert contents(in_store, one) == contents(in_lists, other)
    for sample in (0, 3, 40):
        assert seen(store, store.sightings(sample)) == seen(told, told.sightings(sample))
    now_ms = max(one.heard_ms for one in told.told_processes)
    assert standings(told.facts, store.processes(RUNS), store, now_ms) == standings(
        told.facts, told.processes(RUNS), told, now_ms
    )
