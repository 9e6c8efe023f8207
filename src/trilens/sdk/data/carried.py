"""Samples that say themselves which they are: streams whose batches carry names or places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trilens.sdk.data.batch import SampleBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

# (what a sample is, where it lies): WebDataset's own, and one for datasets that count.
_FIELDS = (("__key__", "__url__"), ("__offset__", "__shard__"))


def carried_samples(batch: Any, dataset: str, epoch: int | None = None) -> list[SampleBatch]:
    """One for each shard that the batch comes from; empty when it carries nothing."""
    if not isinstance(batch, Mapping):
        return []
    for which, where in _FIELDS:
        if which not in batch:
            continue
        ids = _listed(batch[which])
        shards = batch.get(where)
        if shards is None or isinstance(shards, str):
            return [SampleBatch(ids, dataset=dataset, shard=shards, epoch=epoch)]
        return [
            SampleBatch(part, dataset=dataset, shard=shard, epoch=epoch)
            for shard, part in _by_shard(ids, _listed(shards)).items()
        ]
    return []


def _listed(value: Any) -> Any:
    """A sample that was not put into a batch is a batch of one."""
    return [value] if isinstance(value, str | int) else value


def _by_shard(ids: Sequence[Any], shards: Sequence[Any]) -> dict[str, Any]:
    if len(set(shards)) == 1:
        return {str(shards[0]): ids}
    parts: dict[str, list[Any]] = {}
    for one, shard in zip(ids, shards, strict=True):
        parts.setdefault(str(shard), []).append(one)
    return parts
