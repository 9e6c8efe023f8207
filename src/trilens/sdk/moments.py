"""Checkpoints and validations: told by a call, or measured by a `with` block around them."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.guard import describe
from trilens.sdk.recorder import LONGEST_ACTIVITY_NS
from trilens.sdk.sections import finite_values
from trilens.sdk.step_note import Reading
from trilens.sdk.values import as_numbers, why_no_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from trilens.sdk.recorder import Recorder
    from trilens.sdk.step_note import Later
    from trilens.sdk.training_metrics import TrainingMetrics

_LONGEST_PATH: Final = 4_096  # the server takes no longer ones, nor does Linux
_SURE_NS: Final = 200_000_000  # a `with` enters at once; what has not by then was a plain call
# The size of a checkpoint's folder that takes longer to look through is not told: records wait meanwhile, and
# at the end the program itself.
_MOST_SIZING_NS: Final = 3_000_000_000


class Moment(ABC):
    """A plain call tells it as done. Used as `with` it is timed, and an exception makes it a failure.

    The background thread tells it on, because only a moment later it is sure which of the two it was.
    """

    section = ""
    activity = ""

    def __init__(self, recorder: Recorder, step: int) -> None:
        self.recorder = recorder
        self.step = step
        self.started_ms = time_ns() // 1_000_000
        self.duration_us: int | None = None
        self.ok = True
        self.error: str | None = None
        self._begun_ns = monotonic_ns()
        self._is_open = False

    def __enter__(self) -> Any:
        self._is_open = True
        self._begun_ns = monotonic_ns()
        self.recorder.begin_activity(self.activity)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.duration_us = (monotonic_ns() - self._begun_ns) // 1000
        self.recorder.end_activity(self.activity)
        if error is not None:
            self.ok = False
            self.error = describe(error)
        self._is_open = False

    def lasted(self, ns: int) -> None:
        """For who learns of it when it is over."""
        self.duration_us = ns // 1000
        self.started_ms -= ns // 1_000_000

    @property
    def is_sure(self) -> bool:
        return not self._is_open and (
            self.duration_us is not None or monotonic_ns() - self._begun_ns > _SURE_NS
        )

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """As the protocol has them in its section."""

    @abstractmethod
    def show(self, metrics: TrainingMetrics) -> None:
        """Puts it on /metrics."""


class Checkpoint(Moment):
    section = "checkpoints"
    activity = "checkpoint"

    def __init__(self, recorder: Recorder, path: object, step: int, *, loaded: bool = False) -> None:
        super().__init__(recorder, step)
        told = recorder.guard.run("checkpoint path", _as_text, path)
        self.path = "" if told is None else told
        self.loaded = loaded
        self.size_bytes: int | None = None

    def fields(self) -> dict[str, Any]:
        if self.size_bytes is None and self.ok:
            self.size_bytes = size_of(self.path)
        return {
            "step": self.step,
            "path": self.path[:_LONGEST_PATH],
            "start_ms": self.started_ms,
            "us": self.duration_us,
            "bytes": self.size_bytes,
            "ok": self.ok,
            "error": self.error,
            "loaded": self.loaded,
        }

    def show(self, metrics: TrainingMetrics) -> None:
        if not self.loaded:
            metrics.show_checkpoint(self.step, self.ok, self.started_ms, self.duration_us, self.size_bytes)


class Validation(Moment):
    section = "validations"
    activity = "validation"

    def __init__(self, recorder: Recorder, step: int) -> None:
        super().__init__(recorder, step)
        self.values: dict[str, float] = {}
        self._unread: list[_Filling] = []

    def log(self, values: Mapping[str, object] | None = None, /, **named: object) -> None:
        """Inside the block, when the values are known. A tensor is read at a later step."""
        both = self.recorder.guard.run("value", lambda: {**(values or {}), **named})
        numbers, laters = as_numbers(both or {}, self.recorder.guard)
        self.values |= numbers
        for later in laters:
            self.take(later)

    def take(self, later: Later) -> None:
        """Values that the device has not computed yet."""
        filling = _Filling(later, self)
        self._unread.append(filling)
        self.recorder.add_aside(filling)

    def filled(self, filling: _Filling, values: Mapping[str, float]) -> None:
        self.values.update(values)
        self._unread.remove(filling)

    @property
    def is_sure(self) -> bool:
        is_late = monotonic_ns() - self._begun_ns > LONGEST_ACTIVITY_NS
        return super().is_sure and (not self._unread or is_late)

    def fields(self) -> dict[str, Any]:
        guard = self.recorder.guard
        if self._unread:
            why = "the device had not computed it long after the validation"
            guard.lost("device value", len(self._unread), why=why)
        for name in tuple(self.values):
            if (no_name := why_no_name(name)) is not None:
                del self.values[name]
                guard.lost("value", why=no_name)
        values = finite_values(self.values)
        return {"step": self.step, "t_ms": self.started_ms, "us": self.duration_us, "values": values}

    def show(self, metrics: TrainingMetrics) -> None:
        metrics.show_validation(self.values, self.duration_us)


class _Filling:
    """A `Later` whose values belong to a validation, not to the step that asks for them."""

    def __init__(self, later: Later, validation: Validation) -> None:
        self._later = later
        self._validation = validation

    def ready(self) -> bool:
        return self._later.ready()

    def read(self) -> Reading:
        self._validation.filled(self, self._later.read().values)
        return Reading()


class Moments:
    """Those that are not told yet."""

    def __init__(self, recorder: Recorder, metrics: TrainingMetrics) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._lock = threading.RLock()  # a handler of the program's for a signal may run inside it
        self._waiting: list[Moment] = []
        recorder.on_tick(self.tell_sure)

    def add(self, moment: Moment) -> None:
        if self._recorder.silent:
            return
        with self._lock:
            self._waiting.append(moment)

    def tell_sure(self) -> None:
        self._tell(only_sure=True)

    def tell_all(self) -> None:
        self._tell(only_sure=False)

    def _tell(self, *, only_sure: bool) -> None:
        with self._lock:
            due = [moment for moment in self._waiting if moment.is_sure or not only_sure]
            self._waiting = [moment for moment in self._waiting if moment not in due]
        for moment in due:
            fields = self._recorder.guard.run(moment.section, moment.fields)
            if fields is not None:
                self._recorder.record(moment.section, fields)
                self._recorder.guard.run("metric", moment.show, self._metrics)


def _as_text(path: object) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    return os.fsdecode(text) if isinstance(text, bytes) else str(text)


def size_of(path: str) -> int | None:
    """Of a file, or of all files of a folder. None when it is not there: it may lie in an object store."""
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - cheaper than pathlib over many files
            return os.stat(path).st_size  # noqa: PTH116
        total, until_ns = 0, monotonic_ns() + _MOST_SIZING_NS
        for folder, _, names in os.walk(path):
            for name in names:
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
                if monotonic_ns() > until_ns:
                    return None
    except OSError:
        return None
    return total
