"""What a case asks of the metrics."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest

from trilens.diagnose.figures import FIGURES
from trilens.model.errors import QueryError
from trilens.promql.memory import MemorySource
from trilens.promql.parse import parse
from trilens.serve.cases.series import Places, ask_series, filled_in
from trilens.serve.own_queries import EmbeddedQueries, SeenSeries, Times

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERYWHERE = Places(["GPU-1", "GPU-2"], ["n.1"], ["p-0"], ["r"], "ml", "lab", "train")
HOUR_MS = 3_600_000


class Refusing:
    async def series(self, query: str, times: Times) -> Sequence[SeenSeries]:
        raise QueryError("the samples are elsewhere")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda one: one.name)
def test_every_figure_is_a_query_of_what_the_case_is_about(figure: object) -> None:
    query = filled_in(figure.query, EVERYWHERE)  # type: ignore[attr-defined]
    assert query is not None
    assert "$" not in query
    parse(query)


def test_names_are_taken_as_they_are() -> None:
    query = filled_in('x{node=~"$nodes", UUID=~"$gpus"}', EVERYWHERE)
    assert query == 'x{node=~"n\\\\.1", UUID=~"GPU\\\\-1|GPU\\\\-2"}'
    assert filled_in('x{run=~"$runs"}', EVERYWHERE._replace(runs=())) is None


async def test_few_points_of_a_long_time_and_none_where_nothing_was_said() -> None:
    source = MemorySource()
    labels = {"__name__": "trilens:gpu_power:watts", "UUID": "GPU-1"}
    source.add(labels, [(t, float(t)) for t in range(HOUR_MS // 2, HOUR_MS + 1, 15_000)])
    found = await ask_series(EmbeddedQueries(source), EVERYWHERE, 0, HOUR_MS, math.inf)
    (power,) = found.series["gpu-power"]
    assert power.labels["UUID"] == "GPU-1"
    assert len(power.t_ms) == len(power.values) <= 240
    assert (power.t_ms[0] >= HOUR_MS // 2, power.t_ms[-1]) == (True, HOUR_MS)
    assert found.series["gpu-temperature"] == ()
    assert found.missing == ()


async def test_what_cannot_be_asked_is_missing() -> None:
    found = await ask_series(Refusing(), EVERYWHERE, 0, HOUR_MS, math.inf)  # type: ignore[arg-type]
    assert found.series == {}
    assert "the samples are elsewhere" in found.missing[0].what


async def test_what_has_not_come_in_time_is_missing() -> None:
    class Slow:
        async def series(self, query: str, times: Times) -> Sequence[SeenSeries]:
            if "gpu_power" not in query:
                await asyncio.Event().wait()
            return []

    soon = asyncio.get_running_loop().time() + 0.1
    found = await ask_series(Slow(), EVERYWHERE, 0, HOUR_MS, soon)  # type: ignore[arg-type]
    assert "gpu-power" in found.series
    assert "gpu-temperature" not in found.series
    assert found.missing[0].what.endswith(": no answer in time")
