"""Bytes a sample on disk, once each server has merged what it wants to merge."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import httpx

from bench.peers import Peer, Prometheus, Trilens, VictoriaMetrics

if TYPE_CHECKING:
    from pathlib import Path

_MERGE_S = 120  # it goes on taking samples, so there is always something left to merge


class DiskResult(NamedTuple):
    server: str
    samples: int
    megabytes: float
    bytes_per_sample: float


def measure(peer: Peer) -> DiskResult:
    """The server must run for VictoriaMetrics (it is told to merge) and be stopped for the others."""
    if isinstance(peer, Prometheus):
        samples, size = _prometheus_blocks(peer.data)
    elif isinstance(peer, VictoriaMetrics):
        samples, size = _victoria(peer)
    else:
        samples, size = _trilens(peer)
    return DiskResult(peer.name, samples, size / 1e6, size / max(samples, 1))


def _prometheus_blocks(data: Path) -> tuple[int, int]:
    """Only compacted blocks: what still lies in the write-ahead log is not in its final form."""
    samples = size = 0
    for meta in data.glob("*/meta.json"):
        samples += int(json.loads(meta.read_text())["stats"]["numSamples"])
        size += sum(f.stat().st_size for f in meta.parent.rglob("*") if f.is_file())
    return samples, size


def _victoria(peer: Peer) -> tuple[int, int]:
    httpx.get(f"{peer.url}/internal/force_flush", timeout=120)
    httpx.get(f"{peer.url}/internal/force_merge", timeout=120)
    deadline = time.monotonic() + _MERGE_S
    while _gauge(peer, "vm_active_merges{") and time.monotonic() < deadline:
        time.sleep(1)
    return int(_gauge(peer, 'vm_rows{type="storage/')), peer.disk_bytes()


def _gauge(peer: Peer, begins: str) -> float:
    lines = httpx.get(f"{peer.url}/metrics", timeout=30).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(begins))


_MERGE = """
import json, sys
from trilens.store.engine import Engine
with Engine.open(sys.argv[1]) as engine:
    for table in ("samples", "series", "activity"):
        engine.command(f"OPTIMIZE TABLE {table} FINAL")
    found = engine.query_arrow(
        "SELECT sumIf(rows, table = 'samples') AS rows, sum(bytes_on_disk) AS bytes FROM system.parts "
        "WHERE active AND database = currentDatabase() AND table IN ('samples', 'series', 'activity')")
    print(json.dumps([found["rows"][0].as_py(), found["bytes"][0].as_py()]))
"""


def _trilens(peer: Peer) -> tuple[int, int]:
    assert isinstance(peer, Trilens)
    done = subprocess.run(
        [sys.executable, "-c", _MERGE, str(peer.data)], capture_output=True, text=True, check=True
    )
    rows, size = json.loads(done.stdout.splitlines()[-1])
    return int(rows), int(size)
