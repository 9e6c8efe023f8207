"""A SeriesSource that holds its samples in memory: for evaluation scripts, rule tests and examples."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final

import numpy as np
import re2

from trilens.model.errors import PromQLUnsupported
from trilens.model.labels import METRIC_NAME, LabelFrame, Symbols, make_labels
from trilens.model.series import Gridded, GridRequest, SampleBlock, Selected, SelectRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trilens.model.labels import Labels
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard

NATIVE_HISTOGRAMS: Final = "native histograms"
START_TIMESTAMPS: Final = "start timestamps"


class _Series:
    def __init__(self) -> None:
        self.samples: dict[int, float] = {}
        self.unsupported: dict[int, str] = {}  # when a sample lay here that cannot be held, and what it was
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, t_ms: int, value: float) -> None:
        self.samples[t_ms] = value
        self._arrays = None

    def between(self, after_ms: int, until_ms: int) -> tuple[np.ndarray, np.ndarray]:
        if self._arrays is None:
            t = np.array(sorted(self.samples), dtype=np.int64)
            v = np.array([self.samples[x] for x in t.tolist()], dtype=np.float64)
            self._arrays = (t, v)
        t, v = self._arrays
        lo, hi = np.searchsorted(t, [after_ms, until_ms], side="right")
        return t[lo:hi], v[lo:hi]


class MemorySource:
    """Not thread-safe while it is being filled."""

    def __init__(self) -> None:
        self._symbols = Symbols()
        self._series: dict[Labels, _Series] = {}
        self._by_name: dict[str, list[Labels]] = {}  # in order

    @property
    def symbols(self) -> Symbols:
        return self._symbols

    def add(self, labels: Mapping[str, str], samples: Iterable[tuple[int, float]]) -> None:
        """A later sample takes the place of one at the same time."""
        series = self._of(labels)
        for t_ms, value in samples:
            series.add(t_ms, value)

    def mark_unsupported(self, labels: Mapping[str, str], times_ms: Iterable[int], what: str) -> None:
        """Remember samples that cannot be held; a query that would read one is refused."""
        self._of(labels).unsupported.update(dict.fromkeys(times_ms, what))

    def _of(self, labels: Mapping[str, str]) -> _Series:
        key = make_labels(labels)
        if key not in self._series:
            self._series[key] = _Series()
            insort(self._by_name.setdefault(labels.get(METRIC_NAME, ""), []), key)
        return self._series[key]

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        tests = [(m.name, _test(m)) for m in request.matchers]
        name = next((m.value for m in request.matchers if m.name == METRIC_NAME and m.op == "="), None)
        rows, times, values = [], [], []
        for labels in sorted(self._series) if name is None else self._by_name.get(name, ()):
            series, named = self._series[labels], dict(labels)
            if not all(test(named.get(name, "")) for name, test in tests):
                continue
            for t_ms, what in series.unsupported.items():
                if request.start_ms < t_ms <= request.end_ms:
                    raise PromQLUnsupported(f"{what} are not supported")
            t, v = series.between(request.start_ms, request.end_ms)
            if len(t):
                guard.take_samples(len(t))
                rows.append(named)
                times.append(t)
                values.append(v)
        guard.take_series(len(rows))
        if not rows:
            return Selected(LabelFrame.empty(self._symbols), SampleBlock.empty())
        offsets = np.concatenate(([0], np.cumsum([len(t) for t in times]))).astype(np.int64)
        block = SampleBlock(np.concatenate(times), np.concatenate(values), offsets)
        return Selected(LabelFrame.of(self._symbols, rows), block)

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | None:
        return None


def _test(matcher: Matcher) -> Callable[[str], bool]:
    value = matcher.value
    match matcher.op:
        case "=":
            return lambda text: text == value
        case "!=":
            return lambda text: text != value
        case "=~" | "!~":
            pattern = re2.compile(f"(?s:{value})")
            wanted = matcher.op == "=~"
            return lambda text: (pattern.fullmatch(text) is not None) == wanted
