"""What a group of step records comes to over its ranks: few rows, from which long spans are answered."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trilens.store.run_rows import RunTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.run import BatchRecord, StepRecord

_INT: Final = pa.int64()
_TEXT: Final = pa.string()
_HIGHEST: Final = (1 << 63) - 1

CURVES: Final = RunTable(
    "run_curves",
    pa.schema(
        [
            ("run", _TEXT),
            ("value", _TEXT),
            ("step", _INT),
            ("attempt", _INT),
            ("t_us", _INT),
            ("told", _INT),
            ("total", pa.float64()),
            ("worst", pa.float64()),
            ("worst_rank", _INT),
        ]
    ),
)
SHARES: Final = RunTable(
    "run_shares",
    pa.schema(
        [
            ("run", _TEXT),
            ("attempt", _INT),
            ("step", _INT),
            ("dataset", _TEXT),
            ("shard", _TEXT),
            ("batches", _INT),
            ("samples", _INT),
            ("unknown", _INT),
        ]
    ),
)
SAMPLES: Final = RunTable(
    "run_samples",
    pa.schema(
        [
            ("sample", _INT),
            ("run", _TEXT),
            ("dataset", _TEXT),
            ("shard", _TEXT),
            ("name", _TEXT),
            ("step", _INT),
            ("rank", _INT),
            ("attempt", _INT),
            ("n", _INT),
            ("epoch", _INT),
        ]
    ),
)


class _Value:
    """One value at one step, over ranks."""

    __slots__ = ("t_us", "told", "total", "worst", "worst_rank")

    def __init__(self, t_us: int, value: float, rank: int) -> None:
        self.t_us = t_us
        self.told = 1
        self.total = value
        self.worst = value
        self.worst_rank = rank

    def add(self, t_us: int, value: float, rank: int) -> None:
        self.t_us = min(self.t_us, t_us)
        self.told += 1
        self.total += value
        if _order(value, rank) > _order(self.worst, self.worst_rank):
            self.worst, self.worst_rank = value, rank


def _order(value: float, rank: int) -> tuple[bool, float]:
    """What is not finite is worse than anything, and the lowest rank is the first."""
    return (False, value) if math.isfinite(value) else (True, -rank)


def curve_rows(steps: Iterable[StepRecord]) -> list[tuple[object, ...]]:
    found: dict[tuple[str, str, int, int], _Value] = {}
    for step in steps:
        for name, value in step.values.items():
            key = (step.run, name, step.step, step.attempt)
            known = found.get(key)
            if known is None:
                found[key] = _Value(step.start_us, value, step.rank)
            else:
                known.add(step.start_us, value, step.rank)
    return [(*key, v.t_us, v.told, v.total, v.worst, v.worst_rank) for key, v in found.items()]


def share_rows(batches: Iterable[BatchRecord]) -> list[tuple[object, ...]]:
    found: dict[tuple[str, int, int, str, str | None], list[int]] = {}
    for batch in batches:
        key = (batch.run, batch.attempt, batch.step, batch.dataset, batch.shard)
        sums = found.setdefault(key, [0, 0, 0])
        sums[0] += 1
        sums[1] += batch.size or 0
        sums[2] += batch.unknown is not None
    return [(*key, *(min(each, _HIGHEST) for each in sums)) for key, sums in found.items()]


def sample_rows(batches: Iterable[BatchRecord]) -> Iterator[tuple[object, ...]]:
    """A row for each sample that was told by itself; ranges are found by their bounds."""
    for batch in batches:
        whose = (batch.step, batch.rank, batch.attempt, batch.n, batch.epoch)
        for sample in batch.ids:
            yield (sample, batch.run, batch.dataset, batch.shard, "", *whose)
        for name in batch.names:
            yield (text_key(name), batch.run, batch.dataset, batch.shard, name, *whose)


def text_key(name: str) -> int:
    """Where a sample with a text for an id is found among numbers."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
