"""Where an iterable dataset stands, where it tells.

A dataset tells by a method `trilens_position()` that returns (shard, offset): the shard it reads, and how
many of its samples it has given so far. It is asked in the program's own process: only where no workers read.
"""

from __future__ import annotations

import contextlib
from typing import Any

from trilens.sdk.data.batch import SampleBatch


class Position:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._shard: str | None = None
        self._offset = 0

    def begun(self) -> None:
        """Resumed datasets do not begin at zero; others may not know yet where they begin."""
        with contextlib.suppress(Exception):
            self._shard, self._offset = self._asked()

    def advance(self, size: int | None, name: str, epoch: int | None) -> SampleBatch:
        """The samples since it was last asked. A batch over the end of a shard begins in one and ends in
        another: how many of it came from the first is not known."""
        shard, offset = self._asked()
        first = self._offset if shard == self._shard else 0
        self._shard, self._offset = shard, offset
        count = offset - first
        if count < 0 or (size is not None and count != size):
            why = "the batch spans shards" if first == 0 else "the dataset's position does not fit the batch"
            return SampleBatch(None, dataset=name, epoch=epoch, size=size, unknown=why)
        return SampleBatch(range(first, offset), dataset=name, shard=shard, epoch=epoch)

    def _asked(self) -> tuple[str | None, int]:
        shard, offset = self._dataset.trilens_position()
        return (None if shard is None else str(shard)), int(offset)
