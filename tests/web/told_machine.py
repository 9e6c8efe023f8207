"""A machine without Kubernetes, as its agent tells of it: one Slurm job and one GPU for each name."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from http_target import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NODE = "gpu-1"
FIRST_PID = 700
_STARTED_S = 3600  # ago
_METRICS = {
    "DCGM_FI_DEV_GPU_UTIL": 97,
    "DCGM_FI_DEV_POWER_USAGE": 640,
    "DCGM_FI_DEV_GPU_TEMP": 71,
    "DCGM_FI_DEV_FB_USED": 61_000,
}


class Told(NamedTuple):
    agent: HttpTarget
    started_ms: int  # of each process


def uuid_of(number: int) -> str:
    return f"GPU-{number:08x}-0000-0000-0000-000000000000"


@contextmanager
def told_machine(
    names: Sequence[str], *, user: str = "ada", fault: str | None = None, note: str = ""
) -> Iterator[Told]:
    """`fault` is the text of one in the kernel log, blamed on the first job; `note` a label of samples."""
    started_ms = round((time.time() - _STARTED_S) * 1000)
    processes = [_process(FIRST_PID + i, started_ms, user) for i in range(len(names))]
    jobs = [
        {
            "namespace": user, "group": "slurm", "kind": "Job", "name": name, "uid": str(i),
            "pids": [FIRST_PID + i],
        }
        for i, name in enumerate(names)
    ]  # fmt: skip
    uses = [
        {"pid": one["pid"], "uuid": uuid_of(i), "gpu_instance": None, "process": one}
        for i, one in enumerate(processes)
    ]
    told = {"node": NODE, "processes": uses, "workloads": jobs, "hardware": {"cpus": 64}}
    faults = [] if fault is None else [_fault(fault, processes[0], jobs[0])]
    with HttpTarget(_metrics(len(names), note)) as agent:
        agent.say(json.dumps(told), "/v1/processes", content_type="application/json")
        events = {"ledger": "one", "events": faults}
        agent.say(json.dumps(events), "/v1/events", content_type="application/json")
        yield Told(agent, started_ms)


def asking(folder: Path, machine: Told) -> str:
    """A file of settings with which a server asks it."""
    found = {"static_configs": [{"targets": [machine.agent.address]}], "scrape_interval": "5s"}
    file = folder / "trilens.yaml"
    file.write_text(json.dumps({"agents": {"scrape_config": found, "interval": "2s"}}), encoding="utf-8")
    return str(file)


def _process(pid: int, started_ms: int, user: str) -> dict[str, Any]:
    return {
        "pid": pid, "name": "python", "started_ms": started_ms, "rank": 0, "local_rank": 0,
        "environment": {}, "user": user, "pod_uid": None,
    }  # fmt: skip


def _fault(text: str, process: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": 1, "id": "line-1", "node": NODE, "t_ms": round(time.time() * 1000) - 5000, "kind": "xid",
        "code": 79, "text": text, "title": "GPU has fallen off the bus", "asks": None, "uuid": uuid_of(0),
        "gpu": 0, "pci": "0000:18:00", "pid": process["pid"], "process_name": text[:40], "process": process,
        "pods": [], "workload": job,
    }  # fmt: skip


def _metrics(gpus: int, note: str) -> str:
    lines = []
    quoted = note.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    for metric, value in _METRICS.items():
        lines.append(f"# TYPE {metric} gauge")
        for gpu in range(gpus):
            labels = f'gpu="{gpu}",UUID="{uuid_of(gpu)}",Hostname="{NODE}",modelName="NVIDIA H200"'
            lines.append(f'{metric}{{{labels},note="{quoted}"}} {value}')
    return "\n".join(lines) + "\n"
