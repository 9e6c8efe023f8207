"""Range functions on whole matrices against a naive evaluation of one window at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_range import VALUE_FUNCTIONS, extrapolated, last_two, quantile, window

from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource

STALE = "stale"
VALUES = st.one_of(
    st.integers(-5, 50).map(float),
    st.floats(-1e6, 1e6),
    st.sampled_from([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e100, -1e100, STALE]),
)
COUNTERS = st.integers(0, 1000).map(float)


def series_of(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[tuple[int, object]]]:
    """Samples at irregular times, some of them exactly where windows begin and end."""
    gaps = st.lists(
        st.tuples(st.sampled_from([1, 500, 1000, 1000, 1000, 2500, 7000]), values), min_size=0, max_size=30
    )

    def place(items: list[tuple[int, object]]) -> list[tuple[int, object]]:
        at, placed = 0, []
        for gap, value in items:
            at += gap
            placed.append((at, value))
        return placed

    return gaps.map(place)


def load(all_series: list[list[tuple[int, object]]]) -> tuple[Engine, list[list[tuple[int, float]]]]:
    """An engine over the series, and the same series without their staleness markers."""
    source = MemorySource()
    for i, samples in enumerate(all_series):
        written = [(t, STALE_NAN if v is STALE else v) for t, v in samples]
        source.add({"__name__": "m_total", "i": str(i)}, written)
    return Engine(source), [[(t, v) for t, v in samples if v is not STALE] for samples in all_series]


def answers(engine: Engine, query: str, start: int, end: int, step: int) -> dict[tuple[int, int], float]:
    """(series, time) -> value, for all that is present."""
    result = engine.range(query, start, end, step, QueryGuard())
    present = np.ones(result.values.shape, bool) if result.present is None else result.present
    return {
        (int(result.labels.labels(row)["i"]), int(result.steps_ms[k])): float(result.values[row, k])
        for row, k in zip(*np.nonzero(present), strict=True)
    }


def assert_same(got: dict[tuple[int, int], float], want: dict[tuple[int, int], float]) -> None:
    assert got.keys() == want.keys()
    for key, value in want.items():
        assert got[key] == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), key


RANGES = st.sampled_from([1000, 3000, 4000, 10_000, 60_000])
STEPS = st.sampled_from([500, 1000, 3000])


@pytest.mark.parametrize("function", sorted(VALUE_FUNCTIONS))
@settings(max_examples=60, deadline=None)
@given(st.lists(series_of(VALUES), min_size=1, max_size=3), RANGES, STEPS)
def test_functions_of_the_values(
    function: str, all_series: list[list[tuple[int, object]]], range_ms: int, step_ms: int
) -> None:
    if function.startswith("std"):  # a distance from a mean of 1e100 has no digits left to compare
        all_series = [[(t, v) for t, v in s if v is STALE or abs(v) < 1e99] for s in all_series]
    if function in ("sum_over_time", "avg_over_time"):
        all_series = [[(t, v) for t, v in s if v is STALE or abs(v) != 1e100] for s in all_series]
    engine, plain = load(all_series)
    got = answers(engine, f"{function}(m_total[{range_ms}ms])", 0, 30_000, step_ms)
    want = {}
    for i, samples in enumerate(plain):
        for at in range(0, 30_001, step_ms):
            values = [v for _, v in window(samples, at, range_ms)]
            if values:
                want[(i, at)] = VALUE_FUNCTIONS[function](values)
    if function.startswith("std"):
        assert got.keys() == want.keys()
        for key, value in want.items():
            assert got[key] == pytest.approx(value, rel=1e-6, abs=1e-4, nan_ok=True), key
    else:
        assert_same(got, want)


@pytest.mark.parametrize("function", ["rate", "increase", "delta"])
@settings(max_examples=60, deadline=None)
@given(st.lists(series_of(st.one_of(COUNTERS, VALUES)), min_size=1, max_size=3), RANGES, STEPS)
def test_extrapolated_changes(
    function: str, all_series: list[list[tuple[int, object]]], range_ms: int, step_ms: int
) -> None:
    engine, plain = load(all_series)
    got = answers(engine, f"{function}(m_total[{range_ms}ms])", 0, 30_000, step_ms)
    want = {}
    for i, samples in enumerate(plain):
        for at in range(0, 30_001, step_ms):
            value = extrapolated(
                window(samples, at, range_ms),
                at,
                range_ms,
                counter=function != "delta",
                per_second=function == "rate",
            )
            if value is not None:
                want[(i, at)] = value
    assert_same(got, want)


@pytest.mark.parametrize("function", ["irate", "idelta"])
@settings(max_examples=40, deadline=None)
@given(st.lists(series_of(VALUES), min_size=1, max_size=3), RANGES, STEPS)
def test_the_last_two_samples(
    function: str, all_series: list[list[tuple[int, object]]], range_ms: int, step_ms: int
) -> None:
    engine, plain = load(all_series)
    got = answers(engine, f"{function}(m_total[{range_ms}ms])", 0, 30_000, step_ms)
    want = {}
    for i, samples in enumerate(plain):
        for at in range(0, 30_001, step_ms):
            value = last_two(window(samples, at, range_ms), counter=function == "irate")
            if value is not None:
                want[(i, at)] = value
    assert_same(got, want)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(series_of(st.one_of(st.integers(-9, 9).map(float), st.just(math.nan))), min_size=1, max_size=3),
    st.sampled_from([-1.0, 0.0, 0.3, 0.5, 0.9, 1.0, 2.0, math.nan]),
)
def test_quantile_over_time(all_series: list[list[tuple[int, object]]], q: float) -> None:
    engine, plain = load(all_series)
    got = answers(engine, f"quantile_over_time({q}, m_total[4s])", 0, 30_000, 1000)
    want = {}
    for i, samples in enumerate(plain):
        for at in range(0, 30_001, 1000):
            values = [v for _, v in window(samples, at, 4000)]
            if values:
                want[(i, at)] = quantile(q, values)
    assert_same(got, want)


@settings(max_examples=60, deadline=None)
@given(st.lists(series_of(VALUES), min_size=1, max_size=3), st.sampled_from([1000, 2500, 5000]), STEPS)
def test_an_instant_selector_looks_back_to_the_latest_sample(
    all_series: list[list[tuple[int, object]]], lookback_ms: int, step_ms: int
) -> None:
    source_engine, _ = load(all_series)
    engine = Engine(source_engine._source, lookback_ms=lookback_ms)
    got = answers(engine, "m_total", 0, 30_000, step_ms)
    want = {}
    for i, samples in enumerate(all_series):
        for at in range(0, 30_001, step_ms):
            seen = [(t, v) for t, v in samples if at - lookback_ms < t <= at]
            if seen and seen[-1][1] is not STALE:
                want[(i, at)] = seen[-1][1]
    assert_same(got, want)


@settings(max_examples=40, deadline=None)
@given(st.lists(series_of(COUNTERS), min_size=1, max_size=3), STEPS)
def test_a_subquery_is_the_same_as_its_steps_taken_as_samples(
    all_series: list[list[tuple[int, object]]], step_ms: int
) -> None:
    engine, _ = load(all_series)
    inner = answers(engine, "m_total", -10_000, 30_000, 2000)
    got = answers(engine, "max_over_time(m_total[7s:2s])", 0, 30_000, step_ms)
    want: dict[tuple[int, int], float] = {}
    for i in range(len(all_series)):
        samples = sorted((t, v) for (j, t), v in inner.items() if j == i)
        for at in range(0, 30_001, step_ms):
            values = [v for _, v in window(samples, at, 7000)]
            if values:
                want[(i, at)] = max(values)
    assert_same(got, want)


def test_long_windows_take_the_doubling_path_to_the_same_answer() -> None:
    """Overlapping windows of many samples are reduced by blocks, to the same answer as one by one."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=2000)
    source = MemorySource()
    source.add({"__name__": "m_total", "i": "0"}, [(1000 * t, float(v)) for t, v in enumerate(values)])
    engine = Engine(source)
    for function, reduce in (("sum_over_time", math.fsum), ("max_over_time", max), ("min_over_time", min)):
        got = answers(engine, f"{function}(m_total[500s])", 600_000, 1_900_000, 1000)
        for (_, at), value in got.items():
            second = at // 1000
            assert value == pytest.approx(reduce(values[second - 499 : second + 1]), rel=1e-9, abs=1e-9)
