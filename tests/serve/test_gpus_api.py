"""/api/gpus over HTTP, from records in a real engine; and the GPU layer of one workload."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from trilens.model.finding import Finding, FindingKind, Severity, Subject
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.life import MembershipInterval
from trilens.model.query import QueryGuard
from trilens.model.workload import Doubt, GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.resolve.gpus.books import SilentGpu
from trilens.resolve.gpus.missing import NodeGpus
from trilens.serve.gpu_answers import GpuFaultAnswer
from trilens.serve.gpu_bindings import GpusNow
from trilens.serve.gpu_reports import Told
from trilens.serve.gpu_view import gpus_at, member_gpus, with_faults
from trilens.serve.intakes import Intakes
from trilens.serve.workloads import WorkloadsApi, _Moment
from trilens.store.engine import Engine
from trilens.store.gpus import GpuRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import WorkloadHistory, WorkloadRecords
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[..., httpx.Response]

KEY = GpuKey(GpuUuid("GPU-1"))
GPU = Gpu(KEY, "lab", "node-a", "0", "H100")
IDLE = replace(GPU, key=GpuKey(GpuUuid("GPU-2")), index="1", node="node-b")
POD = PodKey("lab", "ml", "train-1", "uid-train-1-0")
BINDING = GpuBinding(
    KEY, POD, "main", Fraction(1, 2), (ClaimSource.DCGM,), 1, 0, (Doubt("gpu-claims-disagree", "who", None),)
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """train-1 has GPU-1 from 12:00 to 12:10; GPU-2 is nobody's."""
    folder = tmp_path_factory.mktemp("records")
    with some_records(folder):
        pass
    with Engine.open(folder) as engine:
        writer = RecordWriter(engine)
        gpus = GpuRecords(engine, writer)
        for gpu in (GPU, IDLE):
            gpus.gpu(GpuInterval(gpu, minute(0), None))
        gpus.binding(BindingInterval(BINDING, minute(0), minute(10)))
        writer.close()
        api = Api(workloads=WorkloadRecords(engine, writer), gpus=gpus)
        with running(api.build()) as url:
            yield lambda path, **params: httpx.get(f"{url}{path}", params=params)


def seconds(minutes: float) -> str:
    return str(minute(minutes) / 1000)


def uuids(answer: httpx.Response) -> list[str]:
    return [one["uuid"] for one in answer.json()["data"]]


def test_the_gpus_of_a_moment_with_their_holders(ask: Ask) -> None:
    held, idle = ask("/api/gpus", at=seconds(5)).json()["data"]
    assert (held["node"], held["index"], held["model"], held["uuid"], held["state"]) == (
        "node-a",
        "0",
        "H100",
        "GPU-1",
        "reporting",
    )
    (holder,) = held["holders"]
    assert (holder["workload"], holder["kind"], holder["pod"], holder["attempt"]) == (
        "train",
        "PyTorchJob",
        "train-1",
        0,
    )
    assert (holder["rank"], holder["local_rank"], holder["share"], holder["sources"]) == (
        1,
        0,
        "1/2",
        ["dcgm"],
    )
    assert [doubt["code"] for doubt in holder["doubts"]] == ["gpu-claims-disagree"]
    assert (idle["holders"], idle["utilization"]) == ([], None)
    assert [one["holders"] for one in ask("/api/gpus", at=seconds(11)).json()["data"]] == [[], []]
    assert uuids(ask("/api/gpus", at=seconds(-1))) == []


def test_filters(ask: Ask) -> None:
    at = seconds(5)
    assert uuids(ask("/api/gpus", at=at, node="node-b")) == ["GPU-2"]
    assert uuids(ask("/api/gpus", at=at, namespace="ml")) == ["GPU-1"]
    assert uuids(ask("/api/gpus", at=at, namespace="web")) == []
    assert uuids(ask("/api/gpus", at=at, workload="train")) == ["GPU-1"]
    assert uuids(ask("/api/gpus", at=at, cluster="prod")) == []
    assert uuids(ask("/api/gpus", at=at, lost="true")) == []
    wrong = ask("/api/gpus", lost="perhaps")
    assert (wrong.status_code, wrong.json()["errorType"]) == (400, "bad_data")


def test_one_workload_with_its_gpus(ask: Ask) -> None:
    (gpu,) = ask("/api/workloads/lab/ml/PyTorchJob/train", at=seconds(25)).json()["data"]["gpus"]
    assert (gpu["pod"], gpu["attempt"], gpu["rank"], gpu["node"], gpu["index"]) == (
        "train-1",
        0,
        1,
        "node-a",
        "0",
    )
    assert (gpu["from_ms"], gpu["to_ms"]) == (minute(0), minute(10))


class KeptGpus:
    """Who held what, as the store has it, and what it was asked for."""

    def __init__(self, *bindings: BindingInterval) -> None:
        self.bindings = bindings
        self.named: list[set[str]] = []
        self.only_ended: list[bool] = []

    def bindings_of(self, *_: Any, only_ended: bool = False) -> list[BindingInterval]:
        self.only_ended.append(only_ended)
        return [one for one in self.bindings if one.to_ms is not None or not only_ended]

    def gpus_named(self, uuids: set[str], *_: Any) -> list[Any]:
        self.named.append(uuids)
        return []


def test_gpus_that_report_now_are_not_read_again() -> None:
    left = BindingInterval(replace(BINDING, gpu=GpuKey(GpuUuid("GPU-gone"))), minute(0), minute(3))
    held = BindingInterval(BINDING, minute(0), None)
    kept, present = KeptGpus(left, held), _Moment(minute(5), is_now=True)
    now = GpusNow(gpus={KEY: Gpu(KEY, "lab", "node-a", "3", "H100")})
    bindings = SimpleNamespace(now=now, held_by=None)
    api = WorkloadsApi(None, kept, bindings, None, None, None)  # type: ignore[arg-type]
    train = Workload(WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "train", "u1"))
    member = MembershipInterval(Membership(POD, train.key), "node-a", minute(0), None)
    history = WorkloadHistory(train, [member])

    def gpus(moment: _Moment, limit: int | None = None) -> dict[str, str | None]:
        held = api._held(history, moment, QueryGuard())
        found = api._gpus_of(history, held, limit, moment, QueryGuard())
        return {one.uuid: one.index for one in found}

    assert gpus(present) == {KEY.uuid: "3", "GPU-gone": None}
    bindings.held_by = {POD: [held], replace_pod(POD): [left]}
    assert gpus(present) == {KEY.uuid: "3", "GPU-gone": None}
    assert kept.named == [{"GPU-gone"}, {"GPU-gone"}]
    assert gpus(present, limit=1) == {KEY.uuid: "3"}, "those that last come first"
    bindings.held_by = {}
    assert gpus(present) == {"GPU-gone": None}, "it was let go of, whether that is on disk yet or not"
    assert kept.only_ended == [False, True, True, True]
    assert gpus(_Moment(minute(5), is_now=False)) == {KEY.uuid: None, "GPU-gone": None}
    assert kept.named[-1] == {KEY.uuid, "GPU-gone"}, "of the past, the present tells nothing"
    assert kept.only_ended[-1] is False


def replace_pod(pod: PodKey) -> PodKey:
    return pod._replace(uid="another")


def test_readings_are_those_of_a_gpu_that_is_still_held() -> None:
    told = Told([], {KEY.uuid: 1.0}, {KEY.uuid: 128.0}, {KEY: 3.0})
    held = BindingInterval(BINDING, minute(0), None)
    left = BindingInterval(BINDING, minute(-9), minute(0))
    before, now = member_gpus([left, held], {}, {POD: 0}, told)
    assert (now.utilization, now.memory_used_bytes, now.power_watts) == (1.0, 3.0, 128.0)
    assert (before.utilization, before.memory_used_bytes, before.power_watts) == (None, None, None)
    (past,) = member_gpus([held], {}, {POD: 0}, None)
    assert past.utilization is None


@pytest.mark.parametrize("path", ["/api/gpus", "/api/workloads", "/api/workloads/lab/ml/PyTorchJob/train"])
def test_the_future_is_not_told(ask: Ask, path: str) -> None:
    ahead = ask(path, at=str(time.time() + 3600))
    assert (ahead.status_code, ahead.json()["errorType"]) == (400, "bad_data")
    assert "future" in ahead.json()["error"]
    assert ask(path, at=str(time.time() + 5)).status_code == 200


def test_the_schema_is_that_of_the_answers(ask: Ask) -> None:
    schema = ask("/api/openapi.json").json()
    types = schema["components"]["schemas"]
    (gpu, _) = ask("/api/gpus", at=seconds(5)).json()["data"]
    assert set(gpu) == set(types["GpuAnswer"]["properties"])
    assert set(gpu["holders"][0]) == set(types["HolderAnswer"]["properties"])
    names = {one["name"] for one in schema["paths"]["/api/gpus"]["get"]["parameters"]}
    assert names == {"at", "cluster", "node", "namespace", "workload", "lost"}


def test_what_is_missing_now_is_shown_with_what_is_known_of_it() -> None:
    gone = replace(GPU, key=GpuKey(GpuUuid("GPU-3")), index="2")
    quiet = replace(GPU, key=GpuKey(GpuUuid("GPU-4")), index="3")
    told = Told(utilization={KEY.uuid: 0.5}, power_watts={KEY.uuid: 300.0}, memory_used_bytes={KEY: 1.0})
    nodes = [
        NodeGpus("lab", "node-a", 4, 1, 3, (SilentGpu(gone, 900),)),
        NodeGpus("lab", "node-c", 8, 0, None, ()),
    ]
    doubts = {KEY: (Doubt("gpu-holder-unknown", "x", None),)}
    now = GpusNow(told, {KEY: GPU}, doubts, nodes)
    intervals = [GpuInterval(gpu, 1, None) for gpu in (GPU, gone, quiet)]
    found = gpus_at(intervals, [BindingInterval(replace(BINDING, gpu=gone.key), 1, None)], {}, now)
    assert [(one.node, one.uuid, one.state, one.count, one.seen_ms) for one in found] == [
        ("node-a", "GPU-1", "reporting", 1, None),
        ("node-a", "GPU-4", "silent", 1, None),
        ("node-a", "GPU-3", "lost", 1, 900),
        ("node-a", None, "lost", 2, None),
        ("node-c", None, "blind", 8, None),
    ]
    held = gpus_at([], [BindingInterval(BINDING, 1, None)], {}, None)
    assert [(one.uuid, one.state, one.node, len(one.holders)) for one in held] == [("GPU-1", "silent", "", 1)]
    assert (found[0].utilization, found[0].memory_used_bytes, found[0].power_watts) == (0.5, 1.0, 300.0)
    assert [doubt.code for doubt in found[0].doubts] == ["gpu-holder-unknown"]
    assert [holder.pod for holder in found[2].holders] == ["train-1"]  # who had it still has it


def test_a_fault_that_is_not_mended_is_told_of_a_gpu_that_reports_as_if_it_were_well() -> None:
    where = Subject(cluster="lab", node="node-a", gpu=KEY.uuid)
    fault = Finding(
        "D009", FindingKind.GPU_FAULT, where, Severity.CRITICAL, "xid-79", 700, "It fell off.", "Reset it."
    )
    intervals = [GpuInterval(gpu, 1, None) for gpu in (GPU, IDLE)]
    now = GpusNow(gpus={gpu.key: gpu for gpu in (GPU, IDLE)})
    broken, well = with_faults(gpus_at(intervals, [], {}, now), {KEY.uuid: fault})
    assert (broken.state, broken.fault) == ("reporting", GpuFaultAnswer("It fell off.", "Reset it.", 700))
    assert well.fault is None


def test_each_lost_instance_of_one_device_is_named() -> None:
    first, second = (replace(GPU, key=GpuKey(KEY.uuid, number), profile="1g.10gb") for number in "12")
    nodes = [NodeGpus("lab", "node-a", 3, 1, 2, (SilentGpu(first, 800), SilentGpu(second, 900)))]
    third = replace(GPU, key=GpuKey(KEY.uuid, "3"))
    now = GpusNow(Told(), {third.key: third}, {}, nodes)
    found = gpus_at([GpuInterval(gpu, 1, None) for gpu in (first, second, third)], [], {}, now)
    assert {(one.instance, one.state, one.count) for one in found} == {
        ("1", "lost", 1),
        ("2", "lost", 1),
        ("3", "reporting", 1),
    }


class SilentIntake:
    """Tells of a cluster that does not answer."""

    names = ("lab",)

    def warnings(self) -> list[str]:
        return ["lab: does not answer"]

    def ready_pods(self) -> dict[WorkloadKey, frozenset[PodKey]]:
        return {}


def test_why_holders_may_not_be_new_goes_with_the_answer() -> None:
    with running(Api(intakes=Intakes.of(SilentIntake())).build()) as url:
        answer = httpx.get(f"{url}/api/gpus").json()
    assert "lab: does not answer" in answer["warnings"]
