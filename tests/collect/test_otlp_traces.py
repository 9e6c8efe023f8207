"""Spans of training as records of runs, through the real intake into a real store."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from trilens.collect.otlp.body import Encoding
from trilens.collect.otlp.stats import OtlpTraceStats
from trilens.collect.otlp.trace_receiver import OtlpTraceReceiver
from trilens.collect.runs.intake import RunIntake
from trilens.model.errors import Forbidden, RunIntakeBusy
from trilens.model.run import RunId
from trilens.model.sample_ids import digest
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = RunId("otel-run")
T_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("store")), upkeep=False)
    yield store
    store.close()


@pytest.fixture
def store(opened: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """One for all, as opening takes a second, and in it a run of its own for each."""
    number = request.session.items.index(request.node)
    monkeypatch.setattr(sys.modules[__name__], "RUN", RunId(f"otel-run-{number}"))
    return opened


@contextmanager
def receiving(store: Store) -> Iterator[OtlpTraceReceiver]:
    """From one start of a server to its end."""
    intake = RunIntake(store.runs)
    intake.start()
    try:
        yield OtlpTraceReceiver(intake, store.runs, OtlpTraceStats())
    finally:
        intake.stop()


def value(one: object) -> AnyValue:
    if isinstance(one, list):
        return AnyValue(array_value=ArrayValue(values=[value(each) for each in one]))
    if isinstance(one, bool):
        return AnyValue(bool_value=one)
    if isinstance(one, int):
        return AnyValue(int_value=one)
    return AnyValue(double_value=one) if isinstance(one, float) else AnyValue(string_value=str(one))


def pairs(values: dict[str, object]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value(one)) for key, one in values.items()]


class Program:
    """One rank, and the spans it has not sent yet."""

    def __init__(self, rank: int = 0, **resource: object) -> None:
        self.request = ExportTraceServiceRequest()
        named = {"service.instance.id": f"i-{rank}", "training.run_id": RUN, "training.rank": rank}
        self.resource = {**named, **{key.replace("__", "."): one for key, one in resource.items()}}
        self._spans = 0

    def span(
        self, name: str, start_us: int, us: int, parent: bytes = b"", error: str = "", **told: object
    ) -> bytes:
        if not self.request.resource_spans:
            resource = self.request.resource_spans.add()
            resource.resource.attributes.extend(pairs(self.resource))
            resource.scope_spans.add()
        self._spans += 1
        made = (
            self.request.resource_spans[0]
            .scope_spans[0]
            .spans.add(
                name=name,
                trace_id=b"t" * 16,
                span_id=self._spans.to_bytes(8, "big"),
                parent_span_id=parent,
                start_time_unix_nano=(T_US + start_us) * 1000,
                end_time_unix_nano=(T_US + start_us + us) * 1000,
                attributes=pairs({key.replace("__", "."): one for key, one in told.items()}),
            )
        )
        if error:
            made.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=error))
        return made.span_id

    def send(self, receiver: OtlpTraceReceiver, times: int = 1) -> ExportTraceServiceResponse:
        body, self.request = self.request.SerializeToString(), ExportTraceServiceRequest()
        for _ in range(times):
            answer = receiver.receive(body, Encoding.PROTOBUF, "")
        return ExportTraceServiceResponse.FromString(answer)


def test_steps_with_phases_values_and_samples(store: Store) -> None:
    program = Program(
        training__experiment="otel", training__world_size=2, host__name="n1", k8s__pod__name="p"
    )
    step_id = (3).to_bytes(8, "big")  # the third span that it makes
    program.span("forward", 10, 30, step_id)
    program.span("forward", 50, 20, step_id)
    made = program.span(
        "step",
        0,
        100,
        training__step=7,
        training__loss=2.5,
        training__grad_norm=float("nan"),
        training__samples=3,
        training__tokens=12,
        training__epoch=1,
        training__dataset="c4",
        training__sample_ids=[4, 6, 8],
    )
    assert made == step_id
    program.span("step", 100, 50, training__step=8, training__dataset="c4", training__sample_ids=["a", "b"])
    program.span("step", 150, 50, training__step=9, training__shard="s-3", training__batch_size=4)
    program.span("step", 200, 50, training__step=10, training__sample_ids=[9, 1, 4])
    with receiving(store) as receiver:
        assert not program.send(receiver).HasField("partial_success")
    first, second, *_ = store.runs.steps(RUN, 0, 100)
    assert (first.step, first.rank, first.attempt, first.n) == (7, 0, 0, 0)
    assert (first.start_us, first.duration_us) == (T_US, 100)
    assert (first.samples, first.tokens, first.epoch) == (3, 12, 1)
    assert first.phases == {"forward": 50}
    assert first.values["loss"] == 2.5
    assert math.isnan(first.values["grad_norm"])
    assert (second.n, second.phases, second.values) == (1, {}, {})
    ranged, named, unknown, listed = store.runs.batches(RUN, 0, 100)
    assert (ranged.dataset, ranged.first, ranged.size, ranged.stride) == ("c4", 4, 3, 2)
    assert ranged.digest == digest([4, 6, 8])
    assert named.names == ("a", "b")
    assert (unknown.shard, unknown.size, unknown.unknown) == ("s-3", 4, "its span names no samples")
    assert listed.ids == (9, 1, 4)
    (facts,) = store.runs.runs(run=RUN)
    assert (facts.experiment, facts.world_size, facts.source) == ("otel", 2, "otlp")
    (process,) = store.runs.processes([RUN])
    assert (process.node, process.pod, process.world_size, process.step) == ("n1", "p", 2, 10)


def test_phases_that_come_before_their_step(store: Store) -> None:
    program = Program()
    step_id = (3).to_bytes(8, "big")
    with receiving(store) as receiver:
        program.span("data", 0, 5, step_id)
        program.send(receiver, times=2)
        program.span("forward", 5, 7, step_id)
        program.send(receiver)
        program.span("step", 0, 20, training__step=0)
        program.send(receiver)
    (step,) = store.runs.steps(RUN, 0, 0)
    assert step.phases == {"data": 5, "forward": 7}


def test_json_finds_phases_by_their_parent(store: Store) -> None:
    def attribute(key: str, one: dict[str, object]) -> dict[str, object]:
        return {"key": key, "value": one}

    trace, times = "5b8efff798038103d269b633813fc60c", {"startTimeUnixNano": "1000000"}
    step = {"traceId": trace, "spanId": "eee19b7ec3c1b174", "name": "step", **times}
    step |= {"endTimeUnixNano": "9000000", "attributes": [attribute("training.step", {"intValue": "4"})]}
    phase = {"traceId": trace, "spanId": "eee19b7ec3c1b175", "parentSpanId": "eee19b7ec3c1b174", **times}
    phase |= {"endTimeUnixNano": "3000000", "name": "forward", "kind": 1}
    resource = {"attributes": [attribute("training.run_id", {"stringValue": RUN})]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [phase, step]}]}]}
    with receiving(store) as receiver:
        assert receiver.receive(json.dumps(body).encode(), Encoding.JSON, "") == b"{}"
    (told,) = store.runs.steps(RUN, 0, 9)
    assert (told.step, told.duration_us, told.phases) == (4, 8000, {"forward": 2000})


def test_a_request_that_is_sent_again_adds_nothing_even_after_a_restart(store: Store) -> None:
    program = Program()
    program.span("step", 0, 10, training__step=0)
    program.span("step", 10, 10, training__step=1)
    with receiving(store) as receiver:
        body = program.request.SerializeToString()
        program.send(receiver, times=2)
        assert (receiver.stats.steps, receiver.stats.repeated) == (2, 2)
    with receiving(store) as receiver:
        receiver.receive(body, Encoding.PROTOBUF, "")
        assert (receiver.stats.steps, receiver.stats.repeated) == (0, 2)
        program.span("step", 20, 10, training__step=2)
        program.send(receiver)
    assert [(step.step, step.n) for step in store.runs.steps(RUN, 0, 9)] == [(0, 0), (1, 1), (2, 2)]


def test_a_span_that_is_twice_in_a_request_is_one_step(store: Store) -> None:
    program = Program()
    program.span("step", T_US, 100, training__step=1)
    spans = program.request.resource_spans[0].scope_spans[0].spans
    spans.add().CopyFrom(spans[0])
    with receiving(store) as receiver:
        receiver.receive(program.request.SerializeToString(), Encoding.PROTOBUF, "")
    assert [one.step for one in store.runs.steps(RUN, 0, 9)] == [1]


def test_a_life_that_begins_anew_is_another_attempt(store: Store) -> None:
    with receiving(store) as receiver:
        for life, start_us in (("a", 0), ("b", 1000)):
            program = Program(service__instance__id=life)
            program.span("step", start_us, 10, training__step=5)
            program.send(receiver)
    assert [(step.step, step.attempt) for step in store.runs.steps(RUN, 0, 9)] == [(5, 0), (5, 1)]


def test_checkpoints_written_loaded_and_failed(store: Store) -> None:
    program = Program()
    path = "training__checkpoint__path"
    loaded, size = "training__checkpoint__loaded", "training__checkpoint__bytes"
    program.span("load", 0, 10, training__step=3, **{path: "/a", loaded: True})
    program.span("save", 20, 30, training__step=4, **{path: "/b", size: 77})
    program.span("save", 60, 5, error="disk full", training__step=5, **{path: "/c"})
    with receiving(store) as receiver:
        program.send(receiver, times=2)
    told = [(c.step, c.path, c.loaded, c.ok, c.size_bytes, c.error) for c in store.runs.checkpoints(RUN)]
    assert sorted(told) == [
        (3, "/a", True, True, None, None),
        (4, "/b", False, True, 77, None),
        (5, "/c", False, False, None, "disk full"),
    ]


def test_what_cannot_be_used_is_said_and_the_rest_is_taken(store: Store) -> None:
    bad: list[dict[str, Any]] = [
        {"training__step": -1},
        {"training__step": "three"},
        {"training__step": 1, "training__run_id": "no spaces please"},
        {"training__step": 1, "training__rank": 1.5},
        {"training__checkpoint__path": "/nowhere"},
    ]
    program = Program()
    for told in bad:
        program.span("step", 0, 10, **told)
    program.span("step", 10, -20, training__step=2)
    program.span("step", 10, 10, training__step=2)
    with receiving(store) as receiver:
        answer = program.send(receiver)
        assert receiver.stats.refused == 6
    assert answer.partial_success.rejected_spans == 6
    assert "training.step is -1" in answer.partial_success.error_message
    assert [step.step for step in store.runs.steps(RUN, 0, 9)] == [2]


@pytest.mark.parametrize(
    "odd", ["$WORLD_SIZE", "9" * 5_000, -1, 1.5, True, ["8"], 2**60], ids=lambda one: str(one)[:12]
)
def test_numbers_of_a_process_that_cannot_be_used_are_unknown_and_told(store: Store, odd: object) -> None:
    told = {"training__world_size": odd, "training__total_steps": odd, "training__local_rank": odd}
    program = Program(process__pid=odd, k8s__pod__name="p", **told)
    program.span("step", 0, 10, training__step=1)
    with receiving(store) as receiver:
        answer = program.send(receiver).partial_success
        program.span("step", 10, 10, training__step=2)
        assert not program.send(receiver).HasField("partial_success"), "said once of a process"
        assert receiver.stats.refused == 0
    assert answer.rejected_spans == 0
    assert "process.pid is " in answer.error_message
    assert "is left out (and 3 more)" in answer.error_message
    assert len(answer.error_message) < 300
    assert [step.step for step in store.runs.steps(RUN, 0, 9)] == [1, 2]
    (facts,) = store.runs.runs(run=RUN)
    (process,) = store.runs.processes([RUN])
    assert (process.pid, process.local_rank, process.world_size, process.pod) == (None, None, None, "p")
    assert (facts.world_size, facts.total_steps) == (None, None)


def test_numbers_of_a_step_that_cannot_be_used_are_unknown_and_told(store: Store) -> None:
    odd = {
        "training__samples": "many",
        "training__tokens": "9" * 5_000,
        "training__epoch": 2**60,
        "training__batch_size": -1,
        "training__sample_range": [0, -1, 1],
    }
    program = Program()
    program.span("step", 0, 10, training__step=1, **odd)
    program.span(
        "save", 0, 10, training__step=1, training__checkpoint__path="/a", training__checkpoint__bytes=0.5
    )
    with receiving(store) as receiver:
        answer = program.send(receiver).partial_success
    assert (answer.rejected_spans, answer.error_message.count("and 5 more")) == (0, 1)
    (step,) = store.runs.steps(RUN, 0, 9)
    assert (step.samples, step.tokens, step.epoch) == (None, None, None)
    (batch,) = store.runs.batches(RUN, 0, 9)
    assert (batch.size, batch.unknown) == (None, "its span names no samples")
    assert [one.size_bytes for one in store.runs.checkpoints(RUN)] == [None]


def test_samples_that_no_record_holds_are_told_otherwise(store: Store) -> None:
    program, wide = Program(), [-(2**63), 2**63 - 1]
    program.span("step", 0, 10, training__step=1, training__sample_ids=wide)
    program.span("step", 10, 10, training__step=2, training__sample_range=[2**63 - 1, 2, 1])
    program.span(
        "step", 20, 10, training__step=3, training__sample_range=[0, 2, 1], training__sample_digest="no"
    )
    with receiving(store) as receiver:
        answer = program.send(receiver).partial_success
    assert answer.rejected_spans == 0
    assert "training.sample_range is" in answer.error_message
    first, second, third = store.runs.batches(RUN, 0, 9)
    assert first.ids == tuple(wide)
    assert second.unknown is not None
    assert (third.first, third.size, third.digest) == (0, 2, None)


def test_a_step_that_no_record_holds_is_refused_by_itself(store: Store) -> None:
    program = Program()
    program.span("step", 0, 10, training__step=2**53 + 1)
    program.span("step", 0, 10, training__step="9" * 5_000)
    program.span("step", 0, 10, training__step=1, training__rank=2**31)
    program.span("step", 0, 2**53, training__step=1)
    program.span("save", 0, 2**53, training__step=1, training__checkpoint__path="/a")
    program.span("step", 10, 10, training__step=2)
    with receiving(store) as receiver:
        answer = program.send(receiver).partial_success
    assert answer.rejected_spans == 5
    assert answer.error_message.startswith("span 'step': training.step is 9007199254740993")
    assert [step.step for step in store.runs.steps(RUN, 0, 9)] == [2]


def test_records_of_one_process_that_are_refused_are_no_reason_to_refuse_those_of_others(
    store: Store,
) -> None:
    """More names of values than a batch may have."""
    odd, good = Program(), Program(rank=1)
    odd.span("step", 0, 10, **{f"training__value_{i}": i for i in range(1_001)}, training__step=1)
    good.span("step", 0, 10, training__step=1)
    odd.request.MergeFrom(good.request)
    with receiving(store) as receiver:
        answer = odd.send(receiver).partial_success
        assert (receiver.stats.steps, receiver.stats.refused) == (1, 1)
        assert answer.rejected_spans == 1
        assert "values has 1001 names" in answer.error_message
        odd.span("step", 10, 10, training__step=2)
        assert not odd.send(receiver).HasField("partial_success")
    assert sorted((step.rank, step.step) for step in store.runs.steps(RUN, 0, 9)) == [(0, 2), (1, 1)]


def test_an_intake_that_is_full_has_the_sender_try_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program()
    program.span("step", 0, 10, training__step=1)
    monkeypatch.setattr("trilens.collect.runs.intake._MAX_WAITING_BYTES", -1)
    with receiving(store) as receiver, pytest.raises(RunIntakeBusy):
        program.send(receiver)


def test_spans_of_other_programs_are_not_kept_and_counted(store: Store) -> None:
    program = Program()
    del program.resource["training.run_id"]
    program.span("GET /", 0, 10)
    program.span("SELECT", 0, 10, b"\0" * 7 + b"\x01")
    before = store.runs.runs()
    with receiving(store) as receiver:
        assert not program.send(receiver).HasField("partial_success")
        assert receiver.stats.not_kept == 2
    assert store.runs.runs() == before


def test_a_run_is_in_the_cluster_that_it_names_or_that_of_its_token(store: Store) -> None:
    def sent(receiver: OtlpTraceReceiver, program: Program, *clusters: str) -> None:
        body, program.request = program.request.SerializeToString(), ExportTraceServiceRequest()
        receiver.receive(body, Encoding.PROTOBUF, "", frozenset(clusters))

    quiet, named = Program(), Program(rank=1, k8s__cluster__name="east")
    with receiving(store) as receiver:
        for program in (quiet, named):
            program.span("step", 0, 100, training__step=1)
        with pytest.raises(Forbidden, match="does not say of which"):
            receiver.receive(quiet.request.SerializeToString(), Encoding.PROTOBUF, "", frozenset("ab"))
        sent(receiver, quiet, "east")
        sent(receiver, named, "east", "west")
        assert [one.cluster for one in store.runs.processes([RUN])] == ["east", "east"]
        quiet.span("step", 200, 100, training__step=2)
        with pytest.raises(Forbidden):
            sent(receiver, quiet, "west")
