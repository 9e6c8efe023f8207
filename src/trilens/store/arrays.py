"""Arrays with one entry a reference, which grow with the references."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_T = TypeVar("_T", bound=np.generic)


def grown(array: NDArray[_T], size: int, fill: int = 0) -> NDArray[_T]:
    """A copy with `size` rows, the new ones filled with `fill`."""
    shape = (size, *array.shape[1:])
    # Zeros cost memory only once they are written.
    larger = np.full(shape, fill, dtype=array.dtype) if fill else np.zeros(shape, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
