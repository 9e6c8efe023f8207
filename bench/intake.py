"""300,000 series every 15 s: what scraping, parsing and writing cost each server."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import httpx

from bench.peers import PEERS
from bench.targets import serving
from trilens.simulate.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers import Peer

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
    """All servers at the same time on the same targets: what else the machine does then hits all alike."""
    nodes = -(-series // Fleet(1).series_per_node)
    with serving(nodes, NODES_PER_TARGET) as addresses, ExitStack() as running:
        peers = []
        for kind in PEERS:
            peer = kind(out / f"intake-{kind.name.lower()}", targets=addresses, interval_s=INTERVAL_S)
            peer.start()
            running.callback(peer.stop)
            peers.append(peer)
        _until_all_is_scraped(peers, nodes * Fleet(1).series_per_node)
        time.sleep(3 * INTERVAL_S)  # series are made and caches are warm; now let it become everyday
        began, before = time.perf_counter(), [peer.usage() for peer in peers]
        peaks = [0.0] * len(peers)
        while time.perf_counter() - began < seconds:
            time.sleep(1)
            peaks = [max(peak, peer.usage().rss_mb) for peak, peer in zip(peaks, peers, strict=True)]
        elapsed = time.perf_counter() - began
        spent = [peer.usage().cpu_s - was.cpu_s for peer, was in zip(peers, before, strict=True)]
        results = []
        for peer, cpu, peak in zip(peers, spent, peaks, strict=True):
            has = _scraped(peer.url)
            samples = int(has * elapsed / INTERVAL_S)
            results.append(
                IntakeResult(
                    peer.name, int(has), elapsed, cpu / elapsed, cpu / (samples / 1e6), peak, samples
                )
            )
            print(f"intake {results[-1]}")
    return results


def _until_all_is_scraped(peers: list[Peer], series: int) -> None:
    deadline = time.monotonic() + 300
    for peer in peers:
        while _scraped(peer.url) < series:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{peer.name} has {_scraped(peer.url):,.0f} of {series:,} series")
            time.sleep(1)


def _scraped(url: str) -> float:
    answer = httpx.get(
        f"{url}/api/v1/query", params={"query": "sum(scrape_samples_scraped)"}, timeout=30
    ).json()
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0
