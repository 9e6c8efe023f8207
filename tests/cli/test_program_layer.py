"""What programs say of themselves, in `trilens show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memory_api import Api, running
from trilens.cli.program import show_programs
from trilens.promql.memory import MemorySource
from trilens_process import trilens
from workload_records import minute, some_records

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

AT_S = minute(25) / 1000


def told() -> MemorySource:
    source = MemorySource()

    def tell(name: str, value: float, **labels: str) -> None:
        source.add({"__name__": name, "namespace": "ml", **labels}, [(minute(24.8), value)])

    for pod in ("train-0", "train-1"):
        place = {"cluster": "lab", "kind": "PyTorchJob", "workload": "train"}
        tell("trilens_workload_pod_info", 1, pod=pod, **place)
    for rank, pod, ago_s in ((0, "train-0", 4), (1, "train-1", 190)):
        who = {"pod": pod, "rank": str(rank)}
        tell("training_step", 1200 - rank, **who)
        tell("training_last_step_timestamp_seconds", AT_S - ago_s, **who)
        tell("training_samples_per_second", 512.25, **who)
    tell("training_loss", 2.34567, pod="train-0", rank="0")
    tell("training_loss", float("nan"), pod="train-1", rank="1")
    tell("training_step", 7, pod="of-another-job", rank="0")
    tell("training_step", 8, pod="train-0", rank="0", cluster="another")
    return source


def test_ranks_with_their_step_and_loss(tmp_path: Path) -> None:
    at = ("--at", str(AT_S))
    with some_records(tmp_path) as records, running(Api(source=told(), workloads=records).build()) as url:
        text = trilens("show", "ml/train", *at, "--server", url)
        (whole,) = json.loads(trilens("show", "ml/train", *at, "--json", "--server", url).stdout)
    lines = text.stdout.splitlines()
    begin = lines.index("training")
    assert lines[begin : begin + 4] == [
        "training",
        "rank  pod      step  last step   loss   gradient norm  samples/s",
        "0     train-0  1200  4s ago      2.346  -              512.2",
        "1     train-1  1199  3m 10s ago  nan    -              512.2",
    ]
    first, second = whole["programs"]
    assert (first["pod"], first["rank"]) == ("train-0", 0)
    assert first["figures"]["training_step"] == 1200
    assert second["figures"]["training_loss"] == "NaN"  # JSON has no such number


def test_samples_that_cannot_be_asked_for_do_not_hide_the_rest(tmp_path: Path) -> None:
    source = MemorySource()
    labels = {"__name__": "training_loss", "namespace": "ml", "pod": "train-0"}
    source.mark_unsupported(labels, [minute(24.8)], "native histograms")
    with some_records(tmp_path) as records, running(Api(source=source, workloads=records).build()) as url:
        answer = trilens("show", "ml/train", "--at", str(AT_S), "--server", url)
    assert answer.returncode == 0
    assert "what its programs say is not known: native histograms" in answer.stderr
    assert "train-0" in answer.stdout


def test_many_ranks_are_put_together_by_their_step(capsys: pytest.CaptureFixture[str]) -> None:
    def program(rank: int) -> dict[str, object]:
        figures = {
            "training_step": 90.0 if rank == 33 else 100.0,
            "training_last_step_timestamp_seconds": AT_S - (rank % 3),
            "training_loss": 2.0 + rank / 100,
        }
        return {"pod": f"train-{rank // 8}", "rank": rank, "figures": figures}

    show_programs([program(rank) for rank in range(64)], AT_S, every=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[3][:2] == ["0-32,", "34-63"]
    assert "2..2.63" in lines[3]
    assert lines[4][:3] == ["33", "train-4", "90"]


def test_the_parts_of_a_server_are_put_together(tmp_path: Path) -> None:
    source = told()
    for model, waiting in (("resnet", 3.0), ("bert", 4.0)):
        labels = {"__name__": "nv_inference_pending_request_count", "namespace": "ml", "pod": "train-0"}
        source.add({**labels, "model": model, "version": "1"}, [(minute(24.8), waiting)])
    for engine, used in (("0", 0.5), ("1", 0.25)):
        labels = {"__name__": "vllm:kv_cache_usage_perc", "namespace": "ml", "pod": "train-0"}
        source.add({**labels, "engine": engine}, [(minute(24.8), used)])
    with some_records(tmp_path) as records, running(Api(source=source, workloads=records).build()) as url:
        answer = trilens("show", "ml/train", "--at", str(AT_S), "--json", "--server", url)
    (whole,) = json.loads(answer.stdout)
    (server,) = (one for one in whole["programs"] if one["rank"] is None)
    assert server["figures"] == {"nv_inference_pending_request_count": 7.0, "vllm:kv_cache_usage_perc": 0.5}


def test_servers_by_pod(capsys: pytest.CaptureFixture[str]) -> None:
    vllm = {"vllm:num_requests_running": 12.0, "vllm:num_requests_waiting": 3.0}
    sglang = {"sglang:num_running_reqs": 1.0, "sglang:token_usage": 0.25}
    tgi = {"tgi_batch_current_size": 8.0, "tgi_queue_size": 2.0}
    triton = {"nv_inference_pending_request_count": 5.0}
    own = {"inference_requests_running": 1.0, "inference_queue_depth": 6.0}
    figures = {"chat-0": vllm, "x": sglang, "tgi": tgi, "triton": triton, "own": own}
    pods = [{"pod": pod, "rank": None, "figures": told} for pod, told in figures.items()]
    show_programs(pods, AT_S, every=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [
        ["pod", "running", "waiting", "cache", "used"],
        ["chat-0", "12", "3", "-"],
        ["x", "1", "-", "0.25"],
        ["tgi", "8", "2", "-"],
        ["triton", "-", "5", "-"],
        ["own", "1", "6", "-"],
    ]
