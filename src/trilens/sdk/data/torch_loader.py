"""Batches of a PyTorch DataLoader, or of something around one: samples are those that its sampler drew.

Loaded only by programs that have loaded PyTorch.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.data.batch import SampleBatch, own_copy
from trilens.sdk.data.carried import carried_samples
from trilens.sdk.data.dataset_facts import innermost
from trilens.sdk.data.loader_tap import LoaderTap
from trilens.sdk.data.offsets import Offsets
from trilens.sdk.data.position import Position
from trilens.sdk.data.sizes import samples_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.sdk.data.loader_tap import Deliveries, Delivery
    from trilens.sdk.recorder import Recorder

_ACCELERATE: Final = "accelerate.data_loader"


class TorchLoader:
    """Of one iteration. Which DataLoader is behind `loader` is seen when it draws."""

    def __init__(self, recorder: Recorder, loader: Any, dataset: str | None) -> None:
        self._recorder = recorder
        self._loader = loader
        self._dataset = dataset
        self._tap = _tap_of(recorder)
        self._behind: list[Deliveries] = []
        self._offsets = Offsets(loader, dataset)
        self._ahead, self._doubt = _ways_of(loader)
        self._stream: _Stream | None = None
        self._is_own = False  # the DataLoader's own iterator, nothing around it

    def __enter__(self) -> None:
        self._tap.on_new = self._behind.append
        self._tap.open()

    def __exit__(self, *exception: object) -> None:
        self._tap.close()
        self._tap.on_new = None

    def begun(self, batches: Iterator[Any]) -> None:
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        self._is_own = isinstance(batches, _BaseDataLoaderIter)
        if self._is_own and not self._behind:
            self._doubt = "it was being read before run.data"
        for deliveries in self._behind:
            deliveries.pending.clear()  # what a resumed loader read to come to its place
        if self._behind:
            self._stream = _Stream(self._behind[0].loader, stands_at_batch=self._is_own)

    def samples(self, batch: Any) -> Sequence[SampleBatch]:
        if not self._behind:
            if self._doubt is None:
                return self._offsets.samples(batch)
            name = self._dataset or type(self._loader).__name__
            return [SampleBatch(None, dataset=name, size=samples_in(batch), unknown=self._doubt)]
        delivery, facts = self._delivered(), self._behind[0].facts
        name, epoch = self._dataset or facts.name, facts.epoch
        self._recorder.set_epoch(epoch)
        if delivery is not None and delivery.ids is not None:
            ids = own_copy(delivery.ids)
            return [SampleBatch(ids, dataset=name, epoch=epoch, indices=facts.indices)]
        if self._stream is None:  # something around the loader began it only now
            self._stream = _Stream(self._behind[0].loader, stands_at_batch=False)
        why = self._doubt if delivery is None else delivery.unknown
        return self._stream.samples(batch, name, epoch, why or "nobody says which")

    def _delivered(self) -> Delivery | None:
        """What the loader behind handed over for this batch; None when that is not certain, from then on."""
        deliveries = self._behind[0]
        if not self._is_own and len(self._behind) > 1:
            self._doubt = self._doubt or "several loaders are behind one"
        if self._doubt is None:
            found = deliveries.pending.popleft() if deliveries.pending else None
            if found is not None and len(deliveries.pending) <= self._ahead:
                return found
            self._doubt = "what is around the loader does not give each of its batches when it is read"
        deliveries.pending.clear()
        return None


class _Stream:
    """A dataset that is read on and on: samples carry where they come from, or it tells where it stands."""

    def __init__(self, loader: Any, *, stands_at_batch: bool) -> None:
        """`stands_at_batch`: nothing around the loader has read further than the batch that it gave."""
        dataset, _ = innermost(loader.dataset)
        can_tell = hasattr(dataset, "trilens_position") and stands_at_batch
        self._only_workers_know = can_tell and loader.num_workers > 0
        self._position = Position(dataset) if can_tell and loader.num_workers == 0 else None
        if self._position is not None:
            self._position.begun()

    def samples(self, batch: Any, name: str, epoch: int | None, why: str) -> list[SampleBatch]:
        if carried := carried_samples(batch, name, epoch):
            return carried
        size = samples_in(batch)
        if self._position is not None:
            return [self._position.advance(size, name, epoch)]
        if self._only_workers_know:
            why = "its workers know the position: let samples carry __shard__ and __offset__"
        return [SampleBatch(None, dataset=name, epoch=epoch, size=size, unknown=why)]


_taps: weakref.WeakKeyDictionary[Recorder, LoaderTap] = weakref.WeakKeyDictionary()


def _tap_of(recorder: Recorder) -> LoaderTap:
    """One for all loaders of a run, so that one with persistent workers is known again in the next epoch."""
    tap = _taps.get(recorder)
    if tap is None:
        tap = _taps[recorder] = LoaderTap(recorder.guard)
    return tap


def _ways_of(loader: Any) -> tuple[int, str | None]:
    """How many batches it reads ahead of what it gives, and why its samples cannot be told."""
    kind = type(loader)  # not __class__, which Accelerate's loaders say is DataLoader
    match (kind.__module__, kind.__name__):
        case (module, "DataLoaderShard") if module == _ACCELERATE:
            return 1, None
        case (module, "DataLoaderDispatcher") if module == _ACCELERATE:
            return 0, "one process reads for all ranks, and hands each its part"
    return 0, None
