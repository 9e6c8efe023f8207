"""Takes OTLP traces in: spans of training become records of runs, as the SDK would have sent them.

A step's phases end before it does, so they may come in an earlier request than the step. They wait in memory
until it comes. A request that is sent again adds nothing: a phase is known by its span, and a rank's steps
end one after the other, so one that ended no later than the last one taken was taken before.
"""

from __future__ import annotations

import math
import reprlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from trilens.collect.cluster_bound import own_cluster
from trilens.collect.otlp.attributes import read_attributes
from trilens.collect.otlp.body import read_message, unpacked, write_message
from trilens.collect.otlp.remarks import Remarks
from trilens.collect.otlp.training_spans import (
    CheckpointSpan,
    NotUsable,
    Phase,
    Source,
    SpanKey,
    StepSpan,
    Writer,
    read_span,
)
from trilens.collect.runs.wire import MOST
from trilens.model.errors import RunRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.collect.otlp.body import Encoding
    from trilens.collect.otlp.stats import OtlpTraceStats
    from trilens.collect.runs.intake import RunIntake
    from trilens.collect.runs.sink import RunSink

_MOST_WAITING: Final = 50_000  # phases whose step has not come
_MOST_WRITERS: Final = 20_000
_NUMBERS_A_REQUEST: Final = 1_000_000  # more than it can hold
_HEARTBEAT_S: Final = 60.0  # spans come when something ends, not every few seconds


class _WriterState:
    """How far a writer was taken in."""

    def __init__(self, seq: int, n: int, end_us: int) -> None:
        self.lock = threading.Lock()
        self.seq = seq
        self.n = n
        self.end_us = end_us
        self.checkpoint_us = 0
        self.introduced = False


@dataclass(slots=True)
class _Told:
    """What a request holds of one writer."""

    source: Source
    steps: list[StepSpan] = field(default_factory=list)
    checkpoints: list[CheckpointSpan] = field(default_factory=list)


class _WaitingPhases:
    """By the span they are a part of, oldest first out. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phases: OrderedDict[SpanKey, dict[bytes, Phase]] = OrderedDict()
        self._size = 0

    def add(self, phase: Phase) -> int:
        """How many were given up for it."""
        with self._lock:
            known = self._phases.setdefault(phase.parent, {})
            self._size += phase.key.span not in known
            known[phase.key.span] = phase
            given_up = 0
            while self._size > _MOST_WAITING:
                _, oldest = self._phases.popitem(last=False)
                self._size -= len(oldest)
                given_up += len(oldest)
            return given_up

    def of(self, step: SpanKey) -> list[Phase]:
        with self._lock:
            return [*self._phases.get(step, {}).values()]

    def forget(self, step: SpanKey) -> None:
        with self._lock:
            self._size -= len(self._phases.pop(step, ()))


def _check_clusters(request: ExportTraceServiceRequest, clusters: frozenset[str]) -> None:
    """Before anything of a request is taken."""
    for resource in request.resource_spans:
        source = Source(read_attributes(resource.resource.attributes))
        if source.cluster or source.names_a_run:
            own_cluster(source.cluster, clusters)


class OtlpTraceReceiver:
    """Thread-safe."""

    def __init__(self, intake: RunIntake, sink: RunSink, stats: OtlpTraceStats) -> None:
        self._intake = intake
        self._sink = sink
        self._lock = threading.Lock()
        self._writers: OrderedDict[Writer, _WriterState] = OrderedDict()
        self._waiting = _WaitingPhases()
        self.stats = stats

    def receive(
        self,
        body: bytes,
        encoding: Encoding,
        content_encoding: str,
        clusters: frozenset[str] | None = None,
    ) -> bytes:
        """The answer's body; steps and checkpoints are on disk then. OtlpError (400) means that nothing was
        taken; after a StoreError or RunIntakeBusy (503) the sender sends it again. What cannot be used is
        said in the answer, and the rest is taken."""
        request = read_message(ExportTraceServiceRequest, unpacked(body, content_encoding), encoding)
        if clusters is not None:
            _check_clusters(request, clusters)
        remarks = Remarks()
        told = self._read(request, remarks)
        for writer, what in told.items():
            state = self._state(writer)
            with state.lock:
                self._take(writer, state, what, remarks, clusters)
        answer = ExportTraceServiceResponse()
        if text := remarks.text():
            # None rejected and a text is a warning, by OTLP.
            answer.partial_success.rejected_spans = remarks.refused
            answer.partial_success.error_message = text
        with self._lock:
            self.stats.requests += 1
            self.stats.refused += remarks.refused
        return write_message(answer, encoding)

    def _read(self, request: ExportTraceServiceRequest, remarks: Remarks) -> dict[Writer, _Told]:
        told: dict[Writer, _Told] = {}
        not_kept = 0
        for resource in request.resource_spans:
            source = Source(read_attributes(resource.resource.attributes))
            phases: list[Phase] = []
            begun = len(told)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    try:
                        what, attributes = read_span(span, remarks)
                        if isinstance(what, Phase):
                            phases.append(what)
                        elif what is None:
                            not_kept += 1
                        else:
                            of = told.setdefault(source.writer(attributes), _Told(source))
                            if isinstance(what, StepSpan):
                                of.steps.append(what)
                            else:
                                of.checkpoints.append(what)
                    except NotUsable as e:
                        remarks.refuse(f"span {reprlib.repr(span.name)}: {e}")
            # Of a program that says nothing of a run, parts of spans are nothing of training.
            if source.names_a_run or len(told) > begun:
                not_kept += sum(self._waiting.add(phase) for phase in phases)
            else:
                not_kept += len(phases)
        with self._lock:
            self.stats.not_kept += not_kept
        return told

    def _state(self, writer: Writer) -> _WriterState:
        with self._lock:
            state = self._writers.get(writer)
            if state is not None:
                self._writers.move_to_end(writer)
                return state
        # One that was met before a restart of the server, or long ago, goes on where it was.
        at = next((at for at in self._sink.positions(writer.run) if at.writer == writer.writer), None)  # type: ignore[arg-type]
        spans = at.spans if at is not None else ()
        found = _WriterState(
            at.seq if at is not None else -1,
            max((span.last_n for span in spans), default=-1),
            max((span.end_us for span in spans), default=-1),
        )
        with self._lock:
            if len(self._writers) >= _MOST_WRITERS:
                self._writers.popitem(last=False)
            return self._writers.setdefault(writer, found)

    def _take(
        self,
        writer: Writer,
        state: _WriterState,
        told: _Told,
        remarks: Remarks,
        clusters: frozenset[str] | None,
    ) -> None:
        once = {one.key: one for one in told.steps}.values()
        steps = sorted((one for one in once if one.end_us > state.end_us), key=lambda one: one.end_us)
        checkpoints = sorted(
            (one for one in told.checkpoints if one.end_us > state.checkpoint_us), key=lambda one: one.end_us
        )
        phases = {step.key: self._waiting.of(step.key) for step in steps}
        repeated = len(told.steps) + len(told.checkpoints) - len(steps) - len(checkpoints)
        if steps or checkpoints:
            line = self._line(writer, state, told.source, steps, checkpoints, phases, remarks)
            try:
                reading = self._intake.read(orjson.dumps(line), "")
            except RunRecordsError as e:  # what other writers told in this request is none the worse
                remarks.refuse(str(e), len(steps) + len(checkpoints))
                self._forget_phases(told)
                return
            self._intake.take(reading, clusters=clusters).taken.result()
            state.seq += 1
            state.introduced = True
            state.n += len(steps)
            state.end_us = max([state.end_us, *(step.end_us for step in steps)])
            state.checkpoint_us = max([state.checkpoint_us, *(one.end_us for one in checkpoints)])
        self._forget_phases(told)
        with self._lock:
            self.stats.steps += len(steps)
            self.stats.checkpoints += len(checkpoints)
            self.stats.phases += sum(map(len, phases.values()))
            self.stats.repeated += repeated

    def _forget_phases(self, told: _Told) -> None:
        for step in told.steps:
            self._waiting.forget(step.key)

    def _line(
        self,
        writer: Writer,
        state: _WriterState,
        source: Source,
        steps: list[StepSpan],
        checkpoints: list[CheckpointSpan],
        phases: dict[SpanKey, list[Phase]],
        remarks: Remarks,
    ) -> dict[str, Any]:
        first = state.n + 1
        line: dict[str, Any] = {
            "v": 1,
            "run": writer.run,
            "rank": writer.rank,
            "writer": writer.writer,
            "seq": state.seq + 1,
            "t_ms": time.time_ns() // 1_000_000,
            "state": {"heartbeat_s": _HEARTBEAT_S, "step": steps[-1].step if steps else None},
        }
        if not state.introduced:
            started_ms = (
                min([*(one.start_us for one in steps), *(one.start_us for one in checkpoints)]) // 1000
            )
            line["process"] = source.process(started_ms, remarks)
            if writer.rank == 0 and state.seq < 0:
                line["facts"] = source.facts(line["process"], remarks)
        if steps:
            line["steps"] = _columns(steps, first, phases)
            line["batches"] = [
                {"n": first + i, **step.batch} for i, step in enumerate(steps) if step.batch is not None
            ]
        if checkpoints:
            # Rising over requests, and after a restart too.
            numbered = enumerate(checkpoints, (state.seq + 1) * _NUMBERS_A_REQUEST)
            line["checkpoints"] = [{"n": n, **one.fields} for n, one in numbered]
        return line


def _columns(steps: list[StepSpan], first: int, phases: dict[SpanKey, list[Phase]]) -> dict[str, Any]:
    sums: list[dict[str, int]] = []
    for step in steps:
        total: dict[str, int] = {}
        for phase in phases[step.key]:
            total[phase.name] = total.get(phase.name, 0) + phase.us
        sums.append(total)
    return {
        "n": [first + i for i in range(len(steps))],
        "step": [step.step for step in steps],
        "start_us": [step.start_us for step in steps],
        "us": [step.end_us - step.start_us for step in steps],
        "samples": [step.samples for step in steps],
        "tokens": [step.tokens for step in steps],
        "epoch": [step.epoch for step in steps],
        "phases": {name: [_held(one.get(name)) for one in sums] for name in _names(sums)},
        "values": {
            name: [_number(step.values.get(name)) for step in steps]
            for name in _names(step.values for step in steps)
        },
    }


def _names(rows: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _held(us: int | None) -> int | None:
    """None where they come to more than a record holds."""
    return us if us is not None and us <= MOST else None


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
