"""Fills a store with the Trilens on PYTHONPATH, which is an old one: see tools/kept-stores.

Its own server watches its own simulated cluster, where it has one, and is sent samples over its own API. What
each table then has is noted beside the data, for the test that opens it with today's code.
"""

# ruff: noqa: S310, S603, S608 - it talks to what it started itself, and names tables that it listed
from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

SCENARIO = """
name: kept
pools: [{name: h100, model: H100, nodes: 1}]
jobs:
  - name: train
    kind: JobSet
    namespace: research
    team: vision
    experiment: e1
    pool: h100
    pods: 1
    gpus_per_pod: 2
    arrivals: {at_start: 1}
    duration: 4h
    training: {checkpoint_every: 10}
"""
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = probe.getsockname()[1]
URL = f"http://127.0.0.1:{PORT}"
KEPT_FOR = "20000d"  # nothing is to expire before the test reads it; the engine counts to the year 2106
SERIES, SAMPLES, STEP_S = 4, 30, 60
HOUR_S = 3_600
PATIENCE_S = 150.0
RETENTIONS = ("", "_5m", "_1h", "_records", "_steps", "_ledger")


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def retentions() -> dict[str, str]:
    """Those that this Trilens has."""
    from trilens.settings.storage import StorageSettings

    names = [f"retention{one}" for one in RETENTIONS]
    return {name: KEPT_FOR for name in names if name in StorageSettings.model_fields}


def simulated(stack: ExitStack, folder: Path) -> tuple[dict[str, Any], Any]:
    """A cluster, and the settings that have it watched; nothing of a Trilens from before it had one."""
    if not has("trilens.simulate.over_http"):
        return {}, None
    from trilens.simulate.over_http.pace import grown
    from trilens.simulate.over_http.server import SimulatedCluster
    from trilens.simulate.scenario import read_scenario

    now_ms = time.time_ns() // 1_000_000
    world = grown(read_scenario(SCENARIO, "kept.yaml"), now_ms=now_ms, age_ms=20 * 60_000, seed=1)
    cluster = stack.enter_context(SimulatedCluster(world))
    kubeconfig = folder / "kubeconfig"
    cluster.write_kubeconfig(kubeconfig)
    dcgm = {
        "job_name": "dcgm",
        "scrape_interval": "5s",
        "http_sd_configs": [{"url": cluster.dcgm_targets}],
        "relabel_configs": [{"target_label": "cluster", "replacement": "sim"}],
        # All of it would be many times the rest of the store.
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "regex": "DCGM_FI_DEV_(GPU_UTIL|POWER_USAGE)", "action": "keep"}
        ],
    }
    return {
        "kubernetes": {"clusters": {"sim": {"kubeconfig": str(kubeconfig)}}},
        "scrape": {"scrape_configs": [dcgm]},
    }, cluster


def post(path: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"{URL}{path}", body), timeout=60) as answer:
        assert answer.status < 300, answer.read()


def samples_text() -> bytes:
    """`kept{i=...}` is i + k at the k-th minute."""
    first_s = int(time.time()) - SAMPLES * STEP_S - 2 * HOUR_S
    lines = [f'kept{{i="{i}"}} {i + k} {first_s + k * STEP_S}' for i in range(SERIES) for k in range(SAMPLES)]
    return ("# TYPE kept gauge\n" + "\n".join(lines) + "\n# EOF\n").encode()


def usage_file(folder: Path) -> Path:
    last_s = int(time.time()) // HOUR_S * HOUR_S - 200 * HOUR_S
    rows = [f"{last_s - hour * HOUR_S},{hour % 7},8" for hour in range(5, 0, -1)]
    file = folder / "usage.csv"
    file.write_text("\n".join(["time,in_use,there", *rows]) + "\n")
    return file


def wait_until_ready(server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the old server did not start"
        try:
            with urllib.request.urlopen(f"{URL}/readyz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError("the old server is not ready")


def serve(folder: Path, data: Path) -> None:
    with ExitStack() as stack:
        watched, cluster = simulated(stack, folder)
        config = folder / "trilens.yaml"
        config.write_text(yaml.safe_dump({"storage": retentions(), **watched}))
        command = [sys.executable, "-m", "trilens.cli.main"]
        listen = ["up", "--listen", f"127.0.0.1:{PORT}", "--data", str(data), "--config", str(config)]
        server = subprocess.Popen([*command, *listen])
        try:
            wait_until_ready(server)
            post("/api/v1/import/openmetrics", samples_text())
            if hasattr(cluster, "send_records_to"):
                cluster.send_records_to(URL)
            if has("trilens.cli.import_usage"):
                mapped = ["--map", "time=time,in_use=in_use,there=there", "--source", "old"]
                usage = ["import", "usage", str(usage_file(folder)), *mapped, "--server", URL]
                subprocess.run([*command, *usage], check=True)
            time.sleep(75 if cluster is not None else 2)  # the ledger books every minute
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def note_contents(data: Path, commit: str) -> None:
    """Every row of every table, as a sum that does not depend on the order."""
    from trilens.store.engine import Engine

    tables: dict[str, dict[str, Any]] = {}
    with Engine.open(data) as engine:
        found = engine.query_arrow(
            "SELECT name, engine, sorting_key FROM system.tables WHERE database = currentDatabase()"
        ).to_pylist()
        for table in found:
            engine.command(f"OPTIMIZE TABLE {table['name']} FINAL")
        for table in found:
            name, final = table["name"], "FINAL" if "Replacing" in table["engine"] else ""
            where = f"database = currentDatabase() AND table = '{name}' AND default_kind = ''"
            columns = engine.query_arrow(f"SELECT name FROM system.columns WHERE {where} ORDER BY position")
            told = ", ".join(columns["name"].to_pylist())
            row = f"toString(tuple({told}))"
            (summed,) = engine.query_arrow(
                f"SELECT count() AS all_rows, toString(groupBitXor(cityHash64({row}))) AS all_hashes "
                f"FROM {name} {final}"
            ).to_pylist()
            tables[name] = {
                "rows": summed["all_rows"],
                "hash": summed["all_hashes"],
                "row": row,
                "final": final,
            }
        gone = engine.query_arrow("SELECT path FROM system.parts WHERE NOT active")["path"].to_pylist()
        (version,) = engine.query_arrow("SELECT max(version) AS v FROM schema_version")["v"].to_pylist()
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    noted = {"version": version, "commit": commit, "tables": tables}
    (data.parent / "contents.json").write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")


def main() -> None:
    target, commit = Path(sys.argv[1]).resolve(), sys.argv[2]
    target.mkdir()
    beside = target.with_name("beside")
    beside.mkdir()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    serve(beside, target / "data")
    note_contents(target / "data", commit)


if __name__ == "__main__":
    main()
