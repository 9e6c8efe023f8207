"""A simulated cluster, watched for hours of its own time by all that a server has: what is scraped and told,
rules, detectors and incidents. What is found is what a server would have found; nobody asks the truth."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.incidents import Incidents
from trilens.collect.current_series import CurrentSeries
from trilens.detect.detectors import all_detectors
from trilens.detect.records import RankRecords
from trilens.detect.watch import Changes, Watch
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.detection.asked import Asked
from trilens.serve.detection.finding_series import finding_samples
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.keeper import DetectionKeeper
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import StoredReports
from trilens.serve.incidents.keeper import IncidentKeeper
from trilens.serve.incidents.workload_costs import WorkloadCosts
from trilens.serve.kube_state import KubeStateExport
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.rehearsal.events import KernelEvents
from trilens.serve.rehearsal.merged_runs import MergedRuns
from trilens.serve.rehearsal.objects import FollowedObjects
from trilens.serve.rehearsal.ranks import TellingRanks
from trilens.serve.rehearsal.rule_blocks import STEP_MS, RuleBlocks
from trilens.serve.rehearsal.settled_stalls import SettledStalls
from trilens.serve.rehearsal.telemetry import ScrapedTelemetry
from trilens.serve.run_programs import RunPrograms
from trilens.serve.workload_metrics import as_series, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.rule import RuleGroup
    from trilens.detect.detector import Detector
    from trilens.detect.scene import Scene
    from trilens.ledger.prices.book import Prices
    from trilens.model.labels import Labels
    from trilens.model.run_commit import RunCommit
    from trilens.simulate.world import World
    from trilens.store.store import Store

_LOOK_MS: Final = 30_000  # the longest after which detectors do not think that they were away
_REST_MS: Final = 120_000  # where nothing changes: samples and steps are taken in, and nobody looks
_GLANCE_MS: Final = 480_000  # how far glances are apart there: detectors forget steps that nobody asks for
_GLANCED_MS: Final = 120_000  # how long one is: until detectors know who is silent, and what is over
_BLOCK_MS: Final = 15 * STEP_MS
_STATE_MS: Final = 60_000
_QUIET_MS: Final = 3 * _LOOK_MS


class WatchedWorld:
    """Use as a context manager; `go_on` as often as wanted. Times are the world's."""

    def __init__(
        self,
        world: World,
        store: Store,
        cluster: str,
        groups: Sequence[RuleGroup],
        prices: Prices,
        is_dense: Callable[[int], bool] = lambda _: True,
        also_tell: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`is_dense` says when detectors look at every moment and not only for a glance now and then; after
        each pause it is for them as after a restart of the server. `also_tell` is called at every moment at
        which rules look."""
        self.world = world
        self._store = store
        self._cluster = cluster
        self._start_ms = world.now_ms
        self._records = RankRecords()
        self._state = KubeStateExport([cluster], "on", store, clock=self._now_s, now_ms=self._now_ms)
        self._objects = FollowedObjects(world, store, cluster, self._state)
        self._telemetry = ScrapedTelemetry(world, store, cluster, training=True)
        self._events = KernelEvents(world, store)
        self._runs = MergedRuns(store.runs)
        self._ranks = TellingRanks(world, self._runs, _LOOK_MS / 1000, on_kept=self._take)
        self._programs = RunPrograms(self._ranks.intake, store.runs, store.workloads, None, None)
        self._gpus = GpuBindings(
            store.gpus, StoredReports(store), self._objects, samples=store, machines=store.machines
        )
        self._current = CurrentSeries(store)
        self._findings = CurrentSeries(store)  # while nobody looks
        self._loop = asyncio.new_event_loop()
        self._asking = threading.Thread(target=self._loop.run_forever, name="rehearsal", daemon=True)
        asked = Asked(EmbeddedQueries(store, self._now_ms))
        asked.ask_in(AskedLoop(self._loop))
        scenes = Scenes(self._sources(asked))
        self._watch = Watch(_detectors(), quiet_ms=_QUIET_MS)
        self.detection = DetectionKeeper(scenes, self._watch, store.findings, store, clock_ms=self._now_ms)
        costs = WorkloadCosts(lambda: prices, store.machines, lambda: self._gpus.held)
        self._told_ms = self._start_ms
        self.incidents = IncidentKeeper(
            Incidents(costs), store.incidents, costs, clock_ms=lambda: self._told_ms
        )
        self._looks: list[tuple[int, Scene, Changes]] = []  # since rules were last evaluated
        self._scene: Scene | None = None  # that was looked at last
        self.detection.listen(self._note_look)
        self._rules = RuleBlocks(groups, store)
        self._ruled_ms = self._start_ms
        self._is_dense = is_dense
        self._also_tell = also_tell
        self._has_looked = True

    def _sources(self, asked: Asked) -> Sources:
        return Sources(
            GpuWindow(asked),
            ScrapedRanks(asked),
            self._records,
            self._ranks.intake,
            self._store.runs,
            self._programs.members,
            lambda: GpusSeen(self._gpus.now.gpus, self._gpus.held, self._gpus.now.told.reports),
            self._store.events,
            lambda: (),
            self._objects,
        )

    def __enter__(self) -> WatchedWorld:
        self._asking.start()
        self._objects.look()
        self._gpus.look(self._start_ms)  # the machines are paid from the beginning on
        self.detection.take_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.settle()
        self._rules.stop(self.world.now_ms + 1)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._asking.join()
        self._loop.close()

    def go_on(self, to_ms: int) -> None:
        while self.world.now_ms < to_ms:
            before_ms = self.world.now_ms
            looks = self._is_dense(before_ms) or (before_ms - self._start_ms) % _GLANCE_MS < _GLANCED_MS
            self.world.advance(min(to_ms, before_ms + (_LOOK_MS if looks else _REST_MS)))
            self._take_in()
            if self._is_due(_STATE_MS):
                self._tell_state()
            if self._is_due(STEP_MS):
                self._also_tell(self.world.now_ms)
            if looks:
                self._look()
            else:
                self._hold_findings()
            self._has_looked = looks
            if self._is_due(_BLOCK_MS) or self.world.now_ms == to_ms:
                self._rule()

    def settle(self) -> None:
        """What ranks told and how they stand is given to the store, as when it ends."""
        self._ranks.stop()
        self._runs.flush()

    def _look(self) -> None:
        if not self._has_looked:
            self._watch.restore((), self.world.now_ms)
        self._programs.look()
        self.detection.look()

    def _note_look(self, scene: Scene, changes: Changes) -> None:
        self._scene = scene
        self._looks.append((self.world.now_ms, scene, changes))

    def _hold_findings(self) -> None:
        """What was found last lasts while nobody looks: in series, which rules read, and in incidents, which
        else take what they hear nothing of for over."""
        lasting = self.detection.state.open
        if self._scene is not None and lasting:
            held = Changes(going_on=[replace(one, seen_ms=self.world.now_ms) for one in lasting])
            self._looks.append((self.world.now_ms, self._scene, held))
        open_now = list(finding_samples(lasting))
        shown = [
            PhaseSample(metric, {name: text for name, text in labels.items() if text}, value)
            for metric, labels, value in open_now
        ]
        self._findings.write(as_series(shown), self.world.now_ms)

    def _rule(self) -> None:
        """What rules say of the last minutes, and incidents of that and of what was found meanwhile."""
        self._runs.flush()
        told = self._rules.evaluate(self._ruled_ms, self.world.now_ms)
        self._ruled_ms = self.world.now_ms
        looks, self._looks = self._looks, []
        moments = sorted({*told, *(at_ms for at_ms, _, _ in looks), self.world.now_ms})
        seen = {at_ms: (scene, changes) for at_ms, scene, changes in looks}
        for self._told_ms in moments:
            if self._told_ms in told:
                self.incidents.take_alerts(told[self._told_ms])
            if self._told_ms in seen:
                self.incidents.take_look(*seen[self._told_ms])
            self.incidents.work()

    def _take_in(self) -> None:
        self._objects.look()
        self._events.look()
        self._telemetry.look()
        self._ranks.look()

    def _tell_state(self) -> None:
        now_ms = self.world.now_ms
        self._gpus.look(now_ms)
        asyncio.run_coroutine_threadsafe(self._state.tell([self._cluster]), self._loop).result()
        shown = as_series(measured(self._objects.resolver, now_ms))
        self._current.write({**shown, **self._of_runs()}, now_ms)

    def _of_runs(self) -> dict[Labels, float]:
        return {
            make_labels({**sample.labels, METRIC_NAME: sample.name}): sample.value
            for metric in self._programs.metrics()
            for sample in metric.samples
        }

    def _take(self, commit: RunCommit) -> None:
        self._records.take(commit, self.world.now_ms)

    def _is_due(self, every_ms: int) -> bool:
        return (self.world.now_ms - self._start_ms) % every_ms == 0

    def _now_ms(self) -> int:
        return self.world.now_ms

    def _now_s(self) -> float:
        return self.world.now_ms / 1000


def _detectors() -> list[Detector]:
    return [SettledStalls() if one.code == SettledStalls.code else one for one in all_detectors()]
