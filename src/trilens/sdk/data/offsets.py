"""Batches of something that is no DataLoader: samples are known by their place in what was delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.data.batch import SampleBatch
from trilens.sdk.data.carried import carried_samples
from trilens.sdk.data.sizes import samples_in

if TYPE_CHECKING:
    from collections.abc import Iterator

AS_DELIVERED: Final = "as delivered"  # a place in the stream, which need not be one in the data


class Offsets:
    """A sequence has its samples in order, so that a place in it is a sample. Of anything else only the order
    of delivery is known, and the name of the shard says so."""

    def __init__(self, loader: Any, dataset: str | None) -> None:
        self._dataset = dataset or type(loader).__name__
        is_sequence = isinstance(loader, list | tuple) or hasattr(loader, "shape")
        self._shard = None if is_sequence else AS_DELIVERED
        self._next: int | None = 0  # None once a batch did not show how many it has

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass

    def begun(self, batches: Iterator[Any]) -> None:
        pass

    def samples(self, batch: Any) -> list[SampleBatch]:
        if carried := carried_samples(batch, self._dataset):
            return carried
        size = samples_in(batch)
        if size is None or self._next is None:
            self._next = None
            return [SampleBatch(None, dataset=self._dataset, size=size, unknown="its size cannot be seen")]
        first, self._next = self._next, self._next + size
        return [SampleBatch(range(first, self._next), dataset=self._dataset, shard=self._shard)]
