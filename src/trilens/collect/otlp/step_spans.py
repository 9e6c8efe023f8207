"""Records of runs as OTLP traces: one trace a step over all ranks, the spans of ranks in it, and in these
their phases (docs/otlp.md). What `training_spans` reads, this writes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

    from trilens.model.run import BatchRecord, CheckpointRecord, StepRecord

_MOST_IDS: Final = 1_000  # in one attribute; the digest stands for more


class StepWithBatch(NamedTuple):
    step: StepRecord
    batch: BatchRecord | None  # the first, of a step that accumulates gradients


def with_batches(steps: Iterable[StepRecord], batches: Iterable[BatchRecord]) -> list[StepWithBatch]:
    first: dict[tuple[str, int, int, int], BatchRecord] = {}
    for batch in batches:
        first.setdefault((batch.run, batch.rank, batch.attempt, batch.n), batch)
    return [StepWithBatch(one, first.get((one.run, one.rank, one.attempt, one.n))) for one in steps]


def trace_request(records: Iterable[StepWithBatch | CheckpointRecord]) -> ExportTraceServiceRequest:
    writer = _Writer()
    for one in records:
        if isinstance(one, StepWithBatch):
            writer.step(one.step, one.batch)
        else:
            writer.checkpoint(one)
    return writer.request


class _Writer:
    def __init__(self) -> None:
        self.request = ExportTraceServiceRequest()
        self._scopes: dict[tuple[str, int, int], ScopeSpans] = {}

    def step(self, step: StepRecord, batch: BatchRecord | None) -> None:
        # Rank 0's span is the root: whether more ranks will tell of the step is never known.
        life = (step.run, step.step, step.attempt)
        trace, own = _id(16, *life), _id(8, *life, step.rank, step.n)
        span = self._scope(step.run, step.rank, step.attempt).spans.add(
            trace_id=trace,
            span_id=own,
            parent_span_id=b"" if step.rank == 0 else _id(8, *life, 0, step.n),
            name="step",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=step.start_us * 1000,
            end_time_unix_nano=(step.start_us + step.duration_us) * 1000,
        )
        told: dict[str, object] = {
            "training.step": step.step,
            "training.samples": step.samples,
            "training.tokens": step.tokens,
            "training.epoch": step.epoch,
            **{f"training.{name}": value for name, value in step.values.items()},
            **(_batch(batch) if batch is not None else {}),
        }
        span.attributes.extend(_pairs(told))
        self._phases(step, trace, own)

    def _phases(self, step: StepRecord, trace: bytes, parent: bytes) -> None:
        """How long each took is known, not when it began: they are placed one after the other."""
        at_us = step.start_us
        for name, us in step.phases.items():
            span = self._scope(step.run, step.rank, step.attempt).spans.add(
                trace_id=trace,
                span_id=_id(8, step.run, step.step, step.attempt, step.rank, step.n, name),
                parent_span_id=parent,
                name=name,
                kind=Span.SPAN_KIND_INTERNAL,
                start_time_unix_nano=at_us * 1000,
                end_time_unix_nano=(at_us + us) * 1000,
            )
            told: dict[str, object] = {
                "training.phase.start": "assumed",
                "training.device_us": step.device_phases.get(name),
            }
            span.attributes.extend(_pairs(told))
            at_us += us

    def checkpoint(self, one: CheckpointRecord) -> None:
        name = (one.run, "checkpoint", one.rank, one.attempt, one.n)
        span = self._scope(one.run, one.rank, one.attempt).spans.add(
            trace_id=_id(16, *name),
            span_id=_id(8, *name),
            name="load checkpoint" if one.loaded else "save checkpoint",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=one.start_ms * 1_000_000,
            end_time_unix_nano=one.start_ms * 1_000_000 + (one.duration_us or 0) * 1000,
        )
        told: dict[str, object] = {
            "training.step": one.step,
            "training.checkpoint.path": one.path,
            "training.checkpoint.bytes": one.size_bytes,
            "training.checkpoint.loaded": one.loaded,
        }
        span.attributes.extend(_pairs(told))
        if not one.ok:
            span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=one.error or ""))

    def _scope(self, run: str, rank: int, attempt: int) -> ScopeSpans:
        """One resource for each life of a rank."""
        key = (run, rank, attempt)
        if key not in self._scopes:
            resource = self.request.resource_spans.add()
            told: dict[str, object] = {
                "service.name": "trilens",
                "service.instance.id": f"{run}/{rank}/{attempt}",
                "training.run_id": run,
                "training.rank": rank,
                "training.attempt": attempt,
            }
            resource.resource.attributes.extend(_pairs(told))
            self._scopes[key] = resource.scope_spans.add()
            self._scopes[key].scope.name = "trilens"
        return self._scopes[key]


def _batch(batch: BatchRecord) -> dict[str, object]:
    told: dict[str, object] = {
        "training.dataset": batch.dataset or None,
        "training.shard": batch.shard,
        "training.batch_size": batch.size,
        "training.sample_digest": batch.digest,
    }
    if batch.first is not None:
        told["training.sample_range"] = [batch.first, batch.size or 0, batch.stride]
    elif 0 < len(batch.ids or batch.names) <= _MOST_IDS:
        told["training.sample_ids"] = [*(batch.ids or batch.names)]
    return told


def _pairs(told: Mapping[str, object]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(one)) for key, one in told.items() if one is not None]


def _value(one: Any) -> AnyValue:
    if isinstance(one, bool):
        return AnyValue(bool_value=one)
    if isinstance(one, int):
        return AnyValue(int_value=one)
    if isinstance(one, float):
        return AnyValue(double_value=one)
    if isinstance(one, list):
        return AnyValue(array_value=ArrayValue(values=[_value(each) for each in one]))
    return AnyValue(string_value=str(one))


def _id(size: int, *parts: object) -> bytes:
    """The same for the same record, so that whoever gets it twice can tell."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=size).digest()
