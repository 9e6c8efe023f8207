"""PromQL over a real store whose memory holds only the last minutes: raw rows, rollups and both joined."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, GridRequest, Summaries
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.store.options import StoreOptions
from trilens.store.reader import Reader
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.series import SampleBlock

HOUR = 3_600_000
NOW = int(time.time() * 1000)
BEGIN = (NOW - 8 * HOUR) // HOUR * HOUR
STEP = 30_000
SERIES = 6


def readings() -> dict[str, list[tuple[int, float]]]:
    """A gauge and a counter that resets, with gaps and endings."""
    rng = np.random.default_rng(5)
    found = {}
    times = np.arange(BEGIN + 1_700, NOW - STEP, STEP)
    for i in range(SERIES):
        values = np.round(rng.normal(300, 40, len(times)), 2)
        if i % 2:
            values = np.cumsum(rng.integers(0, 9, len(times))).astype(float) % 700
        values[rng.random(len(times)) < 0.02] = STALE_NAN
        kept = rng.random(len(times)) > 0.05
        gap = (times > BEGIN + 2 * HOUR) & (times < BEGIN + 3 * HOUR) & (i < 3)
        kept &= ~gap
        found[str(i)] = list(zip(times[kept].tolist(), values[kept], strict=True))
    return found


@pytest.fixture(scope="module")
def data() -> dict[str, list[tuple[int, float]]]:
    return readings()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, data: dict[str, list]) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("long") / "data"
    opened = Store.open(
        StoreOptions(data_dir=path, recent_bytes=1, retention=timedelta(days=3)), upkeep=False
    )
    for gpu, samples in data.items():
        ref = opened.series(make_labels({METRIC_NAME: "power", "gpu": gpu}))
        t = np.array([s[0] for s in samples], dtype=np.int64)
        v = np.array([s[1] for s in samples])
        opened.backfill([opened._index.labels(ref)], np.zeros(len(t), dtype=np.int64), t, v)
    opened.durable().result()
    assert opened.roll_up() >= 6
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def plain(data: dict[str, list[tuple[int, float]]]) -> MemorySource:
    source = MemorySource()
    for gpu, samples in data.items():
        source.add({METRIC_NAME: "power", "gpu": gpu}, samples)
    return source


def table(result) -> dict[tuple, list[tuple[int, float]]]:
    return {
        tuple(result.labels.labels(i).items()): [
            (k, v)
            for k, v in enumerate(result.values[i].tolist())
            if result.present is None or result.present[i, k]
        ]
        for i in range(len(result.labels))
    }


QUERIES = [
    ("power", 300_000),
    ("rate(power[5m])", 300_000),
    ("increase(power[1h])", 300_000),
    ("max_over_time(power[1h])", HOUR),
    ("sum by (gpu) (avg_over_time(power[15m]))", 900_000),
    ("count_over_time(power[2h])", HOUR),
    ("quantile_over_time(0.9, power[10m])", 300_000),
    ("power", 70_000),
    ("rate(power[7m])", 111_000),
    ("changes(power[1h])", HOUR),
]


@pytest.mark.parametrize(("expr", "step"), QUERIES)
def test_the_store_answers_as_the_samples_do(store: Store, plain: MemorySource, expr: str, step: int) -> None:
    start, end = BEGIN + 2 * HOUR, NOW // step * step
    start = start // step * step
    got = table(Engine(store).range(expr, start, end, step, QueryGuard()))
    want = table(Engine(plain).range(expr, start, end, step, QueryGuard()))
    assert got.keys() == want.keys()
    for labels, values in want.items():
        assert [k for k, _ in got[labels]] == [k for k, _ in values]
        assert [v for _, v in got[labels]] == pytest.approx([v for _, v in values], rel=1e-9, abs=1e-9)


def grid(store: Store, function: str, start: int, step: int, span: int, columns: tuple[str, ...]):
    matchers = (Matcher(METRIC_NAME, "=", "power"),)
    end = start + 5 * step
    return store.grid(GridRequest(matchers, function, start, end, step, span, columns), QueryGuard())


def test_rollups_are_used_only_where_ranges_are_made_of_their_windows(store: Store) -> None:
    start = BEGIN + 2 * HOUR
    columns = ("count", "max")
    hourly = grid(store, "max_over_time", start, HOUR, HOUR, columns)
    assert isinstance(hourly, Summaries)
    assert hourly.width_ms == HOUR
    five = grid(store, "max_over_time", start, 600_000, 300_000, columns)
    assert isinstance(five, Summaries)
    assert five.width_ms == 300_000
    assert grid(store, "max_over_time", start + 1, HOUR, HOUR, columns) is None
    assert grid(store, "max_over_time", start, 400_000, 300_000, columns) is None
    assert grid(store, "max_over_time", start, 300_000, 301_000, columns) is None


def test_what_the_newest_part_of_a_rollup_answer_warns_of_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Reader._joined

    def doubtful(self: Reader, *given: Any) -> tuple[SampleBlock, tuple[str, ...]]:
        return read(self, *given)[0], ("something may be missing",)

    monkeypatch.setattr(Reader, "_joined", doubtful)
    query = "max_over_time(power[1h])"
    # To an hour that is not over, also when one has ended since this module was loaded.
    result = Engine(store).range(query, BEGIN + HOUR, BEGIN + 10 * HOUR, HOUR, QueryGuard())
    assert "something may be missing" in str(result.warnings)


def test_late_samples_are_seen_before_their_hour_is_rolled_again(store: Store) -> None:
    late = BEGIN + 4 * HOUR + 1_234
    labels = [make_labels({METRIC_NAME: "late", "gpu": "0"})]
    engine = Engine(store)

    def largest() -> float:
        at = BEGIN + 5 * HOUR
        return float(engine.instant("max_over_time(late[1h])", at, QueryGuard()).values[0, 0])

    store.backfill(labels, np.zeros(1, dtype=np.int64), np.array([late]), np.array([1.0]))
    store.roll_up()
    assert largest() == 1.0
    store.backfill(labels, np.zeros(1, dtype=np.int64), np.array([late + 1]), np.array([9.0]))
    assert largest() == 9.0
    store.roll_up()
    assert largest() == 9.0
