"""A simulated cluster booked by a real server: it adds up, also after a kill in the middle of booking."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from command_here import trilens_here
from empty_records import NoSignals
from memory_api import Api, running
from servers import until
from trilens.ledger.prices.book import price_book
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario
from trilens.store.options import StoreOptions
from trilens.store.store import Store
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path


SCENARIO = """
name: small
pools: [{name: h100, model: H100, nodes: 2}]
jobs:
  - name: train
    kind: JobSet
    namespace: research
    team: vision
    experiment: e1
    pool: h100
    pods: 1
    gpus_per_pod: 8
    arrivals: {at_start: 1}
    duration: 4h
    training: {checkpoint_every: 100}
"""
HOUR_S = 3_600
IMPORTED_HOURS = 30  # more than are written at once
MAPPED = ("--map", "time=time,in_use=in_use,there=there", "--source", "old")


def settings_file(folder: Path, cluster: SimulatedCluster) -> Path:
    kubeconfig, file = folder / "kubeconfig", folder / "trilens.yaml"
    cluster.write_kubeconfig(kubeconfig)
    dcgm = {
        "job_name": "dcgm",
        "scrape_interval": "1s",
        "http_sd_configs": [{"url": cluster.dcgm_targets}],
        "relabel_configs": [{"target_label": "cluster", "replacement": "sim"}],
    }
    file.write_text(
        yaml.safe_dump(
            {
                "kubernetes": {"clusters": {"sim": {"kubeconfig": str(kubeconfig)}}},
                "scrape": {"scrape_configs": [dcgm]},
            }
        )
    )
    return file


def ask(url: str, path: str, **params: str) -> Any:
    return httpx.get(f"{url}{path}", params=params, timeout=30).json()["data"]


def buckets(url: str) -> dict[str, int]:
    """GPU time of the open hour, and of the one before: the test may run over the end of an hour."""
    now_s = time.time()
    httpx.post(f"{url}/api/ledger/recompute", params={"from": f"{now_s - 1:.0f}", "to": f"{now_s + 1:.0f}"})
    lines = ask(url, "/api/cost", by="bucket", **{"from": f"{now_s - HOUR_S:.0f}"})["lines"]
    return {line["keys"]["bucket"]: line["now"]["gpu_ms"] for line in lines if line["now"] is not None}


def held(url: str) -> int:
    return sum(len(gpu["holders"]) for gpu in ask(url, "/api/gpus"))


def closed_hours(url: str) -> dict[int, str]:
    hours = ask(url, "/api/ledger/hours", **{"from": f"{time.time() - 400 * HOUR_S:.0f}"})
    return {one["hour_ms"]: one["digest"] for one in hours if not one["open"]}


def verified(url: str) -> dict[str, Any]:
    said = trilens_here("ledger", "verify", "--from", "-10d", "--json", "--server", url)
    assert said.returncode == 0, said.stdout + said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    assert found["billed"] == found["booked"]
    return found


def booked(store: Store) -> LedgerKeeper:
    """As the next server does it, until there is nothing to do."""
    keeper = LedgerKeeper(
        store.ledger_facts,
        NoSignals(),
        store.ledger,
        price_book(None),
        kept_for=timedelta(days=30),
        booked_for=timedelta(days=400),
        late=store.ledger_facts,
        imports=store.imports,
    )
    while keeper.try_to_work() == 0:
        pass
    assert keeper.state.troubles == {}
    return keeper


def usage_file(folder: Path) -> Path:
    """A point an hour, of which the last ended days before anything else happened."""
    last_s = int(time.time()) // HOUR_S * HOUR_S - 200 * HOUR_S
    rows = [f"{last_s - hour * HOUR_S},{hour % 7},8" for hour in range(IMPORTED_HOURS, 0, -1)]
    file = folder / "usage.csv"
    file.write_text("\n".join(["time,in_use,there", *rows]) + "\n")
    return file


def test_what_was_booked_before_a_kill_is_there_after_it_and_the_rest_follows(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    world = grown(read_scenario(SCENARIO, "x.yaml"), now_ms=now_ms, age_ms=20 * 60_000, seed=1)
    with SimulatedCluster(world) as cluster:
        config = str(settings_file(tmp_path, cluster))
        with server(tmp_path, "--config", config) as (url, process):
            cluster.send_records_to(url)
            until(lambda: held(url) == 8, "the GPUs have no holders")
            until(lambda: buckets(url).keys() >= {"productive", "unallocated"}, "nothing is booked")
            imported = trilens_here("import", "usage", str(usage_file(tmp_path)), *MAPPED, "--server", url)
            assert imported.returncode == 0, imported.stderr
            until(lambda: len(closed_hours(url)) > 0, "no imported hour is booked")
            before = closed_hours(url)
            process.kill()
    store = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    try:
        with running(Api(book=store.ledger, keeper=booked(store)).build()) as url:
            after = closed_hours(url)
            found = verified(url)
    finally:
        store.close()
    assert before.items() <= after.items()
    assert len(after) >= IMPORTED_HOURS
    assert found["hours"] > IMPORTED_HOURS
    assert found["billed"].keys() == {"USD"}
