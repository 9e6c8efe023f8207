"""A query's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame
    from trilens.model.series import Floats, SampleBlock, Times


@dataclass(frozen=True, slots=True)
class QueryResult:
    """`values[i, k]` of series i at `steps_ms[k]`, where `present[i, k]`; present None means all are.

    An instant query has one step. A "scalar" is one row without labels. A "string" is in `text`. An instant
    query of a range selector is a "matrix" of raw samples, held in `samples`; values is empty then.
    """

    kind: Literal["vector", "matrix", "scalar", "string"]
    labels: LabelFrame
    steps_ms: Times
    values: Floats
    present: NDArray[np.bool_] | None = None
    text: str = ""
    samples: SampleBlock | None = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
