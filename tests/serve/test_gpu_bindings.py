"""The server's look at GPUs: from samples and clusters to records, metrics and what is shown now."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.errors import SourceError
from trilens.model.gpu import Claim, ClaimSource, GpuKey
from trilens.model.life import MembershipInterval
from trilens.model.machine import Machine as BoughtMachine
from trilens.model.matcher import Matcher
from trilens.model.node import Hardware
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, SelectRequest
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
from trilens.promql.memory import MemorySource
from trilens.resolve.accelerators import GpuCapacity
from trilens.resolve.gpus.cluster_view import ClusterView, NodeView
from trilens.resolve.machines import SeenMachine
from trilens.serve import gpu_bindings
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.gpu_bindings import LOST, REPORTING, GpuBindings
from trilens.serve.gpu_reports import AskedReports, StoredReports, Told
from trilens.serve.own_queries import Shown
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

NOW_MS = 1_768_392_000_000
KEY = GpuKey(GpuUuid("GPU-1"))


def member(pod: str, uid: str, attempt: int = 0, cluster: str = "lab") -> MembershipInterval:
    workload = WorkloadKey(cluster, "ml", "kubeflow.org", "PyTorchJob", "train", "w")
    return MembershipInterval(
        Membership(PodKey(cluster, "ml", pod, uid), workload, attempt), "node-a", NOW_MS - 1_000 + attempt
    )


class OneCluster:
    """Stands for the watching of a cluster with one node, which a real API server is needed for."""

    def __init__(self, *members: MembershipInterval, capacity: int = 2) -> None:
        self.members = members
        self.capacity = capacity
        self.is_settled = True
        self.started: dict[PodKey, int] = {}

    def settled(self) -> frozenset[str]:
        return frozenset(("lab",) if self.is_settled else ())

    def gpu_views(self) -> list[ClusterView]:
        seen = SeenMachine(BoughtMachine("lab", "node-a", "p5.48xlarge", gpus=self.capacity), NOW_MS - 9_000)
        node = NodeView("node-a", frozenset(), GpuCapacity(self.capacity, counts_instances=False), seen)
        members = {one.membership.pod: one for one in self.members}
        return [
            ClusterView("lab", members, nodes=(node,), is_settled=self.is_settled, started=dict(self.started))
        ]


def reading(metric: str, uuid: str = "GPU-1", pod: str = "", **labels: str) -> dict[str, str]:
    holder = {"namespace": "ml", "pod": pod, "container": "main"} if pod else {}
    return {"__name__": metric, "UUID": uuid, "gpu": "0", "Hostname": "node-a", **holder, **labels}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    yield opened
    opened.close()


def driver(store: Store, source: MemorySource, clusters: OneCluster | None, **more: Any) -> GpuBindings:
    return GpuBindings(
        store.gpus, StoredReports(source), clusters, samples=store, machines=store.machines, **more
    )


def info(store: Store, at_ms: int, metric: str = "trilens_workload_gpu_info") -> list[dict[str, str]]:
    """The series that a query at that moment finds."""
    request = SelectRequest((Matcher("__name__", "=", metric),), at_ms - 300_000, at_ms)
    found = store.select(request, QueryGuard())
    ends = found.samples.offsets
    alive = [
        row
        for row in range(len(found.labels))
        if ends[row + 1] > ends[row]
        and found.samples.v[ends[row + 1] - 1] == found.samples.v[ends[row + 1] - 1]
    ]
    return [found.labels.labels(row) for row in alive]


def test_what_the_samples_say_now() -> None:
    source = MemorySource()
    at = [(NOW_MS, 55.0)]
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0"), at)
    source.add(reading("DCGM_FI_DEV_POWER_USAGE", pod="train-0"), [(NOW_MS, 2147483632.0)])  # not known
    source.add(reading("DCGM_FI_DEV_FB_USED", pod="train-0"), [(NOW_MS, 1024.0)])
    source.add(reading("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", pod="train-0"), [(NOW_MS, 5e9)])
    for number, blank in enumerate((2147483632.0, 140737488355330.0, 9.2e18)):
        unknown = reading("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", f"GPU-blank-{number}")
        source.add(unknown, [(NOW_MS, blank)])
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod="before-0"), [(NOW_MS - 9_000, 1.0), (NOW_MS, STALE_NAN)])
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", "GPU-old"), [(NOW_MS - 400_000, 1.0)])
    source.add({"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, at)
    reports = StoredReports(source)
    told = reports.read(NOW_MS)
    report, *_ = told.reports
    assert report.holder is not None
    assert (report.key, report.holder.pod) == (KEY, "train-0")
    assert told.utilization == {"GPU-1": 0.55}
    assert told.memory_used_bytes == {KEY: 1 << 30}
    assert told.power_watts == {}
    assert told.energy_mj == {"GPU-1": 5e9}
    assert (
        reports.read(NOW_MS + 15_000).reports[0] is report
    )  # labels that were read before are not read again


def test_nothing_reports_any_more() -> None:
    source = MemorySource()
    source.add(reading("DCGM_FI_DEV_GPU_UTIL"), [(NOW_MS, 1.0)])
    reports = StoredReports(source)
    assert len(reports.read(NOW_MS).reports) == 1
    told = reports.read(NOW_MS + 600_000)
    assert (told.reports, told.utilization) == ([], {})


def test_a_gpu_is_bound_kept_and_measured(store: Store) -> None:
    source, clusters = MemorySource(), OneCluster(member("train-0", "uid-0"))
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0"), [(NOW_MS, 1.0)])
    bindings = driver(store, source, clusters)
    bindings.look(NOW_MS)
    (series,) = info(store, NOW_MS)
    assert (series["workload"], series["UUID"], series["pod"], series["attempt"]) == (
        "train",
        "GPU-1",
        "train-0",
        "0",
    )
    exposed = {metric.name: metric.samples[0].value for metric in bindings.metrics()}
    assert exposed == {
        "trilens_workload_gpu_info": 1,
        "trilens_gpu_capacity": 2,
        "trilens_gpu_reporting": 1,
        "trilens_gpu_lost": 1,
    }
    (node,) = bindings.now.nodes
    assert (node.lost, node.named) == (1, ())


def test_a_gpu_of_a_pod_that_runs_already_is_held_since_its_machine_is_known(tmp_path: Path) -> None:
    """The server begins, and the first scrape comes 20 seconds later. A pod that starts after that has its
    GPU since its containers run, and so has one that starts while nobody looks."""
    options = StoreOptions(data_dir=tmp_path / "data")
    first, second, third = (member(f"{name}-0", name) for name in ("train", "next", "last"))
    pods = [one.membership.pod for one in (first, second, third)]
    source, clusters = MemorySource(), OneCluster(first)
    since = (NOW_MS - 3_600_000, NOW_MS + 41_000, NOW_MS + 400_000)
    clusters.started = dict(zip(pods, since, strict=True))

    def hold(pod: str, from_s: int, to_s: int) -> None:
        samples = [(NOW_MS + from_s * 1000, 1.0), (NOW_MS + to_s * 1000, STALE_NAN)]
        source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod=pod), samples)

    hold("train-0", 20, 50)
    hold("next-0", 50, 390)
    hold("last-0", 410, 990)
    store = Store.open(options, upkeep=False)
    bindings = driver(store, source, clusters)
    for seconds in (0, 20, 35):
        bindings.look(NOW_MS + seconds * 1000)
    clusters.members = (second,)
    bindings.look(NOW_MS + 50_000)
    clusters.members = ()
    bindings.look(NOW_MS + 395_000)
    store.close()

    store = Store.open(options, upkeep=False)
    assert store.gpus.freed(NOW_MS) == {KEY: NOW_MS + 395_000}
    clusters.started[pods[2]] = NOW_MS + 393_000  # by a clock that is not quite right
    clusters.members = (third,)
    bindings = driver(store, source, clusters)
    bindings.take_up(NOW_MS + 600_000)
    bindings.look(NOW_MS + 600_000)
    store.close()

    store = Store.open(options, upkeep=False)
    held = [
        (one.binding.pod.name, one.from_ms, one.to_ms) for one in store.gpus.bindings_of(pods, NOW_MS * 2)
    ]
    store.close()
    assert held == [
        ("train-0", NOW_MS, NOW_MS + 41_000),
        ("next-0", NOW_MS + 41_000, NOW_MS + 395_000),
        ("last-0", NOW_MS + 395_000, None),
    ]


def test_a_gpu_that_falls_silent_is_named_and_keeps_its_holder(store: Store) -> None:
    source, clusters = MemorySource(), OneCluster(member("train-0", "uid-0"))
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0"), [(NOW_MS, 1.0), (NOW_MS + 9_000, STALE_NAN)])
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", "GPU-2"), [(NOW_MS, 1.0), (NOW_MS + 15_000, 1.0)])
    bindings = driver(store, source, clusters)
    bindings.look(NOW_MS)
    assert [node.lost for node in bindings.now.nodes] == [0]
    bindings.look(NOW_MS + 15_000)
    (node,) = bindings.now.nodes
    assert [(gone.gpu.key, gone.seen_ms) for gone in node.named] == [(KEY, NOW_MS)]
    assert len(info(store, NOW_MS + 15_000)) == 1
    clusters.members = ()
    bindings.look(NOW_MS + 30_000)
    assert info(store, NOW_MS + 30_000) == []


def test_one_series_at_every_instant_through_a_change_of_attempt(store: Store) -> None:
    source, clusters = MemorySource(), OneCluster(member("train-0", "uid-0"))
    labels = reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0")
    source.add(labels, [(NOW_MS + 15_000 * n, 1.0) for n in range(5)])
    bindings = driver(store, source, clusters)
    seen = []
    for step, members in enumerate(
        (
            [member("train-0", "uid-0")],
            [member("train-0", "uid-0"), member("train-0", "uid-1", attempt=1)],
            [member("train-0", "uid-1", attempt=1)],
            [],
        )
    ):
        clusters.members = tuple(members)
        bindings.look(NOW_MS + 15_000 * step)
        seen.append([one["attempt"] for one in info(store, NOW_MS + 15_000 * step)])
    assert seen == [["0"], ["1"], ["1"], []]


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    options = StoreOptions(data_dir=tmp_path / "data")
    source, clusters = MemorySource(), OneCluster(member("train-0", "uid-0"))
    labels = reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0")
    source.add(labels, [(NOW_MS, 1.0), (NOW_MS + 60_000, 1.0)])
    box = reading("DCGM_FI_DEV_GPU_UTIL", "GPU-2", Hostname="box", modelName="NVIDIA L4")
    source.add(box, [(NOW_MS, 1.0), (NOW_MS + 60_000, 1.0)])
    first = Store.open(options, upkeep=False)
    quiet = Machine()
    quiet.held, quiet.told = [], []
    driver(first, source, clusters, others=(quiet,)).look(NOW_MS)
    first.close()

    again = Store.open(options, upkeep=False)
    try:
        bindings = driver(again, source, clusters)
        bindings.take_up(NOW_MS + 59_000)
        clusters.is_settled = False
        source.add(labels, [(NOW_MS + 30_000, STALE_NAN)])
        bindings.look(NOW_MS + 59_000)  # no scrape has come in, and the cluster was not read through
        assert len(info(again, NOW_MS + 59_000)) == 1
        clusters.is_settled, clusters.members = True, ()
        bindings.look(NOW_MS + 61_000)
        assert info(again, NOW_MS + 61_000) == []
    finally:
        again.close()
    last = Store.open(options, upkeep=False)
    assert [
        (one.from_ms, one.to_ms)
        for one in last.gpus.bindings_of([PodKey("lab", "ml", "train-0", "uid-0")], NOW_MS * 2)
    ] == [(NOW_MS, NOW_MS + 61_000)]
    assert [one.from_ms for one in last.gpus.gpus_at(NOW_MS + 61_000)] == [NOW_MS, NOW_MS]
    alone, node = last.machines.unfinished()
    assert (alone.machine.node, alone.machine.gpus, alone.machine.gpu_model) == ("box", 1, "NVIDIA L4")
    assert (alone.machine.cpus, alone.machine.memory_bytes) == (16, 1 << 36)
    assert (node.machine.node, node.machine.instance_type) == ("node-a", "p5.48xlarge")
    assert {alone.from_ms, node.from_ms} == {NOW_MS}
    last.close()


def test_a_pod_of_a_cluster_that_is_not_watched_is_a_doubt_unless_none_is(store: Store) -> None:
    source = MemorySource()
    source.add(reading("DCGM_FI_DEV_GPU_UTIL", pod="train-0", cluster="prod"), [(NOW_MS, 1.0)])
    watching = driver(store, source, OneCluster(member("train-0", "uid-0")))
    watching.look(NOW_MS)
    assert [doubt.code for doubt in watching.now.doubts[KEY]] == ["gpu-holder-unknown"]
    alone = driver(store, source, None)
    alone.look(NOW_MS)
    assert (list(alone.now.gpus), alone.now.doubts) == ([KEY], {})


class Machine:
    """A machine without Kubernetes, as its agent tells of it."""

    cluster = "machines"

    def __init__(self) -> None:
        self.held = [member("rank-0", "node-a:1:2", cluster="machines")]
        self.told: list[Claim] = [
            Claim(KEY, ClaimSource.PROCESS, "machines", "ml", "rank-0", rank=0, local_rank=0)
        ]

    def claims(self) -> Iterable[Claim]:
        return self.told

    def members(self) -> Mapping[PodKey, MembershipInterval]:
        return {one.membership.pod: one for one in self.held}

    def hardware(self) -> Mapping[str, Hardware]:
        return {"box": Hardware(16, 1 << 36)}


def test_a_machine_without_kubernetes(store: Store) -> None:
    source, machine = MemorySource(), Machine()
    source.add(reading("DCGM_FI_DEV_GPU_UTIL"), [(NOW_MS, 1.0), (NOW_MS + 30_000, 1.0)])
    bindings = driver(store, source, None, others=(machine,))
    bindings.look(NOW_MS)
    assert [(one["cluster"], one["rank"]) for one in info(store, NOW_MS)] == [("machines", "0")]
    machine.told, machine.held = [], []
    bindings.look(NOW_MS + 30_000)
    assert info(store, NOW_MS + 30_000) == []
    assert info(store, NOW_MS + 30_000, LOST) == info(store, NOW_MS + 30_000, REPORTING) == []


class Answers:
    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.error: SourceError | None = None

    async def vector(self, query: str) -> Sequence[Shown]:
        assert "DCGM_FI_DEV_GPU_UTIL" in query
        if self.error is not None:
            raise self.error
        return self.shown


def test_reports_of_another_server(store: Store) -> None:
    loop, answers = asyncio.new_event_loop(), Answers()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        answers.shown = [Shown(reading("DCGM_FI_DEV_POWER_USAGE", pod="train-0"), 350.0)]
        reports = AskedReports(answers)
        reports.ask_in(AskedLoop(loop))
        bindings = GpuBindings(store.gpus, reports, OneCluster(member("train-0", "uid-0")))
        bindings.look(NOW_MS)
        assert bindings.now.told.power_watts == {"GPU-1": 350.0}
        assert next(metric.name for metric in bindings.metrics()) == "trilens_workload_gpu_info"
        answers.error = SourceError("it is away")
        bindings.try_to_look()
        assert bindings.now.trouble == "it is away"
        assert bindings.now.told.power_watts == {"GPU-1": 350.0}  # what was last known stays
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_while_nobody_reports_pods_and_nodes_are_not_gone_through_again_and_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_bindings, "_LOOK_S", 0.001)
    asked_often, looks = threading.Event(), []

    class Silent:
        asked = 0

        def read(self, at_ms: int) -> Told:
            self.asked += 1
            if self.asked == 5:
                asked_often.set()
            return Told()

    class Counted(OneCluster):
        def gpu_views(self) -> list[ClusterView]:
            looks.append(1)
            return super().gpu_views()

    bindings = GpuBindings(store.gpus, Silent(), Counted())
    bindings.start()
    assert asked_often.wait(30)
    bindings.stop()
    assert len(looks) == 1
