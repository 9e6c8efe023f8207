"""The rule pack in a Prometheus that has the same series as Trilens had."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import numpy as np

from bench.load import bodies, send
from bench.rules import PrometheusWithRules, passes
from trilens.rules import rule_files

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.model.series import Floats

# Samples are written once, for some minutes before and after: later nothing happens but the rules.
_BEFORE_S: Final = 120
_AFTER_S: Final = 540  # it takes none that are further ahead than ten minutes
_STEP_S: Final = 60
_INTERVAL_S: Final = 60  # of every group, so that a pass over all of them can end before the next begins
_WARM: Final = 2  # passes: the first makes the series
_PASSES: Final = 3
_GROWS: Final = re.compile(r".*(_total|_sum|_count|_bucket|_timestamp_seconds|TOTAL_ENERGY_CONSUMPTION)")


class Snapshot(NamedTuple):
    """Series as they were at a moment, each by its metric and its labels as they are sent."""

    at_ms: int
    labels: list[tuple[str, bytes]]
    last: Floats
    before: Floats
    apart_ms: Floats


@dataclass(frozen=True)
class PeerResult:
    """CPU of a pass over all groups, with what the server does besides to keep what was recorded."""

    cpu_s: float
    recorded: int
    firing: int


def evaluate(out: Path, snapshot: Snapshot) -> PeerResult:
    rules = out / "pack"
    rules.mkdir(parents=True, exist_ok=True)
    for entry in rule_files():
        (rules / entry.name).write_text(with_interval(entry.read_text(encoding="utf-8")))
    peer = PrometheusWithRules(out / "round-prometheus", rules=str(rules / "*.yml"))
    peer.start()
    try:
        _fill(peer, snapshot)
        return _measure(peer)
    finally:
        peer.stop()


def with_interval(rules: str) -> str:
    return re.sub(r"^( *interval: ).*$", rf"\g<1>{_INTERVAL_S}s", rules, flags=re.MULTILINE)


def _fill(peer: PrometheusWithRules, snapshot: Snapshot) -> None:
    """As if it had gone on: counters grow as they did, other values stay."""
    now_ms = time.time_ns() // 1_000_000
    t_ms = now_ms + 1000 * np.arange(-_BEFORE_S, _AFTER_S, _STEP_S, dtype=np.int64)
    grows = np.array([_GROWS.fullmatch(name) is not None for name, _ in snapshot.labels])
    slope = np.zeros(len(grows))
    known = grows & (snapshot.apart_ms > 0)
    slope[known] = (snapshot.last - snapshot.before)[known] / snapshot.apart_ms[known]
    # What is a time was one by the fleet's clock.
    is_time = np.array([name.endswith("_timestamp_seconds") for name, _ in snapshot.labels])
    values = snapshot.last + is_time * (now_ms - snapshot.at_ms) / 1000
    matrix = values[:, None] + slope[:, None] * (t_ms - now_ms)[None, :]
    encoded = [labels for _, labels in snapshot.labels]
    with httpx.Client() as client:
        for body in bodies(encoded, t_ms, matrix, series_per_body=5000):
            send(client, peer.url + peer.write_path, body)


def _measure(peer: PrometheusWithRules) -> PeerResult:
    _until_passes(peer, passes(_metrics(peer)) + _WARM)  # those before had nothing to look at
    done, before_s = passes(_metrics(peer)), peer.usage().cpu_s
    _until_passes(peer, done + _PASSES)
    now = passes(_metrics(peer))
    cpu_s = (peer.usage().cpu_s - before_s) / (now - done)
    recorded = _count(peer, '{__name__=~".+:.+"}')
    return PeerResult(round(cpu_s, 2), recorded, _count(peer, 'ALERTS{alertstate="firing"}'))


def _until_passes(peer: PrometheusWithRules, wanted: float) -> None:
    deadline_s = time.monotonic() + _AFTER_S
    while passes(_metrics(peer)) < wanted:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{peer.name} does not get through the rules while it has samples")
        time.sleep(5)  # asking costs too


def _metrics(peer: PrometheusWithRules) -> str:
    return httpx.get(f"{peer.url}/metrics", timeout=60).text


def _count(peer: PrometheusWithRules, selector: str) -> int:
    query = {"query": f"count({selector})"}
    result = httpx.get(f"{peer.url}/api/v1/query", params=query, timeout=120).json()["data"]["result"]
    return int(float(result[0]["value"][1])) if result else 0
