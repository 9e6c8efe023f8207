"""What tells which samples a batch has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.sdk.data.batch import SampleBatch


class BatchSource(Protocol):
    """Of one iteration. Entered around each call into the loader."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exception: object) -> None: ...

    def begun(self, batches: Iterator[Any]) -> None:
        """The loader's iterator was made."""

    def samples(self, batch: Any) -> Sequence[SampleBatch]:
        """Of the batch that the iterator has just given: one, or one for each shard it comes from."""
