"""A machine of files, for tests of the agent and of what asks it."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from proc_tree import POD_CGROUP, POD_UID, TORCHRUN, ProcTree
from recorded_nvml import FIXTURES, RecordedNvml, recording

from trilens.collect.node.agent import NodeAgent
from trilens.collect.node.kernel_log import LogLine
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.settings.agent import AgentSettings

LAST = (FIXTURES / "h200_kmsg.txt").read_text(encoding="utf-8").splitlines()[-1].partition(";")[2]


class Lines:
    """A kernel log that is written by the test; `idle` tells that all of it was dealt with."""

    origin = "test"
    lost = 0

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[LogLine | None] = queue.SimpleQueue()
        self._number = 0
        self.idle = threading.Event()

    def write(self, text: str, t_ms: float | None = None) -> None:
        self.idle.clear()
        self._number += 1
        t_ms = time.time() * 1000 if t_ms is None else t_ms
        self._lines.put(LogLine(text, round(t_ms), str(self._number)))
        self._lines.put(LogLine("another line", round(t_ms), str(self._number)))

    def follow(self, after: str | None) -> Iterator[LogLine]:
        while True:
            if self._lines.empty():
                self.idle.set()
            line = self._lines.get()
            if line is None:
                return
            if after is None or int(line.position) > int(after):
                yield line

    def close(self) -> None:
        self._lines.put(None)


class Node:
    """A machine of files: one H200 under load, its training process in a pod."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = ProcTree(folder / "proc")
        self.proc.add(463, environment=TORCHRUN, cgroup=POD_CGROUP)
        output = folder / "log" / f"llm_train-0_{POD_UID}" / "main" / "0.log"
        output.parent.mkdir(parents=True)
        output.write_text("2025-02-23T16:24:18Z stdout F step 1 password=hunter2\n", encoding="utf-8")
        self.nvml = RecordedNvml(recording("h200_busy"))
        self.kernel_log = Lines()

    def settings(self, **more: object) -> AgentSettings:
        overrides: dict[str, object] = {
            "listen": "127.0.0.1:0",
            "state_file": self.folder / "state.json",
            "proc_dir": self.proc.folder,
            "pod_resources": self.folder / "kubelet.sock",
            "pod_logs": self.folder / "log",
            "kubelet_pods": self.folder / "kubelet",
            "interval": "1h",  # looked at when the test says so
            **more,
        }
        named = {f"agent.{key}": value for key, value in overrides.items()}
        return load_settings(overrides=named, environ={}).agent

    def agent(self, **more: object) -> NodeAgent:
        return NodeAgent(self.settings(**more), "h200-1", lambda: self.nvml, lambda: self.kernel_log)
