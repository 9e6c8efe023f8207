"""What is written can be read: samples bit by bit, series with their labels, metadata."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import QueryTooLarge
from trilens.model.labels import make_labels
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_BITS, STALE_NAN
from trilens.store.archive import Archive
from trilens.store.horizon import Horizon
from trilens.store.inserts import (
    MetricRow,
    SampleBatch,
    SeriesRow,
    insert_samples,
    metadata_table,
    samples_table,
    series_table,
)
from trilens.store.rows import BUCKET_MS, SampleRows, arranged, load_metadata, read_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.store.engine import Engine

T0 = 1_760_000_000_000
ALWAYS = (-(1 << 60), 1 << 60)


def put(
    engine: Engine, metric: str, ids: list[int], t: list[int], v: list[float] | NDArray[np.float64]
) -> None:
    batch = SampleBatch(
        np.array(ids, np.uint64),
        [metric],
        np.zeros(len(ids), np.int32),
        np.array(t, np.int64),
        np.asarray(v, np.float64),
    )
    insert_samples(engine, Horizon(), samples_table(batch))


def test_samples_come_sorted_and_only_from_the_left_open_range(engine: Engine) -> None:
    put(engine, "a", [9, 7, 7, 7], [T0, T0 + 10, T0, T0 + 20], [4, 2, 1, 3])
    put(engine, "b", [8], [T0 + 10], [5])
    rows = read_samples(engine, ["a"], None, T0, T0 + 20)
    assert [c.tolist() for c in rows] == [[7, 7], [T0 + 10, T0 + 20], [2.0, 3.0]]
    rows = read_samples(engine, None, np.array([7, 8], np.uint64), T0 - 1, T0 + 10)
    assert [c.tolist() for c in rows] == [[7, 7, 8], [T0, T0 + 10, T0 + 10], [1.0, 2.0, 5.0]]


@pytest.mark.parametrize("edge", [T0 // BUCKET_MS * BUCKET_MS, 0, -BUCKET_MS])
@pytest.mark.parametrize("length", [1, BUCKET_MS, 4 * BUCKET_MS])
def test_a_range_ends_with_its_last_moment_and_begins_after_its_first(
    engine: Engine, edge: int, length: int
) -> None:
    """Also where samples of the two sides lie apart, with short ranges and long ones."""
    t = [edge - 1, edge, edge + 1]
    put(engine, "a", [1, 1, 1], t, [1, 2, 3])
    before = [edge - 1, edge] if length > 1 else [edge]
    assert read_samples(engine, ["a"], None, edge - length, edge).t.tolist() == before
    assert read_samples(engine, ["a"], None, edge, edge + length).t.tolist() == [edge + 1]


@pytest.mark.parametrize("times", ["of their own", "among each other", "repeated"])
def test_pieces_are_put_together_in_order(times: str) -> None:
    """Rows as several parts give them: a series comes again, with other times or with the same."""
    rng = np.random.default_rng(3)
    drawn = rng.permutation(200)[:150]
    if times == "of their own":
        drawn.sort()
    pieces = []
    for t in np.split(drawn, [40, 41, 90])[::-1]:
        ids = np.repeat(np.sort(rng.permutation(5)[:3]), len(t)).astype(np.uint64)
        each = np.tile(np.sort(t), 3)
        pieces.append((ids, each, ids * 1000.0 + each))
    if times == "repeated":
        pieces.append(pieces[1])
    rows = SampleRows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
    want = sorted(set(zip(*(column.tolist() for column in rows), strict=True)))
    assert list(zip(*(column.tolist() for column in arranged(rows)), strict=True)) == want


def test_no_metrics_and_no_ids_mean_nothing(engine: Engine) -> None:
    put(engine, "a", [1], [T0], [1])
    assert len(read_samples(engine, [], None, *ALWAYS).t) == 0
    assert len(read_samples(engine, ["a"], np.zeros(0, np.uint64), *ALWAYS).t) == 0


def test_every_bit_of_a_value_is_kept(engine: Engine) -> None:
    rng = np.random.default_rng(7)
    special = [STALE_NAN, np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1]
    v = np.concatenate(
        [
            special * 3,
            rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64),
            np.round(rng.normal(300, 50, 20_000), 3),
            rng.integers(-(2**60), 2**60, 20_000).astype(np.float64),
            np.zeros(20_000),
        ]
    )
    rng.shuffle(v)
    put(engine, "a", [1] * len(v), list(range(T0, T0 + len(v))), v)
    engine.command("OPTIMIZE TABLE samples FINAL")
    read = read_samples(engine, ["a"], None, *ALWAYS)
    assert np.array_equal(read.v.view(np.uint64), v.view(np.uint64))
    assert np.count_nonzero(read.v.view(np.uint64) == np.uint64(STALE_BITS)) >= 3


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_values_at_one_time_the_largest_stays(engine: Engine, order: int) -> None:
    for value in [1.0, 3.0, np.nan, 2.0, STALE_NAN][::order]:
        put(engine, "a", [1], [T0], [value])
    for value in [np.nan, STALE_NAN][::order]:
        put(engine, "a", [2], [T0], [value])
    rows = read_samples(engine, ["a"], None, *ALWAYS)
    assert rows.ids.tolist() == [1, 2]
    assert rows.v[0] == 3.0
    assert rows.v.view(np.uint64)[1] == np.array([np.nan]).view(np.uint64)[0]


def test_thousands_of_series_are_asked_for_by_id(engine: Engine) -> None:
    ids = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    put(engine, "a", ids.tolist(), [T0] * len(ids), ids.astype(np.float64))
    rows = read_samples(engine, ["a"], ids[::2], *ALWAYS)
    assert rows.ids.tolist() == sorted(ids[::2].tolist())


def test_names_with_quotes_do_not_break_out(engine: Engine) -> None:
    name = "it's') OR 1 -- \\"
    put(engine, name, [1], [T0], [1])
    put(engine, "other", [2], [T0], [1])
    assert read_samples(engine, [name], None, *ALWAYS).ids.tolist() == [1]


def test_a_read_larger_than_the_guard_allows(engine: Engine) -> None:
    put(engine, "a", [1] * 1000, list(range(T0, T0 + 1000)), np.zeros(1000))
    with pytest.raises(QueryTooLarge):
        read_samples(engine, ["a"], None, *ALWAYS, guard=QueryGuard(max_samples=500))


def test_series_come_back_by_shape(engine: Engine) -> None:
    series = [
        SeriesRow(2**64 - 1, make_labels({"__name__": "a", "x": "1", "y": "\u00fc"}), 5, 6),
        SeriesRow(7, make_labels({"__name__": "a", "x": "2", "y": "\u00fc"}), 7, 8),
        SeriesRow(8, make_labels({"__name__": "a"}), 9, 9),
        SeriesRow(9, make_labels({"x": "1"}), 9, 9),
    ]
    engine.insert_arrow("series", series_table(series))
    engine.insert_arrow("series", series_table([series[1]._replace(last_seen=80)]))
    found = {}
    for block in Archive(engine).recent(ALWAYS[0]):
        for i, key in enumerate(block.ids.tolist()):
            values = [block.texts[code] for code in block.values[i]]
            labels = {**dict(zip(block.names, values, strict=True)), "__name__": block.metric}
            found[key] = SeriesRow(key, make_labels(labels), int(block.first_t[i]), int(block.last_t[i]))
    assert found == {s.series: s for s in [series[0], series[1]._replace(last_seen=80), *series[2:]]}
    assert len(list(Archive(engine).recent(ALWAYS[0]))) == 3


def test_the_latest_description_of_a_metric_holds(engine: Engine) -> None:
    engine.insert_arrow("metadata", metadata_table([MetricRow("a", "gauge", "old", "")]))
    engine.insert_arrow("metadata", metadata_table([MetricRow("a", "counter", "it's new", "bytes")]))
    assert load_metadata(engine) == [("a", "counter", "it's new", "bytes")]


def test_a_large_insert_is_one_part(engine: Engine) -> None:
    n = 300_000
    put(engine, "a", list(range(n)), [T0] * n, np.random.default_rng(3).random(n))
    parts = engine.query_arrow(
        "SELECT rows FROM system.parts WHERE database = currentDatabase() "
        f"AND table = '{engine.part_of('samples')}'"
    )
    assert parts["rows"].to_pylist() == [n]


def test_reads_and_writes_side_by_side(engine: Engine) -> None:
    """Every read sees each insert whole or not at all."""
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(read_samples(engine, ["a"], None, *ALWAYS).t))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for k in range(20):
        put(engine, "a", list(range(500)), [T0 + k] * 500, np.full(500, k))
    stop.set()
    for reader in readers:
        reader.join()
    assert all(n % 500 == 0 for n in seen)
    assert len(read_samples(engine, ["a"], None, *ALWAYS).t) == 10_000
