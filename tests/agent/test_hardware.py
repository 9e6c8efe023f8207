"""Cores and memory of a machine: read by its agent, told to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.agents.answers import read_processes
from trilens.collect.node.hardware import read_hardware
from trilens.model.node import Hardware

if TYPE_CHECKING:
    from pathlib import Path


def test_as_the_kernel_counts_them(tmp_path: Path) -> None:
    lines = ["cpu  10 20 30", *(f"cpu{at} 1 2 3" for at in range(12)), "intr 7", "cpufreq 1"]
    (tmp_path / "stat").write_text("\n".join(lines) + "\n")
    (tmp_path / "meminfo").write_text("MemTotal:       65536000 kB\nMemFree:        1 kB\n")
    assert read_hardware(tmp_path) == Hardware(12, 65536000 * 1024)


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("nothing of the kind\n")
    assert read_hardware(tmp_path) == Hardware(None, None)


def test_an_agent_from_before_tells_nothing_of_it() -> None:
    answer = {"node": "box", "processes": [], "workloads": []}
    assert read_processes(answer).hardware == Hardware()
    told = {**answer, "hardware": {"cpus": 12, "memory_bytes": None}}
    assert read_processes(told).hardware == Hardware(12, None)
