"""What the metrics say now about GPUs: who reports, who holds, and the readings that people look at first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from trilens.model.labels import METRIC_NAME
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest, stale_mask
from trilens.resolve.gpus.reports import (
    ENERGY,
    LABELS,
    MEMORY_USED,
    METRICS,
    POWER,
    UTILIZATION,
    read_report,
)
from trilens.serve.still_shown import LOOKBACK_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.model.gpu import GpuKey
    from trilens.model.labels import LabelFrame, Symbols
    from trilens.model.series import Floats
    from trilens.model.workload import GpuUuid
    from trilens.promql.source import SeriesSource
    from trilens.resolve.gpus.reports import Report
    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.own_queries import OwnQueries

_SELECTOR: Final = (Matcher(METRIC_NAME, "=~", "|".join(METRICS)),)
_NOT_KNOWN: Final = 2147483632  # from here on DCGM means "not known", in these three fields
# The same of energy, which is a wider number: any of DCGM's words for it, as in rules/gpu.yml.
_NO_ENERGY: Final = 9e18
_NO_ENERGIES: Final = ((2147483632, 2147483647), (140737488355328, 140737488355343))
_MIB: Final = 1 << 20
_ANSWER_S: Final = 60.0


@dataclass(slots=True)
class Told:
    """`reports` has each once. Use and power are the whole device's, memory is an instance's."""

    reports: list[Report] = field(default_factory=list)
    utilization: dict[GpuUuid, float] = field(default_factory=dict)
    power_watts: dict[GpuUuid, float] = field(default_factory=dict)
    memory_used_bytes: dict[GpuKey, float] = field(default_factory=dict)
    energy_mj: dict[GpuUuid, float] = field(default_factory=dict)


class ReportSource(Protocol):
    def read(self, at_ms: int) -> Told:
        """Raises TrilensError where there is no answer."""


class _Reader:
    """Makes one object of equal reports, so that what was seen before is known by its identity."""

    def __init__(self) -> None:
        self._known: dict[Report, Report] = {}

    def read(self, metric: str, labels: Mapping[str, str]) -> Report | None:
        report = read_report(metric, labels)
        return None if report is None else self._known.setdefault(report, report)

    def keep(self, reports: list[Report]) -> None:
        if len(self._known) > 2 * len(reports):
            self._known = {report: report for report in reports}


class _Series:
    """Series by what their labels say: a metric, and the report that they make, in their order."""

    def __init__(self, spoken: Sequence[tuple[str, Report | None]]) -> None:
        self.reports = list({id(report): report for _, report in spoken if report is not None}.values())
        by_metric: defaultdict[str, list[tuple[int, GpuKey]]] = defaultdict(list)
        for place, (metric, report) in enumerate(spoken):
            if report is not None:
                by_metric[metric].append((place, report.key))
        self._by_metric = {
            metric: (np.array([place for place, _ in found]), [key for _, key in found])
            for metric, found in by_metric.items()
        }

    def told(self, values: Floats) -> Told:
        memory = self._known(MEMORY_USED, values, _NOT_KNOWN)
        return Told(
            self.reports,
            {uuid: value / 100 for uuid, value in self._of_devices(UTILIZATION, values, _NOT_KNOWN).items()},
            self._of_devices(POWER, values, _NOT_KNOWN),
            {key: value * _MIB for key, value in memory},
            {
                uuid: value
                for uuid, value in self._of_devices(ENERGY, values, _NO_ENERGY).items()
                if not any(first <= value <= last for first, last in _NO_ENERGIES)
            },
        )

    def _of_devices(self, metric: str, values: Floats, below: float) -> dict[GpuUuid, float]:
        return {key.uuid: value for key, value in self._known(metric, values, below)}

    def _known(self, metric: str, values: Floats, below: float) -> Iterator[tuple[GpuKey, float]]:
        """The highest comes last: exporters repeat a reading for every holder, and two may differ."""
        if metric not in self._by_metric:
            return iter(())
        places, keys = self._by_metric[metric]
        found = values[places]
        order = np.flatnonzero((found >= 0) & (found < below))
        order = order[np.argsort(found[order], kind="stable")]
        return zip([keys[place] for place in order.tolist()], found[order].tolist(), strict=True)


class StoredReports:
    """From the store's recent samples. Labels that were read before are not read again."""

    def __init__(self, samples: SeriesSource) -> None:
        self._samples = samples
        self._reader = _Reader()
        self._symbols: Symbols | None = None
        self._names: tuple[str, ...] = ()
        self._rows: dict[bytes, tuple[str, Report | None]] = {}
        self._spelled: bytes | None = None
        self._series = _Series(())

    def read(self, at_ms: int) -> Told:
        found = self._samples.select(SelectRequest(_SELECTOR, at_ms - LOOKBACK_MS, at_ms), QueryGuard())
        ends = found.samples.offsets[1:]
        rows = np.flatnonzero(ends > found.samples.offsets[:-1])
        last = found.samples.v[ends[rows] - 1]
        is_alive = ~stale_mask(last)
        self._spell(found.labels.keep((METRIC_NAME, *LABELS)).take(rows[is_alive]))
        return self._series.told(last[is_alive])

    def _spell(self, frame: LabelFrame) -> None:
        if frame.symbols is not self._symbols or frame.names != self._names:
            self._symbols, self._names, self._rows, self._spelled = frame.symbols, frame.names, {}, None
        spelled = frame.codes.tobytes()
        if spelled == self._spelled:
            return
        width = len(spelled) // len(frame) if len(frame) else 1
        known, seen = self._rows, {}
        spoken = []
        for row, start in enumerate(range(0, len(spelled), width)):
            key = spelled[start : start + width]
            entry = known.get(key)
            if entry is None:
                labels = frame.labels(row)
                metric = labels[METRIC_NAME]
                entry = (metric, self._reader.read(metric, labels))
            seen[key] = entry
            spoken.append(entry)
        self._rows, self._spelled, self._series = seen, spelled, _Series(spoken)
        self._reader.keep(self._series.reports)


class AskedReports:
    """From another server, by an instant query."""

    def __init__(self, queries: OwnQueries) -> None:
        self._queries = queries
        self._loop: AskedLoop | None = None
        self._reader = _Reader()

    def ask_in(self, loop: AskedLoop) -> None:
        """Where the connections to that server live."""
        self._loop = loop

    def read(self, at_ms: int) -> Told:
        assert self._loop is not None
        query = f'{{__name__=~"{"|".join(METRICS)}"}}'
        shown = self._loop.answer(self._queries.vector(query), _ANSWER_S)
        named = [(one.labels.get(METRIC_NAME, ""), one.labels) for one in shown]
        spoken = [(metric, self._reader.read(metric, labels)) for metric, labels in named]
        series = _Series(spoken)
        self._reader.keep(series.reports)
        return series.told(np.array([one.value for one in shown], np.float64))
