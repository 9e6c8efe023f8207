"""Columns of Python values as Arrow."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_T = TypeVar("_T")


def arrow_table(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [arrow_array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def arrow_array(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_map(kind):
        return pa.array(column, kind)
    # Arrow makes maps of lists of pairs only, a list and a tuple each.
    offsets = pa.array(accumulate(map(len, column), initial=0), pa.int32())
    names = pa.array([name for one in column for name in one], kind.key_type)
    values = pa.array([value for one in column for value in one.values()], kind.item_type)
    return pa.MapArray.from_arrays(offsets, names, values)


def distinct(column: Sequence[_T]) -> tuple[list[_T], NDArray[np.int64]]:
    """The objects that are in it, and which of them is where; equal ones may be there more than once."""
    ids = np.fromiter(map(id, column), np.int64, len(column))
    _, first, places = np.unique(ids, return_index=True, return_inverse=True)
    return [column[at] for at in first.tolist()], places
