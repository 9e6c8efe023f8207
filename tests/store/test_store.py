"""The store as a whole: what was appended is read back, from memory, from disk, and from both joined."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from reopening import reopening

from trilens.model.errors import IntakeError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import GridRequest, SelectRequest
from trilens.store.chunks import CHUNK_BYTES
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = 1_700_000_000_000
STEP = 15_000
SMALL = 100 * CHUNK_BYTES


@pytest.fixture
def reopen(location: str | Path) -> Iterator[Callable[..., Store]]:
    where = {"url": location} if isinstance(location, str) else {"data_dir": location}

    def open_one(**changes: object) -> Store:
        # These samples are from 2023, and must not expire while the test looks at them.
        return Store.open(StoreOptions(**where, retention=timedelta(days=5000), **changes), upkeep=False)

    with reopening(open_one) as again:
        yield again


def fill(store: Store, series: int, steps: int, begin: int = NOW) -> None:
    refs = np.array(
        [store.series(make_labels({METRIC_NAME: "power", "gpu": str(i)})) for i in range(series)], np.int32
    )
    for k in range(steps):
        t = np.full(series, begin + k * STEP, dtype=np.int64)
        assert store.append(refs, t, np.arange(series) + k / 1000).accepted == series


def read(store: Store, start: int, end: int, *matchers: Matcher) -> dict[str, list[tuple[int, float]]]:
    wanted = matchers or (Matcher(METRIC_NAME, "=", "power"),)
    found = store.select(SelectRequest(wanted, start, end), QueryGuard())
    assert found.warnings == ()
    block = found.samples
    return {
        found.labels.labels(i)["gpu"]: list(
            zip(
                block.t[block.offsets[i] : block.offsets[i + 1]].tolist(),
                block.v[block.offsets[i] : block.offsets[i + 1]].tolist(),
                strict=True,
            )
        )
        for i in range(len(found.labels))
    }


def expected(series: int, steps: range) -> dict[str, list[tuple[int, float]]]:
    return {str(i): [(NOW + k * STEP, i + k / 1000) for k in steps] for i in range(series)}


def test_appended_samples_are_read_at_once(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 3, 50)
    assert read(store, NOW - 1, NOW + 49 * STEP) == expected(3, range(50))
    assert read(store, NOW, NOW + 10 * STEP) == expected(3, range(1, 11))


def test_a_window_too_small_is_joined_with_the_disk(reopen: Callable[..., Store]) -> None:
    store = reopen(recent_bytes=SMALL)
    fill(store, 20, 300)
    assert store._window.floors(np.arange(20)).max() > NOW
    assert read(store, NOW - 1, NOW + 299 * STEP) == expected(20, range(300))
    one = Matcher("gpu", "=", "7")
    assert read(store, NOW - 1, NOW + 299 * STEP, one) == {"7": expected(20, range(300))["7"]}


def test_all_is_there_after_opening_again(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 5, 40)
    store.describe("power", "gauge", "watts", "W")
    store = reopen()
    assert read(store, NOW - 1, NOW + 39 * STEP) == expected(5, range(40))
    assert store.metadata("power")["power"][0].help == "watts"
    fill(store, 5, 60, begin=NOW + 40 * STEP)
    held = read(store, NOW - 1, NOW + 99 * STEP)
    assert [len(v) for v in held.values()] == [100] * 5


def test_order_is_remembered_across_opening(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 2, 10)
    store = reopen()
    ref = np.array([store.series(make_labels({METRIC_NAME: "power", "gpu": "1"}))], dtype=np.int32)

    def append(k: int, value: float) -> tuple[int, ...]:
        return store.append(ref, np.array([NOW + k * STEP]), np.array([value]))

    assert append(9, 1 + 9 / 1000).repeated == 1
    assert append(9, 5.0).duplicate == 1
    assert append(8, 5.0).out_of_order == 1
    assert append(10, 5.0).accepted == 1


def test_the_window_is_filled_again_after_opening(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 5, 200)
    store = reopen()
    every = np.arange(5, dtype=np.int32)
    assert store._window.read(every, NOW - 1, NOW + 199 * STEP) is None
    fill(store, 5, 1, begin=NOW + 200 * STEP)  # what comes in before the warmer is done
    store._upkeep._at_start(store._upkeep._stop)
    block = store._window.read(every, NOW + STEP, NOW + 300 * STEP)
    assert block is not None
    assert np.diff(block.offsets).tolist() == [199] * 5
    assert [len(v) for v in read(store, NOW - 1, NOW + 300 * STEP).values()] == [201] * 5


def test_out_of_order_samples_take_their_place(reopen: Callable[..., Store]) -> None:
    store = reopen(out_of_order=timedelta(minutes=10))
    fill(store, 2, 10)
    ref = np.array([store.series(make_labels({METRIC_NAME: "power", "gpu": "0"}))], dtype=np.int32)
    late = NOW + 5 * STEP + 1
    assert store.append(ref, np.array([late]), np.array([99.0])).accepted == 1
    fill(store, 2, 5, begin=NOW + 10 * STEP)
    held = read(store, NOW - 1, NOW + 14 * STEP)
    assert (late, 99.0) in held["0"]
    assert [len(held["0"]), len(held["1"])] == [16, 15]
    assert held["0"] == sorted(held["0"])


def test_history_is_loaded_behind_what_is_there(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 2, 10)
    day = 86_400_000
    labels = [make_labels({METRIC_NAME: "power", "gpu": g}) for g in ("0", "new")]
    t = np.array([NOW - 3 * day, NOW - day, NOW - 2 * day], dtype=np.int64)
    assert store.backfill(labels, np.array([0, 1, 1]), t, np.array([1.0, 2.0, 3.0])) == 3
    for held in (lambda: store, reopen):
        found = read(held(), NOW - 4 * day, NOW + 9 * STEP)
        assert found["0"][0] == (NOW - 3 * day, 1.0)
        assert len(found["0"]) == 11
        assert found["new"] == [(NOW - 2 * day, 3.0), (NOW - day, 2.0)]


def test_a_plain_selector_is_answered_by_the_window(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 3, 50)
    request = GridRequest(
        (Matcher(METRIC_NAME, "=", "power"),), "instant", NOW, NOW + 600_000, 60_000, 300_000
    )
    found = store.grid(request, QueryGuard())
    assert found is not None
    assert found.values[1].tolist() == [1 + 4 * k / 1000 for k in range(11)]
    assert found.present is None


def test_series_without_samples_in_the_range_are_left_out(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 2, 10)
    assert read(store, NOW + 20 * STEP, NOW + 30 * STEP) == {}
    assert read(store, NOW - 30 * STEP, NOW - 20 * STEP) == {}
    assert store.label_names(None, NOW, NOW + STEP) == [METRIC_NAME, "gpu"]
    assert store.label_values("gpu", None, NOW, NOW + STEP) == ["0", "1"]
    assert store.label_values("gpu", None, NOW + 20 * STEP, NOW + 30 * STEP) == []
    assert len(store.series_labels((Matcher("gpu", "=", "1"),), NOW, NOW + STEP)) == 1


def test_a_label_that_is_no_text_is_refused(reopen: Callable[..., Store]) -> None:
    with pytest.raises(IntakeError, match="not valid UTF-8"):
        reopen().series(((METRIC_NAME, "up"), ("job", "\ud800")))


def test_health_and_stats_tell_what_is_held(reopen: Callable[..., Store]) -> None:
    store = reopen()
    fill(store, 3, 4)
    store.durable().result()
    assert store.health().ready
    assert (store.stats().series, store.size().samples) == (3, 12)
