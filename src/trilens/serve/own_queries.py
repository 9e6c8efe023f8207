"""Instant queries that the server itself asks, wherever the samples are: here, or at `source.url`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trilens.model.errors import SourceError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.promql.source import SeriesSource
    from trilens.serve.upstream import Upstream


class Shown(NamedTuple):
    labels: Mapping[str, str]
    value: float


class OwnQueries(Protocol):
    async def vector(self, query: str) -> Sequence[Shown]:
        """What a query that gives a vector shows now. Raises TrilensError where there is no answer."""


class EmbeddedQueries:
    def __init__(self, samples: SeriesSource) -> None:
        self._samples = samples

    async def vector(self, query: str) -> Sequence[Shown]:
        now_ms = time.time_ns() // 1_000_000
        answer = await asyncio.to_thread(Engine(self._samples).instant, query, now_ms, QueryGuard())
        return [
            Shown(answer.labels.labels(row), float(answer.values[row, 0]))
            for row in range(len(answer.labels))
        ]


class UpstreamQueries:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def vector(self, query: str) -> Sequence[Shown]:
        answer = await self._upstream.instant(query)
        if answer.get("status") != "success":
            raise SourceError(
                f"the metric source {self._upstream.url} refused a query: {answer.get('error')}"
            )
        try:
            return [Shown(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
        except (LookupError, TypeError, ValueError) as e:
            raise SourceError(f"the metric source {self._upstream.url} answered with no vector") from e
