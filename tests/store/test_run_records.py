"""Runs are read back as they were told, each record once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from run_records import OTHER, RUN, batch, facts, position, process, step, writer
from trilens.model.run import (
    ArtifactRecord,
    CheckpointRecord,
    Ending,
    NoteRecord,
    Tracker,
    ValidationRecord,
)
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import (
    ArtifactName,
    AttemptSpan,
    CurvePoint,
    DatasetShare,
    Portion,
    Sighting,
    Tail,
)
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from trilens.store.engine import Engine


@pytest.fixture
def records(engine: Engine) -> RunRecords:
    return RunRecords(engine)


def test_what_is_known_of_a_run_is_replaced_when_it_is_told_again(records: RunRecords) -> None:
    first = facts(experiment="lr", config={"lr": 3e-4, "layers": [1, {"x": None}]}, tags={"a": "it's"})
    later = facts(
        created_ms=1_000,
        experiment="lr",
        name="second thoughts",
        world_size=8,
        total_steps=100,
        trackers=(Tracker("mlflow", "abc", "http://mlflow"),),
    )
    newer = facts(OTHER, 2_000)
    records.commit(RunCommit(facts=[first, newer]))
    assert records.runs() == [newer, first]
    assert records.runs(run=RUN) == records.runs(experiment="lr") == [first]
    records.commit(RunCommit(facts=[later]))
    assert records.runs(run=RUN) == [later]
    assert records.runs(limit=1) == [newer]
    assert records.runs(since_ms=1_500) == [newer]
    assert records.told_trackers(limit=9) == [(RUN, later.trackers)]
    records.commit(RunCommit(facts=[replace(newer, trackers=later.trackers)]))
    assert records.told_trackers(limit=9) == [(OTHER, later.trackers), (RUN, later.trackers)]
    assert records.told_trackers(limit=1) == [(OTHER, later.trackers)]


def test_a_run_that_is_still_heard_is_there_however_long_ago_it_began(records: RunRecords) -> None:
    records.commit(RunCommit(facts=[facts(), facts(OTHER)], processes=[process(heard_ms=5_000)]))
    assert [run.run for run in records.runs(since_ms=4_000)] == [RUN]
    records.heard(process(run=OTHER, heard_ms=9_000))
    assert [run.run for run in records.runs(since_ms=4_000)] == [OTHER, RUN]
    assert [run.run for run in records.runs(since_ms=6_000)] == [OTHER]


def test_a_process_stands_as_it_was_last_heard(records: RunRecords) -> None:
    begun = process(
        1,
        local_rank=1,
        world_size=2,
        node="gpu-1",
        pid=77,
        process_started_ms=900,
        namespace="ml",
        pod="train-1",
        pod_uid="u",
        container="main",
        gpus=("GPU-1", "GPU-2"),
        launcher="torchrun",
        job="j",
        metrics_address="10.0.0.1:9400",
        versions={"torch": "2.13"},
        heartbeat_s=2.5,
        clock_offset_us=-3,
    )
    records.commit(RunCommit(processes=[begun, process(0), process(0, 1)]))
    assert records.processes([RUN]) == [process(0), process(0, 1), begun]
    assert records.processes([OTHER]) == records.processes([]) == []
    now = process(1, heard_ms=7_000, step=3, phase="forward", lost={"steps": 2})
    records.heard(now)
    assert records.processes([RUN, OTHER]) == [process(0), process(0, 1), now]
    dead = process(1, heard_ms=7_000, ended_ms=7_000, ending=Ending.LOST, error="no word")
    records.heard(dead)
    records.commit(RunCommit(processes=[now]))
    assert records.processes([RUN])[2] == dead
    records.commit(RunCommit(processes=[dead]))
    assert records.processes([RUN])[2] == dead


def test_who_lived_when_the_server_went(records: RunRecords) -> None:
    lives = process(0, heard_ms=5_000)
    lost = process(1, heard_ms=5_000, ended_ms=5_000, ending=Ending.LOST)
    done = process(2, heard_ms=5_000, ended_ms=5_000, ending=Ending.FINISHED)
    long_ago = process(3, heard_ms=100)
    records.commit(RunCommit(processes=[lives, lost, done, long_ago]))
    assert records.unfinished(1_000) == [lives]


def test_steps_are_read_by_step_rank_and_attempt(records: RunRecords) -> None:
    told = [
        step(
            5,
            rank,
            phases={"forward": 10, "backward": 20},
            device_phases={"forward": 9},
            values={"loss": 0.5, "it's": math.inf},
            samples=32,
            tokens=4_096,
            epoch=1,
        )
        for rank in (1, 0)
    ]
    again = step(5, 0, attempt=1, n=0)
    others = [step(4), step(6), step(5, run=OTHER)]
    records.commit(RunCommit(steps=[*told, again, *others], positions=[position(0)]))
    assert records.steps(RUN, 5, 5) == [told[1], again, told[0]]
    assert records.steps(RUN, 5, 5, rank=1) == [told[0]]
    assert records.steps(RUN, 4, 6, limit=2) == [step(4), told[1]]
    assert records.steps(OTHER, 0, 100) == [others[2]]
    assert records.tails([]) == []
    assert records.tails([Tail(RUN, 0, 0, 5), Tail(OTHER, 0, 0, 0)]) == [step(5, run=OTHER), told[1], step(6)]


def test_nan_is_a_value(records: RunRecords) -> None:
    records.commit(RunCommit(steps=[step(1, values={"loss": math.nan})], positions=[position(0)]))
    assert math.isnan(records.steps(RUN, 1, 1)[0].values["loss"])


def test_spans_are_those_of_the_last_position(records: RunRecords) -> None:
    short = AttemptSpan(0, 0, 1, 5, 5, 160, None, 100, 900, 0, 4)
    long = short._replace(last_step=9, records=9, last_n=8)
    other = AttemptSpan(1, 0, 1, 3, 3, None, None, 100, 900, 0, 2)
    records.commit(RunCommit(positions=[position(0, short), position(0, other, rank=1)]))
    records.commit(RunCommit(positions=[position(1, long)]))
    assert records.spans(RUN) == [long, other]
    assert [(at.rank, at.seq) for at in records.positions(RUN)] == [(0, 1), (1, 0)]
    assert records.positions(OTHER) == []


def test_batches_are_read_back_whole(records: RunRecords) -> None:
    told = [
        batch(1, dataset="a", shard="s-1", epoch=0, size=2, first=8, stride=-8, digest="0123456789abcdef"),
        batch(1, i=1, dataset="a", size=3, ids=(5, 5, -7)),
        batch(2, 1, dataset="b", size=2, names=("img/1.jpg", "ünï")),
        batch(2, 1, attempt=1, unknown="it does not say"),
    ]
    records.commit(RunCommit(batches=told[::-1], positions=[position(0)]))
    assert records.batches(RUN, 0, 9) == told
    assert records.batches(RUN, 2, 2, attempt=1) == told[3:]
    assert records.batches(RUN, 0, 9, rank=0) == told[:2]
    assert records.batches(RUN, 0, 9, limit=1) == told[:1]


def test_a_sample_is_found_in_ranges_lists_and_by_name(records: RunRecords) -> None:
    told = [
        batch(1, dataset="a", size=4, first=100, stride=10),  # 100 110 120 130
        batch(2, dataset="a", size=3, first=120, stride=-20),  # 120 100 80
        batch(3, dataset="b", epoch=1, size=2, ids=(100, 100)),
        batch(4, dataset="b", size=1, first=100, stride=0),
        batch(5, dataset="a", size=1, names=("100",)),
        batch(1, run=OTHER, dataset="a", shard="s", size=2, first=99),
        batch(6, unknown="why"),
    ]
    records.commit(RunCommit(batches=told, positions=[position(0)]))

    def steps(sample: int | str, **which: str) -> list[tuple[str, int]]:
        return [(seen.run, seen.step) for seen in records.sightings(sample, **which)]  # type: ignore[arg-type]

    assert steps(100) == [(OTHER, 1), (RUN, 1), (RUN, 2), (RUN, 3), (RUN, 4)]
    assert steps(100, run=RUN, dataset="a") == [(RUN, 1), (RUN, 2)]
    assert steps(80) == [(RUN, 2)]
    assert steps(130) == [(RUN, 1)]
    assert steps(105) == steps(140) == steps(60) == steps("101") == []
    assert records.sightings("100") == [Sighting(RUN, 5, 0, 0, 5, "a", None, None)]
    assert records.sightings(99) == [Sighting(OTHER, 1, 0, 0, 1, "a", "s", None)]
    assert len(records.sightings(100, limit=2)) == 2


def test_what_a_span_of_steps_saw_is_added_up_over_groups(records: RunRecords) -> None:
    first = [batch(n, rank, dataset="a", shard="s", size=8) for n in (1, 2, 3) for rank in (0, 1)]
    second = [
        batch(4, 0, dataset="a", shard="s", size=8),
        batch(4, 1, dataset="a", unknown="?"),
        batch(2, 0, attempt=1, dataset="b", size=5, n=0),
    ]
    records.commit(RunCommit(batches=first, positions=[position(0)]))
    records.commit(RunCommit(batches=second, positions=[position(1)]))
    assert records.shares(RUN, [Portion(0, 2, 4), Portion(1, 0, 9)]) == [
        DatasetShare("a", "s", 5, 40, 0),
        DatasetShare("a", None, 1, 0, 1),
        DatasetShare("b", None, 1, 5, 0),
    ]
    assert records.shares(RUN, []) == records.shares(OTHER, [Portion(0, 0, 9)]) == []
    ranks = [Portion(0, 1, 3, rank=1), Portion(0, 1, 3, rank=0, first_n=2, last_n=2), Portion(1, 2, 2)]
    assert records.shares(RUN, ranks) == [DatasetShare("a", "s", 4, 32, 0), DatasetShare("b", None, 1, 5, 0)]


def test_a_curve_is_drawn_over_ranks_and_groups(records: RunRecords) -> None:
    def told(number: int, rank: int, loss: float) -> object:
        return step(number, rank, values={"loss": loss})

    groups = [
        [told(1, 0, 1.0), told(1, 1, 3.0), told(2, 2, math.nan)],
        [told(1, 2, 2.0), told(2, 0, 9.0), told(2, 1, -math.inf)],
        [step(1, 0, 1, n=0, values={"loss": 7.0, "lr": 0.1}), step(3)],
    ]
    for seq, group in enumerate(groups):
        records.commit(RunCommit(steps=group, positions=[position(seq)]))  # type: ignore[arg-type]
    one, two, three = records.curve(RUN, "loss", 1, 2)
    assert one == CurvePoint(1, 0, 500_000, 2.0, 3.0, 1)
    assert two == CurvePoint(1, 1, 500_000, 7.0, 7.0, 0)
    assert (three.step, three.worst, three.worst_rank) == (2, -math.inf, 1)
    assert math.isnan(three.mean)
    assert len(records.curve(RUN, "lr", 0, 99)) == 1
    assert not records.curve(RUN, "loss", 3, 9)
    assert not records.curve(OTHER, "loss", 0, 9)


def test_checkpoints_validations_notes_and_artifacts(records: RunRecords) -> None:
    written = CheckpointRecord(RUN, 100, 0, 0, 0, "/ckpt/100", 9_000, False, 5, 1 << 33)
    loaded = CheckpointRecord(RUN, 50, 0, 1, 0, "/ckpt/100", 8_000, True, None, None, False, "torn")
    elsewhere = CheckpointRecord(OTHER, 1, 0, 0, 0, "/ckpt/100", 7_000)
    checked = ValidationRecord(RUN, 100, 0, 0, 0, 9_500, 30, {"loss": 0.25})
    notes = [
        NoteRecord(RUN, 0, 0, 0, 4_000, "barrier", "rank 3 is missing", 7, {"missing": [3]}),
        NoteRecord(RUN, 1, 0, 0, 5_000, "lost", ""),
    ]
    dump = ArtifactRecord(RUN, 1, 0, 2, 6_000, "stacks", "rank1.txt", b"\x00\xffnot text")
    records.commit(
        RunCommit(
            checkpoints=[written, loaded, elsewhere],
            validations=[checked],
            notes=notes[::-1],
            artifacts=[dump],
            positions=[position(0)],
        )
    )
    assert records.checkpoints(RUN) == [loaded, written]
    assert records.written_at("/ckpt/100") == [elsewhere, written]
    assert records.validations(RUN) == [checked]
    assert records.notes(RUN) == notes
    assert records.notes(RUN, limit=1) == notes[1:]
    assert records.artifacts(RUN) == [ArtifactName(1, 0, 2, 6_000, "stacks", "rank1.txt", 10)]
    assert records.artifacts(RUN, rank=0) == []
    assert records.artifact(RUN, 1, 0, 2) == dump
    assert records.artifact(RUN, 1, 0, 3) is None


def test_a_writer_is_known_by_its_position(records: RunRecords) -> None:
    records.commit(RunCommit(positions=[position(4, attempt=1)]))
    (at,) = records.positions(RUN)
    assert (at.writer, at.attempt, at.seq, at.spans) == (writer(1_000), 1, 4, ())
