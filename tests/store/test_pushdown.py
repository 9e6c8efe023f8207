"""Leaves computed in the engine: what the engine's functions do not know is added around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import QueryCancelled, QueryTooLarge
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, GridRequest
from trilens.store import pushdown
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, insert_samples, samples_table
from trilens.store.pushdown import AGGREGATES, Aggregate, Pushdown

if TYPE_CHECKING:
    from trilens.store.engine import Engine

T0 = 1_760_000_000_000
MINUTE = 60_000


def put(engine: Engine, samples: dict[int, list[tuple[int, float]]], metric: str = "power") -> None:
    """Samples by series; times in milliseconds after T0."""
    rows = [(series, T0 + t, v) for series, points in samples.items() for t, v in points]
    ids, t, v = zip(*rows, strict=True)
    batch = SampleBatch(
        np.array(ids, np.uint64), [metric], np.zeros(len(rows), np.int32), np.array(t), np.array(v)
    )
    insert_samples(engine, Horizon(), samples_table(batch))


def request(function: str, steps: int = 3, *, range_ms: int = MINUTE, start: int = 0) -> GridRequest:
    """Steps a minute apart."""
    begin = T0 + start
    return GridRequest((), function, begin, begin + (steps - 1) * MINUTE, MINUTE, range_ms)


def read(
    engine: Engine, wanted: GridRequest, *ids: int, every: bool = True, guard: QueryGuard | None = None
) -> list[list[float | None]] | None:
    found = Pushdown(engine).read(wanted, np.array(ids, np.uint64), ["power"], every, guard or QueryGuard())
    if found is None:
        return None
    return [
        [v if there else None for v, there in zip(row, mask, strict=True)]
        for row, mask in zip(found[0].tolist(), found[1].tolist(), strict=True)
    ]


def test_ranges_are_open_at_the_left(engine: Engine) -> None:
    put(engine, {1: [(-MINUTE, 1.0), (0, 2.0), (1, 4.0), (MINUTE, 8.0)]})
    assert read(engine, request("sum_over_time"), 1) == [[2.0, 12.0, None]]
    assert read(engine, request("instant"), 1) == [[2.0, 8.0, None]]


def test_a_marker_ends_a_plain_selector_and_is_no_sample_of_a_range(engine: Engine) -> None:
    put(engine, {1: [(-10, 5.0), (10, 6.0), (20, STALE_NAN), (MINUTE + 1, STALE_NAN), (MINUTE + 2, 7.0)]})
    assert read(engine, request("instant"), 1) == [[5.0, None, 7.0]]
    assert read(engine, request("last_over_time"), 1) == [[5.0, 6.0, 7.0]]
    assert read(engine, request("count_over_time"), 1) == [[1.0, 1.0, 1.0]]


def test_a_number_is_kept_where_a_marker_has_the_same_time(engine: Engine) -> None:
    for value in (STALE_NAN, 3.0, STALE_NAN, 2.0):
        put(engine, {1: [(0, value)]})
    assert read(engine, request("instant", 1), 1) == [[3.0]]
    assert read(engine, request("count_over_time", 1), 1) == [[1.0]]
    assert read(engine, request("sum_over_time", 1), 1) == [[3.0]]


def test_not_a_number_is_a_value(engine: Engine) -> None:
    put(engine, {1: [(0, np.nan)]})
    found = read(engine, request("instant", 1), 1)
    assert found is not None
    assert np.isnan(found[0][0])


@pytest.mark.parametrize("every", [True, False])
def test_series_come_in_the_order_asked_for(engine: Engine, every: bool) -> None:
    put(engine, {2**64 - 1: [(0, 4.0)], 7: [(0, 1.0)], 9: [(0, 2.0)], 8: [(0, 3.0)]})
    put(engine, {1: [(0, 9.0)]}, metric="other")
    wanted = (5, 7, 9, 2**64 - 1)
    assert read(engine, request("instant", 1), *wanted, every=every) == [[None], [1.0], [2.0], [4.0]]


def test_nothing_asked_for(engine: Engine) -> None:
    put(engine, {1: [(0, 1.0)]})
    assert read(engine, request("instant", 1)) == []


@pytest.mark.parametrize("function", ["sum_over_time", "avg_over_time", "irate"])
def test_what_is_not_finite_is_left_to_the_samples(engine: Engine, function: str) -> None:
    put(engine, {1: [(-2, -1.7e308), (-1, 1.7e308), (0, np.inf)], 2: [(-1, 1.0), (0, 2.0)]})
    assert read(engine, request(function, 1), 1, 2) is None
    assert read(engine, request(function, 1), 2, every=False) is not None


def test_points_count_against_the_limit(engine: Engine) -> None:
    put(engine, {1: [(0, 1.0)]})
    with pytest.raises(QueryTooLarge):
        read(engine, request("instant", 11), 1, guard=QueryGuard(max_samples=10))


def test_a_cancelled_query_is_not_begun(engine: Engine) -> None:
    guard = QueryGuard()
    guard.cancel()
    with pytest.raises(QueryCancelled):
        read(engine, request("instant", 1), 1, guard=guard)


def test_an_engine_without_a_function_is_not_asked_for_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(Pushdown(engine).takes(request(function)) for function in AGGREGATES)
    monkeypatch.setitem(AGGREGATES, "resets", Aggregate("timeSeriesNeverHeardOfToGrid"))
    assert not Pushdown(engine).takes(request("resets"))
    assert Pushdown(engine).takes(request("delta"))
    monkeypatch.setattr(pushdown, "_SETTINGS", ("allow_what_nobody_knows",))
    assert not any(Pushdown(engine).takes(request(function)) for function in AGGREGATES)


def test_what_is_not_taken(embedded: Engine) -> None:
    way = Pushdown(embedded)
    assert not way.takes(request("rate"))
    assert not way.takes(request("changes"))
    assert not way.takes(GridRequest((), "instant", T0, T0 + MINUTE, 15_000, MINUTE))  # steps too narrow
    assert way.takes(GridRequest((), "max_over_time", T0, T0, 1, MINUTE))
    assert not way.takes(request("instant", start=-T0))  # looks at times before 1970
    assert not way.takes(request("instant", start=1 << 44))
