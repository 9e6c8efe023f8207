"""Clusters, followed: their objects go to the resolvers, and what these make of them to the store."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.collect.current_series import CurrentSeries
from trilens.collect.kubernetes.intake import KubernetesIntake
from trilens.collect.kubernetes.sink import Several
from trilens.model.errors import IntakeError, StoreError
from trilens.resolve.clusters import Clusters
from trilens.resolve.gpus.cluster_view import view_of
from trilens.resolve.pod_addresses import pods_by_address
from trilens.resolve.pod_warnings import PodWarnings
from trilens.resolve.present import Present
from trilens.resolve.programs import programs_of
from trilens.serve.first_look import FirstLook
from trilens.serve.kube_state import KubeStateExport
from trilens.serve.loop_thread import LoopThread
from trilens.serve.workload_metrics import FAMILIES, as_series, exposed, measured, still_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from trilens.collect.kubernetes.state import ClusterState
    from trilens.collect.monitors.following import Monitors, Unusable
    from trilens.model.kubernetes import KubeObject
    from trilens.model.program import Program
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.resolve.gpus.cluster_view import ClusterView
    from trilens.resolve.phase_metrics import PhaseSample
    from trilens.resolve.present import ClusterState as ClusterPresent
    from trilens.settings.tree import Settings
    from trilens.store.events import EventRecords
    from trilens.store.store import Store
    from trilens.store.workloads import WorkloadRecords

log = logging.getLogger(__name__)

T = TypeVar("T")

_SETTLE_S: Final = 0.3  # a change is to be seen within a second, its way to the disk included
_MEASURE_S: Final = 15.0
_LOOK_S: Final = 1.0  # how soon a cluster is measured after it was read through
_VIEW_S: Final = 30.0  # the first lists of a large cluster keep its thread busy for a while
_WARNINGS: Final = 3  # of one cluster, with an answer; when it does not answer, all its kinds complain


class ClusterIntake:
    """A thread with an event loop of its own; everything public may be called from any other."""

    def __init__(
        self,
        settings: Settings,
        records: WorkloadRecords,
        samples: Store | None,
        monitors: Monitors | None = None,
        events: EventRecords | None = None,
    ) -> None:
        """Raises ConfigError for a kubeconfig that cannot be used. `samples` is None where another server
        holds them, `monitors` where no monitor makes a job, `events` where warnings are not kept."""
        self._records = records
        self._samples = samples
        self._clusters = Clusters(settings.ownership, settings.topology, records)
        self._names = tuple(settings.kubernetes.clusters)
        self.kube_state = KubeStateExport(
            self._names,
            settings.kubernetes.state_metrics,
            samples,
            stored=settings.kubernetes.state_metrics_stored,
        )
        self._monitors = monitors
        watching_monitors = (monitors,) if monitors is not None else ()
        warnings = (PodWarnings(events),) if events is not None else ()
        listeners = Several(self._clusters, self.kube_state, *watching_monitors, *warnings)
        self._intake = KubernetesIntake(settings.kubernetes, settings.base_dir, listeners)
        self._ready: dict[WorkloadKey, frozenset[PodKey]] = {}
        self._programs: dict[WorkloadKey, tuple[Program, ...]] = {}
        self._first_look = FirstLook(time.monotonic)
        self._settled: set[str] = set()
        self._present = {name: Present() for name in self._names}
        self._measured: dict[str, list[PhaseSample]] = {}
        self._series: dict[str, CurrentSeries] = {}
        self._thread = LoopThread("trilens-clusters", self._follow)

    def start(self) -> None:
        """First takes up what was known when Trilens last ran."""
        for cluster in self._names:
            kept = self._records.unfinished(cluster)
            self._clusters[cluster].restore(
                [member for history in kept for member in history.members],
                [phase for history in kept for phase in history.phases],
            )
        if self._samples is not None:
            for family in FAMILIES:
                self._samples.describe(family.metric, family.kind, family.help, "")
            for cluster in self._names:
                shown = still_shown(self._samples, cluster, _now_ms())
                self._series[cluster] = CurrentSeries(self._samples, shown)
        self._thread.start()

    def stop(self) -> None:
        """What was seen until now is told to the store before this returns."""
        self._thread.stop()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def states(self) -> list[ClusterState]:
        return self._intake.states()

    def complaints(self) -> list[str]:
        """What is wrong with the watching, a line each."""
        lines = [line for state in self.states() for line in state.complaints()]
        return [*lines, *map(str, self.unusable_monitors()), *self._doubts()]

    def unusable_monitors(self) -> list[Unusable]:
        return self._monitors.unusable() if self._monitors is not None else []

    def warnings(self) -> list[str]:
        """The same in short, to go with every answer."""
        lines: list[str] = []
        for state in self.states():
            of_cluster = state.complaints()
            lines += of_cluster[:_WARNINGS]
            if len(of_cluster) > _WARNINGS:
                lines.append(f"{state.cluster}: and {len(of_cluster) - _WARNINGS} more; /readyz has them all")
        return [*lines, *self._doubts()]

    def _doubts(self) -> list[str]:
        """Why what is shown may not be all, or not be new."""
        lines = [f"{name}: not read through yet" for name in self.unread()]
        if self._thread.has_failed:
            lines.append("no cluster is followed any more; the server's log says why")
        trouble = self._records.trouble
        return [*lines, f"what happened last is not kept yet: {trouble}"] if trouble is not None else lines

    def ready_pods(self) -> Mapping[WorkloadKey, frozenset[PodKey]]:
        """The pods that do their work now; a workload that is not here is one that nobody knows about now."""
        return self._ready

    def programs(self) -> list[Program]:
        """The endpoints of programs that pods of workloads say they have."""
        return [program for programs in list(self._programs.values()) for program in programs]

    def unread(self) -> list[str]:
        """Clusters of which nothing can be said yet."""
        return [name for name in self._names if name not in self._settled]

    def settled(self) -> frozenset[str]:
        """The clusters that were read through."""
        return frozenset(tuple(self._settled))

    def gpu_views(self) -> list[ClusterView]:
        """What each cluster knows of its pods and nodes, as it stands between two changes."""
        return self._between_changes(self._gpu_views, _VIEW_S)

    def _gpu_views(self) -> list[ClusterView]:
        return [view_of(self._clusters[name], is_settled=name in self._settled) for name in self._names]

    def present(self, within_s: float = _VIEW_S) -> list[ClusterPresent]:
        """Workloads, pods and nodes of the clusters that were read through, between two changes."""
        return self._between_changes(self._present_now, within_s)

    def _present_now(self) -> list[ClusterPresent]:
        return [self._present[name].of(self._clusters[name]) for name in self._names if name in self._settled]

    def pods_of(
        self, cluster: str, keep: Callable[[KubeObject], bool], within_s: float = _VIEW_S
    ) -> list[KubeObject]:
        """The pods of a cluster as they are followed, between two changes. Raises IntakeError."""
        return self._between_changes(
            lambda: [pod for pod in self._clusters[cluster].pods() if keep(pod)], within_s
        )

    def pods_by_address(self) -> Mapping[str, Sequence[PodKey]]:
        """All that are followed. Raises IntakeError."""
        return self._between_changes(
            lambda: pods_by_address(pod for name in self._names for pod in self._clusters[name].pods()),
            _VIEW_S,
        )

    def clusters_with(self, node: str) -> list[str]:
        """Those that were read through and have a node of this name. Raises IntakeError."""
        return self._between_changes(
            lambda: [
                name for name in self._names if name in self._settled and self._clusters[name].has_node(node)
            ],
            _VIEW_S,
        )

    def _between_changes(self, question: Callable[[], T], within_s: float) -> T:
        try:
            return self._thread.between_steps(question, within_s)
        except TimeoutError as e:
            raise IntakeError(
                f"the clusters keep their thread busy: no look at them within {within_s:g} s"
            ) from e

    def metrics(self) -> Iterator[Metric]:
        return exposed([sample for samples in list(self._measured.values()) for sample in samples])

    async def _follow(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._intake.run())
                if self._monitors is not None:
                    tasks.create_task(self._monitors.run())
                tasks.create_task(self._settle_often())
                tasks.create_task(self._measure_often())
                tasks.create_task(self.kube_state.run(lambda: self._settled))
        finally:
            self._settle()

    async def _settle_often(self) -> None:
        while True:
            await asyncio.sleep(_SETTLE_S)
            self._settle()

    async def _measure_often(self) -> None:
        due: dict[str, float] = {}
        while True:
            now = time.monotonic()
            for cluster in self._settled:
                if due.get(cluster, now) <= now:
                    due[cluster] = now + _MEASURE_S
                    self._measure(cluster, _now_ms())
            await asyncio.sleep(_LOOK_S)

    def _settle(self) -> None:
        for state in self.states():
            if self._first_look.is_done(state):
                try:
                    self._settle_one(state.cluster)
                except Exception:  # one cluster that nobody can make sense of must not end the others
                    log.exception("a cluster was not settled", extra={"cluster": state.cluster})

    def _settle_one(self, cluster: str) -> None:
        resolver = self._clusters[cluster]
        concerned = resolver.settle(_now_ms())
        known = resolver.workloads() if concerned else {}
        for key in concerned:
            if key in known:
                self._ready[key] = resolver.ready_pods(key)
                self._programs[key] = tuple(programs_of(known[key], resolver.members(key)))
            else:
                self._ready.pop(key, None)
                self._programs.pop(key, None)
        self._settled.add(cluster)

    def _measure(self, cluster: str, at_ms: int) -> None:
        try:
            samples = measured(self._clusters[cluster], at_ms)
            self._measured[cluster] = samples
            if cluster in self._series:
                self._series[cluster].write(as_series(samples), at_ms)
        except StoreError as e:
            log.warning("workload metrics were not taken", extra={"cluster": cluster, "error": str(e)})
        except Exception:  # a defect in measuring must not end the watching
            log.exception("workload metrics failed", extra={"cluster": cluster})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
