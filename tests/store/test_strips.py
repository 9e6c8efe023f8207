"""The past of a few series, kept in memory: never more, less or other than the engine would say."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trilens.model.errors import StoreReadOnly
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SampleBlock, SelectRequest
from trilens.store import backfill
from trilens.store.chunks import CHUNK_BYTES
from trilens.store.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.store import Store
from trilens.store.strips import Strips

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_700_000_000_000
STEP = 15_000
HOUR = 3_600_000
LABELS = make_labels({METRIC_NAME: "power", "gpu": "0"})
POWER = (Matcher(METRIC_NAME, "=", "power"),)


def block(*series: list[int]) -> SampleBlock:
    t = np.array([t for times in series for t in times], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum([len(times) for times in series])))
    return SampleBlock(t, t.astype(float) / 10, offsets)


def ids(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(numbers, dtype=np.uint64)


def test_what_was_put_is_cut_to_what_is_asked_for() -> None:
    strips = Strips(10_000)
    strips.put(strips.generation, ids(1, 2), block([10, 20, 30], [20]), 0, 30)
    found = strips.get(ids(1, 2), 10, 20)
    assert found is not None
    assert (found.t.tolist(), found.v.tolist(), found.offsets.tolist()) == ([20, 20], [2.0, 2.0], [0, 1, 2])


def test_a_range_or_a_series_that_is_not_held_is_not_made_up() -> None:
    strips = Strips(10_000)
    strips.put(strips.generation, ids(1), block([10, 20]), 5, 25)
    assert strips.get(ids(1), 4, 25) is None
    assert strips.get(ids(1), 5, 26) is None
    assert strips.get(ids(1, 2), 5, 25) is None
    assert strips.get(ids(1), 5, 25) is not None


def test_what_was_read_before_a_change_of_the_past_is_not_kept() -> None:
    strips = Strips(10_000)
    before = strips.generation
    strips.forget()
    strips.put(before, ids(1), block([10]), 0, 20)
    assert strips.get(ids(1), 0, 20) is None


def test_memory_is_bounded_and_the_longest_unused_goes_first() -> None:
    strips = Strips(4 * (256 + 9 * 16))
    for series in (1, 2, 3):
        strips.put(strips.generation, ids(series), block(list(range(9))), -1, 100)
    assert strips.get(ids(1), 0, 50) is not None
    strips.put(strips.generation, ids(4), block(list(range(9))), -1, 100)
    strips.put(strips.generation, ids(5), block(list(range(9))), -1, 100)
    assert [strips.get(ids(series), 0, 50) is not None for series in (1, 2, 3, 4, 5)] == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert strips.bytes <= 4 * (256 + 9 * 16)
    strips.put(strips.generation, ids(6), block(list(range(40))), -1, 100)  # more than its share
    assert strips.get(ids(6), 0, 50) is None


def test_a_series_that_was_read_again_goes_with_what_it_was_read_with_last() -> None:
    strips = Strips(6 * 256)
    strips.put(strips.generation, ids(1, 2, 2), block([], [], []), 0, 30)
    strips.put(strips.generation, ids(2), block([]), 0, 60)
    assert strips.get(ids(1), 0, 30) is not None
    for other in (3, 4, 5):
        strips.put(strips.generation, ids(other), block([]), 0, 30)
    held = [strips.get(ids(series), 0, 30) is not None for series in (1, 2, 3, 4, 5)]
    assert held == [True, False, True, True, True]
    for other in (6, 7, 8):
        strips.put(strips.generation, ids(other), block([]), 0, 30)
    assert strips.bytes == 6 * 256


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With a window so small that a day reaches far below it."""
    options = StoreOptions(
        tmp_path,
        retention=timedelta(days=5000),
        out_of_order=timedelta(hours=21),
        recent_bytes=20 * CHUNK_BYTES,
    )
    opened = Store.open(options, upkeep=False)
    yield opened
    opened.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that reads samples from the engine."""
    seen: list[str] = []
    real = Engine.query_arrow

    def noted(self: Engine, statement: str, **options: object) -> object:
        if "FROM samples WHERE" in statement:
            seen.append(statement)
        return real(self, statement, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "query_arrow", noted)
    return seen


def fill(store: Store, begin: int, end: int) -> None:
    t = np.arange(begin, end, STEP, dtype=np.int64)
    handles = np.full(len(t), store.series(LABELS))
    assert store.append(handles, t, t / 1e6).accepted == len(t)
    store.durable().result()


def times(store: Store, start: int, end: int) -> list[int]:
    return store.select(SelectRequest(POWER, start, end), QueryGuard()).samples.t.tolist()


def test_a_long_range_is_read_from_the_engine_once(store: Store, reads: list[str]) -> None:
    fill(store, NOW - 20 * HOUR, NOW)
    everything = list(range(NOW - 20 * HOUR, NOW, STEP))
    assert times(store, NOW - 21 * HOUR, NOW) == everything
    assert len(reads) == 1
    fill(store, NOW, NOW + 10 * 60_000)  # the window moves on
    assert times(store, NOW - 19 * HOUR, NOW + 10 * 60_000) == [
        *everything[HOUR // STEP + 1 :],
        *range(NOW, NOW + 10 * 60_000, STEP),
    ]
    assert len(reads) == 1
    fill(store, NOW + 10 * 60_000, NOW + 12 * HOUR)  # beyond what was kept
    assert times(store, NOW - 21 * HOUR, NOW + 12 * HOUR) == list(
        range(NOW - 20 * HOUR, NOW + 12 * HOUR, STEP)
    )
    assert len(reads) == 2


@pytest.mark.parametrize("way", ["late", "backfill"])
def test_a_change_of_the_past_is_seen(store: Store, reads: list[str], way: str) -> None:
    fill(store, NOW - 20 * HOUR, NOW)
    expected = times(store, NOW - 21 * HOUR, NOW)
    for now, old in ((NOW, NOW - 18 * HOUR + 7), (NOW + STEP, NOW - 19 * HOUR + 9)):
        when, value = np.array([old]), np.array([1.0])
        if way == "late":
            assert store.append(np.array([store.series(LABELS)]), when, value).accepted == 1
        else:
            store.backfill([LABELS], np.array([0]), when, value)
        fill(store, now, now + 1)
        expected = sorted([*expected, old, now])
        assert times(store, NOW - 21 * HOUR, now) == expected
    assert times(store, NOW - 21 * HOUR, NOW + STEP) == expected
    assert len(reads) == 3


def test_a_series_that_lags_behind_is_not_taken_for_finished(tmp_path: Path) -> None:
    """Half an hour behind the newest of all its next sample is still in order, and is not missed."""
    store = Store.open(
        StoreOptions(tmp_path, retention=timedelta(days=5000), recent_bytes=20 * CHUNK_BYTES), upkeep=False
    )
    try:
        fill(store, NOW - 20 * HOUR, NOW)
        store.backfill(
            [LABELS], np.array([0]), np.array([NOW - STEP - 1]), np.array([1.0])
        )  # cuts the window
        other = store.series(make_labels({METRIC_NAME: "other"}))
        assert store.append(np.array([other]), np.array([NOW + HOUR // 2]), np.array([1.0])).accepted == 1
        store.durable().result()
        end = NOW + HOUR // 4
        assert times(store, NOW - 21 * HOUR, end)[-1] == NOW - STEP
        fill(store, NOW, end + 1)
        fill(store, end + STEP, NOW + 20 * HOUR)  # so that the window no longer has it
        assert times(store, NOW - 21 * HOUR, end)[-1] == end
    finally:
        store.close()


def test_a_query_in_the_middle_of_an_append_does_not_keep_less_than_there_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a sample's admission and its place in the queue, the disk does not have it yet."""
    fill(store, NOW - 20 * HOUR, NOW)
    enqueue = store._writer.enqueue
    query = threading.Thread(target=lambda: times(store, NOW - 21 * HOUR, NOW - HOUR))

    def slowly(*rows: Any) -> None:
        query.start()
        query.join(1)  # it has to wait for us, or else to do without the sample
        enqueue(*rows)

    store.backfill([LABELS], np.array([0]), np.array([NOW - STEP - 1]), np.array([1.0]))  # cuts the window
    monkeypatch.setattr(store._writer, "enqueue", slowly)
    handle = np.array([store.series(LABELS)])
    assert store.append(handle, np.array([NOW]), np.array([1.0])).accepted == 1
    monkeypatch.undo()
    query.join()
    fill(store, NOW + STEP, NOW + 20 * HOUR)  # so that the window no longer has it
    assert NOW in times(store, NOW - 21 * HOUR, NOW)


def test_a_backfill_that_fails_in_its_middle_hides_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, NOW - 20 * HOUR, NOW)
    store.backfill([LABELS], np.array([0]), np.array([NOW - 69 * HOUR]), np.array([0.0]))
    insert = backfill.insert_samples
    calls = []

    def failing(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            times(store, NOW - 70 * HOUR, NOW - 25 * HOUR)  # keeps what is there before
        if len(calls) == 2:
            raise StoreReadOnly("no space is left")
        insert(*given)

    monkeypatch.setattr(backfill, "insert_samples", failing)
    old = np.array([NOW - 60 * HOUR, NOW - 30 * HOUR])
    with pytest.raises(StoreReadOnly):
        store.backfill([LABELS], np.array([0, 0]), old, np.array([1.0, 2.0]))
    assert times(store, NOW - 70 * HOUR, NOW - 25 * HOUR) == [NOW - 69 * HOUR, NOW - 60 * HOUR]


def test_what_is_read_ahead_counts_for_no_query(store: Store) -> None:
    fill(store, NOW - 20 * HOUR, NOW)
    wanted = SelectRequest(POWER, NOW - 20 * HOUR, NOW - 18 * HOUR)
    guard = QueryGuard(max_samples=2 * HOUR // STEP)
    assert len(store.select(wanted, guard).samples.t) == 2 * HOUR // STEP
    assert guard.samples == 2 * HOUR // STEP


def test_an_empty_strip_is_not_for_nothing() -> None:
    strips = Strips(10_000)
    for i in range(1000):
        strips.put(strips.generation, ids(i), block([]), 0, 10)
    assert sum(strips.get(ids(i), 0, 10) is not None for i in range(1000)) < 40


def test_what_was_read_together_goes_when_all_of_it_was_read_again() -> None:
    strips = Strips(10_000)
    strips.put(strips.generation, ids(1, 2), block([10, 20], [10]), 0, 30)
    both = strips.bytes
    strips.put(strips.generation, ids(2), block([10, 40]), 0, 60)
    assert strips.bytes > both
    older, newer = strips.get(ids(1), 0, 30), strips.get(ids(2), 0, 60)
    assert older is not None
    assert newer is not None
    assert (older.t.tolist(), newer.t.tolist()) == ([10, 20], [10, 40])
    strips.put(strips.generation, ids(1), block([10]), 0, 90)
    assert strips.bytes == 2 * 256 + 3 * 16
    strips.put(strips.generation, ids(1, 1), block([10], [10]), 0, 90)  # a series that is asked for twice
    strips.put(strips.generation, ids(1, 2), block([10], [10]), 0, 90)
    assert strips.bytes == 2 * (256 + 16)
