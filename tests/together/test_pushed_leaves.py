"""Leaves that the engine computes, beside the same computed from samples by our own evaluator."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, Gridded, GridRequest, stale_mask
from trilens.promql.engine import Engine as PromQL
from trilens.promql.memory import MemorySource
from trilens.store import strips
from trilens.store.chunks import CHUNK_BYTES
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, insert_samples, samples_table
from trilens.store.options import StoreOptions
from trilens.store.pushdown import AGGREGATES
from trilens.store.rows import SampleRows, once_each
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.engine import Engine

T0 = 1_760_000_000_000
MINUTE = 60_000
_NAMES = itertools.count()

SERIES = 40
STEP = 30_000
NOW = int(time.time() * 1000) // STEP * STEP
HOURS = 4
BEGIN = NOW - HOURS * 3_600_000

plain = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
odd = st.sampled_from([0.0, -0.0, np.inf, -np.inf, 1e308, -1e308, 1e16, -1e16, 5e-324, STALE_NAN])
counter = st.integers(0, 5).map(float)
# At one time a number may stand beside a marker or NaN, but not these two: which stays is then not defined.
values = st.one_of(plain, counter, odd)
times = st.integers(-10 * MINUTE, 20 * MINUTE) | st.integers(-10, 20).map(lambda k: k * MINUTE)
series = st.lists(st.tuples(times, values), max_size=40) | st.lists(
    st.tuples(times, st.sampled_from([1.0, 2.0, np.nan])), max_size=20
)


@pytest.fixture(autouse=True)
def nothing_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise so few samples would be read, and kept."""
    monkeypatch.setattr(strips, "_FEW", -1)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    """(times, values of every series), with endings here and there."""
    rng = np.random.default_rng(11)
    t = np.arange(BEGIN, NOW, STEP)
    v = np.round(rng.normal(300, 40, (SERIES, len(t))), 2)
    v[rng.random(v.shape) < 0.02] = STALE_NAN
    return t, v


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, data: tuple[np.ndarray, np.ndarray]) -> Iterator[Store]:
    """Its memory holds only the last minutes."""
    options = StoreOptions(
        data_dir=tmp_path_factory.mktemp("pushed") / "data",
        recent_bytes=4 * SERIES * CHUNK_BYTES,
        retention=timedelta(days=3),
    )
    opened = Store.open(options, upkeep=False)
    refs = np.array(
        [opened.series(make_labels({METRIC_NAME: "power", "gpu": str(i)})) for i in range(SERIES)], np.int32
    )
    for k, t in enumerate(data[0].tolist()):
        opened.append(refs, np.full(SERIES, t), data[1][:, k])
    opened._writer.durable().result(timeout=60)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def memory(data: tuple[np.ndarray, np.ndarray]) -> MemorySource:
    source = MemorySource()
    for i in range(SERIES):
        source.add({METRIC_NAME: "power", "gpu": str(i)}, zip(data[0].tolist(), data[1][i], strict=True))
    return source


def put(engine: Engine, metric: str, drawn: list[list[tuple[int, float]]]) -> MemorySource:
    """The same samples in the engine, repeats and all, and in memory, each time once."""
    source = MemorySource()
    rows = [(i, T0 + t, v) for i, points in enumerate(drawn) for t, v in points]
    if not rows:
        return source
    ids, t, v = (np.array(column) for column in zip(*rows, strict=True))
    ids = ids.astype(np.uint64)
    batch = SampleBatch(ids, [metric], np.zeros(len(rows), np.int32), t, v)
    insert_samples(engine, Horizon(), samples_table(batch))
    order = np.lexsort((t, ids))
    once = once_each(SampleRows(ids[order], t[order], v[order]))
    for i in np.unique(once.ids).tolist():
        mine = once.ids == i
        source.add({METRIC_NAME: metric, "i": str(i)}, zip(once.t[mine].tolist(), once.v[mine], strict=True))
    return source


def reference(source: MemorySource, metric: str, wanted: GridRequest) -> dict[int, dict[int, float]]:
    """Step by step, what is there."""
    ranged = f"{wanted.function}({metric}[{wanted.range_ms}ms])"
    expr = metric if wanted.function == "instant" else ranged
    found = PromQL(source, lookback_ms=wanted.range_ms).range(
        expr, wanted.start_ms, wanted.end_ms, wanted.step_ms, QueryGuard()
    )
    return {
        int(found.labels.labels(i)["i"]): {
            k: v
            for k, v in enumerate(found.values[i].tolist())
            if found.present is None or found.present[i, k]
        }
        for i in range(len(found.labels))
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=st.lists(series, min_size=1, max_size=6),
    start=st.integers(-MINUTE, MINUTE) | st.just(0),
    step=st.sampled_from([MINUTE, 5 * MINUTE, 61_003]),
    range_ms=st.sampled_from([MINUTE, 5 * MINUTE, 1, 123_456]),
)
def test_the_engine_computes_what_promql_means(
    store: Store, drawn: list[list[tuple[int, float]]], start: int, step: int, range_ms: int
) -> None:
    metric = f"m{next(_NAMES)}"
    source = put(store._engine, metric, drawn)
    ids = np.arange(len(drawn), dtype=np.uint64)
    pushdown = store._reader._pushdown
    for function in AGGREGATES:
        wanted = GridRequest((), function, T0 + start, T0 + start + 12 * MINUTE, step, range_ms)
        found = pushdown.read(wanted, ids, [metric], True, QueryGuard())
        if found is None:
            continue  # left to the samples
        expected = reference(source, metric, wanted)
        for i, (row, mask) in enumerate(zip(*found, strict=True)):
            there = {k: row[k] for k in np.flatnonzero(mask).tolist()}
            want = expected.get(i, {})
            assert there.keys() == want.keys(), function
            got = list(there.values())
            assert not stale_mask(np.array(got, dtype=np.float64)).any(), function
            assert got == pytest.approx(list(want.values()), rel=1e-9, abs=0.0, nan_ok=True), function


def table(result) -> dict[str, dict[int, float]]:
    return {
        result.labels.labels(i)["gpu"]: {
            k: v
            for k, v in enumerate(result.values[i].tolist())
            if result.present is None or result.present[i, k]
        }
        for i in range(len(result.labels))
    }


QUERIES = [
    "power",
    "power offset 20m",
    "power offset -3m",
    'power{gpu=~"1|2|3"}',
    "last_over_time(power[7m])",
    "avg_over_time(power[7m] offset 11m)",
    "sum_over_time(power[1h] @ end())",
    "resets(power[10m])",
    "irate(power[3m])",
    "delta(power[11m])",
]


@pytest.mark.parametrize("expr", QUERIES)
def test_the_store_answers_as_the_samples_do(store: Store, memory: MemorySource, expr: str) -> None:
    span = (BEGIN + 600_007, NOW + 7, 97_000, QueryGuard())
    got, want = table(PromQL(store).range(expr, *span)), table(PromQL(memory).range(expr, *span))
    assert got.keys() == want.keys()
    for gpu, values in want.items():
        assert got[gpu] == pytest.approx(values, rel=1e-9, abs=1e-9)


def grid(store: Store, function: str) -> object:
    """Up to a step just after the newest sample."""
    matchers = (Matcher(METRIC_NAME, "=", "power"),)
    start = NOW + 7 - 120 * 97_000
    return store.grid(GridRequest(matchers, function, start, NOW + 7, 97_000, 300_000), QueryGuard())


@pytest.mark.parametrize("function", sorted(AGGREGATES))
def test_the_engine_is_asked_where_memory_is_too_short(store: Store, function: str) -> None:
    floor = int(store._window.floors(np.arange(SERIES)).max())
    assert BEGIN < floor < NOW
    assert isinstance(grid(store, function), Gridded)
    assert grid(store, "changes") is None


@pytest.mark.parametrize(("apart", "asked"), [(MINUTE, False), (MINUTE // 4, True)])
def test_the_engine_is_asked_where_a_step_sums_up_several_samples(
    store: Store, apart: int, asked: bool
) -> None:
    metric, series = f"m{next(_NAMES)}", 200
    t = np.arange(BEGIN, NOW, apart)
    ids = np.repeat(np.arange(series, dtype=np.uint64), len(t))
    batch = SampleBatch(ids, [metric], np.zeros(len(ids), np.int32), np.tile(t, series), np.zeros(len(ids)))
    insert_samples(store._engine, Horizon(), samples_table(batch))
    request = GridRequest((), "last_over_time", BEGIN + MINUTE, NOW, MINUTE, MINUTE)
    pays = store._reader._pushdown.pays
    assert pays(request, [metric], series, True, QueryGuard()) == asked
    assert pays(replace(request, step_ms=2 * MINUTE), [metric], series, True, QueryGuard())
    assert pays(request, [f"{metric}, of which there is nothing"], series, True, QueryGuard())


def test_the_engine_is_not_asked_where_samples_are_as_quick(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.store.pushdown._SAMPLES_A_STEP", 100)
    assert grid(store, "max_over_time") is None


def test_the_engine_is_asked_only_for_steps_below_the_floor(store: Store) -> None:
    matchers = (Matcher(METRIC_NAME, "=", "power"),)
    whole = GridRequest(matchers, "instant", BEGIN + 600_007, NOW + 7, 97_000, 300_000)
    chosen = store._reader.series(matchers, BEGIN, NOW, QueryGuard())
    floor = int(store._window.floors(chosen.refs).max())
    older, newer = store._reader._split(whole, chosen)
    assert newer is not None
    assert older.steps + newer.steps == whole.steps
    assert older.end_ms - older.range_ms < floor <= newer.start_ms - newer.range_ms


def test_what_was_appended_just_now_is_seen(store: Store) -> None:
    """Last of all: it adds to what the other tests read."""
    ref = np.array([store.series(make_labels({METRIC_NAME: "power", "gpu": "7"}))], np.int32)
    assert store.append(ref, np.array([NOW + 3]), np.array([12345.0])).accepted == 1
    for function in ("instant", "max_over_time"):
        found = grid(store, function)
        assert isinstance(found, Gridded)
        assert 12345.0 in found.values[:, -1]
