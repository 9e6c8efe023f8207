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
    unknown = dict.fromkeys((*names, "power_watts"))
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


def test_several_clusters_and_many_doubts(capsys: pytest.CaptureFixture[str]) -> None:
    gpus_table(
        [gpu(index=str(number), doubts=[DOUBT], cluster="lab" if number else "") for number in range(30)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cluster")
    assert lines[1].split()[:3] == ["-", "node-a", "0"]
    assert lines[-1] == "  and 10 more; --json has them all"


def test_the_gpus_of_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    show_gpus([])
    assert capsys.readouterr().out == ""
    known = {"attempt": 0, "rank": 3, "pod": "a-0", "share": "1", "sources": ["process", "dcgm"]}
    span = {"from_ms": 1_768_392_000_000, "to_ms": 1_768_392_060_000}
    show_gpus([{**gpu(index="2", model="H100", uuid="GPU-1"), **known, **span, "doubts": [DOUBT]}])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "gpus",
        "attempt rank pod node gpu model share by since until",
        "0 3 a-0 node-a 2 H100 1 process, dcgm 2026-01-14T12:00:00Z 2026-01-14T12:01:00Z",
        "a-0 2: gpu-claims-disagree: who has it; look",
    ]
