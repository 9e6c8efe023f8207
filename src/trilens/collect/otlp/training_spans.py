"""Spans of a training program: which of them is a step, a phase of a step or a checkpoint (docs/otlp.md).

There are no conventions of OpenTelemetry for training, so these are ours: attributes that begin with
`training.`.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Status

from trilens.collect.otlp.attributes import read_attributes, written
from trilens.model.run_id import RUN_ID_PATTERN, RUN_ID_RULE
from trilens.model.sample_ids import as_range, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_PREFIX: Final = "training."
RUN: Final = "training.run_id"
_STEP: Final = "training.step"
_CHECKPOINT: Final = "training.checkpoint.path"
_RUN_ID: Final = re.compile(RUN_ID_PATTERN)
_HIGHEST: Final = (1 << 63) - 1
# What is told in fields of their own; every other number under `training.` is a value of the step.
_FIELDS: Final = frozenset(
    {"step", "rank", "local_rank", "world_size", "total_steps", "samples", "tokens", "epoch", "batch_size"}
)


class NotUsable(ValueError):
    """A span that says it is a step or a checkpoint, and cannot be one."""


class Writer(NamedTuple):
    """Whose spans these are."""

    run: str
    rank: int
    writer: str


class SpanKey(NamedTuple):
    trace: bytes
    span: bytes


@dataclass(frozen=True, slots=True)
class StepSpan:
    key: SpanKey
    step: int
    start_us: int
    end_us: int
    values: Mapping[str, float]
    samples: int | None
    tokens: int | None
    epoch: int | None
    batch: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class CheckpointSpan:
    start_us: int
    end_us: int
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of whatever span is its parent."""

    key: SpanKey
    parent: SpanKey
    name: str
    us: int


@dataclass(slots=True)
class Source:
    """A resource: one process, as far as it says so."""

    attributes: dict[str, Any]

    @property
    def names_a_run(self) -> bool:
        return RUN in self.attributes

    @property
    def cluster(self) -> str:
        return written(self.attributes.get("k8s.cluster.name"))

    def writer(self, attributes: Mapping[str, Any]) -> Writer:
        told = {**self.attributes, **attributes}
        run = written(told.get(RUN))
        if not _RUN_ID.fullmatch(run):
            raise NotUsable(f"{RUN} {run!r} is not {RUN_ID_RULE}")
        rank = _whole(told, "training.rank") or 0
        who = ("service.instance.id", "k8s.pod.uid", "host.name", "process.pid")
        life = "\0".join([run, str(rank), *(written(self.attributes.get(name)) for name in who)])
        return Writer(run, rank, hashlib.blake2b(life.encode(), digest_size=16).hexdigest())

    def process(self, started_ms: int) -> dict[str, object]:
        told = self.attributes
        versions = {
            name: written(told[key])
            for name, key in (
                (written(told.get("process.runtime.name")) or "runtime", "process.runtime.version"),
                ("opentelemetry", "telemetry.sdk.version"),
            )
            if key in told
        }
        texts = {
            "node": written(told.get("k8s.node.name")) or written(told.get("host.name")),
            "cluster": self.cluster,
            "namespace": written(told.get("k8s.namespace.name")),
            "pod": written(told.get("k8s.pod.name")),
            "pod_uid": written(told.get("k8s.pod.uid")),
            "container": written(told.get("k8s.container.name")),
            "job": written(told.get("service.name")),
        }
        numbers = {
            "pid": _whole(told, "process.pid"),
            "local_rank": _whole(told, "training.local_rank"),
            "world_size": _whole(told, "training.world_size"),
        }
        known = {
            **{k: v for k, v in texts.items() if v},
            **{k: v for k, v in numbers.items() if v is not None},
        }
        return {"started_ms": started_ms, "versions": versions, **known}

    def facts(self, created_ms: int) -> dict[str, object]:
        told = self.attributes
        facts = {
            "experiment": written(told.get("training.experiment")) or None,
            "name": written(told.get("training.run_name")) or None,
            "world_size": _whole(told, "training.world_size"),
            "total_steps": _whole(told, "training.total_steps"),
        }
        return {"created_ms": created_ms, "source": "otlp", **facts}


def read_span(span: Span) -> tuple[StepSpan | CheckpointSpan | Phase | None, dict[str, Any]]:
    """What a span is, and its attributes. None: nothing that is kept."""
    attributes = read_attributes(span.attributes)
    start_us, end_us = span.start_time_unix_nano // 1000, span.end_time_unix_nano // 1000
    if _CHECKPOINT in attributes:
        return CheckpointSpan(start_us, end_us, _checkpoint(span, attributes, start_us, end_us)), attributes
    key = SpanKey(span.trace_id, span.span_id)
    if _STEP in attributes:
        step = _whole(attributes, _STEP)
        if step is None or not span.end_time_unix_nano or end_us < start_us:
            raise NotUsable("a step without an end, or that ends before it begins")
        return (
            StepSpan(
                key,
                step,
                start_us,
                end_us,
                _values(attributes),
                _whole(attributes, "training.samples"),
                _whole(attributes, "training.tokens"),
                _whole(attributes, "training.epoch"),
                _batch(attributes, step),
            ),
            attributes,
        )
    if span.parent_span_id and end_us >= start_us:
        parent = SpanKey(span.trace_id, span.parent_span_id)
        return Phase(key, parent, span.name[:200] or "unnamed", end_us - start_us), attributes
    return None, attributes


def _values(attributes: Mapping[str, Any]) -> dict[str, float]:
    values = {}
    for key, value in attributes.items():
        name = key.removeprefix(_PREFIX)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and key.startswith(_PREFIX) and name not in _FIELDS and 0 < len(name) <= 200:
            values[name] = float(value)
    return values


def _batch(attributes: Mapping[str, Any], step: int) -> dict[str, object] | None:
    """Which samples the step saw; None when it does not say."""
    dataset, shard = attributes.get("training.dataset"), attributes.get("training.shard")
    ids = attributes.get("training.sample_ids")
    size = _whole(attributes, "training.batch_size")
    spread = attributes.get("training.sample_range")
    if dataset is None and shard is None and ids is None and spread is None:
        return None
    batch: dict[str, object] = {"step": step, "dataset": written(dataset)}
    if shard is not None:
        batch["shard"] = written(shard)
    if (epoch := _whole(attributes, "training.epoch")) is not None:
        batch["epoch"] = epoch
    if isinstance(ids, list) and ids:
        if all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
            span = as_range(ids)
            told: dict[str, object] = (
                {"range": [span.first, span.count, span.stride]} if span is not None else {"ids": ids}
            )
            return {**batch, **told, "digest": digest(ids)}
        names = [written(one) for one in ids]
        return {**batch, "names": names, "digest": digest(names)}
    if isinstance(spread, list) and len(spread) == 3 and all(isinstance(one, int) for one in spread):
        known = written(attributes.get("training.sample_digest"))
        return {**batch, "range": spread, **({"digest": known} if known else {})}
    if size is not None:
        batch["size"] = size
    return {**batch, "unknown": "its span names no samples"}


def _checkpoint(span: Span, attributes: Mapping[str, Any], start_us: int, end_us: int) -> dict[str, object]:
    step = _whole(attributes, _STEP)
    if step is None:
        raise NotUsable(f"a checkpoint without {_STEP}")
    failed = span.status.code == Status.STATUS_CODE_ERROR
    fields: dict[str, object] = {
        "step": step,
        "path": written(attributes[_CHECKPOINT])[:4096],
        "start_ms": start_us // 1000,
        "us": max(0, end_us - start_us),
        "ok": not failed,
        "loaded": bool(attributes.get("training.checkpoint.loaded", False)),
    }
    if failed:
        fields["error"] = span.status.message or "its span has the status error"
    if (size := _whole(attributes, "training.checkpoint.bytes")) is not None:
        fields["bytes"] = size
    return fields


def _whole(attributes: Mapping[str, Any], key: str) -> int | None:
    """None where nothing is told; text with a number in it is taken as one, as environments give it."""
    value = attributes.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST:
        raise NotUsable(f"{key} is {value!r}, not a whole number")
    return value
