"""Which pod has which GPU, and which machines have some, worked out from what all sources say; told to store
and metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import StoreError, TrilensError
from trilens.resolve.gpus.books import REMEMBERED_MS, BindingBook, GpuBook
from trilens.resolve.gpus.cluster_view import ClusterView
from trilens.resolve.gpus.gather import annotated, claims_of, gpus_of
from trilens.resolve.gpus.missing import compare
from trilens.resolve.gpus.places import Places, Pods
from trilens.resolve.gpus.reconcile import Reconciled, reconcile
from trilens.resolve.info import GPU_INFO, gpu_info
from trilens.resolve.machines import MachineBook, machines_without_kubernetes, reported_gpus
from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.gpu_reports import Told
from trilens.serve.still_shown import series_still_shown
from trilens.serve.workload_metrics import Family, as_series, exposed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from trilens.model.gpu import BindingInterval, Claim, Gpu, GpuBinding, GpuKey
    from trilens.model.labels import Labels
    from trilens.model.life import MembershipInterval
    from trilens.model.node import Hardware
    from trilens.model.workload import Doubt, PodKey
    from trilens.resolve.gpus.books import RunningSince
    from trilens.resolve.gpus.cluster_view import NodeView
    from trilens.resolve.gpus.missing import NodeGpus
    from trilens.resolve.gpus.reports import Report
    from trilens.resolve.machines import ReportedGpus
    from trilens.serve.gpu_reports import ReportSource
    from trilens.store.gpus import GpuRecords
    from trilens.store.machines import MachineRecords
    from trilens.store.store import Store

log = logging.getLogger(__name__)

_EVERY_S: Final = 15.0
_LOOK_S: Final = 1.0  # how soon it is noticed that a cluster was read through, or the first scrapes came
_FIRST_S: Final = 60.0  # for so long after the start the first scrapes are looked out for

CAPACITY: Final = "trilens_gpu_capacity"
REPORTING: Final = "trilens_gpu_reporting"
LOST: Final = "trilens_gpu_lost"

FAMILIES: Final = (
    Family(GPU_INFO, "gauge", "1 for each GPU of a pod's container, with its workload and rank as labels."),
    Family(CAPACITY, "gauge", "GPUs that a node should have, by what it offers."),
    Family(REPORTING, "gauge", "GPUs of a node that report."),
    Family(LOST, "gauge", "GPUs that a node should have and that do not report; absent where none does."),
)


class ClaimsFrom(Protocol):
    """Somebody else who knows who has a GPU: machines without Kubernetes."""

    @property
    def cluster(self) -> str: ...

    def claims(self) -> Iterable[Claim]: ...

    def members(self) -> Mapping[PodKey, MembershipInterval]: ...

    def hardware(self) -> Mapping[str, Hardware]: ...


class ClusterViews(Protocol):
    """The clusters that are watched."""

    def settled(self) -> frozenset[str]: ...

    def gpu_views(self) -> list[ClusterView]: ...


@dataclass(frozen=True, slots=True)
class GpusNow:
    """What only the present knows."""

    told: Told = field(default_factory=Told)
    gpus: Mapping[GpuKey, Gpu] = field(default_factory=dict)
    doubts: Mapping[GpuKey, tuple[Doubt, ...]] = field(default_factory=dict)
    nodes: Sequence[NodeGpus] = ()
    trouble: str | None = None  # why this may be old


class _Input(NamedTuple):
    """Compared with the one before: nothing is worked out twice from the same."""

    reports: frozenset[int]
    views: list[ClusterView]
    claims: list[Claim]


class GpuBindings:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        records: GpuRecords,
        reports: ReportSource,
        clusters: ClusterViews | None,
        others: Sequence[ClaimsFrom] = (),
        samples: Store | None = None,
        machines: MachineRecords | None = None,
    ) -> None:
        """`clusters` is None where none is watched, `samples` where another server has them, `machines` where
        what they cost does not matter."""
        self._records = records
        self._reports = reports
        self._clusters = clusters
        self._others = others
        self._samples = samples
        self._gpus = GpuBook(records)
        self._bindings = BindingBook(records)
        self._machine_records = machines
        self._machines = MachineBook(machines) if machines is not None else None
        self._reported_on: Mapping[tuple[str, str], ReportedGpus] = {}
        self._last = _Input(frozenset(), [], [])
        self._kept: list[Report] = []  # whose identities are in `_last`
        self._inventory: dict[GpuKey, Gpu] = {}
        self._reconciled = Reconciled([], {})
        self._reported: list[Claim] = []
        self._measured: list[PhaseSample] = []
        self._as_series: dict[Labels, float] = {}
        self.held: tuple[GpuBinding, ...] = ()  # who has which GPU now
        self.held_by: Mapping[PodKey, Sequence[BindingInterval]] | None = None  # the same; None before a look
        self._series: CurrentSeries | None = None
        self.now = GpusNow()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-gpus", daemon=True)

    def start(self) -> None:
        self.take_up(_now_ms())
        self._thread.start()

    def take_up(self, at_ms: int) -> None:
        """What was known when Trilens last ran."""
        self._gpus.restore(self._records.last_of_each(at_ms - REMEMBERED_MS), at_ms)
        self._bindings.restore(self._records.unfinished(), self._records.freed(at_ms - REMEMBERED_MS))
        if self._machines is not None and self._machine_records is not None:
            self._machines.restore(self._machine_records.unfinished(), at_ms)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def metrics(self) -> Iterator[Metric]:
        return exposed(self._measured, FAMILIES)

    def _run(self) -> None:
        due, before, begun = 0.0, frozenset[str](), time.monotonic()
        while not self._stopping.is_set():
            settled = self._clusters.settled() if self._clusters is not None else frozenset()
            now = time.monotonic()
            is_eager = not self.now.gpus and now < begun + _FIRST_S
            if now >= due or settled != before or (is_eager and self._anyone_reports()):
                due, before = now + _EVERY_S, settled
                self.try_to_look()
            self._stopping.wait(_LOOK_S)

    def _anyone_reports(self) -> bool:
        """Cheap to ask, where looking at every pod and node is not."""
        try:
            return bool(self._reports.read(_now_ms()).reports)
        except TrilensError:
            return False  # the look that is due tells it

    def try_to_look(self) -> None:
        try:
            self.look(_now_ms())
        except TrilensError as e:
            if self.now.trouble is None:
                log.warning("GPUs were not looked at", extra={"error": str(e)})
            self._tell_trouble(str(e))
        except Exception:  # a defect here must not end it for good
            log.exception("looking at GPUs failed")
            self._tell_trouble("a defect; the server's log says more")

    def _tell_trouble(self, why: str) -> None:
        before = self.now
        self.now = GpusNow(before.told, before.gpus, before.doubts, before.nodes, why)

    def look(self, at_ms: int) -> None:
        told = self._reports.read(at_ms)
        views = self._clusters.gpu_views() if self._clusters is not None else []
        claims: list[Claim] = []
        for other in self._others:
            claims += other.claims()
            views.append(ClusterView(other.cluster, other.members(), knows_nodes=False))
        given = _Input(frozenset(map(id, told.reports)), views, claims)
        is_new = given != self._last
        if is_new:
            self._work_out(told.reports, given)
        self._gpus.update(self._inventory, at_ms, told.energy_mj)
        self._keep_machines(views, at_ms)
        nodes = self.now.nodes
        if is_new:  # or all of this would come out as it did before
            members = {key: interval for view in views for key, interval in view.members.items()}
            reporting = self._inventory.keys()
            bindings, since = self._reconciled.bindings, self._running_since(views)
            self._bindings.update(bindings, reporting, members, _settled(views), at_ms, since)
            nodes = compare(views, self._inventory.values(), self._gpus.silent())
            self.held = tuple(interval.binding for interval in self._bindings.open)
            self.held_by = _by_pod(self._bindings.open)
            info = gpu_info(members, self.held)
            self._measured = [*(PhaseSample(GPU_INFO, labels, 1.0) for labels in info), *_node_samples(nodes)]
            self._as_series = as_series(self._measured)
            self._last, self._kept = given, told.reports  # not before: what failed is done again
        else:
            self._bindings.unchanged(at_ms)
        self.now = GpusNow(told, self._inventory, self._reconciled.doubts, nodes)
        self._write(views, at_ms)

    def _work_out(self, reports: list[Report], given: _Input) -> None:
        before = self._last
        if given.reports != before.reports or _nodes(given.views) != _nodes(before.views):
            places = Places(given.views)
            self._inventory = gpus_of(reports, places)
            self._reported = list(claims_of(reports, places, self._inventory))
            self._reported_on = reported_gpus(self._inventory.values())
        every = (*self._reported, *annotated(given.views, self._inventory), *given.claims)
        unread = {view.cluster for view in given.views if not view.is_settled}
        asked = [claim for claim in every if claim.cluster not in unread]
        if not _settled(given.views):
            asked = []  # where no cluster is watched, nobody knows the pods that labels name
        self._reconciled = reconcile(asked, self._inventory, Pods(given.views))

    def _running_since(self, views: list[ClusterView]) -> RunningSince:
        """As long as their machines are known: before that, nobody counts what they cost."""
        by_cluster = {view.cluster: view for view in views}
        machines = self._machines

        def since(pod: PodKey) -> int | None:
            view = by_cluster.get(pod.cluster)
            started_ms = view.started.get(pod) if view is not None else None
            if view is None or started_ms is None or machines is None:
                return None
            first_ms = machines.first_seen_ms(pod.cluster, view.members[pod].node)
            return None if first_ms is None else max(started_ms, first_ms)

        return since

    def _keep_machines(self, views: list[ClusterView], at_ms: int) -> None:
        if self._machines is None:
            return
        nodes = [node.seen for view in views for node in view.nodes if node.seen is not None]
        hardware = {node: told for other in self._others for node, told in other.hardware().items()}
        watched = {(seen.machine.cluster, seen.machine.node) for seen in nodes}
        alone = machines_without_kubernetes(self._reported_on, hardware, watched)
        told = {view.cluster for view in views if view.is_settled and view.knows_nodes}
        unread = {view.cluster for view in views} - told - {other.cluster for other in self._others}
        self._machines.update([*nodes, *alone], self._reported_on, told, unread, at_ms)

    def _write(self, views: list[ClusterView], at_ms: int) -> None:
        if self._samples is None:
            return
        try:
            if self._series is None:
                names = [family.metric for family in FAMILIES]
                for family in FAMILIES:
                    self._samples.describe(family.metric, family.kind, family.help, "")
                shown = [
                    labels
                    for view in views
                    for labels in series_still_shown(self._samples, names, view.cluster, at_ms)
                ]
                self._series = CurrentSeries(self._samples, shown)
            self._series.write(self._as_series, at_ms)
        except StoreError as e:
            log.warning("GPU metrics were not taken", extra={"error": str(e)})


def _by_pod(intervals: Iterable[BindingInterval]) -> Mapping[PodKey, Sequence[BindingInterval]]:
    found: defaultdict[PodKey, list[BindingInterval]] = defaultdict(list)
    for interval in intervals:
        found[interval.binding.pod].append(interval)
    return dict(found)


def _settled(views: Iterable[ClusterView]) -> frozenset[str]:
    return frozenset(view.cluster for view in views if view.is_settled)


def _nodes(views: Iterable[ClusterView]) -> list[tuple[NodeView, ...]]:
    return [view.nodes for view in views]


def _node_samples(nodes: Iterable[NodeGpus]) -> Iterator[PhaseSample]:
    for node in nodes:
        labels = {"cluster": node.cluster, "node": node.node}
        yield PhaseSample(CAPACITY, labels, node.expected)
        yield PhaseSample(REPORTING, labels, node.reporting)
        if node.lost is not None:
            yield PhaseSample(LOST, labels, node.lost)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
