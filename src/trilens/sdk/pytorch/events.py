"""Times on the device: one event wherever the program's phase changes, read when the device has come past it.

An event is recorded, never waited for. The time between two of them is that of the phase between them, so
that an inner phase is taken out of the one around it, as it is on the host's clock. Nothing is recorded
while a CUDA graph is being captured: it would become a part of the graph.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import torch

from trilens.sdk.guard import describe
from trilens.sdk.step_note import Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.sdk.recorder import Recorder

_MOST_MARKS: Final = 4096  # in one step: a program whose steps never end must not use up all events
_KEPT: Final = 1024  # free ones; more are in use only when the device is dozens of steps behind


def is_capturing(device: int) -> bool:
    """Whether what is done there now becomes a part of a CUDA graph. To ask of a device sets it up."""
    if torch.cuda.current_device() == device:
        return bool(torch.cuda.is_current_stream_capturing())
    with torch.cuda.device(device):
        return bool(torch.cuda.is_current_stream_capturing())


class EventPool:
    """Of one device: an event stays with the one it was first recorded on. Making one costs more than using
    one again. Appending to and taking from a deque needs no lock."""

    def __init__(self, *, timing: bool) -> None:
        self._timing = timing
        self._free: deque[Any] = deque(maxlen=_KEPT)

    def record(self, stream: Any) -> Any:
        """A mark in the stream, now."""
        try:
            event = self._free.popleft()
        except IndexError:
            event = torch.cuda.Event(enable_timing=self._timing)
        event.record(stream)
        return event

    def give_back(self, events: Iterable[Any]) -> None:
        self._free.extend(events)


_pools: dict[tuple[int, bool], EventPool] = {}


def event_pool(device: int, *, timing: bool) -> EventPool:
    """One for all runs of the process."""
    return _pools.setdefault((device, timing), EventPool(timing=timing))


class DevicePhases:
    """The phases of one step on the device, as far as they were marked. A `Later`."""

    def __init__(self, pool: EventPool, device: int) -> None:
        self._pool = pool
        self._device = device
        self._marks: list[Any] = []
        self._last: dict[int, Any] = {}  # of each stream: the device comes past the others before it
        self._spans: list[tuple[str, Any, Any]] = []

    def mark(self, stream: Any) -> Any:
        if len(self._marks) >= _MOST_MARKS:
            raise RuntimeError(f"more than {_MOST_MARKS} changes of phase in one step")
        event = self._pool.record(stream)
        self._marks.append(event)
        self._last[stream.cuda_stream] = event
        return event

    def add(self, phase: str, start: Any, end: Any) -> None:
        self._spans.append((phase, start, end))

    def ready(self) -> bool:
        if self._last and not is_capturing(self._device):  # asking an event would end the capture
            if not all(event.query() for event in self._last.values()):
                return False
            self._last = {}
        return not self._last

    def read(self) -> Reading:
        phases_us: dict[str, int] = {}
        for phase, start, end in self._spans:
            phases_us[phase] = phases_us.get(phase, 0) + round(start.elapsed_time(end) * 1000)
        self._give_back()
        return Reading({}, phases_us)

    def __del__(self) -> None:
        self._give_back()  # to record one again that the device has not come past yet is allowed

    def _give_back(self) -> None:
        self._pool.give_back(self._marks)
        self._marks = []
        self._last = {}
        self._spans = []


class DeviceClock:
    """Told by the recorder of each change of phase. Marks one device, and only while the thread that tells
    uses it: to touch another would make CUDA set that one up too, in hundreds of megabytes of its memory."""

    def __init__(self, recorder: Recorder, device: int) -> None:
        self._recorder = recorder
        self._device = device
        self._pool = event_pool(device, timing=True)
        self._step: DevicePhases | None = None
        self._step_n = -1
        self._since: Any = None

    def phase_changed(self, left: str | None, entered: str | None) -> None:
        since, self._since = self._since, None
        try:
            self._mark(since, left, entered)
        except Exception as error:  # noqa: BLE001 - as the guard does, without a call a phase
            self._recorder.guard.lost("device phase", why=describe(error))

    def _mark(self, since: Any, left: str | None, entered: str | None) -> None:
        stream = torch.cuda.current_stream()  # to ask for it touches no device
        if stream.device_index != self._device or torch.cuda.is_current_stream_capturing():
            return
        step = self._step
        if step is None or self._step_n != self._recorder.n:
            step = self._step = DevicePhases(self._pool, self._device)
            self._step_n = self._recorder.n
            self._recorder.add_later(step)
            since = None
        now = step.mark(stream)
        if left is not None and since is not None:
            step.add(left, since, now)
        if entered is not None:
            self._since = now
