"""Puts alerts, findings and events together as incidents, keeps these, and tells whoever listens."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.alert.incidents.incidents import REOPEN_MS, SETTLE_MS
from trilens.alert.incidents.told import told_by_alert, told_by_event, told_by_finding
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.model.errors import TrilensError
from trilens.model.finding import Severity
from trilens.serve.incidents.cost_looks import CostLooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.alert.incidents.incidents import Incidents
    from trilens.alert.incidents.told import Told
    from trilens.detect.scene import Scene
    from trilens.detect.watch import Changes
    from trilens.model.alert import Alert
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval, FindingKey
    from trilens.model.incident import Incident
    from trilens.model.labels import Labels
    from trilens.serve.incidents.workload_costs import WorkloadCosts

    Listener = Callable[[Sequence[Incident]], None]

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_GATHER_S: Final = 0.2
_DAY_MS: Final = 86_400_000
_KEEP_EVERY_MS: Final = 60_000  # of texts and money, which change all the time
_EVENTS_REMEMBERED: Final = 10_000


class IncidentLog(Protocol):
    """Thread-safe. One that is told again replaces what was told."""

    def put(self, incidents: Sequence[Incident]) -> None: ...

    def during(self, from_ms: int, to_ms: int) -> Sequence[Incident]: ...

    def open(self) -> Sequence[Incident]: ...


class IncidentKeeper:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        incidents: Incidents,
        records: IncidentLog,
        costs: WorkloadCosts | None = None,
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`costs` is None where nobody knows prices."""
        self._incidents = incidents
        self._records = records
        self._costs = CostLooks(costs) if costs is not None else None
        self._clock_ms = clock_ms
        self._listeners: list[tuple[Listener, dict[str, Incident]]] = []  # with what each has yet to hear
        self._at_work = threading.RLock()  # around the incidents
        self._told = threading.Condition()  # around what waits
        self._alerts: dict[tuple[str, str, Labels], Alert] = {}
        self._findings: dict[tuple[FindingKey, int], FindingInterval] = {}
        self._scene: Scene | None = None
        self._where = Whereabouts()
        self._where_of: Scene | None = None
        self._events_seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._kept_ms = 0
        self._opened = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-incidents", daemon=True)

    def listen(self, listener: Listener) -> None:
        """Told of incidents that opened, changed in what they are, or are over, in this keeper's thread;
        after a start, of all that are open or ended within a day. What it raises on is told again. Before
        `start`."""
        self._listeners.append((listener, {}))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What waits is worked on before it ends."""
        self._stopping.set()
        with self._told:
            self._told.notify()
        if self._thread.is_alive():
            self._thread.join()

    def take_alerts(self, alerts: Sequence[Alert]) -> None:
        """Those that fire or have resolved. Never waits for the disk."""
        with self._told:
            for alert in alerts:
                self._alerts[alert.rule_file, alert.rule_group, alert.labels] = alert
            self._told.notify()

    def take_look(self, scene: Scene, changes: Changes) -> None:
        """What detectors have found, and what they looked at. Never waits for the disk."""
        with self._told:
            self._scene = scene
            for interval in (*changes.opened, *changes.going_on, *changes.ended):
                self._findings[interval.key, interval.detected_ms] = interval
            self._told.notify()

    def notified(self, id: str, to: str, at_ms: int) -> None:
        with self._at_work:
            self._incidents.notified(id, to, at_ms)

    def acknowledge(self, id: str, by: str) -> Incident:
        """Raises NotFound where it is not open."""
        with self._at_work:
            found = self._incidents.acknowledge(id, by, self._clock_ms())
            self._keep()
        with self._told:
            self._told.notify()  # who listens hears of it
        return found

    def open(self) -> list[Incident]:
        with self._at_work:
            return self._incidents.open()

    def own_metrics(self) -> Iterator[Metric]:
        lasting = GaugeMetricFamily("trilens_incidents_open", "Incidents that last.", labels=["severity"])
        incidents = self.open()
        for severity in Severity:
            lasting.add_metric([severity.value], sum(one.severity is severity for one in incidents))
        yield lasting
        yield CounterMetricFamily("trilens_incidents_opened", "Incidents since the start.", self._opened)

    def take_up(self) -> None:
        """What was open when Trilens last ran."""
        now_ms = self._clock_ms()
        lately = self._records.during(now_ms - _DAY_MS, now_ms)
        known = {one.id: one for one in (*lately, *self._records.open())}
        since_ms = now_ms - REOPEN_MS - SETTLE_MS
        going_on = [one for one in known.values() if one.resolved_ms is None or one.resolved_ms > since_ms]
        with self._at_work:
            self._incidents.restore(going_on, now_ms)
        # That one is over may not have been told before a kill.
        self._tell(list(known.values()))

    def work(self) -> list[Incident]:
        """One round; what was told of."""
        if self._costs is not None and self._scene is not None:
            self._costs.look(self._scene, self._clock_ms())
        now_ms = self._clock_ms()
        with self._told:  # from here on nothing asks the engine: what is taken out is never lost to it
            alerts, self._alerts = list(self._alerts.values()), {}
            findings, self._findings = list(self._findings.values()), {}
            scene = self._scene
        with self._at_work:
            before = {one.id for one in self._incidents.open()}
            where = self._whereabouts(scene)
            told = [told_by_finding(one, where) for one in findings]
            told += [told_by_alert(one, where) for one in alerts]
            self._incidents.take(told, now_ms)
            has_news = self._incidents.has_news
            self._incidents.take(self._events(scene, where, again=has_news), now_ms)
            self._incidents.settle(now_ms)
            if self._incidents.has_news or now_ms - self._kept_ms >= _KEEP_EVERY_MS:
                self._kept_ms = now_ms
                self._keep()
            news = self._incidents.news()
            self._opened += sum(one.resolved_ms is None and one.id not in before for one in news)
        self._tell(news)
        return news

    def _run(self) -> None:
        is_ready = False
        while True:
            is_last = self._stopping.is_set()
            try:
                if not is_ready:
                    self.take_up()
                    is_ready = True
                self.work()
            except TrilensError as e:
                log.warning("incidents were not looked at", extra={"error": str(e)})
            except Exception:  # a defect here must not end it for good
                log.exception("putting incidents together failed")
            if is_last:
                return
            with self._told:
                if not self._stopping.is_set():
                    self._told.wait(_EVERY_S)
            # What belongs together is often told within a moment: one round for all of it.
            self._stopping.wait(_GATHER_S)

    def _whereabouts(self, scene: Scene | None) -> Whereabouts:
        if scene is not None and scene is not self._where_of:
            self._where, self._where_of = Whereabouts.of(scene, self._where), scene
        return self._where

    def _events(self, scene: Scene | None, where: Whereabouts, *, again: bool) -> list[Told]:
        """The new ones; all of the last minutes where there is something new that they may belong to."""
        if scene is None:
            return []
        found: list[EventRecord] = []
        for event in scene.events:
            key = (event.cluster, event.node, event.id)
            if key not in self._events_seen:
                self._events_seen[key] = None
                found.append(event)
            elif again:
                found.append(event)
        while len(self._events_seen) > _EVENTS_REMEMBERED:
            self._events_seen.popitem(last=False)
        return [told_by_event(event, where) for event in found]

    def _keep(self) -> None:
        touched = self._incidents.touched()
        if touched:
            self._records.put(touched)

    def _tell(self, incidents: Sequence[Incident]) -> None:
        for listener, waiting in self._listeners:
            waiting.update((one.id, one) for one in incidents)
            if not waiting:
                continue
            try:
                listener(list(waiting.values()))
                waiting.clear()
            except Exception as e:  # a full disk, or a defect of who listens: it is tried again
                log.warning("incidents were not told on, and will be", extra={"error": str(e)}, exc_info=True)
