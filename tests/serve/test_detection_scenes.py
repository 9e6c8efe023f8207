"""Scenes made of what a server knows: samples, runs, workloads, pods, nodes and events."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trilens.detect.records import RankRecords
from trilens.detect.scene import Figure, ToldBy
from trilens.model.errors import IntakeError
from trilens.model.gpu import ClaimSource, Gpu, GpuBinding, GpuKey
from trilens.model.life import Phase, PhaseInterval
from trilens.model.program import Program
from trilens.model.run import Ending, RankProcess, RunFacts, RunId, StepRecord, WriterId
from trilens.model.run_commit import RunCommit
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.promql.memory import MemorySource
from trilens.resolve.gpus.reports import read_report
from trilens.resolve.present import ClusterState, NodeState, PodState, WorkloadState
from trilens.resolve.topology import Place
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.detection.asked import Asked
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.own_queries import EmbeddedQueries, Matrix, Times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOW = 1_800_000_000_000
RUN = RunId("r1")
TRAIN = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
POD = PodKey("lab", "ml", "train-0", "p0")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever, daemon=True)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


class Queries(EmbeddedQueries):
    """Counts what is asked, and shows vectors as of a moment that a test sets."""

    def __init__(self, samples: MemorySource) -> None:
        super().__init__(samples)
        self._source = samples
        self.now_ms = NOW
        self.asked: list[Times] = []

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        self.asked.append(times)
        return await super().matrix(query, times, labels)

    async def vector(self, query: str) -> Sequence[Any]:
        from trilens.model.query import QueryGuard
        from trilens.promql.engine import Engine
        from trilens.serve.own_queries import Shown

        answer = Engine(self._source).instant(query, self.now_ms, QueryGuard())
        rows = range(len(answer.labels))
        return [Shown(answer.labels.labels(row), float(answer.values[row, 0])) for row in rows]


@dataclass
class Server:
    """What a server knows."""

    loop: asyncio.AbstractEventLoop
    samples: MemorySource = field(default_factory=MemorySource)
    heard: list[RankProcess] = field(default_factory=list)
    members_known: dict[Any, Membership] | None = field(default_factory=dict)
    clusters_now: list[ClusterState] | None = None
    gpus: GpusSeen = field(default_factory=lambda: GpusSeen({}, (), []))
    servers: list[Program] = field(default_factory=list)
    told: list[StepRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records = RankRecords()
        self.queries = Queries(self.samples)
        asked = Asked(self.queries)
        asked.ask_in(AskedLoop(self.loop))
        self.window = GpuWindow(asked)
        self.scenes = Scenes(
            Sources(
                self.window,
                ScrapedRanks(asked),
                self.records,
                self,
                self,
                lambda: self.members_known,
                lambda: self.gpus,
                self,
                lambda: self.servers,
                self if self.clusters_now is not None else None,
            )
        )

    def processes(self) -> list[RankProcess]:
        return self.heard

    def runs(self, *, run: RunId | None = None) -> list[RunFacts]:
        return [RunFacts(RUN, NOW, name="kept")] if run == RUN else []

    def tails(self, wanted: Sequence[Any]) -> list[StepRecord]:
        return self.told

    def present(self) -> list[ClusterState]:
        if not self.clusters_now:
            raise IntakeError("the clusters are busy")
        return self.clusters_now

    def between(self, from_ms: int, to_ms: int, *, limit: int) -> list[Any]:
        return []

    def hardware_faults(self, since_ms: int) -> list[tuple[str, str, GpuUuid | None, int, int]]:
        return [("", "n1", GpuUuid("GPU-0"), 3, NOW)]

    def reading(self, metric: str, values: dict[int, float], **labels: str) -> None:
        named = {"__name__": metric, "UUID": "GPU-0", "gpu": "0", "Hostname": "n1", "modelName": "H100"}
        self.samples.add({**named, **labels}, [(NOW + 1000 * at, value) for at, value in values.items()])

    def has_gpu(self, *, pod: PodKey | None = POD) -> None:
        key = GpuKey(GpuUuid("GPU-0"))
        labels = {"UUID": "GPU-0", "Hostname": "n1", "namespace": "ml", "pod": "train-0"}
        report = read_report("DCGM_FI_DEV_GPU_UTIL", labels)
        assert report is not None
        held = (GpuBinding(key, pod, "main", None, (ClaimSource.DCGM,), rank=4),) if pod else ()
        self.gpus = GpusSeen({key: Gpu(key, "lab", "n1", "0", "H100")}, held, [report])


def _pod(state: str = "Running", **others: Any) -> PodState:
    values = {"reason": "", "exit_code": None, "restarts": 0, "changed_ms": NOW, "wants_gpu": True}
    return PodState(POD, "n1", state, **{**values, **others})


def _cluster(*pods: PodState, key: WorkloadKey = TRAIN, is_ready: bool = True) -> ClusterState:
    phase = PhaseInterval(key, 0, Phase.RUNNING, "", NOW)
    node = NodeState("lab", "n1", is_ready, Place("z", "r7", None, "d1"))
    return ClusterState("lab", (WorkloadState(Workload(key, team="nlp"), phase, pods),), (node,))


def _process(rank: int = 0, **others: Any) -> RankProcess:
    return RankProcess(
        RUN, rank, WriterId(f"{rank:032x}"), NOW, **{"gpus": ("GPU-0",), "heard_ms": NOW, **others}
    )


def test_gpus_workloads_runs_and_pods_come_together(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod())])
    server.reading("DCGM_FI_DEV_GPU_UTIL", {-8: 90, -3: 95})
    server.reading("DCGM_FI_DEV_POWER_USAGE", {-8: 600, -3: 610})
    server.has_gpu()
    process = _process()
    server.heard = [process]
    server.members_known = {(RUN, 0, process.writer): Membership(POD, TRAIN)}
    server.records.take(RunCommit(steps=[StepRecord(RUN, 5, 0, 0, 5, NOW * 1000, 1000)]), NOW + 100)
    scene = server.scenes.scene(NOW)
    telemetry = scene.telemetry
    assert telemetry.times_ms[-1] == NOW
    assert telemetry.figures[Figure.UTILIZATION][0, -2:] == pytest.approx([0.90, 0.95])
    assert telemetry.figures[Figure.POWER][0, -2:].tolist() == [600, 610]
    (place,) = telemetry.places
    assert (place.cluster, place.node, place.number, place.model) == ("lab", "n1", "0", "H100")
    assert (place.workload, place.pod, place.rank, place.is_labelled) == (TRAIN, POD, 0, True)
    (job,) = scene.jobs
    assert (job.workload, job.team, job.phase, job.serves) == (TRAIN, "nlp", Phase.RUNNING, False)
    assert [*job.rows] == [0]
    (rank,) = job.ranks
    assert (rank.told_by, rank.row, rank.steps.step.tolist()) == (ToldBy.RECORDS, 0, [5])
    assert job.run is not None
    assert job.run.name == "kept"
    (pod,) = job.pods
    assert (pod.state, pod.node) == ("Running", "n1")
    (node,) = scene.nodes
    assert (node.is_ready, node.rack, node.nvlink_domain) == (True, "r7", "d1")
    assert scene.offenders[0].faults == 3
    assert not server.scenes.trouble


def test_a_gpu_is_on_its_node_though_it_was_known_before_its_readings(
    loop: asyncio.AbstractEventLoop,
) -> None:
    server = Server(loop)
    server.has_gpu()
    other = GpuKey(GpuUuid("GPU-1"))
    gpus = {**server.gpus.gpus, other: Gpu(other, "lab", "n2", "0", "H100")}
    server.gpus = server.gpus._replace(gpus=gpus)
    server.reading("DCGM_FI_DEV_GPU_UTIL", {-8: 90})
    assert [place.node for place in server.scenes.scene(NOW).telemetry.places] == ["n1"]
    server.reading("DCGM_FI_DEV_GPU_UTIL", {2: 90}, UUID="GPU-1", Hostname="n2")
    assert {place.node for place in server.scenes.scene(NOW + 5000).telemetry.places} == {"n1", "n2"}


def test_the_past_is_asked_once_and_then_only_what_is_new(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    server.reading("DCGM_FI_DEV_GPU_UTIL", dict.fromkeys(range(-1190, 60, 5), 50.0))
    scene = server.scenes.scene(NOW)
    assert (~np.isnan(scene.telemetry.figures[Figure.UTILIZATION][0])).sum() >= 238
    assert {times.moments for times in server.queries.asked} == {240}
    server.queries.asked.clear()
    later = server.scenes.scene(NOW + 10_000)
    assert {times.moments for times in server.queries.asked} == {4}
    assert len(server.queries.asked) == 1  # what nobody reports is asked for once a minute
    assert not np.isnan(later.telemetry.figures[Figure.UTILIZATION][0, -2:]).any()


def test_gpus_that_begin_to_report_are_seen_at_the_next_look(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    for seconds in (0, 5, 10):
        server.window.look(NOW + 1000 * seconds)
        assert not server.window.window.keys
    server.reading("DCGM_FI_DEV_GPU_UTIL", {12: 90.0})
    server.window.look(NOW + 15_000)
    assert server.window.window.keys


def test_labels_drift_and_sentinels_are_no_readings(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    named = {"gpu_uuid": "GPU-9", "hostname": "n2", "UUID": ""}
    server.reading("DCGM_FI_DEV_GPU_TEMP", {-8: 60, -3: 9223372036854775794.0}, **named)
    scene = server.scenes.scene(NOW)
    assert [place.uuid for place in scene.telemetry.places] == ["GPU-9"]
    assert scene.telemetry.figures[Figure.TEMPERATURE][0, -2] == 60
    assert np.isnan(scene.telemetry.figures[Figure.TEMPERATURE][0, -1])
    assert scene.telemetry.blanks[Figure.TEMPERATURE].tolist() == [True]


def test_a_pod_that_went_is_shown_with_who_took_it(loop: asyncio.AbstractEventLoop) -> None:
    other = _pod()._replace(pod=POD._replace(name="train-1", uid="p1"))
    gone = _pod("Gone", asked_to_go_ms=NOW - 4_000, gone_ms=NOW - 1_000, created_ms=NOW - 60_000)
    (cluster,) = [_cluster(other)]
    (workload,) = cluster.workloads
    server = Server(loop, clusters_now=[cluster._replace(workloads=(workload._replace(departed=(gone,)),))])
    server.has_gpu()
    server.reading("DCGM_FI_DEV_GPU_UTIL", {-3: 0})
    scene = server.scenes.scene(NOW)
    (job,) = scene.jobs
    assert {pod.pod.name: pod.state for pod in job.pods} == {"train-0": "Gone", "train-1": "Running"}
    left = job.pods[1]
    assert (left.asked_to_go_ms, left.gone_ms, left.created_ms) == (NOW - 4_000, NOW - 1_000, NOW - 60_000)
    assert scene.telemetry.places[0].workload is None  # nobody who is gone has a GPU


def test_clusters_that_do_not_answer_are_shown_as_they_were(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod())])
    server.scenes.scene(NOW)
    server.clusters_now = []
    (job,) = server.scenes.scene(NOW + 5_000).jobs
    assert job.pods[0].state == "Running"
    assert "clusters" in server.scenes.trouble


def test_a_run_whose_workload_was_deleted_is_no_job(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod())])
    process = _process()
    server.heard = [process]
    gone = TRAIN._replace(name="deleted")
    server.members_known = {(RUN, 0, process.writer): Membership(POD, gone)}
    assert [job.workload for job in server.scenes.scene(NOW).jobs] == [TRAIN]


def test_a_run_whose_pods_are_gone_is_no_job(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod(wants_gpu=False))])
    server.heard = [_process(namespace="ml", pod="other-0")]
    assert not server.scenes.scene(NOW).jobs
    server.heard = [_process(namespace="ml", pod="train-0")]
    assert len(server.scenes.scene(NOW + 5_000).jobs) == 1


def test_before_anybody_knows_whose_they_are_runs_are_no_jobs(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    server.heard = [_process()]
    server.members_known = None
    assert not server.scenes.scene(NOW).jobs
    server.members_known = {}
    assert len(server.scenes.scene(NOW + 5_000).jobs) == 1


def test_a_run_without_a_workload_is_a_job_of_its_own(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    server.heard = [_process(0), _process(1, gpus=())]
    (job,) = server.scenes.scene(NOW).jobs
    assert job.workload is None
    assert [rank.rank for rank in job.ranks] == [0, 1]
    server.heard = [_process(0, heard_ms=NOW - 3_600_000)]
    assert not server.scenes.scene(NOW + 5_000).jobs


def test_a_run_is_asked_for_once_and_again_when_it_comes_back(loop: asyncio.AbstractEventLoop) -> None:
    """What is known of it is not kept while no scene has it."""
    asked: list[RunId | None] = []

    class Counting(Server):
        def runs(self, *, run: RunId | None = None) -> list[RunFacts]:
            asked.append(run)
            return super().runs(run=run)

    server = Counting(loop)
    for look, heard in enumerate(([_process()], [_process()], [_process()], [], [_process()])):
        server.heard = heard
        assert len(server.scenes.scene(NOW + 5_000 * look).jobs) == len(heard)
    assert asked == [RUN, RUN]


def test_who_serves_makes_no_steps(loop: asyncio.AbstractEventLoop) -> None:
    web = TRAIN._replace(group="apps", kind="Deployment")
    server = Server(loop, clusters_now=[_cluster(_pod(), key=web)])
    (job,) = server.scenes.scene(NOW).jobs
    assert job.serves
    server.clusters_now = [_cluster(_pod())]
    server.servers = [Program("h:1", POD, TRAIN, 0)]
    (job,) = server.scenes.scene(NOW + 5_000).jobs
    assert job.serves


def test_workloads_without_gpus_are_nobodys_business(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod(wants_gpu=False))])
    assert not server.scenes.scene(NOW).jobs


def test_a_program_that_tells_only_metrics_has_ranks(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop, clusters_now=[_cluster(_pod())])
    labels = {"namespace": "ml", "pod": "train-0", "rank": "2", "job": "train", "instance": "h:1"}
    end_s = {at: NOW / 1000 + at - 1.0 for at in range(0, 60, 5)}
    told = {
        "training_last_step_timestamp_seconds": end_s,
        "training_step": {at: float(at // 5) for at in end_s},
        "training_loss": dict.fromkeys(end_s, 2.0),
    }
    for metric, values in told.items():
        samples = [(NOW + 1000 * at, value) for at, value in values.items()]
        server.samples.add({"__name__": metric, **labels}, samples)
        server.samples.add({"__name__": metric, **labels, "run": "r1", "rank": "9"}, samples)
    for at in range(0, 60, 5):
        server.queries.now_ms = NOW + 1000 * at
        scene = server.scenes.scene(server.queries.now_ms)
    (job,) = scene.jobs
    assert job.workload == TRAIN
    assert not job.serves
    (rank,) = job.ranks
    assert (rank.rank, rank.told_by, rank.heard_ms) == (2, ToldBy.METRICS, NOW + 55_000)
    assert rank.steps.step.tolist() == list(range(12))
    assert rank.steps.end_ms[-1] == NOW + 55_000  # by this server's clock
    assert rank.steps.ms[1:] == pytest.approx(5_000)
    assert rank.steps.loss[-1] == 2.0


def test_the_steps_of_before_a_restart_are_taken_up(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    server.heard = [_process(step=9)]
    server.told = [
        StepRecord(RUN, n, 0, 0, n, (NOW - 20_000 + 1000 * n) * 1000, 1_000_000) for n in range(10)
    ]
    server.scenes.take_up()
    (job,) = server.scenes.scene(NOW).jobs
    assert job.ranks[0].steps.step.tolist() == list(range(10))


def test_a_lost_process_is_asked_whether_it_still_listens(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        server.heard = [
            _process(0, metrics_address=address, ending=Ending.LOST),
            _process(1, metrics_address="127.0.0.1:1", ending=Ending.LOST),
            _process(2, ending=Ending.LOST),
            _process(3, metrics_address=address),
        ]
        (job,) = server.scenes.scene(NOW).jobs
    assert [rank.listens for rank in job.ranks] == [True, False, None, None]


def test_samples_that_cannot_be_asked_are_missing(loop: asyncio.AbstractEventLoop) -> None:
    server = Server(loop)
    server.reading("DCGM_FI_DEV_GPU_UTIL", {-3: 50})
    server.scenes.scene(NOW)

    async def refuse(*_: Any) -> Any:
        raise IntakeError("no answer")

    server.queries.matrix = server.queries.vector = refuse  # type: ignore[method-assign]
    scene = server.scenes.scene(NOW + 5_000)
    assert {"telemetry", "metrics of programs"} <= server.scenes.trouble.keys()
    assert len(scene.telemetry.places) == 1
