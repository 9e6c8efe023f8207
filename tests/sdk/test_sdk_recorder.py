"""Steps, phases and values as the program's thread notes them: by a clock that the test turns."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from trilens.sdk import blocks as blocks_module
from trilens.sdk import recorder as recorder_module
from trilens.sdk.blocks import PhaseBlock, StepBlock
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.moments import Checkpoint, Validation
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder
from trilens.sdk.step_note import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000

    def __call__(self) -> int:
        return self.ns

    def pass_(self, ns: int) -> None:
        self.ns += ns


class Copy:
    """A value that the device has not computed yet."""

    def __init__(self, values: Mapping[str, float], device: Mapping[str, int] | None = None) -> None:
        self.is_computed = False
        self.asked = 0
        self._reading = Reading(values, device or {})

    def ready(self) -> bool:
        self.asked += 1
        return self.is_computed

    def read(self) -> Reading:
        return self._reading


class Seen:
    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def told(self) -> dict[str, object]:
        return {"dataset": "d"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (recorder_module, blocks_module):
        monkeypatch.setattr(module, "monotonic_ns", clock)
    return clock


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    return Recorder("run", Identity(), Options(), Guard())


def phases(recorder: Recorder, step: int = -1) -> dict[str, int]:
    note = recorder.done[step]  # type: ignore[index]
    return note[4]


def test_inner_phases_are_taken_out_of_the_outer(recorder: Recorder, clock: Clock) -> None:
    outer, inner = PhaseBlock(recorder, "forward"), PhaseBlock(recorder, "attention")
    with StepBlock(recorder):
        with outer:
            clock.pass_(10)
            with inner:
                clock.pass_(5)
            clock.pass_(1)
            with inner:
                clock.pass_(5)
        clock.pass_(100)
    assert phases(recorder) == {"forward": 11, "attention": 10}


def test_the_same_phase_inside_itself_counts_once(recorder: Recorder, clock: Clock) -> None:
    with StepBlock(recorder), PhaseBlock(recorder, "a"):
        clock.pass_(3)
        with PhaseBlock(recorder, "a"):
            clock.pass_(4)
        clock.pass_(5)
    assert phases(recorder) == {"a": 12}


def test_time_told_afterwards_is_taken_out_of_the_open_phase(recorder: Recorder, clock: Clock) -> None:
    with StepBlock(recorder), PhaseBlock(recorder, "forward"):
        clock.pass_(10)
        recorder.add_phase("grad_sync", 4)
        clock.pass_(1)
    assert phases(recorder) == {"forward": 7, "grad_sync": 4}


def test_a_step_begins_with_the_wait_for_its_data(recorder: Recorder, clock: Clock) -> None:
    clock.pass_(20)
    recorder.add_phase("data", 20)
    with StepBlock(recorder):
        clock.pass_(5)
    with StepBlock(recorder):
        clock.pass_(7)
    first, second = recorder.done  # type: ignore[misc]
    assert (first[3] - first[2], first[4]) == (25, {"data": 20})
    assert (second[3] - second[2], second[4]) == (7, {})


def test_a_phase_between_steps_belongs_to_the_next(recorder: Recorder, clock: Clock) -> None:
    with PhaseBlock(recorder, "data"):
        clock.pass_(20)
    with StepBlock(recorder):
        clock.pass_(5)
    note = recorder.done[0]  # type: ignore[index]
    assert (note[3] - note[2], note[4]) == (25, {"data": 20})


def test_phases_that_overlap_are_closed_in_order(recorder: Recorder, clock: Clock) -> None:
    one, two = PhaseBlock(recorder, "one"), PhaseBlock(recorder, "two")
    with StepBlock(recorder):
        one.__enter__()
        clock.pass_(1)
        two.__enter__()
        clock.pass_(2)
        one.__exit__(None, None, None)
        two.__exit__(None, None, None)
    assert phases(recorder) == {"one": 1, "two": 2}
    assert recorder.phase is None


def test_a_phase_left_open_ends_with_its_step(recorder: Recorder, clock: Clock) -> None:
    block = PhaseBlock(recorder, "forward")
    with StepBlock(recorder):
        block.__enter__()
        clock.pass_(6)
    block.__exit__(None, None, None)
    assert phases(recorder) == {"forward": 6}


def test_what_is_logged_right_after_a_step_belongs_to_it(recorder: Recorder) -> None:
    recorder.log({"before": 1.0})
    with StepBlock(recorder):
        recorder.log({"loss": 2.0})
    recorder.log({"late": 3.0})
    assert recorder.done[0][5] == {"before": 1.0, "loss": 2.0, "late": 3.0}  # type: ignore[index]


def test_the_last_step_is_left_a_moment_for_what_is_logged_after_it(recorder: Recorder, clock: Clock) -> None:
    for _ in range(3):
        with StepBlock(recorder):
            pass
    assert [note[1] for note in recorder.take_steps(10)] == [0, 1]
    clock.pass_(2_000_000_000)
    assert [note[1] for note in recorder.take_steps(10)] == [2]
    recorder.log({"too late": 1.0})
    with StepBlock(recorder):
        pass
    assert recorder.done[0][5] == {"too late": 1.0}  # type: ignore[index]


def test_a_step_waits_for_the_device_and_is_told_in_order(recorder: Recorder) -> None:
    copy = Copy({"loss": 0.5}, {"forward": 7})
    with StepBlock(recorder):
        recorder.add_later(copy)
    with StepBlock(recorder):
        pass
    assert len(recorder.done) == 0
    copy.is_computed = True
    with StepBlock(recorder):
        pass
    first, *_ = notes = list(recorder.done)  # type: ignore[call-overload]
    assert [note[1] for note in notes] == [0, 1, 2]
    assert (first[5], first[6]) == ({"loss": 0.5}, {"forward": 7})


def test_a_device_far_behind_costs_the_value_but_not_the_step(recorder: Recorder) -> None:
    for _ in range(recorder_module.WAITING_STEPS + 3):
        with StepBlock(recorder):
            recorder.add_later(Copy({"loss": 0.5}))
    assert [note[1] for note in recorder.done] == [0, 1, 2]  # type: ignore[union-attr]
    assert recorder.guard.counts() == {"device value": 3}


def test_only_the_programs_thread_asks_the_device(recorder: Recorder, clock: Clock) -> None:
    copy = Copy({"loss": 0.5})
    with StepBlock(recorder):
        recorder.add_later(copy)
    asked = copy.asked
    assert recorder.take_steps(10) == []
    clock.pass_(60_000_000_000)  # the steps have stopped: the step is told without it
    assert [note[1] for note in recorder.take_steps(10)] == [0]
    assert copy.asked == asked


def test_the_last_step_before_a_long_checkpoint_keeps_its_values(recorder: Recorder, clock: Clock) -> None:
    copy = Copy({"loss": 0.5})
    with StepBlock(recorder):
        recorder.add_later(copy)
    with Checkpoint(recorder, "ckpt", 0):
        clock.pass_(600_000_000_000)
        copy.is_computed = True
        assert recorder.take_steps(10) == []
    assert [(note[1], note[5]) for note in recorder.take_steps(10)] == [(0, {"loss": 0.5})]
    assert recorder.guard.counts() == {}


def test_the_beginning_of_a_checkpoint_asks_the_device_too(recorder: Recorder, clock: Clock) -> None:
    copy = Copy({"loss": 0.5})
    with StepBlock(recorder):
        recorder.add_later(copy)
    copy.is_computed = True
    with Validation(recorder, 0):
        clock.pass_(2_000_000_000)
        assert [note[5] for note in recorder.take_steps(10)] == [{"loss": 0.5}]


def test_a_checkpoint_that_hangs_does_not_keep_the_steps_before_it(recorder: Recorder, clock: Clock) -> None:
    with StepBlock(recorder):
        recorder.add_later(Copy({"loss": 0.5}))
    recorder.begin_activity("checkpoint")
    clock.pass_(recorder_module.LONGEST_ACTIVITY_NS + 1)
    assert [note[1] for note in recorder.take_steps(10)] == [0]
    assert recorder.guard.counts() == {"device value": 1}


def test_a_checkpoint_written_by_another_thread_does_not_ask_the_device(recorder: Recorder) -> None:
    copy = Copy({"loss": 0.5})
    with StepBlock(recorder):
        recorder.add_later(copy)
    asked = copy.asked

    def save() -> None:
        with Checkpoint(recorder, "ckpt", 0):
            pass

    saving = threading.Thread(target=save)
    saving.start()
    saving.join()
    assert copy.asked == asked


def test_activities_nest(recorder: Recorder) -> None:
    with Checkpoint(recorder, "ckpt", 0):
        with Validation(recorder, 0):
            assert recorder.activity == "validation"
        assert recorder.activity == "checkpoint"
    assert recorder.activity is None
    saving, validating = Checkpoint(recorder, "ckpt", 0), Validation(recorder, 0)
    saving.__enter__()  # in a thread of its own, say
    validating.__enter__()
    saving.__exit__(None, None, None)
    assert recorder.activity == "validation"
    validating.__exit__(None, None, None)
    assert recorder.activity is None


def test_values_of_a_validation_outlive_a_step_that_fails(recorder: Recorder) -> None:
    copy, validation = Copy({"loss": 0.25}), Validation(recorder, 7)
    validation.lasted(1_000)
    validation.take(copy)
    with pytest.raises(ValueError), StepBlock(recorder):
        raise ValueError
    assert not validation.is_sure
    copy.is_computed = True
    with StepBlock(recorder):
        pass
    assert validation.is_sure
    assert validation.fields()["values"] == {"loss": 0.25}
    assert recorder.done[0][5] == {}  # type: ignore[index]


def test_a_handler_of_the_programs_log_may_use_the_sdk_from_any_thread(recorder: Recorder) -> None:
    """What a device failed to compute is said while steps settle: nothing must be held then."""

    class Broken(Copy):
        def read(self) -> Reading:
            raise RuntimeError("device-side assert")

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            other = threading.Thread(target=recorder.note, args=("log", text), daemon=True)
            other.start()
            other.join(10)

    copy = Broken({})
    copy.is_computed = True
    handler = Noting()
    logging.getLogger("trilens").addHandler(handler)
    try:
        with StepBlock(recorder):
            recorder.add_later(copy)
        (note,) = recorder.take_records()["notes"]
    finally:
        logging.getLogger("trilens").removeHandler(handler)
    assert "device-side assert" in str(note["text"])


def test_a_signal_that_comes_while_steps_settle_may_use_the_sdk(recorder: Recorder) -> None:
    """Python runs a handler in the thread that is inside, between any two lines of it."""

    class Interrupted(Copy):
        def ready(self) -> bool:
            self.asked += 1
            if self.asked == 1:
                recorder.log({"at": 1.0})
                recorder.note("signal", "SIGTERM")
            return True

    with StepBlock(recorder):
        recorder.add_later(Interrupted({"loss": 0.5}))
    assert recorder.done[0][5]["loss"] == 0.5  # type: ignore[index]
    assert [note["kind"] for note in recorder.take_records()["notes"]] == ["signal"]


def test_at_the_end_the_device_is_given_a_moment(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy({"loss": 0.5})

    def compute(_: float) -> None:
        copy.is_computed = True

    monkeypatch.setattr(recorder_module, "sleep", compute)
    with StepBlock(recorder):
        recorder.add_later(copy)
    recorder.settle_all(1.0)
    assert recorder.done[0][5] == {"loss": 0.5}  # type: ignore[index]


def test_an_exception_is_noted_with_its_phase_and_its_samples(recorder: Recorder) -> None:
    batch = Seen()
    with pytest.raises(ValueError, match="bad batch"), StepBlock(recorder):
        recorder.add_batch(batch)
        with PhaseBlock(recorder, "forward"), PhaseBlock(recorder, "attention"):
            raise ValueError("bad batch\nand more")
    with StepBlock(recorder):
        pass
    assert list(recorder.aborted) == [(0, 0, [batch])]
    (note,) = recorder.take_records()["notes"]
    assert note["text"] == "step 0 ended in attention by ValueError: bad batch"
    assert (recorder.done[0][0], recorder.done[0][1]) == (1, 1)  # type: ignore[index]
    assert recorder.steps_done == 1


def test_an_exception_that_a_phase_caught_is_not_blamed_for_the_next(recorder: Recorder) -> None:
    with pytest.raises(KeyError), StepBlock(recorder):
        with pytest.raises(ValueError), PhaseBlock(recorder, "forward"):
            raise ValueError
        raise KeyError
    assert "forward" not in str(recorder.take_records()["notes"][0]["text"])


def test_a_step_that_was_not_ended_ends_where_the_next_begins(recorder: Recorder, clock: Clock) -> None:
    recorder.begin_step()
    clock.pass_(5)
    recorder.begin_step()
    recorder.end_step()
    recorder.end_step()
    assert [note[1] for note in recorder.done] == [0, 1]  # type: ignore[union-attr]
    assert recorder.guard.counts() == {"step end": 1, "step": 1}


def test_step_numbers_may_go_back_and_each_is_told(recorder: Recorder) -> None:
    for step in (5, None, 3, None):
        recorder.begin_step(step)
        recorder.end_step()
    assert [(note[0], note[1]) for note in recorder.done] == [(0, 5), (1, 6), (2, 3), (3, 4)]  # type: ignore[union-attr]


@pytest.mark.parametrize("number", ["seven", -1, 2**60, [1]], ids=["text", "negative", "huge", "list"])
def test_a_step_number_that_is_none_becomes_the_next(recorder: Recorder, number: object) -> None:
    recorder.begin_step(4)
    recorder.end_step()
    recorder.begin_step(number)  # type: ignore[arg-type]
    recorder.end_step()
    assert recorder.done[1][1] == 5  # type: ignore[index]
    assert recorder.guard.counts() == {"step number": 1}


def test_counts_of_samples_come_from_the_step_or_from_what_was_added(recorder: Recorder) -> None:
    recorder.add_samples(3, 30)
    recorder.add_samples(4)
    recorder.begin_step()
    recorder.end_step(tokens=99)
    recorder.begin_step()
    recorder.end_step(samples="many")  # type: ignore[arg-type]
    first, second = recorder.done  # type: ignore[misc]
    assert (first[7], first[8], second[7], second[8]) == (7, 99, None, None)
    assert recorder.guard.counts() == {"count of samples": 1}
    for number in (-1, 2**60, float("nan")):
        assert recorder.whole(number) is None
    assert recorder.whole(3.0) == 3
    assert recorder.guard.counts() == {"count of samples": 4}
