"""Spans of a training program: which of them is a step, a phase of a step or a checkpoint (docs/otlp.md).

There are no conventions of OpenTelemetry for training, so these are ours: attributes that begin with
`training.`.
"""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Status

from trilens.collect.otlp.attributes import read_attributes, written
from trilens.collect.runs.wire import HIGHEST, LONGEST_ERROR, LONGEST_TEXT, LOWEST, MOST, MOST_RANK
from trilens.model.run_id import RUN_ID_PATTERN, RUN_ID_RULE
from trilens.model.sample_ids import as_range, digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from trilens.collect.otlp.attributes import Attributes
    from trilens.collect.otlp.remarks import Remarks

_PREFIX: Final = "training."
RUN: Final = "training.run_id"
_STEP: Final = "training.step"
_CHECKPOINT: Final = "training.checkpoint.path"
_RUN_ID: Final = re.compile(RUN_ID_PATTERN)
_DIGEST: Final = re.compile(r"[0-9a-f]{16}")
_DIGITS: Final = 20  # of a number that may be taken; Python reads no text of thousands of them
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

    def writer(self, attributes: Attributes) -> Writer:
        told = ChainMap(attributes, self.attributes)
        run = written(told.get(RUN))
        if not _RUN_ID.fullmatch(run):
            raise NotUsable(f"{RUN} {reprlib.repr(run)} is not {RUN_ID_RULE}")
        rank = _whole(told, "training.rank", MOST_RANK) or 0
        who = ("service.instance.id", "k8s.pod.uid", "host.name", "process.pid")
        life = "\0".join([run, str(rank), *(written(self.attributes.get(name)) for name in who)])
        return Writer(run, rank, hashlib.blake2b(life.encode(), digest_size=16).hexdigest())

    def process(self, started_ms: int, remarks: Remarks) -> dict[str, object]:
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
            "node": _text(told, "k8s.node.name") or _text(told, "host.name"),
            "cluster": self.cluster[:LONGEST_TEXT],
            "namespace": _text(told, "k8s.namespace.name"),
            "pod": _text(told, "k8s.pod.name"),
            "pod_uid": _text(told, "k8s.pod.uid"),
            "container": _text(told, "k8s.container.name"),
            "job": _text(told, "service.name"),
        }
        numbers = {
            "pid": _optional(told, "process.pid", remarks),
            "local_rank": _optional(told, "training.local_rank", remarks, MOST_RANK),
            "world_size": _optional(told, "training.world_size", remarks),
        }
        known = {
            **{k: v for k, v in texts.items() if v},
            **{k: v for k, v in numbers.items() if v is not None},
        }
        return {"started_ms": started_ms, "versions": versions, **known}

    def facts(self, process: Mapping[str, object], remarks: Remarks) -> dict[str, object]:
        """Of the run, whose lowest rank this process is."""
        told = self.attributes
        facts = {
            "experiment": _text(told, "training.experiment") or None,
            "name": _text(told, "training.run_name") or None,
            "world_size": process.get("world_size"),
            "total_steps": _optional(told, "training.total_steps", remarks),
        }
        return {"created_ms": process["started_ms"], "source": "otlp", **facts}


def read_span(
    span: Span, remarks: Remarks
) -> tuple[StepSpan | CheckpointSpan | Phase | None, dict[str, Any]]:
    """What a span is, and its attributes. None: nothing that is kept."""
    attributes = read_attributes(span.attributes)
    start_us, end_us = span.start_time_unix_nano // 1000, span.end_time_unix_nano // 1000
    if _CHECKPOINT in attributes:
        told = _checkpoint(span, attributes, start_us, end_us, remarks)
        return CheckpointSpan(start_us, end_us, told), attributes
    key = SpanKey(span.trace_id, span.span_id)
    if _STEP in attributes:
        step = _whole(attributes, _STEP)
        if step is None or not span.end_time_unix_nano or end_us < start_us:
            raise NotUsable("a step without an end, or that ends before it begins")
        _check_time(end_us)
        epoch = _optional(attributes, "training.epoch", remarks)
        return (
            StepSpan(
                key,
                step,
                start_us,
                end_us,
                _values(attributes),
                _optional(attributes, "training.samples", remarks),
                _optional(attributes, "training.tokens", remarks),
                epoch,
                _batch(attributes, step, epoch, remarks),
            ),
            attributes,
        )
    if span.parent_span_id and start_us <= end_us <= MOST:
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


def _batch(
    attributes: Mapping[str, Any], step: int, epoch: int | None, remarks: Remarks
) -> dict[str, object] | None:
    """Which samples the step saw; None when it does not say."""
    dataset, shard = attributes.get("training.dataset"), attributes.get("training.shard")
    ids = attributes.get("training.sample_ids")
    size = _optional(attributes, "training.batch_size", remarks)
    spread = attributes.get("training.sample_range")
    if dataset is None and shard is None and ids is None and spread is None:
        return None
    batch: dict[str, object] = {"step": step, "dataset": _text(attributes, "training.dataset")}
    if shard is not None:
        batch["shard"] = _text(attributes, "training.shard")
    if epoch is not None:
        batch["epoch"] = epoch
    if isinstance(ids, list) and ids:
        if all(_is_whole(one) for one in ids):
            span = as_range(ids)
            spaced = [span.first, span.count, span.stride] if span is not None else None
            told: dict[str, object] = {"range": spaced} if _is_range(spaced) else {"ids": ids}
            return {**batch, **told, "digest": digest(ids)}
        names = [written(one) for one in ids]
        return {**batch, "names": names, "digest": digest(names)}
    if _is_range(spread):
        known = written(attributes.get("training.sample_digest"))
        if _DIGEST.fullmatch(known):
            return {**batch, "range": spread, "digest": known}
        if known:
            remarks.doubt(f"training.sample_digest is {reprlib.repr(known)}, no digest, and is left out")
        return {**batch, "range": spread}
    if spread is not None:
        remarks.doubt(f"training.sample_range is {reprlib.repr(spread)}, no range, and is left out")
    if size is not None:
        batch["size"] = size
    return {**batch, "unknown": "its span names no samples"}


def _is_whole(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool)


def _is_range(told: object) -> bool:
    if not (isinstance(told, list) and len(told) == 3 and all(_is_whole(one) for one in told)):
        return False
    first, count, stride = told
    last = first + max(count - 1, 0) * stride
    return 0 <= count <= MOST and all(LOWEST <= one <= HIGHEST for one in (stride, last))


def _checkpoint(
    span: Span, attributes: Mapping[str, Any], start_us: int, end_us: int, remarks: Remarks
) -> dict[str, object]:
    step = _whole(attributes, _STEP)
    if step is None:
        raise NotUsable(f"a checkpoint without {_STEP}")
    _check_time(max(start_us, end_us))
    failed = span.status.code == Status.STATUS_CODE_ERROR
    fields: dict[str, object] = {
        "step": step,
        "path": _text(attributes, _CHECKPOINT),
        "start_ms": start_us // 1000,
        "us": max(0, end_us - start_us),
        "ok": not failed,
        "loaded": bool(attributes.get("training.checkpoint.loaded", False)),
    }
    if failed:
        fields["error"] = span.status.message[:LONGEST_ERROR] or "its span has the status error"
    if (size := _optional(attributes, "training.checkpoint.bytes", remarks)) is not None:
        fields["bytes"] = size
    return fields


def _check_time(us: int) -> None:
    if us > MOST:
        raise NotUsable("it ends later than any clock goes")


def _text(attributes: Mapping[str, Any], key: str) -> str:
    return written(attributes.get(key))[:LONGEST_TEXT]


def _optional(attributes: Mapping[str, Any], key: str, remarks: Remarks, most: int = MOST) -> int | None:
    """Unknown too where it cannot be used, which is said: the rest is as good without it."""
    try:
        return _whole(attributes, key, most)
    except NotUsable as e:
        remarks.doubt(f"{e}, and is left out")
        return None


def _whole(attributes: Mapping[str, Any], key: str, most: int = MOST) -> int | None:
    """None where nothing is told; text with a number in it is taken as one, as environments give it."""
    told = value = attributes.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise NotUsable(f"{key} is {reprlib.repr(told)}, no whole number up to {most}")
    return value
