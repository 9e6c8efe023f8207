"""How many samples are in a batch, where that can be seen without touching them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def samples_in(batch: Any) -> int | None:
    """None where it could be this or that: [a, b] is two samples, or inputs and targets of many."""
    if _is_array(batch):
        return _rows(batch)
    if isinstance(batch, Mapping | tuple):  # fields, each with all samples
        fields = batch.values() if isinstance(batch, Mapping) else batch
        counts = {_rows(field) if _is_array(field) else len(field) for field in fields if _is_rowed(field)}
        return counts.pop() if len(counts) == 1 else None
    if isinstance(batch, list):
        return None if any(map(_is_array, batch)) else len(batch)
    return None


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape")


def _is_rowed(value: Any) -> bool:
    return isinstance(value, list) or _is_array(value)


def _rows(array: Any) -> int | None:
    try:
        return int(array.shape[0])
    except (TypeError, IndexError, ValueError):
        return None
