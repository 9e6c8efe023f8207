"""Runs and what their processes told, as rows of their tables and back."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from trilens.model.run import (
    ArtifactRecord,
    BatchRecord,
    CheckpointRecord,
    Ending,
    NoteRecord,
    RankProcess,
    RunFacts,
    RunId,
    StepRecord,
    Tracker,
    ValidationRecord,
    WriterId,
)
from trilens.model.run_commit import Position
from trilens.model.run_sums import AttemptSpan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.store.workload_rows import Row

_INT: Final = pa.int64()
_TEXT: Final = pa.string()
_NAMED_INTS: Final = pa.map_(_TEXT, _INT)
_NAMED_FLOATS: Final = pa.map_(_TEXT, pa.float64())
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_COUNTS: Final = msgspec.json.Decoder(dict[str, int])
_TEXTS: Final = msgspec.json.Decoder(dict[str, str])
_TRACKERS: Final = msgspec.json.Decoder(tuple[Tracker, ...])
NO_TRACKERS: Final = "[]"
_SPANS: Final = msgspec.json.Decoder(tuple[AttemptSpan, ...])
_GPUS: Final = msgspec.json.Decoder(tuple[str, ...])
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class RunTable(NamedTuple):
    """A table that groups are written to. All but `version` or `commit`, which the group gives."""

    name: str
    schema: pa.Schema
    stamp: str = "commit"

    @property
    def columns(self) -> str:
        return ", ".join(self.schema.names)


def _table(name: str, stamp: str = "commit", /, **types: pa.DataType) -> RunTable:
    return RunTable(name, pa.schema(list(types.items())), stamp)


RUNS: Final = _table(
    "runs",
    "version",
    run=_TEXT,
    created_ms=_INT,
    experiment=_TEXT,
    name=_TEXT,
    config=_TEXT,
    tags=_TEXT,
    world_size=_INT,
    total_steps=_INT,
    trackers=_TEXT,
    source=_TEXT,
)
PROCESSES: Final = _table(
    "run_processes",
    "version",
    run=_TEXT,
    rank=_INT,
    writer=_TEXT,
    started_ms=_INT,
    attempt=_INT,
    local_rank=_INT,
    world_size=_INT,
    node=_TEXT,
    pid=_INT,
    process_started_ms=_INT,
    namespace=_TEXT,
    pod=_TEXT,
    pod_uid=_TEXT,
    container=_TEXT,
    gpus=_TEXT,
    launcher=_TEXT,
    job=_TEXT,
    metrics_address=_TEXT,
    versions=_TEXT,
    heartbeat_ms=_INT,
    heard_ms=_INT,
    step=_INT,
    phase=_TEXT,
    clock_offset_us=_INT,
    lost=_TEXT,
    ended_ms=_INT,
    ending=_TEXT,
    error=_TEXT,
    cluster=_TEXT,
)
POSITIONS: Final = _table(
    "run_positions",
    run=_TEXT,
    rank=_INT,
    writer=_TEXT,
    attempt=_INT,
    seq=_INT,
    spans=_TEXT,
)
STEPS: Final = _table(
    "run_steps",
    run=_TEXT,
    step=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    start_us=_INT,
    us=_INT,
    phases=_NAMED_INTS,
    device=_NAMED_INTS,
    values=_NAMED_FLOATS,
    samples=_INT,
    tokens=_INT,
    epoch=_INT,
)
BATCHES: Final = _table(
    "run_batches",
    run=_TEXT,
    step=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    i=_INT,
    dataset=_TEXT,
    shard=_TEXT,
    epoch=_INT,
    size=_INT,
    first=_INT,
    stride=_INT,
    ids=pa.list_(_INT),
    names=pa.list_(_TEXT),
    digest=_TEXT,
    unknown=_TEXT,
    low=_INT,
    high=_INT,
)
CHECKPOINTS: Final = _table(
    "run_checkpoints",
    run=_TEXT,
    step=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    path=_TEXT,
    start_ms=_INT,
    loaded=pa.uint8(),
    us=_INT,
    size_bytes=_INT,
    ok=pa.uint8(),
    error=_TEXT,
)
VALIDATIONS: Final = _table(
    "run_validations",
    run=_TEXT,
    step=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    t_ms=_INT,
    us=_INT,
    values=_NAMED_FLOATS,
)
NOTES: Final = _table(
    "run_notes",
    run=_TEXT,
    t_ms=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    kind=_TEXT,
    description=_TEXT,
    step=_INT,
    data=_TEXT,
)
ARTIFACTS: Final = _table(
    "run_artifacts",
    run=_TEXT,
    t_ms=_INT,
    rank=_INT,
    attempt=_INT,
    n=_INT,
    kind=_TEXT,
    name=_TEXT,
    size_bytes=_INT,
    content=_TEXT,
)


def facts_row(facts: RunFacts) -> tuple[object, ...]:
    return (
        facts.run,
        facts.created_ms,
        facts.experiment,
        facts.name,
        _json(facts.config),
        _json(facts.tags),
        facts.world_size,
        facts.total_steps,
        _json(facts.trackers),
        facts.source,
    )


def trackers_of(row: Row) -> tuple[RunId, tuple[Tracker, ...]]:
    return RunId(row["run"]), _TRACKERS.decode(row["trackers"])


def facts_of(row: Row) -> RunFacts:
    return RunFacts(
        RunId(row["run"]),
        row["created_ms"],
        row["experiment"],
        row["name"],
        _OBJECT.decode(row["config"]),
        _TEXTS.decode(row["tags"]),
        row["world_size"],
        row["total_steps"],
        _TRACKERS.decode(row["trackers"]),
        row["source"],
    )


def process_row(process: RankProcess) -> tuple[object, ...]:
    return (
        process.run,
        process.rank,
        process.writer,
        process.started_ms,
        process.attempt,
        process.local_rank,
        process.world_size,
        process.node,
        process.pid,
        process.process_started_ms,
        process.namespace,
        process.pod,
        process.pod_uid,
        process.container,
        _json(process.gpus),
        process.launcher,
        process.job,
        process.metrics_address,
        _json(process.versions),
        round(process.heartbeat_s * 1000),
        process.heard_ms,
        process.step,
        process.phase,
        process.clock_offset_us,
        _json(process.lost),
        process.ended_ms,
        process.ending.value if process.ending is not None else None,
        process.error,
        process.cluster,
    )


def processes_of(found: pa.Table) -> Iterator[RankProcess]:
    """By columns, which are in the order of a process's own: there may be thousands."""
    columns = {name: found[name].to_pylist() for name in PROCESSES.schema.names}
    columns["gpus"] = [_GPUS.decode(text) for text in columns["gpus"]]
    columns["versions"] = [_versions(text) for text in columns["versions"]]
    columns["heartbeat_ms"] = [ms / 1000 for ms in columns["heartbeat_ms"]]
    columns["lost"] = [_COUNTS.decode(text) if text != "{}" else {} for text in columns["lost"]]
    columns["ending"] = [Ending(text) if text is not None else None for text in columns["ending"]]
    return map(RankProcess, *columns.values())


@lru_cache(1_000)  # thousands of ranks have the same
def _versions(text: str) -> Mapping[str, str]:
    return _TEXTS.decode(text)


# What a life was on and when, without what it told of itself beside that.
LIFE_COLUMNS: Final = (
    "run, rank, writer, started_ms, attempt, local_rank, world_size, node, pid, process_started_ms, "
    "namespace, pod, pod_uid, container, gpus, heard_ms, step, clock_offset_us, ended_ms, ending, cluster"
)


def life_of(row: Row) -> RankProcess:
    ending = row.pop("ending")
    gpus = _GPUS.decode(row.pop("gpus"))
    return RankProcess(**row, gpus=gpus, ending=Ending(ending) if ending is not None else None)


def position_row(at: Position) -> tuple[object, ...]:
    return (at.run, at.rank, at.writer, at.attempt, at.seq, _json(at.spans))


def position_of(row: Row) -> Position:
    run, writer = RunId(row["run"]), WriterId(row["writer"])
    return Position(run, row["rank"], writer, row["attempt"], row["seq"], _SPANS.decode(row["spans"]))


def step_row(step: StepRecord) -> tuple[object, ...]:
    return (
        step.run,
        step.step,
        step.rank,
        step.attempt,
        step.n,
        step.start_us,
        step.duration_us,
        step.phases,
        step.device_phases,
        step.values,
        step.samples,
        step.tokens,
        step.epoch,
    )


def step_of(row: Row) -> StepRecord:
    return StepRecord(
        RunId(row["run"]),
        row["step"],
        row["rank"],
        row["attempt"],
        row["n"],
        row["start_us"],
        row["us"],
        dict(row["phases"]),
        dict(row["device"]),
        dict(row["values"]),
        row["samples"],
        row["tokens"],
        row["epoch"],
    )


def batch_row(batch: BatchRecord) -> tuple[object, ...]:
    low, high = _HIGHEST, _LOWEST
    if batch.first is not None and batch.size:
        last = batch.first + (batch.size - 1) * batch.stride
        low, high = min(batch.first, last), max(batch.first, last)
    return (
        batch.run,
        batch.step,
        batch.rank,
        batch.attempt,
        batch.n,
        batch.i,
        batch.dataset,
        batch.shard,
        batch.epoch,
        batch.size,
        batch.first,
        batch.stride,
        batch.ids,
        batch.names,
        batch.digest,
        batch.unknown,
        low,
        high,
    )


def batch_of(row: Row) -> BatchRecord:
    return BatchRecord(
        RunId(row["run"]),
        row["step"],
        row["rank"],
        row["attempt"],
        row["n"],
        row["i"],
        row["dataset"],
        row["shard"],
        row["epoch"],
        row["size"],
        row["first"],
        row["stride"],
        tuple(row["ids"]),
        tuple(row["names"]),
        row["digest"],
        row["unknown"],
    )


def checkpoint_row(record: CheckpointRecord) -> tuple[object, ...]:
    return (
        record.run,
        record.step,
        record.rank,
        record.attempt,
        record.n,
        record.path,
        record.start_ms,
        int(record.loaded),
        record.duration_us,
        record.size_bytes,
        int(record.ok),
        record.error,
    )


def checkpoint_of(row: Row) -> CheckpointRecord:
    return CheckpointRecord(
        RunId(row["run"]),
        row["step"],
        row["rank"],
        row["attempt"],
        row["n"],
        row["path"],
        row["start_ms"],
        bool(row["loaded"]),
        row["us"],
        row["size_bytes"],
        bool(row["ok"]),
        row["error"],
    )


def validation_row(record: ValidationRecord) -> tuple[object, ...]:
    return (
        record.run,
        record.step,
        record.rank,
        record.attempt,
        record.n,
        record.t_ms,
        record.duration_us,
        record.values,
    )


def validation_of(row: Row) -> ValidationRecord:
    return ValidationRecord(
        RunId(row["run"]),
        row["step"],
        row["rank"],
        row["attempt"],
        row["n"],
        row["t_ms"],
        row["us"],
        dict(row["values"]),
    )


def note_row(note: NoteRecord) -> tuple[object, ...]:
    return (
        note.run,
        note.t_ms,
        note.rank,
        note.attempt,
        note.n,
        note.kind,
        note.text,
        note.step,
        _json(note.data),
    )


def note_of(row: Row) -> NoteRecord:
    return NoteRecord(
        RunId(row["run"]),
        row["rank"],
        row["attempt"],
        row["n"],
        row["t_ms"],
        row["kind"],
        row["description"],
        row["step"],
        _OBJECT.decode(row["data"]),
    )


def artifact_row(artifact: ArtifactRecord) -> tuple[object, ...]:
    """Its bytes as text: the engine's Arrow has text columns only, which must be UTF-8."""
    return (
        artifact.run,
        artifact.t_ms,
        artifact.rank,
        artifact.attempt,
        artifact.n,
        artifact.kind,
        artifact.name,
        len(artifact.content),
        base64.b64encode(artifact.content).decode(),
    )


def artifact_of(row: Row) -> ArtifactRecord:
    return ArtifactRecord(
        RunId(row["run"]),
        row["rank"],
        row["attempt"],
        row["n"],
        row["t_ms"],
        row["kind"],
        row["name"],
        base64.b64decode(row["content"]),
    )


def _json(value: Mapping[str, object] | tuple[object, ...]) -> str:
    # Not msgspec's, which has no word for whole numbers above 64 bits, as a configuration may hold.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
