"""Series that are told as a whole: those that are no longer among them end."""

from __future__ import annotations

import pytest
from recording_sink import STALE, RecordingSink

from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import StoreReadOnly
from trilens.model.labels import Labels, make_labels


def info(pod: str) -> Labels:
    return make_labels({"__name__": "info", "pod": pod})


def written(sink: RecordingSink) -> list[tuple[str, int, float | str]]:
    return [(sample.labels["pod"], sample.t_ms, sample.value) for sample in sink.samples]


def test_a_series_that_is_no_longer_told_ends_when_the_others_go_on() -> None:
    sink = RecordingSink()
    series = CurrentSeries(sink)
    series.write({info("a"): 1.0, info("b"): 1.0}, 1_000)
    series.write({info("b"): 1.0}, 2_000)
    series.write({info("b"): 1.0}, 3_000)
    assert written(sink) == [
        ("a", 1_000, 1.0),
        ("b", 1_000, 1.0),
        ("b", 2_000, 1.0),
        ("a", 2_000, STALE),
        ("b", 3_000, 1.0),
    ]


def test_what_was_told_before_a_restart_ends_too() -> None:
    sink = RecordingSink()
    series = CurrentSeries(sink, [info("a"), info("b")])
    series.write({info("b"): 1.0}, 1_000)
    assert written(sink) == [("b", 1_000, 1.0), ("a", 1_000, STALE)]


def test_what_a_full_disk_did_not_take_ends_later() -> None:
    sink = RecordingSink()
    series = CurrentSeries(sink)
    series.write({info("a"): 1.0}, 1_000)
    sink.read_only = True
    with pytest.raises(StoreReadOnly):
        series.write({}, 2_000)
    sink.read_only = False
    series.write({}, 3_000)
    assert written(sink)[-1] == ("a", 3_000, STALE)


def test_a_series_that_the_store_forgot_is_told_anew() -> None:
    sink = RecordingSink()
    series = CurrentSeries(sink)
    series.write({info("a"): 1.0}, 1_000)
    sink.forget()
    series.write({info("a"): 1.0}, 2_000)
    assert written(sink)[-1] == ("a", 2_000, 1.0)


def test_nothing_is_written_where_there_is_nothing() -> None:
    sink = RecordingSink()
    CurrentSeries(sink).write({}, 1_000)
    assert sink.batches == 0
