"""A simulated fleet in the parts of a server: telemetry, programs, ranks that tell and Kubernetes objects go
into a store, and scenes and rules come out of it. Without sockets, and not waiting for the clock."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from bench.detect.watched import Kept, NoRuns
from trilens.collect.config import ScrapeConfig
from trilens.collect.current_series import CurrentSeries
from trilens.collect.ingest import TargetIngest, join, stale_batch
from trilens.collect.runs.intake import RunIntake
from trilens.detect.records import RankRecords
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.serve.detection.asked import Asked
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import StoredReports
from trilens.serve.kube_state import KubeStateExport
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.rehearsal.events import KernelEvents
from trilens.serve.rehearsal.objects import FollowedObjects
from trilens.serve.run_programs import RunPrograms
from trilens.serve.workload_metrics import as_series, measured
from trilens.simulate.scenario import Scenario
from trilens.simulate.world import Silent, World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from trilens.collect.ingest import Batch
    from trilens.model.labels import Labels
    from trilens.model.life import MembershipInterval
    from trilens.model.run import RunFacts, RunId
    from trilens.model.run_commit import RunCommit
    from trilens.serve.asked_loop import AskedLoop
    from trilens.store.store import Store

CLUSTER: Final = "east"
GPUS_PER_NODE: Final = 8
_SCRAPE_MS: Final = 15_000
_STATE_MS: Final = 30_000  # how often clusters and GPUs are told as metrics
_TELLING: Final = 0.85  # of the GPUs: ranks of other trainings are known by their metrics alone
_EVERY: Final = timedelta(milliseconds=_SCRAPE_MS)
_SCRAPE: Final = ScrapeConfig(job_name="simulated", scrape_interval=_EVERY, scrape_timeout=_EVERY)
_TROUBLE_S: Final = 240.0  # after the beginning
# By kind, how many for 10,000 GPUs. A fleet of that size is never whole.
_TROUBLES: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "thermal": (20, {"job": "large"}),
    "straggler": (8, {"job": "large"}),
    "xid": (8, {"job": "large", "code": 94}),
    "gpu-lost": (4, {"job": "small"}),
    "stuck-data": (4, {"job": "large"}),
    "hang": (4, {"job": "large"}),
    "nan": (4, {"job": "small"}),
    "checkpoint-failing": (8, {"job": "small"}),
    "slow-data": (8, {"job": "small"}),
    "image-pull": (8, {"job": "small"}),
    "prof-stuck": (4, {}),
    "exporter-silent": (4, {}),
}


def scenario(gpus: int) -> Scenario:
    """Two thirds in trainings of 32 ranks, a fifth in those of one, the others serve or wait for work."""
    nodes = -(-gpus // GPUS_PER_NODE)
    usual = {"pool": "h200", "team": "foundation", "pull": 5, "start": 5, "duration_spread": 0}
    training = {"forward_s": 0.9, "backward_s": 1.7, "grad_sync_s": 0.3, "jitter": 1.0}
    large = {
        **usual, "name": "large", "kind": "PyTorchJob", "namespace": "research", "pods": 4, "duration": "40h",
        "arrivals": {"at_start": max(1, gpus * 2 // 3 // 32)}, "training": training,
    }  # fmt: skip
    small = {
        **usual, "name": "small", "kind": "Job", "namespace": "research", "gpus_per_pod": 1,
        "duration": "40h", "arrivals": {"at_start": max(1, gpus // 5)}, "training": training,
    }  # fmt: skip
    chat = {
        **usual, "name": "chat", "kind": "Deployment", "namespace": "serving", "pods": 2, "gpus_per_pod": 1,
        "arrivals": {"at_start": max(1, gpus // 30)},
    }  # fmt: skip
    troubles = [
        {"kind": kind, "at": _TROUBLE_S, "lasts": "4h", **what}
        for kind, (count, what) in _TROUBLES.items()
        for _ in range(round(count * gpus / 10_000))
    ]
    pool = {"name": "h200", "model": "H200", "nodes": nodes, "nodes_per_rack": 16}
    jobs = [large, small, chat]
    return Scenario.model_validate({"name": "round", "pools": [pool], "jobs": jobs, "faults": troubles})


class KeptMembers(Kept):
    """Asked for members as a store is."""

    def __init__(self) -> None:
        super().__init__()
        self._intervals: dict[str, MembershipInterval] = {}

    def membership(self, interval: Any) -> None:
        super().membership(interval)
        self._intervals[interval.membership.pod.uid] = interval

    def members_among(
        self, pods: Collection[tuple[str, str, str]], *_: object
    ) -> Sequence[MembershipInterval]:
        return [self._intervals[uid] for _, _, uid in pods if uid in self._intervals]


class ToldRuns(NoRuns):
    """Nothing was known of runs before: all that is known was told."""

    def __init__(self, records: RankRecords) -> None:
        self._records = records
        self._told: set[RunId] = set()

    def commit(self, commit: RunCommit) -> None:
        self._told.update(one.run for one in commit.facts)

    def runs(self, *, run: RunId | None = None, **_: object) -> list[RunFacts]:
        wanted = self._told if run is None else {run}
        return [facts for one in wanted if (facts := self._records.facts(one)) is not None]


class FedStore:
    """`go_on` lets time pass, and has what a server would have heard meanwhile taken in."""

    def __init__(self, store: Store, gpus: int, start_ms: int) -> None:
        telling = round(gpus * _TELLING)
        self.world = World(scenario(gpus), start_ms=start_ms, seed=1, telling_ranks=telling)
        self.taken_s = 0.0  # CPU of what detectors keep of steps, since the last `go_on`
        self._store = store
        self._kept = KeptMembers()
        self._state = KubeStateExport(
            [CLUSTER], "on", store, clock=self._now_s, now_ms=lambda: self.world.now_ms
        )
        kept: Any = self._kept
        self._objects = FollowedObjects(self.world, kept, CLUSTER, self._state)
        self._events = KernelEvents(self.world, kept)
        self._gpus = GpuBindings(kept, StoredReports(store), self._objects, samples=store)
        self._current = CurrentSeries(store)
        self._records = RankRecords()
        self._runs = ToldRuns(self._records)
        self._intake = RunIntake(self._runs, on_kept=self._take, clock_s=self._now_s, time_s=self._now_s)
        self._targets: dict[str, TargetIngest] = {}
        self._programs = RunPrograms(self._intake, self._runs, kept, None, None)
        self._loop = asyncio.new_event_loop()

    def _now_s(self) -> float:
        return self.world.now_ms / 1000

    def _take(self, commit: RunCommit) -> None:
        began_s = time.process_time()
        self._records.take(commit, self.world.now_ms)
        self.taken_s += time.process_time() - began_s

    def scenes(self, loop: AskedLoop) -> Scenes:
        asked = Asked(EmbeddedQueries(self._store, lambda: self.world.now_ms))
        asked.ask_in(loop)
        return Scenes(
            Sources(
                GpuWindow(asked),
                ScrapedRanks(asked),
                self._records,
                self._intake,
                self._runs,
                self._programs.members,
                lambda: GpusSeen(self._gpus.now.gpus, self._gpus.held, self._gpus.now.told.reports),
                self._kept,
                lambda: (),
                self._objects,
            )
        )

    def go_on(self, seconds: float) -> None:
        before_ms, self.taken_s = self.world.now_ms, 0.0
        self.world.advance(before_ms + round(1000 * seconds))
        self._objects.look()
        self._events.look()
        self._tell(seconds)
        if self._is_due(before_ms, _SCRAPE_MS):
            self._scrape()
        if self._is_due(before_ms, _STATE_MS):
            now_ms = self.world.now_ms
            self._loop.run_until_complete(self._state.tell([CLUSTER]))
            self._gpus.look(now_ms)
            shown = as_series(measured(self._objects.resolver, now_ms))
            self._current.write({**shown, **self._of_runs()}, now_ms)
        self._store.durable().result(120)

    def _is_due(self, before_ms: int, every_ms: int) -> bool:
        return before_ms // every_ms != self.world.now_ms // every_ms

    def _tell(self, seconds: float) -> None:
        now_ms = self.world.now_ms
        for rank in list(self.world.telling.ranks.values()):
            has_more = True
            while has_more and (sending := rank.next(now_ms, seconds)) is not None:
                self._intake.receive(orjson.dumps(sending.line), "", for_dead=sending.for_dead)
                has_more = rank.taken()
        self._intake.settle()
        self._programs.look()

    def _of_runs(self) -> dict[Labels, float]:
        return {
            make_labels({**sample.labels, METRIC_NAME: sample.name}): sample.value
            for metric in self._programs.metrics()
            for sample in metric.samples
        }

    def _scrape(self) -> None:
        """One of each exporter and program; those that are gone end."""
        here: set[str] = set()
        batches: list[Batch] = []
        for name, labels, text in self._endpoints():
            here.add(name)
            batches += self._read(name, labels, text)
        for gone in self._targets.keys() - here:
            batches.append(stale_batch(self._targets.pop(gone).fail(), self.world.now_ms))
        self._store.append(*join(batches))

    def _endpoints(self) -> Iterator[tuple[str, dict[str, str], Callable[[], bytes]]]:
        for node in self.world.nodes:
            yield node, {"job": "dcgm", "instance": node}, partial(self.world.dcgm_text, node)
        runs = {process.pod_uid: process.run for process in self._intake.processes()}
        for uid, endpoint in self.world.metrics_endpoints().items():
            labels = {"job": "programs", "namespace": endpoint.namespace, "pod": endpoint.pod}
            labels["instance"] = endpoint.pod
            if uid in runs:  # the SDK names the run in each of its series
                labels["run"] = runs[uid]
            yield uid, labels, partial(self.world.metrics_text, uid)

    def _read(self, name: str, labels: dict[str, str], text: Callable[[], bytes]) -> Iterator[Batch]:
        target, now_ms = self._targets.get(name), self.world.now_ms
        if target is None:
            found: Labels = make_labels({**labels, "cluster": CLUSTER})
            target = self._targets[name] = TargetIngest(_SCRAPE, found, self._store)
        try:
            body = text()
        except (Silent, KeyError):
            yield stale_batch(target.fail(), now_ms)
            return
        read = target.read(body, openmetrics=False, t_ms=now_ms)
        yield read.batch
        yield stale_batch(read.stale, now_ms)
