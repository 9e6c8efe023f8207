"""Looks at everything every few seconds, and tells what the detectors find: as series, to the log of
findings, and to whoever listens."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import StoreError, TrilensError
from trilens.model.finding import Severity
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.serve.detection.finding_series import FAMILIES, finding_samples
from trilens.serve.still_shown import series_shown_by_us
from trilens.serve.workload_metrics import exposed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from trilens.detect.scene import Scene
    from trilens.detect.watch import Changes, Watch
    from trilens.model.finding import FindingInterval
    from trilens.serve.detection.finding_log import FindingLog
    from trilens.store.store import Store

    Listener = Callable[[Scene, Changes], None]

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_KEEP_EVERY_MS: Final = 60_000  # what goes on is written again: a kill loses at most so much of its length


class SceneSource(Protocol):
    def take_up(self) -> None:
        """What is known from before the start."""

    def scene(self, now_ms: int) -> Scene: ...

    @property
    def trouble(self) -> Mapping[str, str]: ...


@dataclass(slots=True)
class DetectionState:
    """For metrics and the API; written by the keeper alone."""

    rounds: int = 0
    skipped: int = 0  # because one took too long
    took_s: float = 0.0  # the last one
    looked_ms: int | None = None
    open: Sequence[FindingInterval] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)


class DetectionKeeper:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        scenes: SceneSource,
        watch: Watch,
        findings: FindingLog,
        samples: Store | None,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`samples` is None where another server has them."""
        self._scenes = scenes
        self._watch = watch
        self._findings = findings
        self._samples = samples
        self._clock_ms = clock_ms
        self._series: CurrentSeries | None = None
        self._listeners: list[Listener] = []
        self._kept_ms = 0
        self.state = DetectionState()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-detection", daemon=True)

    def listen(self, listener: Listener) -> None:
        """Told of every look, in the keeper's thread; before `start`. It must not wait."""
        self._listeners.append(listener)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def take_up(self) -> None:
        """What lasted when Trilens last ran."""
        self._scenes.take_up()
        now_ms = self._clock_ms()
        self._watch.restore(self._findings.open(), now_ms)
        if self._samples is not None:
            names = [family.metric for family in FAMILIES]
            for family in FAMILIES:
                self._samples.describe(family.metric, family.kind, family.help, "")
            self._series = CurrentSeries(self._samples, series_shown_by_us(self._samples, names, now_ms))

    def look(self) -> Changes:
        """One round."""
        now_ms = self._clock_ms()
        scene = self._scenes.scene(now_ms)
        changes = self._watch.look(scene)
        self.state.open = tuple(self._watch.open)
        self.state.looked_ms = now_ms
        self.state.troubles = self._scenes.trouble
        self._keep(changes, now_ms)
        self._write(now_ms)
        for listener in self._listeners:
            try:
                listener(scene, changes)
            except Exception:  # a defect of one who listens must not end the looking
                log.exception("what was found could not be told on")
        return changes

    def metrics(self) -> Iterator[Metric]:
        """The findings, for a server that scrapes them."""
        return exposed(list(finding_samples(self.state.open)), FAMILIES)

    def own_metrics(self) -> Iterator[Metric]:
        state = self.state
        yield CounterMetricFamily("trilens_detection_rounds", "Looks at the whole fleet.", state.rounds)
        skipped_help = "Looks that were left out because the one before took too long."
        yield CounterMetricFamily("trilens_detection_rounds_skipped", skipped_help, state.skipped)
        took_help = "How long the last look took."
        yield GaugeMetricFamily("trilens_detection_last_duration_seconds", took_help, state.took_s)
        if state.looked_ms is not None:
            looked_help = "When it was last looked; absent before the first time."
            looked_s = state.looked_ms / 1000
            yield GaugeMetricFamily("trilens_detection_last_look_timestamp_seconds", looked_help, looked_s)
        troubles_help = "What could not be asked for the last look."
        yield GaugeMetricFamily("trilens_detection_troubles", troubles_help, len(state.troubles))
        failures = CounterMetricFamily(
            "trilens_detection_failures", "Times that a detector failed, which is a defect.", labels=["code"]
        )
        for code, count in dict(self._watch.failures).items():
            failures.add_metric([code], count)
        yield failures
        seconds = GaugeMetricFamily(
            "trilens_detector_last_duration_seconds", "CPU time of its last look.", labels=["code"]
        )
        for code, took_s in dict(self._watch.took_s).items():
            seconds.add_metric([code], took_s)
        yield seconds
        lasting = GaugeMetricFamily("trilens_findings_open", "Findings that last.", labels=["severity"])
        for severity in Severity:
            count = sum(one.finding.severity is severity for one in state.open)
            lasting.add_metric([severity.value], count)
        yield lasting

    def _run(self) -> None:
        is_ready = False
        due = time.monotonic()
        while not self._stopping.wait(max(due - time.monotonic(), 0.0)):
            began = time.monotonic()
            try:
                if not is_ready:
                    self.take_up()
                    is_ready = True
                self.look()
            except TrilensError as e:
                log.warning("this look is left out", extra={"error": str(e)})
            except Exception:  # a defect here must not end it for good
                log.exception("looking for trouble failed")
            now = time.monotonic()
            self.state.rounds += 1
            self.state.took_s = now - began
            due += _EVERY_S
            if due < now:
                missed = int((now - due) // _EVERY_S) + 1
                self.state.skipped += missed
                due += missed * _EVERY_S

    def _keep(self, changes: Changes, now_ms: int) -> None:
        told = [*changes.opened, *changes.sharpened, *changes.ended]
        if now_ms - self._kept_ms >= _KEEP_EVERY_MS:
            told += changes.going_on
            self._kept_ms = now_ms
        if not told:
            return
        try:
            self._findings.put(told)
        except StoreError as e:
            self._kept_ms = 0  # with what goes on, soon
            log.warning("findings were not kept", extra={"error": str(e)})

    def _write(self, now_ms: int) -> None:
        if self._series is None:
            return
        samples = {
            make_labels({**{name: text for name, text in labels.items() if text}, METRIC_NAME: metric}): value
            for metric, labels, value in finding_samples(self.state.open)
        }
        try:
            self._series.write(samples, now_ms)
        except StoreError as e:
            log.warning("findings were not written as series", extra={"error": str(e)})
