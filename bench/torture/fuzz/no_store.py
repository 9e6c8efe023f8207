"""Sinks that keep nothing: what grows beside them is a leak of whoever reads."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.series import AppendOutcome
from trilens.store.run_commits import as_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame, Labels
    from trilens.model.run import RankProcess, RunFacts, RunId
    from trilens.model.run_commit import Position, RunCommit
    from trilens.model.series import Floats, Handles, Times

_HELD = 1_000  # series; older ones are forgotten, as a store forgets those that are silent


class NoSamples:
    """Checks what a store relies on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = 0

    def series(self, labels: Labels) -> int:
        assert list(labels) == sorted(labels), labels
        assert len({name for name, _ in labels}) == len(labels), labels
        for name, value in labels:
            assert name, labels
            assert value, labels
            (name + value).encode()  # a lone surrogate could not be written down
        with self._lock:
            self._made += 1
            return self._made

    def series_of(self, labels: LabelFrame) -> Handles:
        return np.array(
            [self.series(tuple(labels.labels(row).items())) for row in range(len(labels))], np.int64
        )

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = handles > self._made - _HELD
        return held

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        assert [column.dtype.name for column in (handles, t_ms, values)] == ["int64", "int64", "float64"]
        assert len(handles) == len(t_ms) == len(values)
        return AppendOutcome(accepted=len(handles))

    def durable(self) -> Future[None]:
        return _done()

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        (metric + kind + help_text + unit).encode()


class NoRuns:
    def commit(self, commit: RunCommit) -> None:
        as_tables(commit)  # what a store would write

    def heard(self, process: RankProcess) -> None:
        pass

    def positions(self, run: RunId) -> list[Position]:
        return []

    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]:
        return []

    def runs(self, *, run: RunId | None = None) -> list[RunFacts]:
        return []

    def unfinished(self, since_ms: int) -> list[RankProcess]:
        return []


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done
