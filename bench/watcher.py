"""Follows a cluster for bench/object_watch.py: says when all is known, and at the end what it took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import uvloop

from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.cluster import ClusterWatch
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess

if TYPE_CHECKING:
    from trilens.model.kubernetes import GroupKind, KubeObject

MADE_AT = "bench/made-at"  # the annotation of a pod that says when it was asked for
KINDS = {"Pod", "Node", "PyTorchJob.kubeflow.org"}


class Seen:
    """Knows everything, as whoever makes sense of it will."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject] = {}
        self.synced_kinds: set[str] = set()
        self.seen_s: list[float] = []
        self.told = asyncio.Event()

    def changed(self, obj: KubeObject) -> None:
        new = obj.uid not in self.objects
        self.objects[obj.uid] = obj
        if new and MADE_AT in obj.annotations:
            self.seen_s.append(time.time() - float(obj.annotations[MADE_AT]))

    def removed(self, obj: KubeObject) -> None:
        self.objects.pop(obj.uid, None)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        self.synced_kinds.add(str(kind))
        self.told.set()

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        raise AssertionError(remedy)


async def watch(kubeconfig: Path) -> None:
    seen = Seen()
    cluster = ClusterWatch("bench", KubeconfigAccess(kubeconfig), choose(), seen)
    began, cpu_began = time.monotonic(), time.process_time()
    running = asyncio.create_task(cluster.run())
    while not seen.synced_kinds >= KINDS:
        seen.told.clear()
        await seen.told.wait()
    process = psutil.Process()
    first = {
        "sync_s": round(time.monotonic() - began, 2),
        "sync_cpu_s": round(time.process_time() - cpu_began, 2),
        "memory_bytes": process.memory_info().rss,
    }
    print(json.dumps(first), flush=True)
    seen.seen_s.clear()
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({"peak_bytes": peak_bytes(), "seen_s": seen.seen_s}), flush=True)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def peak_bytes() -> int:
    """Not from getrusage, which still knows what the process was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    uvloop.run(watch(Path(sys.argv[1])))
