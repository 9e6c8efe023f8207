"""How the ids of a batch's samples are told in little space, and compared."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class SampleRange:
    """first, first + stride, first + 2 * stride, ...: what a sampler that does not shuffle gives a rank."""

    first: int
    count: int
    stride: int = 1

    def __contains__(self, sample: object) -> bool:
        if not isinstance(sample, int) or self.count < 1:
            return False
        distance = sample - self.first
        if self.stride == 0:
            return distance == 0
        return distance % self.stride == 0 and 0 <= distance // self.stride < self.count


def as_range(ids: Sequence[int]) -> SampleRange | None:
    """None when they are not evenly spaced."""
    if not ids:
        return None
    first = ids[0]
    if len(ids) == 1:
        return SampleRange(first, 1)
    stride = ids[1] - first
    if stride == 0 or any(b - a != stride for a, b in pairwise(ids)):
        return None
    return SampleRange(first, len(ids), stride)


def digest(ids: Sequence[int] | Sequence[str]) -> str:
    """The same for the same ids in the same order, however they were told."""
    if ids and isinstance(ids[0], str):
        content = b"\0".join(str(one).encode("utf-8", "replace") for one in ids)  # as names are told
    else:
        content = array("q", cast("Sequence[int]", ids)).tobytes()
    return hashlib.blake2b(content, digest_size=8).hexdigest()
