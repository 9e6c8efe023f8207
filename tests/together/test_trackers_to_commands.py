"""Experiment trackers as a real MLflow server and real files have them, followed by a real `trilens up`."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from command_here import trilens_here
from mlflow_server import Mlflow, mlflow_server
from trilens.collect.trackers import mlflow
from trilens.collect.trackers.json_api import JsonApi
from trilens.collect.trackers.mlflow import MlflowServer
from trilens.model.errors import TrackerError
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.life import MembershipInterval
from trilens.model.machine import Machine, MachineInterval
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.write_back import ToMlflow
from trilens.store.options import StoreOptions
from trilens.store.store import Store
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trilens.model.tracked_run import TrackedRun

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mlflow]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as real:
        yield real


def followed(real: Mlflow, *experiments: str) -> MlflowServer:
    return MlflowServer(JsonApi(real.url, dict, False, 30), experiments)


def test_a_long_history_is_read_in_pages_and_gone_on_with(
    real: Mlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow, "_POINTS", 5)
    experiment = real.experiment("pages ü")
    run = real.run(experiment, "one")
    real.log(run, "loss", [*map(float, range(12))])
    reader = followed(real, "pages ü")
    cursors: dict[str, str] = {}
    seen: list[float] = []

    def read() -> int:
        changes = 0
        for change in reader.changes(cursors):
            seen.extend(point.value for point in change.points)
            cursors[change.run.tracker.run] = change.cursor
            changes += 1
        return changes

    read()
    assert seen == [*map(float, range(12))]
    assert read() == 0, "nothing is new"
    real.log(run, "loss", [12.0, 13.0], first_step=12)
    read()
    assert seen == [*map(float, range(14))]


def test_a_run_that_is_killed_in_the_middle_of_a_history_is_gone_on_with(
    real: Mlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow, "_POINTS", 5)
    run = real.run(real.experiment("cut"), "one")
    real.log(run, "loss", [*map(float, range(12))])
    first = next(followed(real, "cut").changes({}))
    rest = [*followed(real, "cut").changes({run: first.cursor})]
    values = [point.value for change in (first, *rest) for point in change.points]
    assert values == [*map(float, range(12))]


def test_only_the_named_experiments_are_read(real: Mlflow) -> None:
    real.run(real.experiment("wanted"), "here")
    real.run(real.experiment("unwanted"), "there")
    assert [change.run.name for change in followed(real, "wanted").changes({})] == ["here"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "{mlflow}/nothing-here"])
def test_a_server_that_is_away_or_another_is_said(real: Mlflow, url: str) -> None:
    with pytest.raises(TrackerError, match=r"no answer from|answered"):
        [*MlflowServer(JsonApi(url.format(mlflow=real.url), dict, False, 5)).changes({})]


def test_figures_stand_on_a_run_until_they_are_not_known_any_more(real: Mlflow) -> None:
    run = real.run(real.experiment("taken back"), "one")
    tracker = ToMlflow(followed(real))

    def read() -> TrackedRun:
        [change] = followed(real, "taken back").changes({})
        return change.run

    figures = {"trilens.cost": 1234567.8901, "trilens.cost_currency": "USD"}
    tracker.send(read(), figures)
    assert tracker.stands(read()) == figures
    tracker.send(read(), dict.fromkeys(figures))
    assert tracker.stands(read()) == {}
    assert real.tags(run)["trilens.cost"] == "unknown"
    assert math.isnan(float(real.metrics(run)["trilens.cost"]))


def test_runs_params_and_metrics_reach_the_commands_and_figures_go_back(real: Mlflow, tmp_path: Path) -> None:
    llm_id = real.experiment("llm")
    run = real.run(llm_id, "first", tags={"trilens.run": "run-1"})
    real.post("/runs/log-batch", {"run_id": run, "params": [{"key": "lr", "value": "0.1"}]})
    real.log(run, "loss", [3.0, 2.0, "NaN", 1.0])
    board = tmp_path / "boards" / "tb-run"
    _write_event(board, "acc", 0.5)
    settings, prices = tmp_path / "trilens.yaml", tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nprices: [{name: all, per_gpu_hour: 4}]\n")
    ended_ms = _slice_was_held(tmp_path / "data")
    _gpu_fell_off(tmp_path / "data", ended_ms)
    settings.write_text(
        f"prices: {{file: '{prices}'}}\n"
        f"mlflow: {{url: '{real.url}', interval: 1s, write: true, experiments: [llm]}}\n"
        f"tensorboard: {{folders: ['{tmp_path / 'boards'}'], interval: 1s}}\n"
        "wandb: {url: 'http://127.0.0.1:1', api_key: k, projects: [team/llm], interval: 1s}\n"
    )
    with server(tmp_path, "--config", str(settings)) as (url, _):
        _send_process(url, "run-1")
        real.end(run)
        _eventually(lambda: "trilens.gpu_hours" in real.tags(run))
        assert float(real.tags(run)["trilens.gpu_hours"]) == pytest.approx(2.0)
        assert "trilens.gpu_utilization" not in real.tags(run), "nobody measured it: unknown is not zero"

        _cost_goes_back(url, real, llm_id, ended_ms)

        _verdict_goes_back(url, real, real.run(llm_id, "broke", tags={"trilens.run": "run-3"}), ended_ms)

        query = f'count_over_time(trilens_tracked_metric{{run="{run}", metric="loss"}}[1h])'
        assert _query(url, query) == [4.0]
        assert _query(url, 'trilens_tracked_metric{system="tensorboard", metric="acc"}') == [0.5]

        shown = json.loads(trilens("experiments", "--json", "--server", url).stdout)
        [llm] = [one for one in shown if one["experiment"] == "llm"]
        [one] = [one for one in llm["runs"] if one["run"] == "run-1"]
        assert (one["run"], one["name"], one["state"]) == ("run-1", "first", "finished")
        assert one["params"] == {"lr": "0.1"}
        assert one["metrics"] == {"loss": 1.0}
        assert one["gpu_hours"] == pytest.approx(2.0)
        assert [tracker["system"] for tracker in one["trackers"]] == ["mlflow"]
        assert {one["experiment"] for one in shown} == {"llm", "boards"}

        # One that does not answer is named, and the others are read.
        _eventually(lambda: "no answer" in httpx.get(f"{url}/api/trackers").text)
        said = trilens("trackers", "--server", url)
        assert said.returncode == 1, said.stderr
        assert "no answer from http://127.0.0.1:1" in " ".join(said.stdout.split())
        assert "mlflow" in said.stdout
        assert "tensorboard" in said.stdout


def _slice_was_held(data: Path) -> int:
    """Until when a pod had half of a GPU, for an hour and a half, on a node that Trilens knew of."""
    to_ms = _now_ms() // MINUTE_MS * MINUTE_MS - HOUR_MS
    from_ms = to_ms - 90 * MINUTE_MS
    device, half = GpuKey(GpuUuid("GPU-3")), GpuKey(GpuUuid("GPU-3"), "1")
    train = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
    pod = PodKey("lab", "ml", "train-0", "uid-0")
    with closing(Store.open(StoreOptions(data_dir=data), upkeep=False)) as store:
        store.machines.machine(
            MachineInterval(Machine("lab", "n3", gpu_model="H100", gpus=1), from_ms, to_ms)
        )
        store.gpus.gpu(GpuInterval(Gpu(device, "lab", "n3", "0", "H100"), from_ms, to_ms))
        store.gpus.binding(
            BindingInterval(
                GpuBinding(half, pod, "main", Fraction(1, 2), (ClaimSource.KUBELET,)), from_ms, to_ms
            )
        )
        store.workloads.workload(Workload(train))
        store.workloads.membership(MembershipInterval(Membership(pod, train), "n3", from_ms, to_ms))
    return to_ms


def _gpu_fell_off(data: Path, ended_ms: int) -> None:
    """A minute before the end of another job, on a node that has no price."""
    from_ms, gpu = ended_ms - HOUR_MS, GpuKey(GpuUuid("GPU-4"))
    broke = WorkloadKey("lab", "ml", "batch", "Job", "broke", "u2")
    pod = PodKey("lab", "ml", "broke-0", "uid-4")
    with closing(Store.open(StoreOptions(data_dir=data), upkeep=False)) as store:
        store.gpus.gpu(GpuInterval(Gpu(gpu, "lab", "n4", "0", "H100"), from_ms, ended_ms))
        bound = GpuBinding(gpu, pod, "main", Fraction(1), (ClaimSource.KUBELET,))
        store.gpus.binding(BindingInterval(bound, from_ms, ended_ms))
        store.workloads.workload(Workload(broke))
        store.workloads.membership(MembershipInterval(Membership(pod, broke), "n4", from_ms, ended_ms))
        store.events.event(
            EventRecord(
                node="n4",
                id="e1",
                t_ms=ended_ms - MINUTE_MS,
                kind=EventKind.XID,
                code=79,
                text="NVRM: Xid (PCI:0000:04:00): 79, pid=7, GPU has fallen off the bus.",
                title="fell off the bus",
                asks="node-out",
                uuid=gpu.uuid,
                gpu=0,
                pci="0000:04:00",
                pid=7,
                process="python",
                rank=0,
                victims=(Victim(pod.namespace, pod.name, pod.uid),),
            )
        )


def _cost_goes_back(url: str, real: Mlflow, experiment: str, ended_ms: int) -> None:
    """Its program began half an hour after its pod, and told of no step."""
    started_ms = ended_ms - HOUR_MS
    there = {"node": "n3", "namespace": "ml", "pod": "train-0", "pod_uid": "uid-0", "gpus": ["GPU-3"]}
    _send_process(url, "run-2", started_ms, ended_ms, **there)
    hours = {"from": f"{started_ms / 1000 - 3600:.0f}", "to": f"{ended_ms / 1000:.0f}"}
    httpx.post(f"{url}/api/ledger/recompute", params=hours).raise_for_status()

    def spent() -> dict[str, Any] | None:
        found = httpx.get(f"{url}/api/runs/run-2").json()["data"]["spent"]
        return found if found is not None and found["gpu_ms"] == 45 * MINUTE_MS else None

    _eventually(lambda: spent() is not None)
    # Not before: what was booked before its program told of itself would be written, and mended much later.
    run = real.run(experiment, "on a slice", tags={"trilens.run": "run-2"})
    real.end(run)
    _eventually(lambda: "trilens.cost" in real.tags(run))
    found = {name: text for name, text in real.tags(run).items() if name.startswith("trilens.")}
    assert found == {
        "trilens.run": "run-2",
        "trilens.gpu_hours": "0.75",
        "trilens.cost": "3",
        "trilens.cost_currency": "EUR",
        "trilens.cost_wasted": "1",
        "trilens.provisional": "false",
    }, "goodput is not known: nobody told what it did"
    assert real.metrics(run) == {"trilens.gpu_hours": 0.75, "trilens.cost": 3.0, "trilens.cost_wasted": 1.0}
    lines = [
        "  cost €3.00, €1.00 of it for nothing",
        "  0.75 GPU-hours, goodput 0 % of the 33 % that some signal told of: productive 67 %, starting 33 %",
    ]
    for command in (("runs", "show", "run-2"), ("show", "ml/train")):
        said = trilens_here(*command, "--server", url).stdout.splitlines()
        assert [line for line in said if line in lines] == lines, said


def _verdict_goes_back(url: str, real: Mlflow, run: str, ended_ms: int) -> None:
    """Its GPU fell off the bus a minute before its end."""
    there = {"node": "n4", "namespace": "ml", "pod": "broke-0", "pod_uid": "uid-4", "gpus": ["GPU-4"]}
    error = "RuntimeError: CUDA error: unspecified launch failure"
    _send_process(url, "run-3", ended_ms - HOUR_MS, ended_ms, error, **there)
    real.end(run, "FAILED")
    _eventually(lambda: "trilens.verdict" in real.tags(run))
    tags = real.tags(run)
    assert tags["trilens.verdict"].startswith("dead-gpu: ")
    assert 0.5 <= float(tags["trilens.verdict_confidence"]) <= 1
    assert "n4" in tags["trilens.verdict_fix"]
    assert "trilens.verdict_fix" not in real.metrics(run)


def _send_process(
    url: str,
    run: str,
    started_ms: int | None = None,
    ended_ms: int | None = None,
    error: str | None = None,
    **more: Any,
) -> None:
    """What the SDK sends: a process that held its GPUs for an hour and ended."""
    ended_ms = ended_ms if ended_ms is not None else _now_ms()
    started_ms = started_ms if started_ms is not None else ended_ms - HOUR_MS
    batch = {
        "v": 1,
        "run": run,
        "rank": 0,
        "writer": "ab" * 16,
        "seq": 0,
        "t_ms": _now_ms(),
        "facts": {"created_ms": started_ms, "experiment": "llm", "name": "first"},
        "process": {"started_ms": started_ms, "node": "n1", "gpus": ["GPU-1", "GPU-2"]} | more,
        "state": {"heartbeat_s": 2.0},
        "end": {"t_ms": ended_ms, "how": "failed" if error else "finished"}
        | ({"error": error} if error else {}),
    }
    httpx.post(f"{url}/api/v1/runs/records", content=json.dumps(batch)).raise_for_status()


def _write_event(folder: Path, tag: str, value: float) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    writer.add_event(Event(wall_time=time.time(), step=1, summary=summary))
    writer.close()


def _query(url: str, query: str) -> list[float]:
    found = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()["data"]["result"]
    values = [float(one["value"][1]) for one in found]
    return [value for value in values if not math.isnan(value)]


def _eventually(holds: Callable[[], bool]) -> None:
    """Another process gives no event to wait for, so look again until it holds."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
