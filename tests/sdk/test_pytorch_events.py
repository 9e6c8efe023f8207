"""Times and values that a device tells later. The device is made up: on a real one, tools/try-sdk-on-gpu
looks."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from recorded_steps import new_recorder, steps_of
from trilens.sdk.devices import Devices
from trilens.sdk.pytorch import cuda, events, logged
from trilens.sdk.pytorch.events import DeviceClock
from trilens.sdk.recorder import Recorder


class Device:
    """Comes past a mark every millisecond, but only when it is let."""

    def __init__(self) -> None:
        self.queued_ms = 0
        self.done_ms = 0
        self.made = 0
        self.asked = 0
        self.capturing = False
        self.current = 0
        self.stream = 7
        self.blocked: set[int] = set()  # streams that come past nothing

    def catch_up(self) -> None:
        self.done_ms = self.queued_ms


class Stream(NamedTuple):
    device_index: int
    cuda_stream: int


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            device.made += 1
            self.timing = enable_timing

        def record(self, stream: "Stream") -> None:
            assert not device.capturing, "it would be a part of the graph"
            assert stream.device_index == getattr(self, "device_index", stream.device_index), "as CUDA does"
            self.device_index = stream.device_index
            self.stream = stream.cuda_stream
            device.queued_ms += 1
            self.at_ms = device.queued_ms

        def query(self) -> bool:
            assert not device.capturing, "it would end the capture"
            device.asked += 1
            return self.stream not in device.blocked and self.at_ms <= device.done_ms

        def elapsed_time(self, end: "Event") -> float:
            assert self.timing and end.at_ms <= device.done_ms
            assert not device.blocked & {self.stream, end.stream}
            return float(end.at_ms - self.at_ms)

    monkeypatch.setattr(events, "_pools", {})
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: device.capturing)
    monkeypatch.setattr(
        torch.cuda,
        "current_stream",
        lambda index=None: Stream(device.current if index is None else index, device.stream),
    )
    monkeypatch.setattr(torch.cuda, "current_device", lambda: device.current)
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    return device


@pytest.fixture
def recorder(device: Device) -> Recorder:
    recorder = new_recorder()
    recorder.device_clock = DeviceClock(recorder, 0)
    return recorder


def a_step(recorder: Recorder) -> None:
    recorder.begin_step()
    for name in ("forward", "backward"):
        recorder.enter_phase(name)
        recorder.leave_phase(name)
    recorder.end_step()


def finished(recorder: Recorder) -> list[dict[str, int]]:
    recorder.settle()
    done = [note[6] for note in recorder.done]
    recorder.done.clear()
    return done


def test_phases_are_told_when_the_device_has_come_past_them(recorder, device) -> None:
    a_step(recorder)
    assert finished(recorder) == []
    device.catch_up()
    assert finished(recorder) == [{"forward": 1000, "backward": 1000}]


def test_an_inner_phase_is_taken_out_of_the_outer(recorder, device) -> None:
    recorder.begin_step()
    recorder.enter_phase("optimizer")
    recorder.enter_phase("forward")
    device.queued_ms += 5
    recorder.leave_phase("forward")
    recorder.leave_phase("optimizer")
    recorder.end_step()
    device.catch_up()
    assert finished(recorder) == [{"optimizer": 2000, "forward": 6000}]


def test_the_device_is_asked_for_the_last_mark_of_the_oldest_step_only(recorder, device) -> None:
    a_step(recorder)
    assert device.asked == 1  # at the end of a step, not at its begin
    for _ in range(4):
        a_step(recorder)
    assert device.asked == 5
    device.catch_up()
    device.asked = 0
    assert len(finished(recorder)) == 5
    assert device.asked == 5


def test_phases_on_several_streams_wait_for_each_of_them(recorder, device) -> None:
    recorder.begin_step()
    recorder.enter_phase("forward")
    device.stream = 8
    recorder.leave_phase("forward")
    recorder.end_step()
    device.catch_up()
    device.blocked = {7}
    assert finished(recorder) == []
    device.blocked = set()
    assert finished(recorder) == [{"forward": 1000}]


def test_a_run_that_is_over_marks_nothing(recorder, device) -> None:
    recorder.fall_silent()
    a_step(recorder)
    assert device.made == 0


def test_events_are_used_again(recorder, device) -> None:
    for _ in range(50):
        a_step(recorder)
        device.catch_up()
        recorder.settle()
    assert device.made <= 8


def test_events_of_a_step_that_failed_are_used_again(recorder, device) -> None:
    for _ in range(50):
        recorder.begin_step()
        recorder.enter_phase("forward")
        recorder.abort_step(None)
    a_step(recorder)
    device.catch_up()
    assert finished(recorder) == [{"forward": 1000, "backward": 1000}]
    assert device.made <= 8


def test_a_step_that_never_ends_does_not_use_up_all_events(recorder, device) -> None:
    recorder.begin_step()
    for _ in range(3000):
        recorder.enter_phase("forward")
        recorder.leave_phase("forward")
    assert device.made == 4096
    assert recorder.guard.counts() == {"device phase": 2 * 3000 - 4096}


def test_nothing_is_marked_or_asked_during_a_capture(recorder, device) -> None:
    a_step(recorder)
    device.catch_up()
    device.capturing = True
    recorder.begin_step()
    recorder.enter_phase("forward")
    device.capturing = False
    recorder.leave_phase("forward")  # its beginning is not known: no time, rather than a wrong one
    recorder.end_step()
    device.catch_up()
    assert finished(recorder) == [{"forward": 1000, "backward": 1000}, {}]


def test_a_device_that_the_program_does_not_use_is_not_touched(recorder, device) -> None:
    device.current = 1
    a_step(recorder)
    assert device.made == 0
    assert finished(recorder) == [{}]


def test_a_fault_of_the_device_stays_inside(recorder, device, monkeypatch) -> None:
    def broken() -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", broken)
    a_step(recorder)
    assert finished(recorder) == [{}]
    assert recorder.guard.counts() == {"device phase": 4}


# -- values -------------------------------------------------------------------------------------------------


@pytest.fixture
def on_device(device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[..., torch.Tensor]:
    """Makes tensors that look as if they were on the device; its copies arrive when it comes past their
    mark."""
    monkeypatch.setattr(logged, "_slots", {})
    real = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *args, pin_memory, **kwargs: real(*args, **kwargs))

    def made_on(index: int) -> type[torch.Tensor]:
        class OnDevice(torch.Tensor):
            @property
            def device(self) -> torch.device:  # type: ignore[override]
                return torch.device("cuda", index)

        return OnDevice

    kinds = [made_on(0), made_on(1)]
    return lambda value, index=0: torch.tensor(value).as_subclass(kinds[index])


def test_a_value_is_read_when_the_device_has_it(recorder, device, on_device) -> None:
    recorder.begin_step()
    loss = on_device(2.5).requires_grad_() * 1
    recorder.log({"loss": loss, "n": 3})
    assert not any(slot.requires_grad for _, slot, _ in recorder._laters[-1]._named)  # no graph is kept
    with torch.no_grad():
        loss.fill_(100.0)
    recorder.end_step()
    recorder.settle()
    assert not recorder.done
    device.catch_up()
    recorder.settle()
    assert [note[5] for note in recorder.done] == [{"n": 3, "loss": 2.5}]


def test_a_value_logged_after_the_step_belongs_to_it(recorder, device, on_device) -> None:
    recorder.device_clock = None
    for number in (1.0, 2.0):
        recorder.begin_step()
        recorder.end_step()
        recorder.log({"loss": on_device(number)})
    device.catch_up()
    recorder.settle()
    assert [note[5] for note in recorder.done] == [{"loss": 1.0}, {"loss": 2.0}]


def test_values_of_two_devices_do_not_share_events(recorder, device, on_device) -> None:
    for index in (0, 1, 0):
        recorder.begin_step()
        recorder.log({"loss": on_device(float(index), index)})
        recorder.end_step()
        device.catch_up()
        recorder.settle()
    assert [note[5] for note in recorder.done] == [{"loss": 0.0}, {"loss": 1.0}, {"loss": 0.0}]
    assert recorder.guard.counts() == {}


def test_more_values_than_can_wait_are_counted(recorder, device, on_device) -> None:
    recorder.begin_step()
    for number in range(600):
        recorder.log({str(number): on_device(1.0)})
    recorder.end_step()
    assert recorder.guard.counts() == {"value": 88}
    device.catch_up()
    recorder.settle()
    assert len(recorder.done[0][5]) == 512
    recorder.done.clear()
    recorder.begin_step()
    recorder.log({"again": on_device(1.0)})  # the places are free again
    recorder.end_step()
    assert recorder.guard.counts() == {"value": 88}


def test_a_tensor_logged_during_a_capture_is_counted(recorder, device, on_device) -> None:
    recorder.begin_step()
    device.capturing = True
    recorder.log({"loss": on_device(1.0), "grad_norm": on_device(2.0)})
    device.capturing = False
    recorder.end_step()
    assert recorder.guard.counts() == {"value": 2}
    assert [step.values for step in steps_of(recorder)] == [{}]


# -- memory -------------------------------------------------------------------------------------------------


class Gpu(NamedTuple):
    name: str
    uuid: str


def figures(reserved: int) -> dict[str, object]:
    return {
        "allocated_bytes": {"all": {"current": reserved // 2, "peak": reserved}},
        "reserved_bytes": {"all": {"current": reserved, "peak": reserved}},
        "num_alloc_retries": 3,
        "num_ooms": 1,
    }


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Two are visible; what this process has reserved on each."""
    reserved = {0: 0, 1: 0}
    seen = [Gpu("NVIDIA H200", "aaaa"), Gpu("NVIDIA H200", "bbbb")]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(seen))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: seen[device])
    monkeypatch.setattr(
        torch.cuda,
        "memory_stats_as_nested_dict",
        lambda device: figures(reserved[device]) if reserved[device] else {},
    )
    return reserved


def test_memory_is_told_of_the_gpu_that_the_process_uses(gpus: dict[int, int]) -> None:
    recorder = new_recorder()
    devices = Devices(recorder)
    devices.look()
    assert recorder.metrics.families() == {}
    assert recorder.gpus == ()
    gpus[1] = 1024
    devices.look()
    assert recorder.gpus == ("GPU-bbbb",)
    assert recorder.device_clock is not None
    labels = (("device", "1"), ("UUID", "GPU-bbbb"))
    assert {name: family.series for name, family in recorder.metrics.families().items()} == {
        "training_cuda_allocated_bytes": {labels: 512},
        "training_cuda_allocated_peak_bytes": {labels: 1024},
        "training_cuda_reserved_bytes": {labels: 1024},
        "training_cuda_alloc_retries_total": {labels: 3},
        "training_cuda_ooms_total": {labels: 1},
    }


def test_of_several_gpus_none_is_timed_unless_the_model_is_watched(gpus: dict[int, int]) -> None:
    recorder = new_recorder()
    gpus.update({0: 1024, 1: 1024})
    Devices(recorder).look()
    assert recorder.gpus == ("GPU-aaaa", "GPU-bbbb")
    assert recorder.device_clock is None


def test_a_program_without_cuda_has_no_such_metrics() -> None:
    recorder = new_recorder()
    Devices(recorder).look()
    assert recorder.metrics.families() == {}


def test_the_documentation_names_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    missing = [name for name, *_ in (*cuda._GAUGES, *cuda._COUNTERS) if f"`{name}`" not in page]
    assert missing == []
