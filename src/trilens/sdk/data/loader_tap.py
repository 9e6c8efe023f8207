"""Which samples the batches of a DataLoader have, where somebody else iterates over it.

A framework makes the iterator itself, out of reach, and often reads a batch ahead. So nothing is wrapped: the
two methods that every iterator of PyTorch's DataLoader goes through, `_next_index` (draws the samples of a
batch) and `__next__` (hands a batch over), are looked at instead. Loaders, samplers, their order and their
random numbers stay as they are, with workers, prefetching and skipped batches too. Batches come out in the
order in which they were drawn; where that does not hold, their samples are unknown.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.sdk.data.batch import SampleBatch
from trilens.sdk.data.dataset_facts import facts_of
from trilens.sdk.data.sizes import samples_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.data.dataset_facts import DatasetFacts
    from trilens.sdk.guard import Guard

MOST_PENDING: Final = 1024  # batches that an iterator handed over and nobody used: those of an evaluation
_ATTRIBUTE: Final = "_trilens_deliveries"


class Delivery(NamedTuple):
    """A batch that a loader handed over."""

    facts: DatasetFacts
    ids: Any  # as the sampler drew them; None when unknown
    unknown: str | None
    samples: int | None
    tokens: int | None
    wait_ns: int

    def told(self, doubt: str | None, epoch: int | None) -> SampleBatch:
        return SampleBatch(
            self.ids,
            dataset=self.facts.name,
            epoch=self.facts.epoch if epoch is None else epoch,
            size=self.samples,
            unknown=doubt or self.unknown,
            indices=self.facts.indices,
        )


class Deliveries:
    """What one iterator has handed over, oldest first, until somebody takes it."""

    def __init__(self, loader: Any, tap: LoaderTap) -> None:
        self.facts = facts_of(loader)
        self.tap = tap
        self.pending: deque[Delivery] = deque(maxlen=MOST_PENDING)
        self.doubt = _doubt(loader)
        self._drawn: deque[Any] = deque()
        # The loader of persistent workers has the iterator, which has this: without a cycle, workers end when
        # the program lets its loader go.
        self._loader = weakref.ref(loader)

    @property
    def loader(self) -> Any:
        """None once the program has let it go."""
        return self._loader()

    def draw(self, index: Any) -> None:
        if self.doubt is None:
            self._drawn.append(index)

    def deliver(self, batch: Any, wait_ns: int) -> Delivery:
        ids = None
        if self.doubt is None:
            if self._drawn:
                ids = _batch_of(self.facts, self._drawn.popleft())
            else:
                self.doubt = "the loader does not tell what its sampler draws"
        if len(self.pending) == MOST_PENDING:
            self.doubt = "many batches were read and not used"
        samples = samples_in(batch) if ids is None else len(ids)
        delivery = Delivery(self.facts, ids, self.doubt, samples, _tokens_in(batch), wait_ns)
        self.pending.append(delivery)
        return delivery

    def doubted(self, why: str) -> None:
        """From now on nobody can say which batch is which."""
        self.doubt = self.doubt or why
        self._drawn.clear()


class LoaderTap:
    """Listens to the loaders that the thread that opened it reads; of several, the one opened last does."""

    def __init__(
        self,
        guard: Guard,
        on_new: Callable[[Deliveries], None] | None = None,
        on_delivery: Callable[[Deliveries, Delivery], None] | None = None,
    ) -> None:
        install()
        self.guard = guard
        self.on_new = on_new
        self.on_delivery = on_delivery
        self._times_open = 0

    @property
    def is_open(self) -> bool:
        return self._times_open > 0

    def open(self) -> None:
        self._times_open += 1
        _here.taps.append(self)

    def close(self) -> None:
        """By any thread; once for each time that it was opened."""
        self._times_open = max(0, self._times_open - 1)
        if _here.taps and _here.taps[-1] is self:
            _here.taps.pop()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.taps: list[LoaderTap] = []


_here = _Thread()
_installed = False


def install() -> None:
    """AttributeError where the loaders of this PyTorch are not those that are known here."""
    global _installed
    if _installed:
        return
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    begin, reset, draw, hand_over = base.__init__, base._reset, base._next_index, base.__next__

    def make(iterator: Any, loader: Any) -> None:
        tap = _listening()
        if tap is not None:
            # before the rest: an iterator with workers draws its first batches while it is made
            tap.guard.run("batch", _follow, iterator, loader, tap)
        begin(iterator, loader)

    def begin_again(iterator: Any, loader: Any, first_iter: bool = False) -> None:
        tap = _listening()
        if tap is not None and not first_iter:
            # the next epoch of persistent workers, of which another tap may have seen the last one
            tap.guard.run("batch", _follow, iterator, loader, tap)
        reset(iterator, loader, first_iter)

    def draw_one(iterator: Any) -> Any:
        index = draw(iterator)
        deliveries = _deliveries_of(iterator)
        if deliveries is not None:
            deliveries.draw(index)
        return index

    def give(iterator: Any) -> Any:
        deliveries = _deliveries_of(iterator)
        if deliveries is None:
            return hand_over(iterator)
        start = monotonic_ns()
        try:
            batch = hand_over(iterator)
        except StopIteration:
            raise
        except BaseException:
            deliveries.doubted("the loader raised an error")
            raise
        deliveries.tap.guard.run("batch", _deliver, deliveries, batch, monotonic_ns() - start)
        return batch

    base.__init__, base._reset, base._next_index, base.__next__ = make, begin_again, draw_one, give
    _installed = True


def _listening() -> LoaderTap | None:
    taps = _here.taps
    while taps and not taps[-1].is_open:
        taps.pop()
    return taps[-1] if taps else None


def _deliveries_of(iterator: Any) -> Deliveries | None:
    """None for one that nobody follows. One that is read behind the back of its tap cannot be followed on."""
    found: Deliveries | None = getattr(iterator, _ATTRIBUTE, None)
    if found is None or found.tap is _listening():
        return found
    found.doubted("something else reads the loader too, or another thread does")
    return None


def _follow(iterator: Any, loader: Any, tap: LoaderTap) -> None:
    deliveries = Deliveries(loader, tap)
    setattr(iterator, _ATTRIBUTE, deliveries)
    _tell_new(deliveries)


def _tell_new(deliveries: Deliveries) -> None:
    tap = deliveries.tap
    if tap.on_new is not None:
        tap.guard.run("batch", tap.on_new, deliveries)


def _deliver(deliveries: Deliveries, batch: Any, wait_ns: int) -> None:
    delivery = deliveries.deliver(batch, wait_ns)
    tap = deliveries.tap
    if tap.on_delivery is not None:
        tap.on_delivery(deliveries, delivery)


def _batch_of(facts: DatasetFacts, index: Any) -> Any:
    """A batch sampler draws many at once; without one, the sampler draws one sample, or a list of them."""
    if not facts.has_batch_sampler and not isinstance(index, list):
        return [index]
    return index if hasattr(index, "__len__") else list(index)


def _doubt(loader: Any) -> str | None:
    """Why the samples of a loader's batches cannot be told."""
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        return "an iterable dataset does not tell its samples"
    if loader.num_workers > 0 and not getattr(loader, "in_order", True):
        return "in_order=False: batches come in the order in which workers finish"
    return None


def _tokens_in(batch: Any) -> int | None:
    """Padding included, where a batch has the name that language models read."""
    if not isinstance(batch, Mapping):
        return None
    try:
        return int(batch["input_ids"].numel())
    except (TypeError, KeyError, IndexError, AttributeError, ValueError):
        return None
