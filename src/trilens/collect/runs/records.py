"""What a batch tells, as records of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.model.run import (
    ArtifactRecord,
    BatchRecord,
    CheckpointRecord,
    NoteRecord,
    RankProcess,
    RunFacts,
    RunId,
    StepRecord,
    Tracker,
    ValidationRecord,
    WriterId,
)
from trilens.model.run_sums import AttemptSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.collect.runs.wire import BatchLine, BatchTold, StateTold, StepsTold
    from trilens.model.run_commit import RunCommit

_MAX_SPANS: Final = 1_000  # of a program that goes back all the time, the last one then holds the rest
_SHORTEST_S, _LONGEST_S = 0.5, 300.0  # of a promise to tell of oneself

_T = TypeVar("_T")


def facts_of(line: BatchLine) -> RunFacts | None:
    told = line.facts
    if told is None:
        return None
    return RunFacts(
        RunId(line.run),
        told.created_ms,
        told.experiment,
        told.name,
        told.config,
        told.tags,
        told.world_size,
        told.total_steps,
        tuple(Tracker(one.system, one.run, one.where) for one in told.trackers),
        told.source,
    )


def process_of(line: BatchLine, attempt: int, known: RankProcess | None) -> RankProcess:
    """Who it is, as told now or before; how it stands stays."""
    told = line.process
    if told is None:
        return known or RankProcess(
            RunId(line.run), line.rank, WriterId(line.writer), line.t_ms, attempt=attempt
        )
    process = RankProcess(
        RunId(line.run),
        line.rank,
        WriterId(line.writer),
        told.started_ms,
        attempt,
        told.local_rank,
        told.world_size,
        told.node,
        told.pid,
        told.process_started_ms,
        told.namespace,
        told.pod,
        told.pod_uid,
        told.container,
        tuple(told.gpus),
        told.launcher,
        told.job,
        told.metrics_address,
        told.versions,
        cluster=told.cluster or None,
    )
    if known is None:
        return process
    return replace(
        process,
        heartbeat_s=known.heartbeat_s,
        heard_ms=known.heard_ms,
        step=known.step,
        phase=known.phase,
        clock_offset_us=known.clock_offset_us,
        lost=known.lost,
        ended_ms=known.ended_ms,
        ending=known.ending,
        error=known.error,
    )


def with_state(process: RankProcess, state: StateTold) -> RankProcess:
    return replace(
        process,
        heartbeat_s=min(max(state.heartbeat_s, _SHORTEST_S), _LONGEST_S),
        step=state.step if state.step is not None else process.step,
        phase=state.phase,
        clock_offset_us=state.clock_offset_us,
        lost=state.lost,
    )


def add_records(line: BatchLine, attempt: int, commit: RunCommit) -> list[StepRecord]:
    """Returns its steps."""
    run, rank = RunId(line.run), line.rank
    steps = _steps(run, rank, attempt, line.steps) if line.steps is not None else []
    commit.steps += steps
    commit.batches += [_batch(run, rank, attempt, told) for told in line.batches]
    commit.checkpoints += [
        CheckpointRecord(
            run,
            told.step,
            rank,
            attempt,
            told.n,
            told.path,
            told.start_ms,
            told.loaded,
            told.us,
            told.bytes,
            told.ok,
            told.error,
        )
        for told in line.checkpoints
    ]
    commit.validations += [
        ValidationRecord(run, told.step, rank, attempt, told.n, told.t_ms, told.us, _floats(told.values))
        for told in line.validations
    ]
    commit.notes += [
        NoteRecord(run, rank, attempt, told.n, told.t_ms, told.kind, told.text, told.step, told.data)
        for told in line.notes
    ]
    commit.artifacts += [
        ArtifactRecord(run, rank, attempt, told.n, told.t_ms, told.kind, told.name, told.base64)
        for told in line.artifacts
    ]
    return steps


def grown(spans: tuple[AttemptSpan, ...], steps: Iterable[StepRecord]) -> tuple[AttemptSpan, ...]:
    """What a writer's steps come to with these: a step that does not lead forward begins another span."""
    known = list(spans)
    for step in steps:
        begun = AttemptSpan(
            step.rank,
            step.attempt,
            step.step,
            step.step,
            1,
            step.samples,
            step.tokens,
            step.start_us,
            step.start_us + step.duration_us,
            step.n,
            step.n,
        )
        if known and (step.step > known[-1].last_step or len(known) == _MAX_SPANS):
            known[-1] = _joined(known[-1], begun)
        else:
            known.append(begun)
    return tuple(known)


def _joined(one: AttemptSpan, other: AttemptSpan) -> AttemptSpan:
    return AttemptSpan(
        one.rank,
        one.attempt,
        min(one.first_step, other.first_step),
        max(one.last_step, other.last_step),
        one.records + other.records,
        _sum(one.samples, other.samples),
        _sum(one.tokens, other.tokens),
        min(one.start_us, other.start_us),
        max(one.end_us, other.end_us),
        min(one.first_n, other.first_n),
        max(one.last_n, other.last_n),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _steps(run: RunId, rank: int, attempt: int, told: StepsTold) -> list[StepRecord]:
    unknown: list[int | None] = [None] * len(told.n)
    values = {name: _float_column(column) for name, column in told.values.items()}
    return [
        StepRecord(
            run,
            step,
            rank,
            attempt,
            n,
            start_us,
            us,
            _at(told.phases, row),
            _at(told.device, row),
            _at(values, row),
            samples,
            tokens,
            epoch,
        )
        for row, (n, step, start_us, us, samples, tokens, epoch) in enumerate(
            zip(
                told.n,
                told.step,
                told.start_us,
                told.us,
                told.samples or unknown,
                told.tokens or unknown,
                told.epoch or unknown,
                strict=True,
            )
        )
    ]


def _batch(run: RunId, rank: int, attempt: int, told: BatchTold) -> BatchRecord:
    first, stride, size = None, 1, told.size
    if told.range is not None:
        first, size, stride = told.range
    elif size is None and (told.ids is not None or told.names is not None):
        size = len(told.ids or told.names or ())
    return BatchRecord(
        run,
        told.step,
        rank,
        attempt,
        told.n,
        told.i,
        told.dataset,
        told.shard,
        told.epoch,
        size,
        first,
        stride,
        tuple(told.ids or ()),
        tuple(told.names or ()),
        told.digest,
        told.unknown,
    )


def _at(columns: Mapping[str, list[_T | None]], row: int) -> dict[str, _T]:
    return {name: value for name, column in columns.items() if (value := column[row]) is not None}


def _float_column(column: Sequence[float | str | None]) -> list[float | None]:
    return [None if value is None else float(value) for value in column]


def _floats(values: Mapping[str, float | str | None]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None}
