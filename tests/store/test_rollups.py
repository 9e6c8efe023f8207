"""Rollups against a plain loop over the samples, and that they stay right when samples come late."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.series import STALE_NAN, stale_mask
from trilens.store.backfill import write_tables
from trilens.store.horizon import NOTHING_ROLLED, Horizon
from trilens.store.inserts import SampleBatch, insert_samples, samples_table
from trilens.store.rollups import WIDTHS, RollupJob, Rollups, dirty_hours, read_rollups, roll
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from trilens.store.engine import Engine

T0 = 1_760_000_400_000 // HOUR_MS * HOUR_MS
FOREVER = (-(1 << 60), 1 << 60)


def expected(
    ids: list[int], t: list[int], v: list[float], width: int
) -> dict[tuple[int, int], dict[str, float]]:
    """One window after another, one sample after another."""
    windows: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for i, at, value in zip(ids, t, v, strict=True):
        windows.setdefault((i, math.ceil(at / width) * width), []).append((at, value))
    result = {}
    for key, samples in windows.items():
        ended = bool(stale_mask(np.array([samples[-1][1]]))[0])
        samples = [(t, x) for t, x in samples if not stale_mask(np.array([x]))[0]]
        values = [x for _, x in samples]
        numbers = [x for x in values if not math.isnan(x)]
        falls = [a for a, b in pairwise(values) if b < a]
        result[key] = {
            "samples": len(values),
            "special": sum(not math.isfinite(x) for x in values),
            "min": min(numbers, default=math.nan),
            "max": max(numbers, default=math.nan),
            "sum": float(np.sum(values)),
            "first_t": samples[0][0] if samples else None,
            "first": values[0] if samples else math.nan,
            "last_t": samples[-1][0] if samples else None,
            "last": values[-1] if samples else math.nan,
            "ended": ended,
            "resets": len(falls),
            "reset_sum": float(np.sum(falls)),
        }
    return result


def assert_same(rollups: Rollups, want: dict[tuple[int, int], dict[str, float]]) -> None:
    keys = list(zip(rollups.ids.tolist(), rollups.end_t.tolist(), strict=True))
    assert keys == sorted(want)
    for name in Rollups._fields[2:]:
        got = np.asarray(getattr(rollups, name), dtype=np.float64)
        known = [k for k, key in enumerate(keys) if want[key][name] is not None]
        wanted = [want[keys[k]][name] for k in known]
        np.testing.assert_allclose(got[known], wanted, rtol=1e-12, err_msg=name)


VALUES = st.one_of(
    st.integers(0, 50).map(float),
    st.floats(-1e9, 1e9),
    st.sampled_from([math.nan, math.inf, -math.inf, STALE_NAN]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(-400, 400), VALUES), min_size=1, max_size=60))
def test_rolled_arrays_are_what_a_loop_gives(samples: list[tuple[int, int, float]]) -> None:
    unique = {(i, t): v for i, t, v in samples}
    keys = sorted(unique)
    ids, t = [k[0] for k in keys], [k[1] for k in keys]
    v = list(np.array([unique[k] for k in keys]))  # as numpy floats, which keep a marker's bits
    got = roll(np.array(ids, np.uint64), np.array(t), np.array(v), 100)
    assert_same(got, expected(ids, t, v, 100))


class Fleet:
    """Three metrics of ten series over some hours, with resets, NaN and staleness markers."""

    def __init__(self, seed: int, hours: int) -> None:
        rng = np.random.default_rng(seed)
        times = T0 + np.arange(0, hours * HOUR_MS, 60_000)
        ids = np.arange(100, 130, dtype=np.uint64)
        self.ids = np.repeat(ids, len(times))
        self.t = np.tile(times, len(ids))
        self.v = np.cumsum(rng.integers(0, 9, self.t.size)).astype(np.float64) % 1000
        self.v[rng.random(self.v.size) < 0.01] = np.nan
        self.v[rng.random(self.v.size) < 0.01] = STALE_NAN
        self.codes = ((self.ids - 100) // 10).astype(np.int32)

    def batch(self, which: slice | np.ndarray) -> SampleBatch:
        return SampleBatch(
            self.ids[which], ["m0", "m1", "m2"], self.codes[which], self.t[which], self.v[which]
        )

    def expected(self, width: int) -> dict[tuple[int, int], dict[str, float]]:
        return expected(self.ids.tolist(), self.t.tolist(), list(self.v), width)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(3, hours=4)


def end_of(fleet: Fleet) -> int:
    return int(fleet.t.max()) + 2 * HOUR_MS


def test_closed_hours_are_rolled_up_exactly(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    RollupJob(engine, horizon).run(end_of(fleet), 0)
    for table, width in WIDTHS.items():
        assert_same(read_rollups(engine, table, None, None, *FOREVER), fleet.expected(width))
    few = read_rollups(engine, "samples_1h", ["m1"], np.array([100, 110], np.uint64), *FOREVER)
    assert set(few.ids.tolist()) == {110}


def test_the_hour_that_is_not_over_waits(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    job = RollupJob(engine, horizon, settle_ms=600_000)
    job.run(T0 + 2 * HOUR_MS + 599_999, 0)
    assert read_rollups(engine, "samples_1h", None, None, *FOREVER).end_t.max() == T0 + HOUR_MS
    job.run(T0 + 2 * HOUR_MS + 600_000, 0)
    assert read_rollups(engine, "samples_1h", None, None, *FOREVER).end_t.max() == T0 + 2 * HOUR_MS
    assert horizon.until_ms == T0 + 2 * HOUR_MS


def test_rolling_again_gives_the_same_rows(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    RollupJob(engine, horizon).run(end_of(fleet), 0)
    before = read_rollups(engine, "samples_5m", None, None, *FOREVER)
    RollupJob(engine, Horizon()).run(end_of(fleet), 0)
    after = read_rollups(engine, "samples_5m", None, None, *FOREVER)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    engine.command("OPTIMIZE TABLE samples_5m FINAL")
    stored = engine.query_arrow("SELECT count() AS n FROM samples_5m")["n"][0].as_py()
    assert stored == len(before.ids)


def test_late_samples_roll_their_hours_again(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    job = RollupJob(engine, horizon)
    late = (fleet.t > T0 + HOUR_MS) & (fleet.t <= T0 + 2 * HOUR_MS) & (fleet.t % 7 == 0)
    late |= np.arange(len(late)) % 97 == 0
    insert_samples(engine, horizon, samples_table(fleet.batch(~late)))
    job.run(end_of(fleet), 0)
    insert_samples(engine, horizon, samples_table(fleet.batch(late)))
    assert len(dirty_hours(engine)[0]) >= 4
    job.run(end_of(fleet), 0)
    assert len(dirty_hours(engine)[0]) == 0
    for table, width in WIDTHS.items():
        assert_same(read_rollups(engine, table, None, None, *FOREVER), fleet.expected(width))


def test_a_backfill_reaches_the_rollups(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon(T0 + 100 * HOUR_MS)
    halves = [fleet.batch(slice(None, None, 2)), fleet.batch(slice(1, None, 2))]
    wrote = write_tables(engine, horizon, [], halves)
    assert wrote == len(fleet.t)
    RollupJob(engine, horizon).run(T0 + 100 * HOUR_MS, 0)
    assert_same(read_rollups(engine, "samples_1h", None, None, *FOREVER), fleet.expected(HOUR_MS))


def test_hours_whose_raw_samples_expire_keep_their_rollups(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    job = RollupJob(engine, horizon)
    job.run(end_of(fleet), 0)
    engine.command("TRUNCATE TABLE samples")
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(0, 5))))
    job.run(end_of(fleet), raw_since_ms=T0 + 10 * HOUR_MS)
    assert_same(read_rollups(engine, "samples_1h", None, None, *FOREVER), fleet.expected(HOUR_MS))
    assert len(dirty_hours(engine)[0]) == 0


def test_a_mark_made_while_rolling_survives(engine: Engine, fleet: Fleet) -> None:
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(0, 60))))
    job = RollupJob(engine, horizon)
    job.run(end_of(fleet), 0)
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(0, 1))))
    rolling = job._roll_hour

    def interrupted(end_t: int) -> None:
        rolling(end_t)
        job._roll_hour = rolling  # type: ignore[method-assign]
        insert_samples(engine, horizon, samples_table(fleet.batch(slice(1, 2))))

    job._roll_hour = interrupted  # type: ignore[method-assign]
    job.run(end_of(fleet), 0)
    assert len(dirty_hours(engine)[0]) == 1


def test_progress_survives_a_restart(engine: Engine, fleet: Fleet) -> None:
    assert RollupJob.restore(engine).until_ms == NOTHING_ROLLED
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    RollupJob(engine, horizon).run(end_of(fleet), 0)
    assert RollupJob.restore(engine).until_ms == horizon.until_ms > NOTHING_ROLLED


def test_an_hour_is_rolled_in_pieces_that_fit(
    engine: Engine, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.store.rollups._CHUNK_SAMPLES", 250)
    horizon = Horizon()
    insert_samples(engine, horizon, samples_table(fleet.batch(slice(None))))
    RollupJob(engine, horizon).run(end_of(fleet), 0)
    assert_same(read_rollups(engine, "samples_1h", None, None, *FOREVER), fleet.expected(HOUR_MS))
