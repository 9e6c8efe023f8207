"""From an Xid to a closed node, with all parts real.

A kernel's log of a node, the agent that reads it, a server whose policy approves Xid 79, and a real API
server; nothing is set but the policy, so the agent is asked every 15 s as it is by default. The node's object
is watched, and the time is taken until it says `unschedulable`. Then the cordon is taken back, and after a
pause the next Xid comes, wherever the 15 s are by then.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import httpx
import yaml

from kubernetes_api import kubernetes_server
from kubernetes_client import NODES, KubernetesClient
from live_cluster import make_node
from servers import free_port, running, until
from trilens_process import TRILENS, server

if TYPE_CHECKING:
    from kubernetes_api import KubernetesServer

_NODE = "gpu-7"
_POLICY = {"allow": [{"do": ["cordon", "uncordon"]}], "approved": ["xid-79"]}
_FAULT = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python, GPU has fallen off the bus."
_SEED = 7
_INTERVAL_S = 15.0  # of the server's asking


def run(out: Path, *, faults: int) -> list[float]:
    """How many seconds each took."""
    folder = out / "cordon"
    folder.mkdir(parents=True)
    with kubernetes_server(folder) as kubernetes:
        return _measure(kubernetes, folder, faults, random.Random(_SEED))


def _measure(kubernetes: KubernetesServer, folder: Path, faults: int, chance: random.Random) -> list[float]:
    kernel_log, address = folder / "kern.log", f"127.0.0.1:{free_port()}"
    kernel_log.touch()
    agent = {"listen": address, "node_name": _NODE, "kernel_log": str(kernel_log), "gpu_metrics": "off"}
    of_agent = _settings(folder / "agent.yaml", {"agent": {**agent, "state_file": str(folder / "state")}})
    (folder / "policy.yaml").write_text(yaml.safe_dump(_POLICY))
    cluster = {"lab": {"kubeconfig": str(kubernetes.kubeconfig())}}
    of_server = _settings(
        folder / "trilens.yaml",
        {
            "kubernetes": {"clusters": cluster},
            "agents": {"scrape_config": {"static_configs": [{"targets": [address]}]}},
            "cure": {"policy": "policy.yaml"},
        },
    )
    admin = kubernetes.client()
    make_node(admin, _NODE)
    with ExitStack() as parts:
        command = [*TRILENS, "agent", "--config", of_agent]
        parts.enter_context(running(command, f"http://{address}/healthz", log=folder / "agent.log"))
        url, _process = parts.enter_context(server(folder, "--config", of_server))
        until(lambda: _is_seen(url), "the node is not seen")
        return [_one(admin, url, kernel_log, chance) for _ in range(faults)]


def _one(admin: KubernetesClient, url: str, kernel_log: Path, chance: random.Random) -> float:
    time.sleep(chance.uniform(0, _INTERVAL_S))
    version = admin.list(NODES)["metadata"]["resourceVersion"]
    with admin.watch(NODES, query={"resourceVersion": version}) as changes:
        begun = time.time()
        with kernel_log.open("a") as log:
            log.write(f"{datetime.now(UTC).isoformat()} {_NODE} kernel: {_FAULT}\n")
        next(one for one in changes if one["object"]["spec"].get("unschedulable"))
        took_s = time.time() - begun
    until(lambda: bool(_done(url)), "it is not in the record")
    undone = subprocess.run(
        [*TRILENS, "fix", "undo", _done(url)[0], "--server", url], capture_output=True, text=True, check=False
    )
    assert undone.returncode == 0, undone.stderr
    return took_s


def _done(url: str) -> list[str]:
    fixes = httpx.get(f"{url}/api/fixes", params={"state": "done"}).json()["data"]
    return [one["id"] for one in fixes if one["deed"] == "cordon" and not one["undone_by"]]


def _is_seen(url: str) -> bool:
    return httpx.get(f"{url}/api/why", params={"subject": f"node/{_NODE}"}).status_code == 200


def _settings(file: Path, tree: object) -> str:
    file.write_text(yaml.safe_dump(tree))
    return str(file)
