"""Group commit: what is acknowledged is there, failures are told, kept and tried again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import IntakeError, StoreError, StoreReadOnly
from trilens.model.labels import make_labels
from trilens.store import writer as writer_module
from trilens.store.archive import Archive
from trilens.store.horizon import Horizon
from trilens.store.inserts import MetricRow, SampleBatch, SeriesRow, series_table
from trilens.store.rollups import dirty_hours
from trilens.store.rows import load_metadata, read_samples
from trilens.store.schema import HOUR_MS
from trilens.store.writer import Writer, WriterHealth, WriterOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from trilens.store.engine import Engine

T0 = 1_760_000_000_000
ALWAYS = (-(1 << 60), 1 << 60)
PATIENT = WriterOptions(flush_s=3600)  # writes only when someone waits


def batch(k: int, rows: int = 10, metric: str = "m") -> SampleBatch:
    return SampleBatch(
        np.arange(rows, dtype=np.uint64),
        [metric],
        np.zeros(rows, np.int32),
        np.full(rows, T0 + k, np.int64),
        np.full(rows, float(k)),
    )


def count(engine: Engine) -> int:
    return len(read_samples(engine, None, None, *ALWAYS).t)


@pytest.fixture
def writer(engine: Engine) -> Iterator[Writer]:
    made = Writer(engine, Horizon(), PATIENT)
    yield made
    made.close()


class FailingInserts:
    """Stands before an engine's inserts: each fails with `error` while there is one."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: StoreError | None = None
        self.tables: list[str] = []
        self.failed = threading.Event()
        self._insert = engine.insert_arrow
        monkeypatch.setattr(engine, "insert_arrow", self)

    def __call__(self, table: str, rows: pa.Table) -> None:
        if self.error is not None:
            self.failed.set()
            raise self.error
        self.tables.append(table)
        self._insert(table, rows)


def test_many_batches_become_one_insert(
    engine: Engine, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inserts = FailingInserts(engine, monkeypatch)
    for k in range(50):
        writer.submit(batch(k, metric=f"m{k % 3}"))
    assert writer.health().pending_rows == 500
    writer.durable().result(30)
    assert inserts.tables == ["samples"]
    assert count(engine) == 500
    assert writer.health() == WriterHealth("ok", None, 0, 500, 0.0)


def test_series_are_written_before_their_samples(
    engine: Engine, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inserts = FailingInserts(engine, monkeypatch)
    row = SeriesRow(0, make_labels({"__name__": "m", "gpu": "0"}), T0, T0)
    writer.submit(batch(1), series_table([row]), [MetricRow("m", "gauge", "help", "")])
    writer.durable().result(30)
    assert inserts.tables == ["series", "metadata", "samples"]
    assert [b.ids.tolist() for b in Archive(engine).recent(-(1 << 60))] == [[0]]
    assert load_metadata(engine) == [("m", "gauge", "help", "")]


def test_labels_of_many_series_go_in_some_at_a_time(
    engine: Engine, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SERIES_CHUNK_ROWS", 2)
    inserts = FailingInserts(engine, monkeypatch)
    for ids in ((0, 1, 2), (3, 4)):
        rows = [SeriesRow(i, make_labels({"__name__": "m", "gpu": str(i)}), T0, T0) for i in ids]
        writer.submit(None, series_table(rows))
    writer.durable().result(30)
    assert inserts.tables == ["series"] * 3
    (found,) = Archive(engine).recent(-(1 << 60))
    assert sorted(found.ids.tolist()) == [0, 1, 2, 3, 4]


def test_nothing_to_wait_for(writer: Writer) -> None:
    assert writer.durable().done()


def test_a_full_batch_does_not_wait(engine: Engine) -> None:
    writer = Writer(engine, Horizon(), WriterOptions(flush_rows=100, flush_s=3600))
    writer.submit(batch(1, rows=100))
    while writer.health().written_rows < 100:
        writer.durable().result(30)
    assert count(engine) == 100
    writer.close()


def test_an_old_batch_does_not_wait(engine: Engine) -> None:
    writer = Writer(engine, Horizon(), WriterOptions(flush_s=0.01))
    writer.submit(batch(1))
    with writer._changed:
        assert writer._changed.wait_for(lambda: writer._written_rows == 10, timeout=30)
    writer.close()
    assert count(engine) == 10


def test_close_writes_what_waits(engine: Engine) -> None:
    writer = Writer(engine, Horizon(), PATIENT)
    writer.submit(batch(1))
    writer.close()
    assert count(engine) == 10
    with pytest.raises(StoreError, match="closed"):
        writer.submit(batch(2))


def test_many_threads_submit_and_wait(engine: Engine, writer: Writer) -> None:
    def work(thread: int) -> None:
        for k in range(10):
            writer.submit(batch(100 * thread + k))
            writer.durable().result(60)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(engine) == 8 * 10 * 10


def test_a_full_disk_is_told_and_recovered_from(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    inserts = FailingInserts(engine, monkeypatch)
    writer = Writer(engine, Horizon(), PATIENT)
    inserts.error = StoreReadOnly("no space left on disk")
    writer.submit(batch(1))
    with pytest.raises(StoreReadOnly):
        writer.durable().result(30)
    with pytest.raises(StoreReadOnly):
        writer.submit(batch(2))
    with pytest.raises(StoreReadOnly):
        writer.durable().result(30)
    assert (writer.health().state, writer.health().pending_rows) == ("read-only", 10)
    inserts.error = None
    with writer._changed:
        assert writer._changed.wait_for(lambda: writer._failure is None, timeout=30)
    writer.submit(batch(3))
    writer.durable().result(30)
    assert read_samples(engine, None, np.array([0], np.uint64), *ALWAYS).t.tolist() == [T0 + 1, T0 + 3]
    writer.close()


def test_another_failure_buffers_up_to_its_bound(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    inserts = FailingInserts(engine, monkeypatch)
    writer = Writer(engine, Horizon(), WriterOptions(flush_s=3600, max_pending_rows=25))
    inserts.error = StoreError("the server went away")
    writer.submit(batch(1))
    with pytest.raises(StoreError, match="went away"):
        writer.durable().result(30)
    writer.submit(batch(2))
    writer.submit(batch(3))
    with pytest.raises(StoreError, match="20 samples wait"):
        writer.submit(batch(4))
    assert writer.health().state == "failing"
    inserts.error = None
    writer.close()
    assert count(engine) == 30


def test_closing_on_a_full_disk_says_what_is_lost(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    inserts = FailingInserts(engine, monkeypatch)
    writer = Writer(engine, Horizon(), PATIENT)
    inserts.error = StoreReadOnly("no space left on disk")
    writer.submit(batch(1))
    with pytest.raises(StoreError, match="10 samples could not be written: no space left"):
        writer.close()


def test_text_that_cannot_be_stored_is_the_submitters_error(engine: Engine, writer: Writer) -> None:
    with pytest.raises(IntakeError, match="UTF-8"):
        writer.submit(metadata=[MetricRow("m", "gauge", "\ud800", "")])
    writer.submit(batch(1))
    writer.durable().result(30)
    assert count(engine) == 10


def test_samples_behind_the_horizon_mark_their_hour(engine: Engine) -> None:
    writer = Writer(engine, Horizon(T0 + HOUR_MS), PATIENT)
    writer.submit(batch(0))
    writer.submit(batch(HOUR_MS * 5))
    writer.durable().result(30)
    assert dirty_hours(engine)[0].tolist() == [-(-T0 // HOUR_MS) * HOUR_MS]
    writer.close()
