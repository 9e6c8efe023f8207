"""`run.data(loader)`: the same batches in the same order, each with the wait for it and its samples."""

from __future__ import annotations

import sys
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trilens.sdk.data.offsets import Offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.sdk.data.source import BatchSource
    from trilens.sdk.recorder import Recorder

T = TypeVar("T")


def follow(recorder: Recorder, loader: Iterable[T], dataset: str | None = None) -> Iterable[T]:
    """What may be asked for its next batch as it is, may be so afterwards. What is followed, is once."""
    if isinstance(loader, Followed | _FollowedIterator) and loader._recorder is recorder:
        return loader
    followed = Followed(recorder, loader, dataset)
    return iter(followed) if hasattr(loader, "__next__") else followed


class Followed(Generic[T]):
    """May be iterated as often as the loader. What else there is (a sampler, a length) is asked of it."""

    def __init__(self, recorder: Recorder, loader: Iterable[T], dataset: str | None) -> None:
        self._recorder = recorder
        self._loader = loader
        self._dataset = None if dataset is None else str(dataset)

    def __iter__(self) -> Iterator[T]:
        recorder, loader = self._recorder, self._loader
        source = recorder.guard.run("batch", _source_of, recorder, loader, self._dataset)
        return iter(loader) if source is None else _FollowedIterator(recorder, loader, source)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # of an object that is being copied, and has nothing yet
            raise AttributeError(name)
        return getattr(self._loader, name)


class _FollowedIterator(Generic[T]):
    """Whatever the loader raises goes through; whatever goes wrong here does not."""

    __slots__ = ("_batches", "_recorder", "_source")

    def __init__(self, recorder: Recorder, loader: Iterable[T], source: BatchSource) -> None:
        self._recorder = recorder
        self._source = source
        with source:
            self._batches = iter(loader)
        recorder.guard.run("batch", source.begun, self._batches)

    def __iter__(self) -> Iterator[T]:
        return self

    def __getattr__(self, name: str) -> Any:
        """Of an iterator that has more: a generator's `close`, the length of a DataLoader's."""
        if name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __next__(self) -> T:
        recorder = self._recorder
        start = monotonic_ns()
        with self._source:
            batch = next(self._batches)
        recorder.add_phase("data", monotonic_ns() - start)
        for told in recorder.guard.run("batch", self._source.samples, batch) or ():
            recorder.add_batch(told)
            recorder.add_samples(told.size)
        return batch


def _source_of(recorder: Recorder, loader: Any, dataset: str | None) -> BatchSource:
    # Only a program that loaded PyTorch has loaders of it, or something around one.
    if "torch.utils.data" in sys.modules:
        from trilens.sdk.data.torch_loader import TorchLoader

        return TorchLoader(recorder, loader, dataset)
    return Offsets(loader, dataset)
