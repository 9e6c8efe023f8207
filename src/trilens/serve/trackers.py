"""Experiment trackers, followed: each in a thread of its own, so that a slow one delays nobody."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from trilens.model.errors import TrackerError, TrilensError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.series import MAX_AHEAD_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from trilens.collect.backfill import BackfillSink
    from trilens.model.labels import Labels
    from trilens.model.tracked_run import MetricPoint, TrackedRun, TrackerChange
    from trilens.store.tracked_runs import TrackedRunRecords

log = logging.getLogger(__name__)

METRIC: Final = "trilens_tracked_metric"
_HELP: Final = "What a program logged to an experiment tracker, at the time of logging."
_REMEMBERED: Final = 10_000  # runs of before a restart
_COUNTED_ONCE: Final = 10_000  # of the runs that changed last
_KEPT_AFTER_S: Final = 86_400.0  # in memory, since it last changed
_STOP_S: Final = 10.0  # a tracker that answers byte by byte does not keep the server from stopping


class TrackerReader(Protocol):
    """Blocking. Raises TrackerError when nothing can be read at all."""

    system: str
    where: str
    in_pieces: bool  # a change tells only what is new of the run's metrics

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]: ...


class Figures(Protocol):
    """Who writes back what Trilens knows of a run."""

    def write(self, run: TrackedRun) -> bool:
        """Whether nothing more will have to be written. Raises TrackerError when the tracker does not take
        it."""


@dataclass(frozen=True, slots=True)
class Status:
    system: str
    where: str
    passed_ms: int | None = None  # when all was last read through
    runs: int = 0  # that changed since the start
    points: int = 0  # kept since the start
    expired: int = 0  # older than what is kept, or in the future
    trouble: str | None = None
    refused: str | None = None  # why figures were not taken, the last time that happened
    every_s: float = 30.0  # the pause between two passes


class _Latest(NamedTuple):
    run: TrackedRun
    told_s: float


class Following:
    """One tracker. Made, then `start`, then `stop`; a failure is logged once until it works again."""

    def __init__(
        self,
        reader: TrackerReader,
        interval: timedelta,
        records: TrackedRunRecords,
        samples: BackfillSink | None,
        keep: timedelta,
        figures: Figures | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `samples` runs are kept and the history of their metrics is not."""
        self._reader = reader
        self._interval_s = interval.total_seconds()
        self._records = records
        self._samples = samples
        self._keep_ms = int(keep.total_seconds() * 1000)
        self._figures = figures
        self._clock_s = clock_s
        self._cursors: dict[str, str] = {}
        self._latest: dict[str, _Latest] = {}  # of runs of which more has to be done
        self._changed: dict[str, None] = {}  # since the start, those that did last
        self._stopping = threading.Event()
        self.status = Status(reader.system, reader.where, every_s=self._interval_s)
        self._thread = threading.Thread(
            target=self._follow, name=f"trilens-tracker-{reader.system}", daemon=True
        )

    def start(self) -> None:
        system, where = self._reader.system, self._reader.where
        self._cursors = self._records.cursors(system, where)
        if self._remembers:
            known = self._records.runs(system=system, where=where, limit=_REMEMBERED)
            self._latest = {run.tracker.run: _Latest(run, self._clock_s()) for run in known}
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self, timeout_s: float = _STOP_S) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def read_once(self) -> None:
        """One pass over all that is new."""
        for change in self._reader.changes(self._cursors):
            self._take(change)
            if self._stopping.is_set():
                return
        self.status = replace(self.status, passed_ms=_now_ms(), trouble=None)
        self._write_back()
        self._let_go()

    @property
    def _remembers(self) -> bool:
        return self._figures is not None or self._reader.in_pieces

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self.read_once()
            except TrilensError as e:  # of the tracker, of the store, or a secret's file that is gone
                if self.status.trouble is None:
                    log.warning(
                        "an experiment tracker is not read",
                        extra={"tracker": f"{self.status.system} {self.status.where}", "error": str(e)},
                    )
                self.status = replace(self.status, trouble=str(e))
            except Exception:  # a defect in reading one tracker must not end the following
                log.exception("reading an experiment tracker failed", extra={"tracker": self.status.where})
                self.status = replace(self.status, trouble="a defect; the server's log says more")
            self._stopping.wait(self._interval_s)

    def _write_back(self) -> None:
        """A run that does not take its figures, because it was deleted, must not keep others from theirs."""
        if self._figures is None:
            return
        for name, (run, _) in [*self._latest.items()]:
            if self._stopping.is_set():
                return
            try:
                if self._figures.write(run):
                    del self._latest[name]
            except TrackerError as e:
                if self.status.refused is None:
                    log.warning(
                        "a run did not take its figures", extra={"run": run.tracker.run, "error": str(e)}
                    )
                self.status = replace(self.status, refused=str(e))

    def _let_go(self) -> None:
        """Of what did not change for long. What gets figures is over at some time, and goes then."""
        if self._figures is not None:
            return
        before_s = self._clock_s() - _KEPT_AFTER_S
        for name in [name for name, held in self._latest.items() if held.told_s < before_s]:
            del self._latest[name]

    def _take(self, change: TrackerChange) -> None:
        """The points first: when they are on disk the cursor may move behind them."""
        run = self._joined(change.run)
        written, expired = self._keep_points(change.run, change.points)
        self._records.run(run, change.cursor)
        self._cursors[change.run.tracker.run] = change.cursor
        self.status = replace(
            self.status,
            runs=self.status.runs + self._is_first_of(run.tracker.run),
            points=self.status.points + written,
            expired=self.status.expired + expired,
        )
        if self._remembers:
            self._latest[run.tracker.run] = _Latest(run, self._clock_s())

    def _is_first_of(self, name: str) -> bool:
        """Whether it had not changed since the start, as far back as that is known."""
        is_first = name not in self._changed
        self._changed.pop(name, None)
        self._changed[name] = None
        if len(self._changed) > _COUNTED_ONCE:
            del self._changed[next(iter(self._changed))]
        return is_first

    def _joined(self, run: TrackedRun) -> TrackedRun:
        """Readers of files tell what is new in a piece: what was told before still holds."""
        held = self._latest.get(run.tracker.run)
        before = held.run if held is not None else self._kept(run.tracker.run)
        if before is None:
            return run
        return replace(
            run,
            metrics={**before.metrics, **run.metrics},
            step=max((step for step in (before.step, run.step) if step is not None), default=None),
            started_ms=before.started_ms if before.started_ms is not None else run.started_ms,
        )

    def _kept(self, name: str) -> TrackedRun | None:
        """From the store: one that goes on after it was let go, or that was not among those remembered."""
        if not self._reader.in_pieces or name not in self._cursors:
            return None
        found = self._records.runs(system=self._reader.system, where=self._reader.where, run=name)
        return found[0] if found else None

    def _keep_points(self, run: TrackedRun, points: Sequence[MetricPoint]) -> tuple[int, int]:
        if self._samples is None or not points:
            return 0, 0
        now_ms = _now_ms()
        # Of two at the same moment the later told counts, as trackers show it.
        kept = {
            (point.metric, point.t_ms): point.value
            for point in points
            if now_ms - self._keep_ms < point.t_ms <= now_ms + MAX_AHEAD_MS
        }
        if not kept:
            return 0, len(points)
        metrics = sorted({metric for metric, _ in kept})
        place = {metric: number for number, metric in enumerate(metrics)}
        written = self._samples.backfill(
            [_labels(run, metric) for metric in metrics],
            np.array([place[metric] for metric, _ in kept], dtype=np.int64),
            np.array([t_ms for _, t_ms in kept], dtype=np.int64),
            np.array([*kept.values()], dtype=np.float64),
        )
        self._samples.describe(METRIC, "gauge", _HELP, "")
        return written, len(points) - len(kept)


def stop_all(followed: Sequence[Following]) -> None:
    """Together: each may be in the middle of a request."""
    deadline_s = time.monotonic() + _STOP_S
    for one in followed:
        one.ask_to_stop()
    for one in followed:
        one.stop(max(0.0, deadline_s - time.monotonic()))


def _labels(run: TrackedRun, metric: str) -> Labels:
    return make_labels(
        {
            METRIC_NAME: METRIC,
            "system": run.tracker.system,
            "experiment": run.experiment or "",
            "run": run.tracker.run,
            "run_name": run.name or "",
            "metric": metric,
        }
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
