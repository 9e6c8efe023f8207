"""The data set of the query, disk and start benchmarks, loaded through remote write into every server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import numpy as np

from bench.load import bodies, encode_labels, send
from bench.queries import HOUR, LONG

if TYPE_CHECKING:
    from bench.peers import Peer
    from trilens.simulate.fleet import Fleet

SLICE_S = 1800
STEP_S = 15


def load(peers: list[Peer], fleet: Fleet, instances: list[str], nodes_per_target: int, hours: int) -> int:
    """`hours` of every series, and 24 hours of the metrics in LONG, up to now. Returns the sample count."""
    labels = [
        pairs
        for number, instance in enumerate(instances)
        for pairs in fleet.series(
            range(number * nodes_per_target, min((number + 1) * nodes_per_target, fleet.nodes)),
            job="fleet",
            instance=instance,
        )
    ]
    encoded = [encode_labels(pairs) for pairs in labels]
    is_long = np.array([dict(pairs)["__name__"] in LONG for pairs in labels])
    end = int(time.time()) // STEP_S * STEP_S
    total = 0
    clients = {peer.name: httpx.Client() for peer in peers}
    spent = dict.fromkeys(clients, 0.0)
    for start in range(end - 24 * HOUR, end, SLICE_S):
        chosen = np.flatnonzero(is_long) if start < end - hours * HOUR else np.arange(len(labels))
        for piece in fleet.history(start, min(start + SLICE_S, end), STEP_S):
            values = piece.values[chosen]
            total += values.size
            for body in bodies([encoded[i] for i in chosen], piece.t_ms, values):
                for peer in peers:
                    began = time.perf_counter()
                    send(clients[peer.name], peer.url + peer.write_path, body)
                    spent[peer.name] += time.perf_counter() - began
    print(f"loaded {total:,} samples; seconds per server: { {k: round(v) for k, v in spent.items()} }")
    return total
