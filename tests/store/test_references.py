"""References are used again, but never while someone may still mean the series that had them."""

from __future__ import annotations

import numpy as np

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.store.index import SeriesIndex
from trilens.store.references import References


class State:
    """Something that readers hold."""


def test_numbers_come_back_in_ascending_order() -> None:
    references = References()
    assert references.take(4).tolist() == [0, 1, 2, 3]
    references.retire(np.array([3, 1], np.int32), State())
    assert [references.take_one() for _ in range(3)] == [1, 3, 4]
    references.retire(np.array([0, 2], np.int32), State())
    assert references.take(3).tolist() == [0, 2, 5]
    assert references.living().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_number_waits_for_every_reader_that_may_have_seen_it() -> None:
    references = References()
    references.take(3)
    first, second = State(), State()
    references.retire(np.array([0], np.int32), first)
    references.retire(np.array([1], np.int32), second)
    del second
    # Who holds the first state may have found 1 in it too.
    assert references.take(1).tolist() == [3]
    del first
    assert references.take(2).tolist() == [0, 1]


def test_a_handle_is_never_given_out_twice() -> None:
    references = References()
    handles = []
    for _ in range(5):
        ref = references.take_one()
        handles.append(references.handle(ref))
        assert references.held(np.array(handles)).tolist() == [False] * (len(handles) - 1) + [True]
        assert references.of(np.array(handles)).tolist() == [0] * len(handles)
        references.retire(np.array([ref], np.int32), State())
    assert len(set(handles)) == 5


def add(index: SeriesIndex, pod: str) -> int:
    labels = make_labels({METRIC_NAME: "power", "pod": pod})
    key, ref = index.find(labels)
    assert ref is None
    ref = index.references.take_one()
    index.add(ref, key, labels)
    return ref


def test_a_selection_keeps_its_series() -> None:
    index = SeriesIndex()
    refs = np.array([add(index, f"pod-{i}") for i in range(8)], np.int32)
    found = index.state.select(())
    index.forget(refs[:4], 100)
    assert len(index) == len(index.state.select(())) == 4
    assert [add(index, f"new-{i}") for i in range(2)] == [8, 9]
    assert [found.labels.labels(i)["pod"] for i in range(8)] == [f"pod-{i}" for i in range(8)]
    del found
    assert [add(index, f"newer-{i}") for i in range(2)] == [0, 1]
    assert index.labels(8) == make_labels({METRIC_NAME: "power", "pod": "new-0"})
    assert index.labels(5) == make_labels({METRIC_NAME: "power", "pod": "pod-5"})


def test_texts_and_metrics_go_with_their_series() -> None:
    index = SeriesIndex()
    for round_ in range(50):
        refs = np.array([add(index, f"pod-{round_}-{i}") for i in range(20)], np.int32)
        assert len(index.state.symbols) < 70
        index.forget(refs, round_)
    assert len(index) == 0
    assert index.state.metrics.names == []
    assert index.references.count <= 40


def test_a_state_without_waste_keeps_its_codes() -> None:
    index = SeriesIndex()
    refs = np.array([add(index, f"pod-{i}") for i in range(100)], np.int32)
    symbols = index.state.symbols
    index.forget(refs[:5], 1)
    assert index.state.symbols is symbols
    index.forget(refs[5:30], 2)
    assert index.state.symbols is not symbols
    assert len(index.state.select(())) == 70
