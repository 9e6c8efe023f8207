"""Series that are told in groups: all are written each time, and what a group no longer tells ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recording_sink import STALE, RecordingSink

from trilens.collect.keyed_series import KeyedSeries
from trilens.model.errors import StoreReadOnly
from trilens.model.labels import Labels, make_labels

if TYPE_CHECKING:
    from trilens.model.series import AppendOutcome, Floats, Handles, Times


def phase(pod: str, phase: str) -> Labels:
    return make_labels({"__name__": "phase", "pod": pod, "phase": phase})


def written(sink: RecordingSink, t_ms: int) -> dict[tuple[str, str], float | str]:
    return {
        (sample.labels["pod"], sample.labels["phase"]): sample.value
        for sample in sink.samples
        if sample.t_ms == t_ms
    }


def test_what_did_not_change_is_written_again_and_what_is_not_told_any_more_ends() -> None:
    sink = RecordingSink()
    series: KeyedSeries[str] = KeyedSeries(sink)
    series.put("a", {phase("a", "pending"): 1.0, phase("a", "node"): 7.0})
    series.put("b", {phase("b", "running"): 1.0})
    series.write(1_000)
    series.put("a", {phase("a", "running"): 1.0, phase("a", "node"): 7.0})
    series.write(2_000)
    series.drop("a")
    series.drop("never told")
    series.write(3_000)
    series.write(4_000)
    assert written(sink, 1_000) == {("a", "pending"): 1.0, ("a", "node"): 7.0, ("b", "running"): 1.0}
    assert written(sink, 2_000) == {
        ("a", "pending"): STALE,
        ("a", "running"): 1.0,
        ("a", "node"): 7.0,
        ("b", "running"): 1.0,
    }
    assert written(sink, 3_000) == {("a", "running"): STALE, ("a", "node"): STALE, ("b", "running"): 1.0}
    assert written(sink, 4_000) == {("b", "running"): 1.0}
    assert len(series) == 1


def test_a_series_that_passes_to_another_group_goes_on() -> None:
    sink = CountingSink()
    series: KeyedSeries[str] = KeyedSeries(sink)
    series.put("old uid", {phase("a", "running"): 1.0})
    series.write(1_000)
    series.drop("old uid")
    series.put("new uid", {phase("a", "running"): 2.0})
    series.write(2_000)
    assert written(sink, 2_000) == {("a", "running"): 2.0}
    assert sink.sizes == [1, 1]  # and no marker with the same time


class CountingSink(RecordingSink):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        self.sizes.append(len(handles))
        return super().append(handles, t_ms, values)


def test_what_a_full_disk_did_not_take_ends_later() -> None:
    sink = RecordingSink()
    series: KeyedSeries[str] = KeyedSeries(sink)
    series.put("a", {phase("a", "running"): 1.0})
    series.write(1_000)
    series.drop_all()
    sink.read_only = True
    with pytest.raises(StoreReadOnly):
        series.write(2_000)
    sink.read_only = False
    series.write(3_000)
    assert written(sink, 3_000) == {("a", "running"): STALE}


def test_that_the_store_forgot_them_is_told() -> None:
    sink = RecordingSink()
    series: KeyedSeries[str] = KeyedSeries(sink)
    assert series.are_held()
    series.put("a", {phase("a", "running"): 1.0})
    assert series.are_held()
    sink.forget()
    assert not series.are_held()
    series.put("a", {phase("a", "running"): 1.0})
    assert series.are_held()
    series.write(1_000)
    assert written(sink, 1_000) == {("a", "running"): 1.0}
