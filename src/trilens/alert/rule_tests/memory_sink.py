"""Where the rules of a test record: the same memory that its queries read."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.labels import LabelFrame, make_labels
from trilens.model.series import AppendOutcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Labels
    from trilens.model.series import Floats, Handles, Times
    from trilens.promql.memory import MemorySource


class MemorySink:
    """A SampleSink for one thread."""

    def __init__(self, memory: MemorySource) -> None:
        self._memory = memory
        self._handles: dict[Labels, int] = {}
        self._labels: list[dict[str, str]] = []

    def series(self, labels: Labels) -> int:
        if labels not in self._handles:
            self._handles[labels] = len(self._labels)
            self._labels.append(dict(labels))
        return self._handles[labels]

    def series_of(self, labels: LabelFrame) -> Handles:
        rows = (self.series(make_labels(labels.labels(row))) for row in range(len(labels)))
        return np.fromiter(rows, np.int64, len(labels))

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        return np.ones(len(handles), bool)

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        for handle, at_ms, value in zip(handles.tolist(), t_ms.tolist(), values.tolist(), strict=True):
            self._memory.add(self._labels[handle], [(at_ms, value)])
        return AppendOutcome(len(handles))

    def durable(self) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        """Nobody asks a test for it."""
