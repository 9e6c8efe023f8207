"""Lives of ranks as numbers, here and in the engine: what steps are compared by in place of texts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.store import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.ledger_facts import LifeKey
    from trilens.model.run import RunId


class LifeClock(NamedTuple):
    life: LifeKey
    offset_us: int  # what to add to its clock to have rank 0's


# A server counts the attempts of a rank, and few runs are numbered at a time.
_ATTEMPT_BITS: Final = 20
_RANK_BITS: Final = 31
_MOST_RUNS: Final = 1 << (63 - _RANK_BITS - _ATTEMPT_BITS)


class LifeNumbers:
    """Of lives that are in order, of at most 4096 runs: their numbers rise. One is made of the place of its
    run among the runs, the rank and the attempt."""

    def __init__(self, clocks: Sequence[LifeClock]) -> None:
        self.clocks = clocks
        self.offsets: defaultdict[RunId, list[int]] = defaultdict(list)
        for (run, _, _), offset_us in clocks:
            self.offsets[run].append(offset_us)
        assert len(self.offsets) <= _MOST_RUNS
        places = {run: place for place, run in enumerate(self.offsets)}
        parts = np.array([(places[run], rank, at) for (run, rank, at), _ in clocks], np.int32)
        self.run, self.rank, self.attempt = np.ascontiguousarray(parts.T)
        run, rank, attempt = parts.T.astype(np.int64)
        self._numbers = (run << _RANK_BITS | rank) << _ATTEMPT_BITS | attempt

    @property
    def of_row(self) -> str:
        """The number of a row's life, in SQL."""
        runs = ", ".join(map(sql.text, self.offsets))
        place = f"transform(run, [{runs}], range({len(self.offsets)})::Array(Int32), toInt32(-1))"
        of_rank = f"bitShiftLeft(toInt64({place}), {_RANK_BITS}) + rank"
        return f"bitShiftLeft({of_rank}, {_ATTEMPT_BITS}) + attempt"

    def place_of(self, number: str) -> str:
        """Which of the lives a row's is, -1 for others."""
        numbers = f"[{', '.join(map(str, self._numbers))}]::Array(Int64)"
        return f"transform({number}, {numbers}, range({len(self._numbers)})::Array(Int32), toInt32(-1))"

    def offset_of(self, number: str) -> str:
        """What to add to the times of a row."""
        off = [
            (str(number), str(clock.offset_us))
            for number, clock in zip(self._numbers, self.clocks, strict=True)
            if clock.offset_us
        ]
        if not off:
            return "toInt64(0)"
        numbers, offsets = (f"[{', '.join(column)}]::Array(Int64)" for column in zip(*off, strict=True))
        return f"transform({number}, {numbers}, {offsets}, toInt64(0))"
