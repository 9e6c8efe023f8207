"""Which samples a step saw: told by whoever knows, unknown rather than wrong."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilens.model.sample_ids import SampleRange, digest
from trilens.sdk.data import SampleBatch, follow, told_batch
from trilens.sdk.data.sizes import samples_in
from trilens.sdk.guard import Guard
from trilens.sdk.identity import identify
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def recorder() -> Recorder:
    return Recorder("run", identify({}), Options(), Guard())


def told(recorder: Recorder) -> list[dict[str, object]]:
    """Of the steps that have ended, as they go out."""
    steps = recorder.take_steps(1000, all_of_them=True)
    return [batch.told() for step in steps for batch in step[10] or ()]


def train(recorder: Recorder, loader: Any, dataset: str | None = None) -> list[Any]:
    seen = []
    for batch in follow(recorder, loader, dataset):
        recorder.begin_step()
        seen.append(batch)
        recorder.end_step()
    return seen


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([3, 4, 5], {"range": [3, 3, 1]}),
        ([0, 8, 16], {"range": [0, 3, 8]}),
        ([9, 7, 5], {"range": [9, 3, -2]}),
        ([7], {"range": [7, 1, 1]}),
        ([7, 7], {"ids": [7, 7]}),
        ([5, 1, 9], {"ids": [5, 1, 9]}),
        (range(10, 14), {"range": [10, 4, 1]}),
        ((5, 1, 9), {"ids": [5, 1, 9]}),
        (np.array([5, 1, 9]), {"ids": [5, 1, 9]}),
        ([np.int64(5), np.int64(1)], {"range": [5, 2, -4]}),
        (["a", "b"], {"names": ["a", "b"]}),
        (np.array(["a", "b"]), {"names": ["a", "b"]}),
        ([], {"ids": []}),
    ],
    ids=str,
)
def test_ids_are_told_in_little_space_with_a_digest(ids: Any, expected: dict[str, object]) -> None:
    batch = SampleBatch(ids, dataset="d")
    plain = [one.item() if isinstance(one, np.generic) else one for one in ids]
    assert batch.size == len(ids)
    assert batch.told() == {"dataset": "d", "size": len(ids), "digest": digest(plain), **expected}


@pytest.mark.parametrize(
    "ids",
    [[1, "a"], [1.5], [(1, 2)], [2**63], [True, False], [None], {"a": 1}, object()],
    ids=lambda ids: type(ids).__name__ if type(ids) is object else repr(ids),
)
def test_what_is_no_id_is_unknown_with_the_reason(ids: Any) -> None:
    fields = SampleBatch(ids, dataset="d").told()
    assert isinstance(fields["unknown"], str)
    assert not {"ids", "names", "range"} & fields.keys()


def test_a_batch_of_very_many_is_told_by_count_and_digest() -> None:
    ids = [i * i for i in range(70_000)]
    fields = SampleBatch(ids).told()
    assert fields == {
        "dataset": "",
        "size": 70_000,
        "digest": digest(ids),
        "unknown": "too many to tell one by one",
    }
    assert SampleBatch(range(70_000)).told()["range"] == [0, 70_000, 1]
    assert "unknown" in SampleBatch(["x" * 100_000] * 20).told()


def test_what_a_program_says_itself_is_copied_when_it_says_it() -> None:
    ids = [4, 1, 3]
    batch = told_batch(ids, "images", "part-7", epoch=2)
    ids.clear()
    assert batch.told() == {
        "dataset": "images",
        "shard": "part-7",
        "epoch": 2,
        "size": 3,
        "ids": [4, 1, 3],
        "digest": digest([4, 1, 3]),
    }
    assert told_batch("name", "d").told()["names"] == ["name"]
    assert told_batch(5, "d").told()["range"] == [5, 1, 1]
    assert told_batch(None, "d", size=9).told() == {"dataset": "d", "size": 9, "unknown": "nobody said which"}


@given(st.integers(-1000, 1000), st.integers(1, 50), st.integers(-9, 9).filter(bool))
def test_a_range_holds_exactly_its_ids(first: int, count: int, stride: int) -> None:
    ids = [first + i * stride for i in range(count)]
    low, many, step = SampleBatch(ids).told()["range"]  # type: ignore[misc]
    held = SampleRange(low, many, step)
    assert {one for one in range(-2000, 2000) if one in held} == set(ids)


def test_a_list_of_batches_is_known_by_place(recorder: Recorder) -> None:
    batches = [np.zeros((4, 2)), np.zeros((4, 2)), np.zeros((3, 2))]
    assert train(recorder, batches, "numbers") == batches
    ranges = [(fields["dataset"], fields.get("shard"), fields["range"]) for fields in told(recorder)]
    assert ranges == [
        ("numbers", None, [0, 4, 1]),
        ("numbers", None, [4, 4, 1]),
        ("numbers", None, [8, 3, 1]),
    ]


def test_a_stream_is_known_only_as_delivered(recorder: Recorder) -> None:
    def stream() -> Iterator[dict[str, np.ndarray]]:
        yield {"x": np.zeros((2, 3)), "y": np.zeros(2)}
        yield {"x": np.zeros((2, 3)), "y": np.zeros(2)}

    train(recorder, stream())
    assert [(fields["shard"], fields["range"]) for fields in told(recorder)] == [
        ("as delivered", [0, 2, 1]),
        ("as delivered", [2, 2, 1]),
    ]


def test_a_batch_whose_size_cannot_be_seen_makes_the_rest_unknown(recorder: Recorder) -> None:
    train(recorder, [np.zeros(2), "?", np.zeros(2)])
    first, second, third = told(recorder)
    assert first["range"] == [0, 2, 1]
    assert "unknown" in second
    assert "unknown" in third, "where it begins is not known any more"


def test_samples_that_carry_their_names_are_told_by_shard(recorder: Recorder) -> None:
    batches = [
        {"__key__": ["a", "b"], "__url__": ["one.tar", "one.tar"], "x": np.zeros(2)},
        {"__key__": ["c", "d", "e"], "__url__": ["one.tar", "two.tar", "two.tar"]},
        {"__offset__": np.array([4, 5]), "__shard__": ["s", "s"]},
        {"__key__": "alone", "__url__": "two.tar"},
    ]
    train(recorder, iter(batches), "web")
    assert [(f["shard"], f.get("names") or f["range"]) for f in told(recorder)] == [
        ("one.tar", ["a", "b"]),
        ("one.tar", ["c"]),
        ("two.tar", ["d", "e"]),
        ("s", [4, 2, 1]),
        ("two.tar", ["alone"]),
    ]


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (np.zeros((5, 2)), 5),
        ((np.zeros((5, 2)), np.zeros(5)), 5),
        ({"x": np.zeros((5, 2)), "name": ["a"] * 5}, 5),
        ({"x": np.zeros((5, 2)), "y": np.zeros(4)}, None),
        (["a", "b", "c"], 3),
        ([{"x": 1}, {"x": 2}], 2),
        ([np.zeros((3, 8, 8))] * 2, None),  # two images, or three inputs with three targets
        (np.zeros(()), None),
        ("text", None),
        (7, None),
        ((), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sizes_are_seen_or_not_guessed(batch: Any, size: int | None) -> None:
    assert samples_in(batch) == size


def test_the_wait_is_a_phase_and_what_the_loader_raises_goes_through(recorder: Recorder) -> None:
    class Broken:
        def __iter__(self) -> Iterator[np.ndarray]:
            yield np.zeros(2)
            raise ValueError("bad file")

    with pytest.raises(ValueError, match="bad file"):
        train(recorder, Broken())
    (step,) = recorder.take_steps(10, all_of_them=True)
    assert step[4].keys() == {"data"}
    assert step[7] == 2, "samples of the step"
    assert recorder.guard.counts() == {}


def test_a_followed_loader_is_still_the_loader(recorder: Recorder) -> None:
    class Loader(list[int]):
        sampler = "mine"

    followed = follow(recorder, Loader([1, 2, 3]))
    assert len(followed) == 3
    assert followed.sampler == "mine"
    assert [*followed] == [*followed] == [1, 2, 3]
    with pytest.raises(AttributeError):
        _ = followed.missing
    assert [*copy.copy(followed)] == [1, 2, 3]
    with pytest.raises(TypeError, match="not iterable"):
        iter(follow(recorder, 5))  # type: ignore[arg-type]


def test_what_gives_its_next_batch_by_itself_still_does(recorder: Recorder) -> None:
    batches = follow(recorder, iter([[1, 2], [3]]), "d")
    recorder.begin_step()
    assert next(batches) == [1, 2]  # type: ignore[call-overload]
    recorder.end_step()
    assert train(recorder, batches) == [[3]]
    assert [(one["range"], one["dataset"]) for one in told(recorder)] == [([0, 2, 1], "d"), ([2, 1, 1], "d")]


def test_a_generator_can_be_closed_and_asked_whether_it_is_there(recorder: Recorder) -> None:
    closed: list[bool] = []

    def generate() -> Iterator[list[int]]:
        try:
            yield [1]
        finally:
            closed.append(True)

    batches: Any = follow(recorder, generate())
    assert batches
    next(batches)
    batches.close()
    assert closed == [True]
    assert not follow(recorder, [])
    assert follow(recorder, {1: [2]}.values())
