"""Steps of a program that does not tell them: from the wait for data, or the forward, to the optimizer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trilens.sdk.recorder import Recorder


class Steps:
    """Once a step was seen that the program began itself, steps are left to it. Of several optimizers the
    last one that was named closes a step; where none was named, the first one that steps."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begun_here: int | None = None
        self._program_tells = False
        self._closing: weakref.ref[Any] | None = None

    def begin(self) -> None:
        recorder = self._recorder
        if recorder.in_step:
            if self._begun_here != recorder.n:
                self._program_tells = True
        elif not self._program_tells:
            recorder.begin_step()
            self._begun_here = recorder.n

    def close_with(self, optimizer: Any) -> None:
        self._closing = weakref.ref(optimizer)

    def after(self, optimizer: Any) -> None:
        """It has stepped."""
        closing = None if self._closing is None else self._closing()
        if closing is None:
            self.close_with(optimizer)
        elif closing is not optimizer:
            return
        recorder = self._recorder
        if recorder.in_step and self._begun_here == recorder.n:
            recorder.end_step()

    def forget(self) -> None:
        _steps.pop(self._recorder, None)


_steps: dict[Recorder, Steps] = {}


def steps_of(recorder: Recorder) -> Steps:
    """One for all models of a run, until it is finished: a GAN's two make one step together."""
    steps = _steps.get(recorder)
    if steps is None:
        steps = _steps[recorder] = Steps(recorder)
        recorder.at_finish(steps.forget)
    return steps
