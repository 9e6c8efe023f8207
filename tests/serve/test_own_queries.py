"""Queries of the server's own, asked of the samples in this process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from trilens.promql.memory import MemorySource
from trilens.serve.own_queries import EmbeddedQueries, Times

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.model.series import Selected, SelectRequest

MINUTE = 60_000


class Crowd(MemorySource):
    """Knows how many read at a time. A first reader stays a while, for others to come."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._readers = 0
        self._another = threading.Event()

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        self._readers += 1
        self.most = max(self.most, self._readers)
        if self._readers > 1:
            self._another.set()
        self._another.wait(0.1)
        try:
            return super().select(request, guard)
        finally:
            self._readers -= 1


async def test_matrices_are_computed_one_after_the_other() -> None:
    source = Crowd()
    for name in ("x", "y", "z"):
        source.add({"__name__": name, "gpu": "0"}, [(MINUTE, 1.0), (3 * MINUTE, 3.0)])
    queries = EmbeddedQueries(source)
    times = Times(MINUTE, MINUTE, 3)
    asked = [queries.matrix(f"sum by (gpu) (last_over_time({name}[1m]))", times, ("gpu",)) for name in "xyz"]
    found = await asyncio.gather(*asked)
    assert source.most == 1
    for one in found:
        assert one.keys == [("0",)]
        assert str(one.values.tolist()) == "[[1.0, nan, 3.0]]"
