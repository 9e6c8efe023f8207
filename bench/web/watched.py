"""A server that watches a simulated fleet of 10,000 GPUs, with twelve hours of it in its store.

`python -m bench.web.watched DATA GPUS` makes the past alone, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from bench.peers import Trilens
from bench.web.past import CLUSTER, IDENTITY, SCENARIO, SEED, make_past, telling_ranks
from trilens.simulate.over_http.process import SimulatorProcess
from trilens.simulate.scenario import load_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.simulate.over_http.described import Described

HOURS: Final = 12
_PATIENCE_S: Final = 900.0
_SETTLED: Final = 0.98  # of the GPUs report: some never do
_SETTLE_S: Final = 180.0  # then: a start has work of its own, such as filling the window and the first hour
_COUNTED_S: Final = 60.0  # of that, at its end


class Watched(NamedTuple):
    """`cores` are used while nobody asks."""

    trilens: Trilens
    gpus: int
    ranks: int
    past_s: float  # that it took to make the past
    settled_s: float  # from the start until all GPUs are on the map
    cores: float


@dataclass
class WatchingTrilens(Trilens):
    cluster: Described | None = None

    def scrape_document(self) -> dict[str, object]:
        assert self.cluster is not None
        jobs = [
            {"job_name": "dcgm", **_found(self.cluster.dcgm_targets)},
            {"job_name": "programs", **_found(self.cluster.program_targets)},
        ]
        return {
            "kubernetes": {"clusters": {CLUSTER: {"kubeconfig": self.cluster.kubeconfig}}},
            "scrape": {"global": {"scrape_interval": f"{self.interval_s}s"}, "scrape_configs": jobs},
        }


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "30s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": CLUSTER}],
    }


@contextmanager
def watched(out: Path, gpus: int) -> Iterator[Watched]:
    """Once the whole fleet is there and an hour of it is booked."""
    data, began_s = out / "web-trilens", time.perf_counter()
    past = json.loads(_made(data, gpus))
    told = out / "web-told.json"
    told.write_text(json.dumps({"told": past["told"]}))
    past_s = time.perf_counter() - began_s
    with SimulatorProcess(_simulated(gpus, past["end_ms"], told)) as simulator:
        trilens = WatchingTrilens(data, interval_s=30, cluster=simulator.described())
        began_s = time.perf_counter()
        try:
            trilens.start()
            simulator.send_records_to(trilens.url)
            with httpx.Client(base_url=trilens.url, timeout=60) as client:
                _wait(lambda: _reporting(client) >= _SETTLED * gpus, "not all GPUs report")
            settled_s = time.perf_counter() - began_s
            time.sleep(_SETTLE_S - _COUNTED_S)
            before = trilens.usage()
            time.sleep(_COUNTED_S)
            cores = (trilens.usage().cpu_s - before.cpu_s) / _COUNTED_S
            yield Watched(trilens, gpus, len(past["told"]), past_s, settled_s, cores)
        finally:
            trilens.stop()


def _made(data: Path, gpus: int) -> str:
    command = [sys.executable, "-m", "bench.web.watched", str(data), str(gpus)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _simulated(gpus: int, end_ms: int, told: Path) -> list[str]:
    """The same world, from where the past ends."""
    ranks = telling_ranks(load_scenario(str(SCENARIO)).sized(gpus))
    return [
        *("--scenario", str(SCENARIO), "--gpus", str(gpus), "--seed", str(SEED), "--identity", IDENTITY),
        *("--age", f"{HOURS}h", "--until", str(end_ms)),
        *("--telling-ranks", str(ranks), "--told", str(told)),
    ]


def _reporting(client: httpx.Client) -> int:
    """Devices, however MIG divides them."""
    gpus = client.get("/api/fleet").raise_for_status().json()["data"]["gpus"]
    told = zip(gpus["uuid"], gpus["state"], strict=True)
    return len({uuid for uuid, state in told if state == "reporting"})


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    ends_s = time.perf_counter() + _PATIENCE_S
    while not condition():
        if time.perf_counter() > ends_s:
            raise RuntimeError(otherwise)
        time.sleep(2)


def main() -> None:
    data, gpus = Path(sys.argv[1]), int(sys.argv[2])
    end_ms = time.time_ns() // 1_000_000
    told = make_past(data, load_scenario(str(SCENARIO)).sized(gpus), end_ms, HOURS)
    print(json.dumps({"end_ms": end_ms, "told": told}))


if __name__ == "__main__":
    main()
