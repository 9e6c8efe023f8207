"""What must hold when something goes wrong between admission, window, writer and disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import QueryTimeout, StoreError, StoreReadOnly
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest
from trilens.serve.state_metrics import store_metrics
from trilens.store import intake
from trilens.store.chunks import CHUNK_BYTES
from trilens.store.index import series_id
from trilens.store.options import StoreOptions
from trilens.store.store import Store
from trilens.store.window import RecentWindow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = int(time.time() * 1000)
POWER = make_labels({METRIC_NAME: "power"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    yield opened
    opened.close()


def append(store: Store, t: int, value: float = 1.0):
    ref = np.array([store.series(POWER)], dtype=np.int32)
    return store.append(ref, np.array([t], dtype=np.int64), np.array([value]))


def held(store: Store) -> list[int]:
    request = SelectRequest((Matcher(METRIC_NAME, "=", "power"),), 0, 1 << 60)
    return store.select(request, QueryGuard()).samples.t.tolist()


def test_a_sample_from_the_future_is_refused_and_honest_ones_still_taken(store: Store) -> None:
    assert append(store, NOW * 1000).too_far_ahead == 1
    assert append(store, int(time.time() * 1000) + 700_000).too_far_ahead == 1
    assert append(store, NOW).accepted == 1
    assert held(store) == [NOW]


def test_a_store_poisoned_by_the_future_heals_at_the_next_start(tmp_path: Path) -> None:
    options = StoreOptions(data_dir=tmp_path / "data")
    first = Store.open(options, upkeep=False)
    other = [make_labels({METRIC_NAME: "other"})]
    first.backfill(other, np.zeros(1, dtype=np.int64), np.array([NOW + 10**10]), np.ones(1))
    first.close()
    again = Store.open(options, upkeep=False)
    assert append(again, NOW).accepted == 1
    again.close()


def test_a_clock_that_was_ahead_for_a_while_refuses_nothing_once_it_is_right(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own samples are written with the server's clock: two days of honest ones were refused after a jump."""
    two_days_ms = 2 * 86_400_000
    assert append(store, NOW - 30_000).accepted == 1
    with monkeypatch.context() as jumped:
        jumped.setattr(intake, "_now_ms", lambda: NOW + two_days_ms)
        assert append(store, NOW + two_days_ms).accepted == 1
    assert [append(store, NOW - 15_000 + 5_000 * at).accepted for at in range(3)] == [1, 1, 1]
    handle = np.array([store.series(make_labels({METRIC_NAME: "other"}))])
    assert store.append(handle, np.array([NOW]), np.array([1.0])).accepted == 1, "of another series"
    assert append(store, NOW - 2 * 3_600_000).too_old == 1, "what is too old is so all the same"
    store.durable().result()
    honest = [NOW - 30_000, NOW - 15_000, NOW - 10_000, NOW - 5_000]
    assert held(store) == [*honest, NOW + two_days_ms]


def test_a_batch_that_the_writer_refuses_may_be_sent_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(store, NOW - 1)

    def full(rows: int) -> None:
        raise StoreReadOnly("no space")

    with monkeypatch.context() as patch:
        patch.setattr(store._writer, "check", full)
        with pytest.raises(StoreReadOnly):
            append(store, NOW)
    assert append(store, NOW).accepted == 1
    store.durable().result()
    assert held(store) == [NOW - 1, NOW]


def test_the_writer_outlives_an_error_of_any_kind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = store._engine.insert_arrow
    failures = [QueryTimeout("killed"), RuntimeError("who knows")]

    def flaky(table: str, rows: object) -> None:
        if failures:
            raise failures.pop()
        insert(table, rows)

    monkeypatch.setattr(store._engine, "insert_arrow", flaky)
    append(store, NOW)
    with pytest.raises(StoreError):
        store.durable().result()
    writer = store._writer
    with writer._changed:
        assert writer._changed.wait_for(
            lambda: writer._written_rows == 1 and not writer._in_flight, timeout=30
        )
    assert writer.health().state == "ok"


def test_how_much_waits_is_known_while_the_engine_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StoreError("the engine is away")

    append(store, NOW)
    monkeypatch.setattr(store.engine, "query_arrow", away)
    stats = store.stats()
    assert stats.series == 1
    told = {family.name for family in store_metrics(stats, None, store.health())}
    assert {"trilens_store_pending_samples", "trilens_store_series"} <= told
    assert told.isdisjoint({"trilens_store_samples", "trilens_store_disk_bytes"}), "unknown is not zero"


def test_a_failed_backfill_does_not_keep_labels_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = StoreOptions(data_dir=tmp_path / "data")
    store = Store.open(options, upkeep=False)

    def full(*_: object) -> None:
        raise StoreReadOnly("no space")

    with monkeypatch.context() as patch:
        patch.setattr("trilens.store.backfill.write_tables", full)
        with pytest.raises(StoreReadOnly):
            store.backfill([POWER], np.zeros(1, dtype=np.int64), np.array([NOW - 10**7]), np.ones(1))
    append(store, NOW)
    store.close()
    again = Store.open(options, upkeep=False)
    assert held(again) == [NOW]
    again.close()


def test_a_cut_is_always_seen_by_what_is_put_below() -> None:
    window = RecentWindow(256 * CHUNK_BYTES)
    ref, one = np.array([0], dtype=np.int32), np.array([1])
    window.cut(ref, 100)
    window.append(ref, one, np.array([110]), np.ones(1))
    window.cut(ref, 90)  # a late sample below the floor
    window.prepend(ref, one, np.array([80]), np.ones(1), above=np.array([100]), floor=np.array([0]))
    assert window.read(ref, 0, 200) is None


def test_what_lies_below_a_cut_is_not_held_twice() -> None:
    window = RecentWindow(256 * CHUNK_BYTES)
    ref = np.array([0], dtype=np.int32)
    window.cut(ref, 100)
    window.append(ref, np.array([2]), np.array([110, 120]), np.ones(2))
    window.cut(ref, 120)
    history = np.array([90, 110, 120])
    window.prepend(ref, np.array([3]), history, np.ones(3), above=np.array([120]), floor=np.array([0]))
    assert window.read(ref, 0, 200) is None


def test_labels_that_look_alike_when_joined_have_their_own_ids() -> None:
    assert series_id((("a", "x\xffb\xffy"),)) != series_id((("a", "x"), ("b", "y")))
