"""300,000 series every 15 s: what scraping, parsing and writing cost each server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import httpx

from bench.peers import PEERS
from bench.targets import serving
from trilens.simulate.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

NODES_PER_TARGET = 5
INTERVAL_S = 15


class IntakeResult(NamedTuple):
    server: str
    series: int
    seconds: float
    cores: float
    cpu_s_per_million: float
    rss_mb: float
    samples: int


def run(out: Path, *, series: int, seconds: int) -> list[IntakeResult]:
    nodes = -(-series // Fleet(1).series_per_node)
    results = []
    for kind in PEERS:
        with serving(nodes, NODES_PER_TARGET) as addresses:
            peer = kind(out / f"intake-{kind.name.lower()}", targets=addresses, interval_s=INTERVAL_S)
            peer.start()
            try:
                time.sleep(3 * INTERVAL_S)  # every target twice: series are made, caches are warm
                began, before, had = time.perf_counter(), peer.usage(), _scraped(peer.url)
                peak = 0.0
                while time.perf_counter() - began < seconds:
                    time.sleep(1)
                    peak = max(peak, peer.usage().rss_mb)
                after, elapsed, has = peer.usage(), time.perf_counter() - began, _scraped(peer.url)
            finally:
                peer.stop()
        cpu = after.cpu_s - before.cpu_s
        samples = int(has * elapsed / INTERVAL_S)
        results.append(
            IntakeResult(kind.name, int(has), elapsed, cpu / elapsed, cpu / (samples / 1e6), peak, samples)
        )
        print(f"intake {results[-1]} (series at start {had:.0f})")
    return results


def _scraped(url: str) -> float:
    answer = httpx.get(
        f"{url}/api/v1/query", params={"query": "sum(scrape_samples_scraped)"}, timeout=30
    ).json()
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0
