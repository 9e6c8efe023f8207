"""A simulated cluster watched by the parts of a server: parser, intake, resolvers, scenes, detectors. Without
sockets, disk and threads, and not waiting for the clock."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import orjson

from bench.detect.samples import AskedSamples, LastReports, Samples
from trilens.collect.config import ScrapeConfig
from trilens.collect.ingest import TargetIngest
from trilens.collect.runs.intake import RunIntake
from trilens.detect.detectors import all_detectors
from trilens.detect.records import RankRecords
from trilens.detect.watch import Watch
from trilens.diagnose.case_file import CaseTarget
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.rehearsal.events import KernelEvents
from trilens.serve.rehearsal.objects import FollowedObjects
from trilens.serve.run_workloads import process_key
from trilens.simulate.world import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.collect.ingest import ScrapedSamples
    from trilens.detect.scene import Scene
    from trilens.model.event import EventRecord
    from trilens.model.finding import Finding, FindingInterval, FindingKey
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.run import ArtifactRecord, RankProcess, RunFacts, RunId, StepRecord
    from trilens.model.run_commit import Position, RunCommit
    from trilens.model.run_sums import Tail
    from trilens.model.workload import GpuUuid, Membership, WorkloadKey
    from trilens.resolve.present import ClusterState
    from trilens.serve.run_workloads import ProcessKey
    from trilens.simulate.world import World

CLUSTER: Final = "sim"
SAID_FROM: Final = 0.5  # as rules/thresholds.yml has it: a finding less sure than that is no alert
LOOK_MS: Final = 5_000
SLOW_MS: Final = 30_000  # dcgm-exporter's default
_PROGRAMS_MS: Final = 15_000
_AGENTS_MS: Final = 15_000  # how often agents are asked for faults, unless settings say otherwise
_KUBE_STATE_MS: Final = 15_000
_GPUS_MS: Final = 15_000
_HEARTBEAT_S: Final = 2.5  # the SDK promises one every 2 s
_SLOTS: Final = 2  # in which a look's time is divided: what is scraped and told comes in one of them
_MINUTE: Final = timedelta(minutes=1)
_REFUSED: Final = "connection refused"  # what a server would have met there
_SCRAPE: Final = ScrapeConfig(job_name="simulated", scrape_interval=_MINUTE, scrape_timeout=_MINUTE)


class Kept:
    """What a store would be told. Only what is asked again is remembered."""

    def __init__(self) -> None:
        self.members: dict[str, Membership] = {}  # by pod uid
        self.lives: dict[tuple[str, int], MembershipInterval] = {}  # by pod uid and begin
        self.phases: dict[tuple[WorkloadKey, int, int], PhaseInterval] = {}  # by attempt and begin
        self.told: list[EventRecord] = []

    @property
    def workloads(self) -> Kept:
        return self

    @property
    def events(self) -> Kept:
        return self

    def membership(self, interval: MembershipInterval) -> None:
        member = interval.membership
        self.members[member.pod.uid] = member
        self.lives[member.pod.uid, interval.from_ms] = interval

    def phase(self, interval: PhaseInterval) -> None:
        self.phases[interval.workload, interval.attempt, interval.from_ms] = interval

    def workload(self, record: object) -> None:
        del record

    def gpu(self, interval: object) -> None:
        del interval

    def binding(self, interval: object) -> None:
        del interval

    def event(self, event: EventRecord) -> None:
        self.told.append(event)

    def between(self, from_ms: int, to_ms: int, *, limit: int) -> Sequence[EventRecord]:
        return [one for one in self.told if from_ms <= one.t_ms <= to_ms][-limit:]

    def hardware_faults(self, since_ms: int) -> Sequence[tuple[str, str, GpuUuid | None, int, int]]:
        del since_ms
        return ()


class NoRuns:
    """Nothing was known of runs before."""

    def commit(self, commit: RunCommit) -> None:
        del commit

    def heard(self, process: RankProcess) -> None:
        del process

    def positions(self, run: RunId) -> list[Position]:
        del run
        return []

    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]:
        del runs
        return []

    def runs(self, *, run: RunId | None = None) -> list[RunFacts]:
        del run
        return []

    def unfinished(self, since_ms: int) -> list[RankProcess]:
        del since_ms
        return []

    def tails(self, wanted: Sequence[Tail]) -> Sequence[StepRecord]:
        del wanted
        return ()


class Scraper:
    """The targets of a world, each at its own time of the round."""

    def __init__(self, world: World, samples: Samples, chance: Random) -> None:
        self._world = world
        self._samples = samples
        self._chance = chance
        self._targets: dict[str, TargetIngest] = {}
        self.targets: dict[str, CaseTarget] = {}  # as a server would tell of them
        self._slots: dict[str, int] = {}

    def exporters(self, slot: int | None) -> None:
        for node in self._world.nodes:
            if slot is None or self._slots.setdefault(node, self._chance.randrange(_SLOTS)) == slot:
                labels = {"job": "dcgm", "instance": node}
                self._scrape(node, labels, partial(self._world.dcgm_text, node))

    def programs(self) -> None:
        """The training programs: what serves is not looked at here."""
        here = set(self._world.nodes)
        for uid, endpoint in self._world.metrics_endpoints().items():
            here.add(uid)
            if endpoint.trains:
                labels = {"job": "programs", "namespace": endpoint.namespace, "pod": endpoint.pod}
                labels["instance"] = endpoint.pod
                self._scrape(uid, labels, partial(self._world.metrics_text, uid))
        for gone in self._targets.keys() - here:
            self._samples.end(self._targets.pop(gone).fail(), self._world.now_ms)
            del self.targets[gone]

    def _scrape(self, name: str, labels: dict[str, str], text: Callable[[], bytes]) -> None:
        target = self._targets.get(name)
        if target is None:
            found = make_labels({**labels, "cluster": CLUSTER})
            target = self._targets[name] = TargetIngest(_SCRAPE, found, self._samples)  # type: ignore[arg-type]
        now_ms = self._world.now_ms
        try:
            body = text()
        except (Silent, KeyError):
            self._samples.end(target.fail(), now_ms)
            self.targets[name] = CaseTarget(
                labels["job"], labels["instance"], labels, False, _REFUSED, now_ms
            )
            return
        self.targets[name] = CaseTarget(labels["job"], labels["instance"], labels, True, "", now_ms)
        read: ScrapedSamples = target.read(body, openmetrics=False, t_ms=now_ms)
        self._samples.append(*read.batch)
        self._samples.end(read.stale, now_ms)


def _target(labels: Mapping[str, str], error: str, now_ms: int) -> CaseTarget:
    return CaseTarget(labels["job"], labels["instance"], labels, not error, error, now_ms)


class PodSeries:
    """The two families of kube-state-metrics that rules about crashes read."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._alive: set[int] = set()

    def look(self, clusters: Sequence[ClusterState], now_ms: int) -> None:
        found: dict[int, float] = {}
        for pod in (pod for cluster in clusters for one in cluster.workloads for pod in one.pods):
            own = {"namespace": pod.pod.namespace, "pod": pod.pod.name, "uid": pod.pod.uid}
            restarts = {**own, METRIC_NAME: "kube_pod_container_status_restarts_total"}
            found[self._samples.series(make_labels(restarts))] = float(pod.restarts)
            for phase in ("Running", "Failed"):
                labels = {**own, METRIC_NAME: "kube_pod_status_phase", "phase": phase}
                found[self._samples.series(make_labels(labels))] = float(pod.state == phase)
        gone = np.array(sorted(self._alive - found.keys()), np.int64)
        self._samples.end(gone, now_ms)
        self._alive = set(found)
        if found:
            handles = np.array(list(found), np.int64)
            values = np.array(list(found.values()))
            self._samples.append(handles, np.full(len(handles), now_ms, np.int64), values)


class Said(NamedTuple):
    """A finding, when it is first sure enough for an alert; and again when it is told more exactly."""

    finding: Finding
    at_ms: int
    is_new: bool


class Watcher:
    """One way to look at a world: with the telemetry that it is given."""

    def __init__(
        self, samples: Samples, sources: Callable[[GpuWindow, ScrapedRanks], Sources], programs_seen: bool
    ) -> None:
        self._clock = {"now": 0}
        asked = AskedSamples(samples, self._clock)
        told = asked if programs_seen else AskedSamples(Samples(), self._clock)
        window = GpuWindow(asked)  # type: ignore[arg-type]
        self.scenes = Scenes(sources(window, ScrapedRanks(told)))  # type: ignore[arg-type]
        self.watch = Watch(all_detectors())
        self.said: list[Said] = []
        self.ended: list[FindingInterval] = []
        self._told: dict[tuple[FindingKey, int], set[FindingKey]] = {}  # of each that was opened

    def look(self, now_ms: int) -> Scene:
        self._clock["now"] = now_ms
        scene = self.scenes.scene(now_ms)
        self.ended += self.watch.look(scene).ended
        for interval in self.watch.open:
            if interval.finding.confidence >= SAID_FROM and interval.seen_ms == now_ms:
                self._hear(interval, now_ms)
        return scene

    def _hear(self, interval: FindingInterval, now_ms: int) -> None:
        told = self._told.setdefault((interval.key, interval.detected_ms), set())
        if interval.finding.key not in told:
            self.said.append(Said(interval.finding, now_ms, is_new=not told))
            told.add(interval.finding.key)


class WatchedWorld:
    """`programs_seen`: the metrics of training programs are all that detectors have of them. Where programs
    tell more, these are scraped all the same, for the classic rules."""

    def __init__(self, world: World, seed: int, *, slow: bool, programs_seen: bool = False) -> None:
        self.world = world
        self.samples = Samples()
        self._chance = Random(f"scrapes of {seed}")
        self._agents_ms = self._chance.randrange(0, _AGENTS_MS, LOOK_MS)
        self.kept = Kept()
        self._objects = FollowedObjects(world, self.kept, CLUSTER)  # type: ignore[arg-type]
        self._events = KernelEvents(world, self.kept)  # type: ignore[arg-type]
        self._records = RankRecords()
        self.artifacts: list[ArtifactRecord] = []
        self._runs = NoRuns()
        self._intake = RunIntake(self._runs, on_kept=self._take, clock_s=self._now_s, time_s=self._now_s)
        self.scraper = Scraper(world, self.samples, self._chance)
        self._gpus = GpuBindings(self.kept, LastReports(self.samples), self._objects)  # type: ignore[arg-type]
        self._start_ms = world.now_ms
        self._programs_seen = programs_seen
        self._pods = PodSeries(self.samples)
        self.fast = Watcher(self.samples, self._sources, programs_seen)
        self.slow: Watcher | None = None
        if slow:
            self._slow_samples = Samples()
            self._slow_scraper = Scraper(world, self._slow_samples, self._chance)
            self.slow = Watcher(self._slow_samples, self._sources, programs_seen)

    def _sources(self, window: GpuWindow, scraped: ScrapedRanks) -> Sources:
        return Sources(
            window,
            scraped,
            self._records,
            self._intake,
            self._runs,
            self._members,
            lambda: GpusSeen(self._gpus.now.gpus, self._gpus.held, self._gpus.now.told.reports),
            self.kept,
            lambda: (),
            self._objects,
        )

    def _now_s(self) -> float:
        return self.world.now_ms / 1000

    def _take(self, commit: RunCommit) -> None:
        self.artifacts += commit.artifacts
        self._records.take(commit, self.world.now_ms)

    def _members(self) -> Mapping[ProcessKey, Membership]:
        members = self.kept.members
        return {
            process_key(process): members[process.pod_uid]
            for process in self._intake.processes()
            if process.pod_uid in members
        }

    def go_on(self) -> Scene:
        """Five seconds of the world; then a look."""
        begin_ms = self.world.now_ms
        for slot in range(_SLOTS):
            part_ms = LOOK_MS // _SLOTS
            early_ms = self._chance.randrange(part_ms // 2)  # nothing comes at the very moment
            self.world.advance(begin_ms + (slot + 1) * part_ms - early_ms)
            self._objects.look()
            self.scraper.exporters(slot)
            self._tell()
        now_ms = begin_ms + LOOK_MS
        self.world.advance(now_ms)
        passed_ms = now_ms - self._start_ms
        if self._programs_seen or passed_ms % _PROGRAMS_MS == 0:
            self.scraper.programs()
        if passed_ms % _AGENTS_MS == self._agents_ms:
            self._events.look()
        if passed_ms % _KUBE_STATE_MS == 0:
            self._pods.look(self._objects.present(), now_ms)
        if self.slow is not None and passed_ms % SLOW_MS == 0:
            self._slow_scraper.exporters(None)
            self._slow_scraper.programs()
        if passed_ms % _GPUS_MS == 0:
            self._gpus.look(now_ms)
        if self.slow is not None:
            self.slow.look(now_ms)
        return self.fast.look(now_ms)

    def go_on_unseen(self) -> None:
        """So far as the classic rules see: what is scraped."""
        self.world.advance(self.world.now_ms + _KUBE_STATE_MS)
        self._objects.look()
        self.scraper.exporters(None)
        self.scraper.programs()
        self._pods.look(self._objects.present(), self.world.now_ms)

    def pods_of(self, job_uid: str, node: str) -> set[str]:
        """By name: the pods that a job has had, or all jobs that had some on a node."""
        truth = self.world.truth
        jobs = {job_uid, *(on_gpu.job_uid for on_gpu in truth.gpus if node and on_gpu.node == node)}
        return {seat.pod for seat in truth.seats.values() if seat.job_uid in jobs}

    def _tell(self) -> None:
        now_ms = self.world.now_ms
        for rank in list(self.world.telling.ranks.values()):
            has_more = True
            while has_more and (sending := rank.next(now_ms, _HEARTBEAT_S)) is not None:
                self._intake.receive(orjson.dumps(sending.line), "", for_dead=sending.for_dead)
                has_more = rank.taken()
        self._intake.settle()
