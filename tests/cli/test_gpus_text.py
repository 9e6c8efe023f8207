"""What `trilens gpus` prints, and what a workload's GPUs look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.cli.gpu_text import gpus_table, show_gpus

if TYPE_CHECKING:
    import pytest

DOUBT = {"code": "gpu-claims-disagree", "text": "who has it", "remedy": "look"}


def holder(pod: str, **known: Any) -> dict[str, Any]:
    unknown = {"workload": None, "rank": None, "share": None, "doubts": []}
    return {"namespace": "ml", "pod": pod, **unknown, **known}


def gpu(**known: Any) -> dict[str, Any]:
    names = ("index", "model", "uuid", "instance", "profile", "seen_ms", "utilization", "memory_used_bytes")
    unknown = dict.fromkeys((*names, "power_watts", "fault"))
    common = {
        "cluster": "lab",
        "node": "node-a",
        "state": "reporting",
        "count": 1,
        "holders": [],
        "doubts": [],
    }
    return {**unknown, **common, **known}


def test_a_table_with_a_line_for_each_holder(capsys: pytest.CaptureFixture[str]) -> None:
    shared = {
        "index": "2",
        "model": "H100",
        "uuid": "GPU-1",
        "instance": "7",
        "profile": "1g.10gb",
        "utilization": 0.5,
        "memory_used_bytes": 3 << 30,
        "power_watts": 312.4,
    }
    gpus_table(
        [
            gpu(
                **shared,
                holders=[holder("b-0", share="1/14"), holder("a-0", workload="a", rank=0, doubts=[DOUBT])],
            ),
            gpu(node="node-b", state="lost", count=3),
            gpu(node="node-b", state="lost", uuid="GPU-9", seen_ms=1_768_392_000_000),
        ]
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "node gpu model uuid state workload pod rank share used memory power doubts",
        "node-a 2/7 (1g.10gb) H100 GPU-1 reporting - ml/b-0 - 1/14 50% 3.0 GiB 312 W",
        "node-a 2/7 (1g.10gb) H100 GPU-1 reporting a ml/a-0 0 - 50% 3.0 GiB 312 W 1?",
        "node-b - - - 3 lost - - - - - - -",
        "node-b - - GPU-9 lost, last seen 2026-01-14T12:00:00Z - - - - - - -",
        "",
        "doubts",
        "node-a 2/7 (1g.10gb): gpu-claims-disagree: who has it; look",
    ]


def test_faults_are_told_once_for_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    fault = {"text": "GPU 2 of node-a has a fault", "action": "Reset it.", "since_ms": 1_768_392_000_000}
    parts = [gpu(index="2", uuid="GPU-1", instance=one, fault=fault) for one in "78"]
    gpus_table([*parts, gpu(index="3", uuid="GPU-2")])
    table, _, told = capsys.readouterr().out.partition("\nfaults\n")
    assert table.count("reporting, has a fault") == 2
    assert told == "  GPU 2 of node-a has a fault, since 2026-01-14T12:00:00Z. Reset it.\n"


def test_several_clusters_and_many_doubts(capsys: pytest.CaptureFixture[str]) -> None:
    gpus_table(
        [gpu(index=str(number), doubts=[DOUBT], cluster="lab" if number else "") for number in range(30)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cluster")
    assert lines[1].split()[:3] == ["-", "node-a", "0"]
    assert lines[-1] == "  and 10 more; --json has them all"


def test_doubts_stand_in_the_order_of_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    gpus_table([gpu(index=index, uuid=f"GPU-{index}", doubts=[DOUBT]) for index in ("10", "2", "1")])
    said = capsys.readouterr().out.partition("doubts\n  ")[2]
    assert [line.split(":")[0].split()[-1] for line in said.splitlines()] == ["1", "2", "10"]


def test_the_gpus_of_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    show_gpus([], every=False)
    assert capsys.readouterr().out == ""
    known = {"attempt": 0, "rank": 3, "pod": "a-0", "share": "1", "sources": ["process", "dcgm"]}
    span = {"from_ms": 1_768_392_000_000, "to_ms": 1_768_392_060_000}
    readings = {"utilization": 1.0, "memory_used_bytes": 70 << 30, "power_watts": 128.4}
    held = {**gpu(index="2", model="H100", uuid="GPU-1"), **known, **span, **readings, "doubts": [DOUBT]}
    show_gpus([held], every=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "gpus",
        "attempt rank pod node gpu model share used memory power by since until",
        "0 3 a-0 node-a 2 H100 1 100% 70.0 GiB 128 W process, dcgm 2026-01-14T12:00:00Z 2026-01-14T12:01:00Z",
        "a-0 2: gpu-claims-disagree: who has it; look",
    ]


def test_many_gpus_are_told_by_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    def held(rank: int, **other: Any) -> dict[str, Any]:
        one = {"attempt": 1, "rank": rank, "pod": f"a-{rank // 8}", "share": "1", "sources": ["kubelet"]}
        span = {"from_ms": 1_768_392_000_000 + rank, "to_ms": None}
        device = gpu(index=str(rank % 8), model="H100", uuid=f"GPU-{rank}", node=f"node-{rank // 8}")
        return {**device, "utilization": 0.97 if rank else 0.0, **one, **span, **other}

    gpus = [held(rank, attempt=0) for rank in range(64)] + [held(rank) for rank in range(64)]
    gpus[64 + 9] = held(9, share="1/2", doubts=[DOUBT])
    show_gpus(gpus, every=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [
        "attempt rank pod node gpu model share used memory power by since until",
        "1 0-8, 10-63 8 pods 8 nodes 63 gpus H100 1 0% to 97% - - kubelet 2026-01-14T12:00:00Z",
        "1 9 a-1 node-1 1 H100 1/2 97% - - kubelet 2026-01-14T12:00:00.009Z",
        "and 64 of earlier attempts; --all shows each",
        "a-1 1: gpu-claims-disagree: who has it; look",
    ]
    show_gpus(gpus, every=True)
    assert len(capsys.readouterr().out.splitlines()) == 2 + 1 + 128 + 1
