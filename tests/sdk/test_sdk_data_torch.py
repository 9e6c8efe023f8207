"""Which samples the batches of a real DataLoader have. A sample is its own id: the batch tells the truth."""

from __future__ import annotations

import gc
import os
import random
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
)

from trilens.sdk.data import follow, loader_tap  # noqa: E402
from trilens.sdk.guard import Guard  # noqa: E402
from trilens.sdk.identity import identify  # noqa: E402
from trilens.sdk.options import Options  # noqa: E402
from trilens.sdk.recorder import Recorder  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 23


class Numbers(Dataset):
    """Each sample: its id, and something drawn at random as augmentations are."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[int, float]:
        return int(i), float(torch.rand(()))


class Descending:
    """A batch sampler of one's own; some of its batches are arrays."""

    def __iter__(self) -> Iterator[Any]:
        yield [9, 3, 1]
        yield np.array([8, 2])
        yield (7,)

    def __len__(self) -> int:
        return 3


@pytest.fixture
def recorder() -> Recorder:
    return Recorder("run", identify({}), Options(), Guard())


def told(recorder: Recorder) -> list[dict[str, Any]]:
    steps = recorder.take_steps(1000, all_of_them=True)
    assert recorder.guard.counts() == {}
    return [batch.told() for step in steps for batch in step[10] or ()]


def train(recorder: Recorder, loader: Any, **options: Any) -> list[Any]:
    seen = []
    for batch in follow(recorder, loader, **options):
        recorder.begin_step()
        seen.append(batch)
        recorder.end_step()
    return seen


def ids_of(fields: dict[str, Any]) -> list[int]:
    assert "unknown" not in fields, fields
    if "range" in fields:
        first, count, stride = fields["range"]
        return [first + i * stride for i in range(count)]
    found: list[int] = fields["ids"]
    return found


def truth(batches: list[Any]) -> list[list[int]]:
    return [[int(i) for i in batch[0]] for batch in batches]


LOADERS: dict[str, Callable[[], DataLoader]] = {
    "in order": lambda: DataLoader(Numbers(), batch_size=4),
    "shuffled": lambda: DataLoader(Numbers(), batch_size=4, shuffle=True),
    "drop_last": lambda: DataLoader(Numbers(), batch_size=4, shuffle=True, drop_last=True),
    "own generator": lambda: DataLoader(
        Numbers(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "own batch sampler": lambda: DataLoader(Numbers(), batch_sampler=Descending()),
    "two workers": lambda: DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=2),
    "persistent workers": lambda: DataLoader(
        Numbers(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=3
    ),
    "one of three ranks": lambda: DataLoader(
        Numbers(), batch_size=4, sampler=DistributedSampler(Numbers(), num_replicas=3, rank=1)
    ),
}


def seed() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)


def random_state() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_and_random_state_are_the_same_and_the_samples_known(recorder: Recorder, kind: str) -> None:
    def run(walk: Callable[[Any], list[Any]]) -> tuple[list[Any], tuple[Any, ...]]:
        seed()
        loader = LOADERS[kind]()
        seen = []
        for epoch in range(2):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            seen += walk(loader)
        return seen, random_state()

    plain, state = run(lambda loader: [*loader])
    followed, state_followed = run(lambda loader: train(recorder, loader))
    assert len(plain) == len(followed) > 2
    for one, other in zip(plain, followed, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert state == state_followed
    fields = told(recorder)
    assert [ids_of(batch) for batch in fields] == truth(followed)
    assert {batch["dataset"] for batch in fields} == {"Numbers"}
    if kind == "one of three ranks":
        assert [batch["epoch"] for batch in fields] == [0, 0, 1, 1]
    else:
        assert not any("epoch" in batch for batch in fields), "nobody said which"


def test_the_step_knows_how_many_samples_it_saw(recorder: Recorder) -> None:
    train(recorder, DataLoader(Numbers(6), batch_size=4))
    steps = recorder.take_steps(10, all_of_them=True)
    assert [step[7] for step in steps] == [4, 2]
    assert all("data" in step[4] for step in steps)


def test_the_ids_of_a_subset_are_those_of_what_it_was_cut_from(recorder: Recorder) -> None:
    inner = Subset(Numbers(), [20, 3, 11, 7, 5, 2])
    loader = DataLoader(Subset(inner, [5, 0, 3, 1]), batch_size=3)
    assert [ids_of(fields) for fields in told_after(recorder, loader)] == [[2, 20, 7], [3]]


def told_after(recorder: Recorder, loader: Any, **options: Any) -> list[dict[str, Any]]:
    batches = train(recorder, loader, **options)
    fields = told(recorder)
    if fields and "unknown" not in fields[0] and isinstance(batches[0], list):
        assert [ids_of(batch) for batch in fields] == truth(batches)
    return fields


def test_one_sample_at_a_time_and_lists_from_the_sampler(recorder: Recorder) -> None:
    single = DataLoader(Numbers(4), batch_size=None, sampler=[2, 0, 3])
    assert [ids_of(fields) for fields in (train(recorder, single), told(recorder))[1]] == [[2], [0], [3]]

    class Many(Dataset):
        def __getitem__(self, ids: list[int]) -> list[int]:
            return ids

    lists = DataLoader(Many(), batch_size=None, sampler=BatchSampler(SequentialSampler(range(5)), 2, False))
    train(recorder, lists)
    assert [ids_of(fields) for fields in told(recorder)] == [[0, 1], [2, 3], [4]]


def test_names_as_indices(recorder: Recorder) -> None:
    class Named(Dataset):
        def __getitem__(self, name: str) -> int:
            return len(name)

    train(recorder, DataLoader(Named(), sampler=["cat", "horse", "ox"], batch_size=2), dataset="animals")
    assert [(f["dataset"], f["names"]) for f in told(recorder)] == [
        ("animals", ["cat", "horse"]),
        ("animals", ["ox"]),
    ]


def test_a_loader_that_skips_what_was_seen_before_a_crash(recorder: Recorder) -> None:
    class Skipping(DataLoader):
        """As loaders that can be resumed do it: the first are drawn and thrown away."""

        def __iter__(self) -> Any:
            iterator = super().__iter__()
            for _ in range(2):
                next(iterator)
            return iterator

    batches = train(recorder, Skipping(Numbers(), batch_size=4, num_workers=1))
    assert [ids_of(fields) for fields in told(recorder)] == truth(batches)
    assert truth(batches)[0] == [8, 9, 10, 11]


def test_out_of_order_delivery_is_unknown_rather_than_wrong(recorder: Recorder) -> None:
    train(recorder, DataLoader(Numbers(8), batch_size=4, num_workers=2, in_order=False))
    first, _ = told(recorder)
    assert "in_order" in first["unknown"]
    assert first["dataset"] == "Numbers"


def test_an_iterator_that_was_begun_elsewhere_is_unknown(recorder: Recorder) -> None:
    loader = DataLoader(Numbers(8), batch_size=4, shuffle=True)
    train(recorder, iter(loader))
    assert all("before run.data" in fields["unknown"] for fields in told(recorder))


class Around:
    """What people put around loaders: something that moves batches, or shows progress."""

    def __init__(self, loader: DataLoader, ahead: int = 0, every: int = 1) -> None:
        self.loader = loader
        self.ahead = ahead
        self.every = every

    def __iter__(self) -> Iterator[Any]:
        kept = []
        for number, batch in enumerate(self.loader):
            if number % self.every == 0:
                kept.append(batch)
            if len(kept) > self.ahead:
                yield kept.pop(0)
        yield from kept


def test_a_loader_inside_something_that_passes_batches_on_is_known(recorder: Recorder) -> None:
    batches = train(recorder, Around(DataLoader(Numbers(), batch_size=4, shuffle=True)))
    assert [ids_of(fields) for fields in told(recorder)] == truth(batches)


@pytest.mark.parametrize("around", [{"ahead": 2}, {"every": 2}], ids=["reads ahead", "leaves out"])
def test_a_loader_inside_something_that_does_more_is_unknown(
    recorder: Recorder, around: dict[str, int]
) -> None:
    batches = train(recorder, Around(DataLoader(Numbers(), batch_size=4, shuffle=True), **around))
    for fields, seen in zip(told(recorder), truth(batches), strict=True):
        assert "unknown" in fields or ids_of(fields) == seen


def test_after_an_error_of_the_loader_the_rest_is_right_or_unknown(recorder: Recorder) -> None:
    class Bad(Numbers):
        def __getitem__(self, i: int) -> tuple[int, float]:
            if i == 5:
                raise ValueError("bad sample")
            return super().__getitem__(i)

    batches = iter(follow(recorder, DataLoader(Bad(12), batch_size=4)))
    seen = []
    recorder.begin_step()
    for _ in range(3):
        try:
            seen.append(next(batches))
        except ValueError as error:
            assert "bad sample" in str(error)
    recorder.end_step()
    first, second = told(recorder)
    assert ids_of(first) == [0, 1, 2, 3]
    assert "unknown" in second or ids_of(second) == truth(seen)[1]


class Stream(IterableDataset):
    """Two shards, read one after the other."""

    def __init__(self, shards: dict[str, int]) -> None:
        self.shards = shards
        self.at: tuple[str | None, int] = (None, 0)

    def __iter__(self) -> Iterator[int]:
        for shard, size in self.shards.items():
            for i in range(size):
                self.at = (shard, i + 1)
                yield i


class TellingStream(Stream):
    def trilens_position(self) -> tuple[str | None, int]:
        return self.at


def test_a_stream_that_tells_its_position_is_known_by_shard_and_offset(recorder: Recorder) -> None:
    train(recorder, DataLoader(TellingStream({"a": 4, "b": 5}), batch_size=2))
    assert [(f["shard"], ids_of(f)) for f in told(recorder)] == [
        ("a", [0, 1]),
        ("a", [2, 3]),
        ("b", [0, 1]),
        ("b", [2, 3]),
        ("b", [4]),
    ]


def test_a_batch_over_the_end_of_a_shard_is_unknown(recorder: Recorder) -> None:
    train(recorder, DataLoader(TellingStream({"a": 3, "b": 5}), batch_size=2))
    fields = told(recorder)
    assert ["unknown" in f for f in fields] == [False, True, False, False]
    assert "spans shards" in fields[1]["unknown"]
    assert (fields[2]["shard"], ids_of(fields[2])) == ("b", [1, 2])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_that_does_not_tell_is_unknown_with_its_size(recorder: Recorder, workers: int) -> None:
    stream = Stream if workers == 0 else TellingStream
    train(recorder, DataLoader(stream({"a": 3}), batch_size=2, num_workers=workers))
    first, second = told(recorder)
    assert "iterable" in first["unknown"] if workers == 0 else "__offset__" in first["unknown"]
    assert (first["size"], second["size"]) == (2, 1)


def test_samples_of_a_stream_may_carry_where_they_come_from_through_workers(recorder: Recorder) -> None:
    class Carrying(IterableDataset):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            worker = torch.utils.data.get_worker_info().id
            for i in range(2):
                yield {"x": float(i), "__shard__": f"part-{worker}", "__offset__": i}

    train(recorder, DataLoader(Carrying(), batch_size=2, num_workers=2))
    assert sorted((f["shard"], ids_of(f)) for f in told(recorder)) == [("part-0", [0, 1]), ("part-1", [0, 1])]


def test_two_loaders_side_by_side_do_not_mix(recorder: Recorder) -> None:
    left = DataLoader(Numbers(), batch_size=4, shuffle=True)
    right = DataLoader(Numbers(), batch_size=3, shuffle=True)
    seen = []
    for pair in zip(follow(recorder, left, "left"), follow(recorder, right, "right"), strict=False):
        recorder.begin_step()
        seen.append(pair)
        recorder.end_step()
    fields = told(recorder)[: 2 * len(seen)]
    assert [(f["dataset"], ids_of(f)) for f in fields] == [
        (name, ids) for pair in seen for name, ids in zip(("left", "right"), truth(list(pair)), strict=True)
    ]


def test_persistent_workers_end_when_the_program_lets_the_loader_go(recorder: Recorder) -> None:
    loader = DataLoader(Numbers(8), batch_size=4, num_workers=1, persistent_workers=True)
    train(recorder, loader)
    gone = weakref.ref(loader)
    gc.disable()  # as quickly as without us: not at some later collection
    try:
        del loader
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_of_accelerate_are_known_though_they_read_ahead(recorder: Recorder, workers: int) -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=workers)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    assert type(prepared).__name__ == "DataLoaderShard"
    batches = train(recorder, prepared) + train(recorder, accelerate.skip_first_batches(prepared, 2))
    fields = told(recorder)
    assert [ids_of(batch) for batch in fields] == truth(batches)


class ReadingAhead:
    """Begins to read when it is asked for an iterator, and stays one batch ahead."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        first = next(batches)
        return (first for first in self._rest(first, batches))

    def _rest(self, first: Any, batches: Iterator[Any]) -> Iterator[Any]:
        for following in batches:
            yield first
            first = following
        yield first


@pytest.mark.parametrize("around", ["accelerate", "skipped", "our own"])
def test_a_stream_that_is_read_ahead_is_not_asked_where_it_stands(recorder: Recorder, around: str) -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = DataLoader(TellingStream({"a": 9}), batch_size=2)
    if around == "our own":
        batches = train(recorder, ReadingAhead(loader))
    else:
        prepared = accelerate.Accelerator(cpu=True).prepare(loader)
        if around == "skipped":
            prepared = accelerate.skip_first_batches(prepared, 1)
        batches = train(recorder, prepared)
    fields = told(recorder)
    assert len(fields) == len(batches) == (4 if around == "skipped" else 5)
    assert all("unknown" in batch for batch in fields)


def test_a_loader_that_nobody_follows_is_left_alone(recorder: Recorder) -> None:
    train(recorder, DataLoader(Numbers(4), batch_size=4))
    iterator = iter(DataLoader(Numbers(8), batch_size=4, sampler=RandomSampler(Numbers(8))))
    next(iterator)
    assert not hasattr(iterator, "_trilens_deliveries")
    assert len(told(recorder)) == 1


def test_tensors_of_ids_are_read_and_those_on_a_device_are_not() -> None:
    from trilens.sdk.data import told_batch

    ids = torch.tensor([4, 1, 3])
    batch = told_batch(ids)
    ids.zero_()
    assert batch.told()["ids"] == [4, 1, 3]

    class OnDevice:  # a device that this machine does not have
        device = torch.device("cuda")

        def __len__(self) -> int:
            return 3

        def tolist(self) -> list[int]:
            raise AssertionError("a device was read back")

    assert "device" in told_batch(OnDevice()).told()["unknown"]


def test_a_loader_that_something_else_reads_too_is_unknown_from_then_on(recorder: Recorder) -> None:
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1)
    behind: list[Any] = []

    class Keeping:
        def __iter__(self) -> Any:
            behind.append(iter(loader))
            return behind[0]

    batches = iter(follow(recorder, Keeping()))
    recorder.begin_step()
    seen = [next(batches)]
    taken = threading.Thread(target=lambda: next(behind[0]))
    taken.start()
    taken.join()
    seen.append(next(batches))
    recorder.end_step()
    for _ in batches:  # so that its worker ends here, not at some later collection
        pass
    first, second = told(recorder)
    assert ids_of(first) == truth(seen)[0]
    assert "something else" in second["unknown"]


def test_runs_of_two_threads_do_not_mix(recorder: Recorder) -> None:
    other = Recorder("other", identify({}), Options(), Guard())
    seen: dict[str, list[Any]] = {}
    turn = threading.Barrier(2)

    def work(name: str, mine: Recorder) -> None:
        seen[name] = []
        for batch in follow(mine, DataLoader(Numbers(), batch_size=4, shuffle=True)):
            mine.begin_step()
            seen[name].append(batch)
            mine.end_step()
            turn.wait(20)

    threads = [threading.Thread(target=work, args=pair) for pair in (("one", recorder), ("two", other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ids_of(fields) for fields in told(recorder)] == truth(seen["one"])
    assert [ids_of(fields) for fields in told(other)] == truth(seen["two"])


def test_nothing_is_kept_of_the_batches_of_a_long_run(recorder: Recorder) -> None:
    train(recorder, [torch.zeros(2)] * 50)
    loader = DataLoader(Numbers(8), batch_size=4)
    train(recorder, loader)
    assert loader_tap._here.taps == []
    iterator = iter(follow(recorder, loader))
    next(iterator)
    (deliveries,) = iterator._source._behind  # type: ignore[attr-defined]
    assert not deliveries.pending


def test_a_pytorch_whose_loaders_are_not_known_costs_the_samples_and_nothing_else(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> None:
        raise AttributeError("_next_index")

    monkeypatch.setattr(loader_tap, "install", unknown)
    assert len(train(recorder, DataLoader(Numbers(8), batch_size=4))) == 2
    assert recorder.guard.counts() == {"batch": 1}
