"""What the rule pack costs a pass over 10,000 GPUs, in Trilens and in a Prometheus on the same samples.

The samples are written once and stay visible for five minutes: in that time nothing happens in either server
but the rules, so the CPU that a server uses then is theirs, reading and writing included.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import numpy as np

from bench.load import bodies, encode_labels, send
from bench.peers import Prometheus, Trilens
from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.rules import rule_files
from trilens.simulate.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.peers import Peer

GPUS_PER_NODE: Final = 8
PACK: Final = "gpu.yml"
INTERVAL_S: Final = 30  # of the pack
_LAST: Final = "trilens:gpu_profiling_stuck:bool"  # the last rule of the pack


class RulesResult(NamedTuple):
    server: str
    gpus: int
    recorded: int  # series a pass
    cpu_s: float  # a pass
    cores: float  # at the pack's own interval


@dataclass
class PrometheusWithRules(Prometheus):
    rules: str = ""

    def scrape_document(self) -> dict[str, object]:
        return {**super().scrape_document(), "rule_files": [self.rules]}


@dataclass
class TrilensWithRules(Trilens):
    rules: str = ""

    def scrape_document(self) -> dict[str, object]:
        return {**super().scrape_document(), "rules": {"builtin": False, "files": [self.rules]}}


def run(out: Path, *, gpus: int, passes: int) -> list[RulesResult]:
    out.mkdir(parents=True, exist_ok=True)
    rules = out / PACK
    (shipped,) = (entry for entry in rule_files() if entry.name == PACK)
    rules.write_text(shipped.read_text())
    fleet = Fleet(-(-gpus // GPUS_PER_NODE), GPUS_PER_NODE)
    kinds: tuple[type[PrometheusWithRules | TrilensWithRules], ...] = (PrometheusWithRules, TrilensWithRules)
    results = []
    for kind in kinds:  # one after the other: each in peace
        peer = kind(out / f"rules-{kind.name.lower()}", rules=str(rules))
        peer.start()
        try:
            fill(peer, fleet)
            results.append(measure(peer, fleet, passes))
        finally:
            peer.stop()
        print(f"rules {results[-1]}")
    return results


def fill(peer: Peer, fleet: Fleet) -> None:
    now = time.time()
    (history,) = fleet.history(now, now + 1, 1)
    labels = [*fleet.series(job="dcgm"), *joins(fleet)]
    values = np.concatenate([history.values, np.ones((len(labels) - len(history.values), 1))])
    encoded = [encode_labels(one) for one in labels]
    with httpx.Client() as client:
        for body in bodies(encoded, history.t_ms, values, series_per_body=5000):
            send(client, peer.url + peer.write_path, body)


def joins(fleet: Fleet) -> Iterator[Labels]:
    """The two info metrics for every pod and every GPU that a pod holds."""
    seen = set()
    for labels in map(dict, fleet.series()):
        if labels[METRIC_NAME] != "DCGM_FI_DEV_GPU_UTIL" or "pod" not in labels:
            continue
        workload, _, rank = labels["pod"].rpartition("-")
        pod = {"cluster": "east", "namespace": labels["namespace"], "pod": labels["pod"]}
        place = {"workload": workload, "attempt": "1"}
        if labels["pod"] not in seen:
            seen.add(labels["pod"])
            about = {"node": labels["Hostname"], "kind": "PyTorchJob", "node_rank": rank, "team": "vision"}
            info = {METRIC_NAME: "trilens_workload_pod_info", "experiment": "lr-sweep"}
            yield make_labels({**info, **pod, **place, **about})
        gpu = {"UUID": labels["UUID"], "container": labels["container"], "rank": labels["gpu"]}
        yield make_labels({METRIC_NAME: "trilens_workload_gpu_info", **pod, **place, **gpu})


def measure(peer: Peer, fleet: Fleet, passes: int) -> RulesResult:
    gpus = fleet.nodes * fleet.gpus_per_node
    _until(lambda: _value(peer, f"count({_LAST})") > 0, f"{peer.name} recorded nothing")
    # The first pass makes the series, and their labels are still being written during the second.
    first = _passes(peer)
    _until(lambda: _passes(peer) >= first + 2, f"{peer.name} does not go on")
    done = _passes(peer)
    before = peer.usage().cpu_s
    _until(lambda: _passes(peer) >= done + passes, f"{peer.name} does not go on")
    cpu_s = (peer.usage().cpu_s - before) / (_passes(peer) - done)
    recorded = _value(peer, 'count({__name__=~"trilens:.*"})')
    if not recorded:
        raise RuntimeError(f"{peer.name} was so slow that the samples had gone meanwhile")
    return RulesResult(peer.name, gpus, int(recorded), round(cpu_s, 3), round(cpu_s / INTERVAL_S, 4))


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(5)  # asking costs too


def _passes(peer: Peer) -> float:
    return passes(httpx.get(f"{peer.url}/metrics", timeout=60).text)


def passes(metrics: str) -> float:
    """Over all groups until now, on the average: Prometheus counts those that it missed among them."""
    counted: dict[str, dict[str, float]] = {"iterations": {}, "iterations_missed": {}}
    server = "prometheus" if "prometheus_rule_group_iterations_total" in metrics else "trilens"
    pattern = rf"^{server}_rule_group_(iterations|iterations_missed)_total(\{{[^}}]*\}}) (\S+)"
    for kind, group, value in re.findall(pattern, metrics, re.MULTILINE):
        counted[kind][group] = float(value)
    missed = counted["iterations_missed"] if server == "prometheus" else {}
    done = [value - missed.get(group, 0.0) for group, value in counted["iterations"].items()]
    return sum(done) / len(done) if done else 0.0


def _value(peer: Peer, query: str) -> float:
    answer = httpx.get(f"{peer.url}/api/v1/query", params={"query": query}, timeout=60).json()
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0
