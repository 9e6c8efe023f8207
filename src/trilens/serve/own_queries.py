"""Queries that the server itself asks, wherever the samples are: here, or at `source.url`."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from trilens.model.errors import SourceError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from trilens.promql.source import SeriesSource
    from trilens.serve.upstream import Upstream

T = TypeVar("T")


class Shown(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Times(NamedTuple):
    """So many moments, `step_ms` apart."""

    start_ms: int
    step_ms: int
    moments: int

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.step_ms * (self.moments - 1)


class Matrix(NamedTuple):
    """A row for each series, a column for each moment; NaN where there is nothing."""

    keys: list[tuple[str, ...]]  # of each series the values of the labels that were asked for
    values: NDArray[np.float64]


class SeenSeries(NamedTuple):
    """One series of a range; moments at which it said nothing are not among them."""

    labels: Mapping[str, str]
    t_ms: tuple[int, ...]
    values: tuple[float, ...]


class OwnQueries(Protocol):
    async def vector(self, query: str) -> Sequence[Shown]:
        """What a query that gives a vector shows now. Raises TrilensError where there is no answer."""

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        """The same at several moments. Series are told apart by `labels`: the query keeps no others."""

    async def series(self, query: str, times: Times) -> Sequence[SeenSeries]:
        """The same with all labels that there are, for few series."""


class EmbeddedQueries:
    """Matrices are computed one after the other, however many are asked for at once: each may be of a whole
    fleet, and side by side they would take as many times the memory, and a third more of the processor.
    Where somebody waits for them, a few `at_once` are worth it."""

    def __init__(
        self,
        samples: SeriesSource,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        at_once: int = 1,
    ) -> None:
        self._samples = samples
        self._now_ms = now_ms
        self._matrices = ThreadPoolExecutor(at_once, thread_name_prefix="own-matrices")

    async def vector(self, query: str) -> Sequence[Shown]:
        return await _computed(None, lambda guard: self._look(query, guard))

    def _look(self, query: str, guard: QueryGuard) -> list[Shown]:
        answer = Engine(self._samples).instant(query, self._now_ms(), guard)
        return [
            Shown(answer.labels.labels(row), float(answer.values[row, 0]))
            for row in range(len(answer.labels))
        ]

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        return await _computed(self._matrices, lambda guard: self._compute(query, times, labels, guard))

    def _compute(self, query: str, times: Times, labels: tuple[str, ...], guard: QueryGuard) -> Matrix:
        start_ms, step_ms, _ = times
        answer = Engine(self._samples).range(query, start_ms, times.end_ms, step_ms, guard)
        symbols = answer.labels.symbols
        columns = [symbols.texts(answer.labels.column(name).tolist()) for name in labels]
        values = answer.values
        if answer.present is not None:
            values = np.where(answer.present, values, np.nan)
        return Matrix(list(zip(*columns, strict=True)), values)

    async def series(self, query: str, times: Times) -> Sequence[SeenSeries]:
        return await _computed(self._matrices, lambda guard: self._compute_series(query, times, guard))

    def _compute_series(self, query: str, times: Times, guard: QueryGuard) -> list[SeenSeries]:
        start_ms, step_ms, _ = times
        answer = Engine(self._samples).range(query, start_ms, times.end_ms, step_ms, guard)
        there = answer.present if answer.present is not None else ~np.isnan(answer.values)
        found = []
        for row in range(len(answer.labels)):
            at = np.flatnonzero(there[row])
            moments = tuple((start_ms + at * step_ms).tolist())
            found.append(
                SeenSeries(answer.labels.labels(row), moments, tuple(answer.values[row, at].tolist()))
            )
        return found


async def _computed(where: Executor | None, compute: Callable[[QueryGuard], T]) -> T:
    """In another thread. Who does not want the answer any more waits until the thread has left off, too: what
    it reads may be closed next."""
    guard = QueryGuard()
    computing = asyncio.get_running_loop().run_in_executor(where, compute, guard)
    try:
        return await asyncio.shield(computing)
    except asyncio.CancelledError:
        guard.cancel()
        while not computing.done():  # whoever gives up first, and then the server that stops, cancel this
            with suppress(asyncio.CancelledError):
                await asyncio.wait([computing])
        computing.exception()  # that it was cancelled: nobody else asks, and the loop would log it
        raise


class UpstreamQueries:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def vector(self, query: str) -> Sequence[Shown]:
        answer = await self._upstream.instant(query)
        self._check(answer)
        try:
            return [Shown(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
        except (LookupError, TypeError, ValueError) as e:
            raise SourceError(f"the metric source {self._upstream.url} answered with no vector") from e

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        if times.moments == 1:
            # Not a range of one: in it VictoriaMetrics looks back for no longer than its step.
            answer = await self._upstream.instant(query, times.start_ms)
        else:
            answer = await self._upstream.range(query, times.start_ms, times.end_ms, times.step_ms)
        self._check(answer)
        try:
            # Of a large fleet there are a million points, and others wait for this loop.
            return await asyncio.to_thread(_read_matrix, answer["data"]["result"], times, labels)
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise SourceError(f"the metric source {self._upstream.url} answered with no matrix") from e

    async def series(self, query: str, times: Times) -> Sequence[SeenSeries]:
        answer = await self._upstream.range(query, times.start_ms, times.end_ms, times.step_ms)
        self._check(answer)
        try:
            return [
                SeenSeries(
                    one["metric"],
                    tuple(round(float(t_s) * 1000) for t_s, _ in one["values"]),
                    tuple(float(value) for _, value in one["values"]),
                )
                for one in answer["data"]["result"]
            ]
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise SourceError(f"the metric source {self._upstream.url} answered with no matrix") from e

    def _check(self, answer: Mapping[str, Any]) -> None:
        if answer.get("status") != "success":
            raise SourceError(
                f"the metric source {self._upstream.url} refused a query: {answer.get('error')}"
            )


def _read_matrix(rows: list[Any], times: Times, labels: tuple[str, ...]) -> Matrix:
    values = np.full((len(rows), times.moments), np.nan)
    for row, one in enumerate(rows):
        t_s, texts = zip(*(one["values"] if "values" in one else [one["value"]]), strict=True)
        columns = np.rint((np.array(t_s) * 1000 - times.start_ms) / times.step_ms).astype(np.intp)
        values[row, columns] = np.array(texts, np.float64)
    return Matrix([tuple(one["metric"].get(name, "") for name in labels) for one in rows], values)
