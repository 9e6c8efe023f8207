"""Scraped samples in memory: taken in as a store takes them, and asked as one is."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.detect.figures import COLUMN_MS, FIELDS
from trilens.model.labels import METRIC_NAME, LabelFrame, Symbols
from trilens.model.series import STALE_NAN, AppendOutcome, SampleBlock, Selected, stale_mask
from trilens.resolve.gpus.reports import METRICS, read_report
from trilens.serve.gpu_reports import Told
from trilens.serve.own_queries import Matrix, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.detect.figures import Field
    from trilens.model.labels import Labels
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.model.series import Floats, GridRequest, Handles, SelectRequest, Times
    from trilens.resolve.gpus.reports import Report
    from trilens.serve.own_queries import Times as Moments

_LOOKBACK_MS: Final = 300_000
_RECENT: Final = 4  # samples of a series that are looked at when columns are made
_NAMES: Final = re.compile(r'(?:\{__name__=~")?([\w|()]+?)(?:"\})?')
_SHOWN: Final = re.compile(r'(?P<when>timestamp\()?(?P<name>\w+)\{run=""\}\)?')


class Samples:
    """A sink for scrapes, and a source for the engine. Nothing is ever forgotten."""

    def __init__(self) -> None:
        self.symbols = Symbols()
        self.labels: list[dict[str, str]] = []
        self.by_name: defaultdict[str, list[int]] = defaultdict(list)
        self._handles: dict[Labels, int] = {}
        self._t_ms: NDArray[np.int64] = np.zeros((256, _RECENT), np.int64)
        self._values: NDArray[np.float64] = np.full((256, _RECENT), np.nan)
        self._log: list[tuple[Handles, Times, Floats]] = []
        self._sorted: tuple[Handles, Times, Floats] | None = None

    # As a sink

    def series(self, labels: Labels) -> int:
        handle = self._handles.get(labels)
        if handle is None:
            handle = self._handles[labels] = len(self.labels)
            named = dict(labels)
            self.labels.append(named)
            self.by_name[named[METRIC_NAME]].append(handle)
            if handle >= len(self._t_ms):
                more = np.zeros_like(self._t_ms)
                self._t_ms = np.concatenate([self._t_ms, more])
                self._values = np.concatenate([self._values, np.full(more.shape, np.nan)])
        return handle

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        return np.ones(len(handles), bool)

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        self._log.append((handles, t_ms, values))
        self._sorted = None
        for kept, new in ((self._t_ms, t_ms), (self._values, values)):
            kept[handles, :-1] = kept[handles, 1:]
            kept[handles, -1] = new
        return AppendOutcome(len(handles))

    def end(self, handles: Handles, t_ms: int) -> None:
        if len(handles):
            self.append(handles, np.full(len(handles), t_ms, np.int64), np.full(len(handles), STALE_NAN))

    def add(self, labels: Labels, t_ms: int, value: float) -> None:
        self.append(np.array([self.series(labels)]), np.array([t_ms], np.int64), np.array([value]))

    # What is there now

    def alive(self, name: str, at_ms: int) -> list[tuple[int, int, float]]:
        """Handle, time and value of the last sample of each series of that name that has not ended."""
        handles = np.array(self.by_name.get(name, ()), np.int64)
        if not len(handles):
            return []
        t_ms, values = self._t_ms[handles, -1], self._values[handles, -1]
        kept = (t_ms > at_ms - _LOOKBACK_MS) & ~stale_mask(values)
        return list(zip(handles[kept].tolist(), t_ms[kept].tolist(), values[kept].tolist(), strict=True))

    def columns(self, names: Sequence[str], moments: Moments) -> tuple[list[int], NDArray[np.float64]]:
        """What was said in the window that ends with each moment, of every series of these names."""
        handles = [handle for name in names for handle in self.by_name.get(name, ())]
        found = np.full((len(handles), moments.moments), np.nan)
        t_ms, values = self._t_ms[handles], self._values[handles]
        rows = np.arange(len(handles))
        at = (t_ms - moments.start_ms + moments.step_ms - 1) // moments.step_ms
        for one in range(_RECENT):  # a later one takes the place of one before it
            there = (at[:, one] >= 0) & (at[:, one] < moments.moments) & ~stale_mask(values[:, one])
            found[rows[there], at[there, one]] = values[there, one]
        return handles, found

    # As a source

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        del guard
        handles, t_ms, values = self._in_order()
        chosen = [handle for handle in self._candidates(request.matchers) if self._fits(handle, request)]
        begins = np.searchsorted(handles, chosen, side="left")
        ends = np.searchsorted(handles, chosen, side="right")
        kept, times, told = [], [], []
        for handle, begin, end in zip(chosen, begins.tolist(), ends.tolist(), strict=True):
            low, high = begin + np.searchsorted(
                t_ms[begin:end], [request.start_ms, request.end_ms], side="right"
            )
            if high > low:
                kept.append(self.labels[handle])
                times.append(t_ms[low:high])
                told.append(values[low:high])
        if not kept:
            return Selected(LabelFrame.empty(self.symbols), SampleBlock.empty())
        offsets = np.concatenate(([0], np.cumsum([len(one) for one in times]))).astype(np.int64)
        block = SampleBlock(np.concatenate(times), np.concatenate(told), offsets)
        return Selected(LabelFrame.of(self.symbols, kept), block)

    def grid(self, request: GridRequest, guard: QueryGuard) -> None:
        del request, guard

    def _in_order(self) -> tuple[Handles, Times, Floats]:
        if self._sorted is None:
            handles, t_ms, values = (np.concatenate(column) for column in zip(*self._log, strict=True))
            order = np.lexsort((t_ms, handles))
            self._sorted = (handles[order], t_ms[order], values[order])
        return self._sorted

    def _candidates(self, matchers: tuple[Matcher, ...]) -> Sequence[int]:
        name = next((one.value for one in matchers if one.name == METRIC_NAME and one.op == "="), None)
        return range(len(self.labels)) if name is None else self.by_name.get(name, ())

    def _fits(self, handle: int, request: SelectRequest) -> bool:
        labels = self.labels[handle]
        return all(_fits(matcher, labels.get(matcher.name, "")) for matcher in request.matchers)


def _fits(matcher: Matcher, text: str) -> bool:
    if matcher.op in ("=", "!="):
        return (text == matcher.value) == (matcher.op == "=")
    return (re.fullmatch(matcher.value, text) is not None) == (matcher.op == "=~")


class LastReports:
    """Which GPUs report, and who holds them, by the last scrapes."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._known: dict[int, Report | None] = {}
        self._same: dict[Report, Report] = {}

    def read(self, at_ms: int) -> Told:
        found: dict[int, Report] = {}
        for metric in METRICS:
            for handle, _, _ in self._samples.alive(metric, at_ms):
                if handle not in self._known:
                    report = read_report(metric, self._samples.labels[handle])
                    self._known[handle] = None if report is None else self._same.setdefault(report, report)
                if (report := self._known[handle]) is not None:
                    found[id(report)] = report
        return Told(list(found.values()))


class AskedSamples:
    """Answers the questions of the scenes' builders as the engine would, in a hundredth of the time: a test
    compares the two."""

    def __init__(self, samples: Samples, now_ms: Mapping[str, int]) -> None:
        self._samples = samples
        self._now_ms = now_ms
        self._names = {field.query: _names_of(field) for field in FIELDS}

    def matrix(self, query: str, times: Moments, labels: tuple[str, ...]) -> Matrix:
        assert times.step_ms == COLUMN_MS
        handles, values = self._samples.columns(self._names[query], times)
        told = self._samples.labels
        keys = [tuple(told[handle].get(label, "") for label in labels) for handle in handles]
        places = {key: row for row, key in enumerate(dict.fromkeys(keys))}
        found = np.full((len(places), times.moments), np.nan)
        rows = [places[key] for key in keys]
        np.fmax.at(found, rows, values)
        known = ~np.isnan(found).all(axis=1)
        return Matrix([key for key, row in places.items() if known[row]], found[known])

    def vector(self, query: str) -> list[Shown]:
        asked = _SHOWN.fullmatch(query)
        assert asked is not None, query
        labels = self._samples.labels
        return [
            Shown(labels[handle], t_ms / 1000 if asked["when"] else value)
            for handle, t_ms, value in self._samples.alive(asked["name"], self._now_ms["now"])
            if not labels[handle].get("run")
        ]


def _names_of(field: Field) -> list[str]:
    found = _NAMES.fullmatch(field.selector)
    assert found is not None, field.selector
    names = found[1]
    if "(" not in names:
        return [names]
    before, _, rest = names.partition("(")
    inner, _, after = rest.partition(")")
    return [f"{before}{one}{after}" for one in inner.split("|")]
