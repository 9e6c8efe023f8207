"""Made-up series for a random comparison, all in the same 40 minutes, told apart by their names.

Times are odd milliseconds and everything a query says is whole seconds, so that no sample lies on the
boundary of a range: Prometheus 2 takes it there, Prometheus 3 does not.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.labels import make_labels
from trilens.model.series import STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.labels import Labels

INTERVAL_S = 15
SAMPLES = 150
SPAN_S = INTERVAL_S * SAMPLES
BEGIN_S = (int(time.time()) - SPAN_S) // 60 * 60  # whole minutes: subquery steps fall alike in every run

_LIMITS = ("0.1", "0.5", "1", "5", "+Inf")
_RESTART = 50.0  # see `_counter`


@dataclass(frozen=True)
class Dataset:
    """What was drawn; the samples follow from it."""

    seed: int
    gaps: bool
    odd_values: bool  # NaN, infinities and ends of a series

    def rows(self, number: int) -> Iterator[tuple[Labels, int, float]]:
        """Of metrics whose names end in `_number`."""
        rng = np.random.default_rng(self.seed)
        for i, a in enumerate("xyz"):
            for b in "01":
                labels = {"a": a, "b": b} if i or b == "0" else {"a": a, "b": b, "c": "p"}
                yield from self._series(rng, f"gauge_{number}", labels, self._gauge(rng))
                yield from self._series(rng, f"counter_{number}", labels, _counter(rng))
                distinct = 8.0 * rng.integers(-50, 50, SAMPLES) + 2 * i + int(b)
                yield from self._series(rng, f"distinct_{number}", labels, distinct)
        for a in "xyw":
            yield from self._series(rng, f"info_{number}", {"a": a, "c": a + a}, self._gauge(rng))
        for a in "xy":
            steps = rng.integers(0, 4, (SAMPLES, len(_LIMITS)))
            steps[0] += 30  # far from zero, as counters are: see `_counter`
            counts = np.cumsum(np.cumsum(steps, axis=0), axis=1).astype(float)
            for k, limit in enumerate(_LIMITS):
                labels = {"a": a, "le": limit}
                yield from self._series(rng, f"seconds_bucket_{number}", labels, counts[:, k], whole=True)

    def _gauge(self, rng: np.random.Generator) -> np.ndarray:
        """Eighths, whose sums are exact in whatever order they are added."""
        values = np.cumsum(rng.integers(-40, 41, SAMPLES)) / 8.0
        values[rng.random(SAMPLES) < 0.2] = rng.choice([0.0, 1.0, -2.5])
        if self.odd_values:
            for odd in (math.nan, math.inf, -math.inf, STALE_NAN):
                values[rng.random(SAMPLES) < 0.02] = odd
        return values

    def _series(
        self,
        rng: np.random.Generator,
        name: str,
        labels: dict[str, str],
        values: np.ndarray,
        *,
        whole: bool = False,
    ) -> Iterator[tuple[Labels, int, float]]:
        # `whole`: buckets of a histogram come together, or its quantiles hang on how far apart they are.
        begin, end, phase = (0, SAMPLES, 1) if whole else _life(rng)
        kept = np.zeros(SAMPLES, dtype=bool)
        kept[begin:end] = True
        if self.gaps and not whole:
            kept &= rng.random(SAMPLES) > 0.1
            hole = int(rng.integers(0, SAMPLES))
            kept[hole : hole + int(rng.integers(0, 40))] = False
        metric = make_labels({"__name__": name, **labels})
        for i in np.flatnonzero(kept).tolist():
            yield metric, (BEGIN_S + INTERVAL_S * i) * 1000 + phase, float(values[i])


def _life(rng: np.random.Generator) -> tuple[int, int, int]:
    """First sample, last sample and, in milliseconds, when in the interval it is scraped."""
    begin = int(rng.choice([0, 0, 0, rng.integers(0, SAMPLES)]))
    end = int(rng.choice([SAMPLES, SAMPLES, SAMPLES, rng.integers(begin, SAMPLES) + 1]))
    return begin, end, int(rng.integers(0, INTERVAL_S)) * 1000 + int(rng.integers(1, 1000))


def _counter(rng: np.random.Generator) -> np.ndarray:
    """Rises by at most 10, and starts again at 50, not 0.

    Where a window begins before its series, Prometheus 2 and 3 limit a counter's extrapolation at zero
    differently when zero is about one interval away. So far above zero it never is.
    """
    values = np.empty(SAMPLES)
    value, since = _RESTART + float(rng.integers(0, 200)), 0
    for i in range(SAMPLES):
        value += float(rng.integers(0, 11))
        since += 1
        if since > 3 and value > 1.2 * _RESTART and rng.random() < 0.05:
            value, since = _RESTART, 0
        values[i] = value
    return values
