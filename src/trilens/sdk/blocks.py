"""The `with` blocks of a run: a step, and a phase in it. Made once and used again, which is cheaper."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from trilens.sdk.recorder import told_apart

if TYPE_CHECKING:
    from types import TracebackType

    from trilens.sdk.recorder import Recorder


class StepBlock:
    """`with run.step():`. One object for all steps: they do not nest."""

    __slots__ = ("_recorder", "number", "samples", "tokens")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.number: int | None = None
        self.samples: int | None = None
        self.tokens: int | None = None

    def __enter__(self) -> None:
        self._recorder.begin_step(self.number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._recorder.end_step(self.samples, self.tokens)
        else:
            self._recorder.abort_step(error)


class PhaseBlock:
    """`with run.phase("forward"):`. One object for each name.

    The common case, one phase after another inside a step, is done here without a further call.
    """

    __slots__ = ("_name", "_recorder")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name

    def __enter__(self) -> None:
        recorder = self._recorder
        if recorder.in_step and recorder.phase is None and recorder.device_clock is None:
            recorder.phase = self._name
            recorder._mark_ns = monotonic_ns()
        else:
            recorder.enter_phase(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = self._recorder
        name = self._name
        if recorder.phase is name and not recorder._outer and recorder.device_clock is None:
            ns = monotonic_ns() - recorder._mark_ns
            phases = recorder._phases
            phases[name] = phases[name] + ns if name in phases else ns
            recorder.phase = None
        else:
            recorder.leave_phase(name)
        if error is not None and (recorder.failed_in is None or recorder.failed_in[0] != id(error)):
            recorder.failed_in = (*told_apart(error), name)
