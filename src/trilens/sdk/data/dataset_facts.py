"""What holds for all batches that one iteration over a DataLoader gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_WRAPPERS: Final = 8


class DatasetFacts(NamedTuple):
    name: str
    indices: tuple[Sequence[int], ...]  # of subsets, outermost first: an id is one of what they were cut from
    epoch: int | None
    has_batch_sampler: bool


def facts_of(loader: Any) -> DatasetFacts:
    dataset, indices = innermost(loader.dataset)
    has_batch_sampler = getattr(loader, "batch_sampler", None) is not None
    return DatasetFacts(_name_of(dataset), indices, _epoch_of(loader), has_batch_sampler)


def innermost(dataset: Any) -> tuple[Any, tuple[Sequence[int], ...]]:
    """The dataset that subsets were cut from, and which of its samples each of them has."""
    from torch.utils.data import Subset

    indices: list[Sequence[int]] = []
    while isinstance(dataset, Subset):
        indices.append(dataset.indices)
        dataset = dataset.dataset
    return dataset, tuple(indices)


def _name_of(dataset: Any) -> str:
    """As Hugging Face names a dataset and its split, else by its class."""
    info = getattr(dataset, "info", None)
    name = getattr(info, "dataset_name", None) or getattr(info, "builder_name", None)
    if not isinstance(name, str):
        return type(dataset).__name__
    split = getattr(dataset, "split", None)
    return name if split is None else f"{name}/{split}"


def _epoch_of(loader: Any) -> int | None:
    """As a sampler that shuffles by it says; nobody else knows it through a resume."""
    sampler = loader
    for _ in range(_MOST_WRAPPERS):
        inner = getattr(sampler, "batch_sampler", None)
        sampler = getattr(sampler, "sampler", None) if inner is None else inner
        epoch = getattr(sampler, "epoch", None)
        if isinstance(epoch, int) and epoch >= 0:
            return epoch
    return None
