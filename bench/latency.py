"""How long each query takes on each server, with scraping going on; the same order, interleaved."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

if TYPE_CHECKING:
    from bench.peers import Peer
    from bench.queries import Query


class QueryResult(NamedTuple):
    query: Query
    median_ms: dict[str, float]
    series: dict[str, int]


def run(peers: list[Peer], queries: tuple[Query, ...], repeats: int) -> list[QueryResult]:
    connections = {p.name: http.client.HTTPConnection("127.0.0.1", p.port, timeout=120) for p in peers}
    results = []
    for query in queries:
        times: dict[str, list[float]] = {p.name: [] for p in peers}
        series: dict[str, int] = {}
        for attempt in range(repeats + 1):
            path = _path(query, time.time())
            for peer in peers:
                began = time.perf_counter()
                connections[peer.name].request("GET", path)
                response = connections[peer.name].getresponse()
                body = response.read()
                took = (time.perf_counter() - began) * 1000
                if response.status != 200:
                    raise RuntimeError(f"{peer.name}: {query.expr}: {response.status} {body[:300]!r}")
                if attempt == 0:  # the first one warms up and shows that the answers agree in size
                    series[peer.name] = len(json.loads(body)["data"]["result"])
                else:
                    times[peer.name].append(took)
        results.append(QueryResult(query, {n: statistics.median(t) for n, t in times.items()}, series))
        shown = "  ".join(f"{n} {results[-1].median_ms[n]:8.2f} ms ({series[n]})" for n in times)
        print(f"{query.name:28} {shown}", flush=True)
    return results


def _path(query: Query, now: float) -> str:
    if query.range_s == 0:
        return "/api/v1/query?" + urlencode({"query": query.expr, "time": f"{now:.3f}"})
    end = int(now) // query.step_s * query.step_s
    window = {"start": end - query.range_s, "end": end, "step": query.step_s}
    return "/api/v1/query_range?" + urlencode({"query": query.expr, **window})
