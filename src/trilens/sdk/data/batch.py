"""The samples of one batch: taken as they are in the program's time, described in the background's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.model.sample_ids import as_range, digest

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_IDS: Final = 65_536  # told one by one; a batch of more is told by its count and digest
MOST_NAME_BYTES: Final = 1024 * 1024
_LONGEST_TEXT: Final = 4_096  # the server takes no longer names
_INT64: Final = range(-(2**63), 2**63)


class SampleBatch:
    """`ids` is what a sampler gave: a list, a range, an array or a tensor of numbers, or names. It is not
    copied: whoever makes this hands it over."""

    __slots__ = ("_dataset", "_epoch", "_ids", "_indices", "_shard", "_unknown", "size")

    def __init__(
        self,
        ids: Any,
        *,
        dataset: str = "",
        shard: str | None = None,
        epoch: int | None = None,
        size: int | None = None,
        unknown: str | None = None,
        indices: Sequence[Sequence[int]] = (),
    ) -> None:
        """`indices`: of subsets, outermost first; an id is a place in the first of them."""
        self._ids = ids
        self._dataset = dataset[:_LONGEST_TEXT]
        self._shard = None if shard is None else shard[:_LONGEST_TEXT]
        self._epoch = epoch
        self._unknown = unknown
        self._indices = indices
        self.size = _count(ids) if size is None else size

    def told(self) -> dict[str, object]:
        """As in `batches` of the protocol, without n, step and i."""
        optional = {"shard": self._shard, "epoch": self._epoch, "size": self.size}
        fields: dict[str, object] = {name: value for name, value in optional.items() if value is not None}
        fields["dataset"] = self._dataset
        if self._unknown is not None or self._ids is None:
            return {**fields, "unknown": self._unknown or "nobody said which"}
        try:
            ids = _plain(self._ids)
            for indices in self._indices:
                ids = [int(indices[i]) for i in ids]
            return {**fields, "size": len(ids), **_told_ids(ids)}
        except _Unreadable as error:
            return {**fields, "unknown": str(error)}


def told_batch(
    ids: object,
    dataset: str = "",
    shard: str | None = None,
    epoch: int | None = None,
    size: int | None = None,
) -> SampleBatch:
    """What a program says itself."""
    return SampleBatch(
        own_copy(ids),
        dataset=str(dataset),
        shard=None if shard is None else str(shard),
        epoch=epoch,
        size=size,
    )


class _Unreadable(Exception):
    pass


def _count(ids: Any) -> int | None:
    try:
        return None if ids is None else len(ids)
    except TypeError:
        return None


def own_copy(ids: Any) -> Any:
    """A program may use its list again before the background reads it. A single id is a batch of one."""
    if type(ids) is list:
        return ids.copy()
    if isinstance(ids, str | int):
        return [ids]
    if ids is None or isinstance(ids, range | tuple) or _is_on_device(ids):
        return ids
    copy = getattr(ids, "copy", None) or getattr(ids, "clone", None)
    return copy() if callable(copy) else list(ids)


def _is_on_device(ids: Any) -> bool:
    return getattr(getattr(ids, "device", None), "type", "cpu") not in ("cpu", "meta")


def _plain(ids: Any) -> list[Any]:
    if _is_on_device(ids):
        raise _Unreadable("the ids are on a device, and are not read back from there")
    as_list = getattr(ids, "tolist", None)
    plain = as_list() if callable(as_list) else ids
    plain = list(plain) if isinstance(plain, list | tuple | range | set | frozenset) else [plain]
    if {int, str}.issuperset(map(type, plain)):
        return plain
    # Numbers of an array's type inside a list; what else there is stays what it is.
    return [one.item() if _is_number_of_array(one) else one for one in plain]


def _is_number_of_array(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0 and not _is_on_device(value)


def _told_ids(ids: list[Any]) -> dict[str, object]:
    kinds = {type(one) for one in ids}
    if kinds <= {int} and all(one in _INT64 for one in ids):
        if (even := as_range(ids)) is not None and even.stride in _INT64:
            return {"range": [even.first, even.count, even.stride], "digest": digest(ids)}
        if len(ids) > MOST_IDS:
            return {"unknown": "too many to tell one by one", "digest": digest(ids)}
        return {"ids": ids, "digest": digest(ids)}
    if kinds == {str}:
        if len(ids) > MOST_IDS or sum(map(len, ids)) > MOST_NAME_BYTES or max(map(len, ids)) > _LONGEST_TEXT:
            return {"unknown": "too many to tell one by one, or too long", "digest": digest(ids)}
        return {"names": ids, "digest": digest(ids)}
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise _Unreadable(f"the ids are neither whole numbers nor names: {names}"[:200])
