"""A value of a run over its steps, in columns: a long run has hundreds of thousands of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trilens.model.run_sums import CurvePoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The fields of `CurvePoint`, each of all points, by step and attempt."""

    step: Ints
    attempt: Ints
    t_us: Ints
    mean: Floats
    worst: Floats
    worst_rank: Ints

    @classmethod
    def of(cls, points: Iterable[CurvePoint]) -> Self:
        every = [*points]
        return cls(
            np.array([one.step for one in every], np.int64),
            np.array([one.attempt for one in every], np.int64),
            np.array([one.t_us for one in every], np.int64),
            np.array([one.mean for one in every], np.float64),
            np.array([one.worst for one in every], np.float64),
            np.array([one.worst_rank for one in every], np.int64),
        )

    def __len__(self) -> int:
        return len(self.step)

    def __iter__(self) -> Iterator[CurvePoint]:
        return map(self.point, range(len(self)))

    def point(self, at: int) -> CurvePoint:
        return CurvePoint(
            int(self.step[at]),
            int(self.attempt[at]),
            int(self.t_us[at]),
            float(self.mean[at]),
            float(self.worst[at]),
            int(self.worst_rank[at]),
        )
