"""When runs wrote checkpoints and validated: pauses that are no stalls.

What one rank tells holds for all ranks of its run: usually one of them writes, and the others wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.ledger_facts import LifeKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trilens.model.ledger_facts import Facts
    from trilens.model.run import CheckpointRecord, RunId, ValidationRecord

# Runs lie one after the other on one long line of time, each with as much room: 50 days of microseconds.
_ROOM: Final = 1 << 42


class Pauses:
    """How much of a stretch of a run's time was one: of many stretches at a time."""

    def __init__(self, told: Iterable[tuple[int, int, int]], zero_us: int) -> None:
        """`told` are (number of the run, from, to) in microseconds, in any order; they may overlap."""
        self._zero_us = zero_us
        columns = np.array([*told], np.int64).reshape(-1, 3)
        run, begin, end = columns[columns[:, 2] > columns[:, 1]].T
        begin, end = self._places(run, begin), self._places(run, end)
        order = np.argsort(begin, kind="stable")
        begin, reached = begin[order], np.maximum.accumulate(end[order]) if len(end) else end
        is_new = np.ones(len(begin), np.bool_)
        is_new[1:] = begin[1:] > reached[:-1]
        self._begin = begin[is_new]
        last = np.append(np.flatnonzero(is_new)[1:], len(begin)) - 1 if len(begin) else np.zeros(0, np.int64)
        self._length = reached[last] - self._begin
        self._before = np.cumsum(self._length) - self._length

    def __len__(self) -> int:
        return len(self._begin)

    def inside(
        self, run: NDArray[np.int64], from_us: NDArray[np.int64], to_us: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if not len(self):
            return np.zeros(len(run), np.int64)
        passed: NDArray[np.int64] = np.maximum(self._until(run, to_us) - self._until(run, from_us), 0)
        return passed

    def _until(self, run: NDArray[np.int64], t_us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of all runs on the line, up to there."""
        place = self._places(run, t_us)
        at = np.searchsorted(self._begin, place, side="right") - 1
        passed = self._before[at] + np.minimum(place - self._begin[at], self._length[at])
        return np.where(at < 0, 0, passed)

    def _places(self, run: NDArray[np.int64], t_us: NDArray[np.int64]) -> NDArray[np.int64]:
        return run * _ROOM + np.clip(t_us - self._zero_us, 0, _ROOM - 1)


def pauses_of(facts: Facts, runs: Mapping[RunId, int]) -> tuple[Pauses, Pauses]:
    """Checkpoints, and these together with validations. `runs` numbers the runs that are asked about."""
    checkpoints = [_checkpoint(one, runs) for one in facts.checkpoints if _counts(one, runs)]
    validations = [_validation(one, runs) for one in facts.validations if _counts(one, runs)]
    # A pause that began days before is not told of yet, or is no pause.
    zero_us = facts.from_ms * 1000 - _ROOM // 2
    saving = Pauses(checkpoints, zero_us)
    return saving, Pauses([*checkpoints, *validations], zero_us) if validations else saving


def _counts(one: CheckpointRecord | ValidationRecord, runs: Mapping[RunId, int]) -> bool:
    return bool(one.duration_us) and one.run in runs


def _checkpoint(one: CheckpointRecord, runs: Mapping[RunId, int]) -> tuple[int, int, int]:
    return runs[one.run], one.start_ms * 1000, one.start_ms * 1000 + (one.duration_us or 0)


def _validation(one: ValidationRecord, runs: Mapping[RunId, int]) -> tuple[int, int, int]:
    return runs[one.run], one.t_ms * 1000, one.t_ms * 1000 + (one.duration_us or 0)


def loads_of(facts: Facts) -> dict[LifeKey, list[tuple[int, int]]]:
    """When each life read a checkpoint, from and to in microseconds, where it told how long that took."""
    found: dict[LifeKey, list[tuple[int, int]]] = {}
    for one in facts.checkpoints:
        if one.loaded and one.duration_us:
            begin_us = one.start_ms * 1000
            times = found.setdefault(LifeKey(one.run, one.rank, one.attempt), [])
            times.append((begin_us, begin_us + one.duration_us))
    return found
