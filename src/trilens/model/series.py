"""What crosses the seam between a place that holds samples and the code that computes on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trilens.model.labels import LabelFrame
    from trilens.model.matcher import Matcher

Floats: TypeAlias = NDArray[np.float64]
Times: TypeAlias = NDArray[np.int64]
"""Milliseconds since the epoch, as Prometheus counts them."""

Handles: TypeAlias = NDArray[np.int64]
"""Series as a sink names them to collectors. A handle is never used again for another series."""

MAX_AHEAD_MS: Final = 600_000
"""How far ahead of our clock a sample may be, as in Prometheus: clocks differ a little, and one sample from
the far future would make every honest one look too old."""

STALE_BITS: Final = 0x7FF0000000000002  # Prometheus's "this series has ended" marker, a NaN by its bits
STALE_NAN: Final[float] = float(np.array([STALE_BITS], dtype=np.uint64).view(np.float64)[0])


def stale_mask(values: Floats) -> NDArray[np.bool_]:
    """Which values are staleness markers. NaN compares unequal to itself, so only the bits can tell."""
    mask: NDArray[np.bool_] = np.ascontiguousarray(values).view(np.uint64) == np.uint64(STALE_BITS)
    return mask


class SampleBlock(NamedTuple):
    """Samples of n series one after the other: series i owns `t[offsets[i]:offsets[i+1]]`, t ascending."""

    t: Times
    v: Floats
    offsets: NDArray[np.int64]

    @classmethod
    def empty(cls, series: int = 0) -> SampleBlock:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(series + 1, np.int64))


@dataclass(frozen=True, slots=True)
class SelectRequest:
    """All samples of the series that match, with start_ms < t <= end_ms. Staleness markers are included."""

    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Selected:
    labels: LabelFrame
    samples: SampleBlock
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GridRequest:
    """A leaf computed where the samples lie: `function` over (t - range_ms, t] at every step.

    `function` is a PromQL function that takes one range vector, or "instant" for a plain selector, where
    range_ms is the lookback and a staleness marker as the last sample means "nothing here". `summary` names
    the columns of `Summaries` from which the asker could compute it too; none means that it could not.
    """

    matchers: tuple[Matcher, ...]
    function: str
    start_ms: int
    end_ms: int
    step_ms: int
    range_ms: int
    summary: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        return (self.end_ms - self.start_ms) // self.step_ms + 1


@dataclass(frozen=True, slots=True)
class Summaries:
    """What the samples of each series amount to in windows of equal width, side by side.

    Window j is (first_end_ms + (j - 1) * width_ms, first_end_ms + j * width_ms], and the first one begins
    where the request's first range begins. Each column is (series, windows): `count` of samples, their
    `min`, `max`, `sum`, the `first` and `last` value with `first_t` and `last_t`; `reset_sum`, the values
    just before each counter reset; `ended`, whether a staleness marker follows the last sample. Where
    `count` is 0 the others mean nothing, but for `ended`.
    """

    labels: LabelFrame
    width_ms: int
    first_end_ms: int
    columns: dict[str, NDArray[np.generic]]
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Gridded:
    """`values[i, k]` of series i at step k, where `present[i, k]`; present None means all are.

    Rows without any present value may be left out.
    """

    labels: LabelFrame
    values: Floats
    present: NDArray[np.bool_] | None
    warnings: tuple[str, ...] = field(default=())


class AppendOutcome(NamedTuple):
    """What became of a batch. A refused sample is counted once, under the first reason that holds."""

    accepted: int
    repeated: int = 0  # same time, same value as the last one: taken silently, as Prometheus does
    duplicate: int = 0  # same time, another value: refused
    out_of_order: int = 0  # older than the series' newest sample and outside the out-of-order window
    too_old: int = 0  # older than anything the store still takes
    too_far_ahead: int = 0  # in the future: one such sample would make every honest one too old
