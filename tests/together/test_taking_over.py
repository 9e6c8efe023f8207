"""Two servers on one ClickHouse: one works, the other passes on, and takes over when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
import yaml

from kubernetes_client import Resource
from receivers_at_work import HttpReceiver
from sample_now import write_now
from servers import free_port, running, until
from trilens_process import TRILENS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes_api import KubernetesServer

FRONT = Path(__file__).parents[1] / "store" / "http_front.py"
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
RULES = """
groups:
  - name: heat
    interval: 1s
    rules:
      - alert: Hot
        expr: heat > 0
        labels: {severity: warning}
"""


class Place(NamedTuple):
    """What the servers have in common."""

    folder: Path
    store: str
    kubernetes: KubernetesServer
    namespace: str
    hook: HttpReceiver

    def settings(self, address: str) -> Path:
        settings: dict[str, Any] = {
            "storage": {"url": f"{self.store}/trilens"},
            "replicas": {
                "lease": f"{self.namespace}/trilens",
                "kubeconfig": str(self.kubernetes.kubeconfig()),
                "address": address,
                # A server that is starting on a busy machine must come to renew it in two thirds of that.
                "lease_duration": "20s",
            },
            "rules": {"files": [str(self.folder / "rules.yaml")]},
            "alerting": {
                "receivers": {"hook": {"webhook": {"url": self.hook.url}}},
                "group_wait": "0s",
            },
        }
        file = self.folder / f"{address.rpartition(':')[2]}.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    def holder(self) -> str:
        lease = self.kubernetes.client().get(LEASES, "trilens", self.namespace)
        return str(lease["metadata"]["annotations"]["trilens.io/address"])


class Server(NamedTuple):
    url: str
    process: subprocess.Popen[bytes]

    def get(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", params=params, timeout=60, trust_env=False)

    def post(self, path: str, **of: Any) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", timeout=60, trust_env=False, **of)

    def works(self) -> bool:
        return "trilens_replica_leads 1" in self.get("/metrics").text

    def write(self, name: str, value: float) -> None:
        assert write_now(self.url, name, value).status_code == 204

    def value(self, name: str) -> float | None:
        found = self.get("/api/v1/query", query=f"last_over_time({name}[1h])").json()["data"]["result"]
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = [sys.executable, str(FRONT), str(tmp_path_factory.mktemp("clickhouse"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        yield f"http://127.0.0.1:{front.stdout.readline().strip()}"
        front.communicate(timeout=30)


@pytest.fixture
def place(tmp_path: Path, clickhouse: str, kubernetes: KubernetesServer, namespace: str) -> Iterator[Place]:
    (tmp_path / "rules.yaml").write_text(RULES)
    with HttpReceiver() as hook:
        yield Place(tmp_path, clickhouse, kubernetes, namespace, hook)


@contextmanager
def server(place: Place) -> Iterator[Server]:
    address = f"127.0.0.1:{free_port()}"
    settings = place.settings(f"http://{address}")
    data = place.folder / f"data-{free_port()}"
    command = [*TRILENS, "up", "--config", str(settings), "--listen", address, "--data", str(data)]
    log = settings.with_suffix(".log")
    with running(command, f"http://{address}/readyz", log=log) as process:
        yield Server(f"http://{address}", process)


def test_a_kill_of_the_one_that_works(place: Place) -> None:
    with server(place) as first, server(place) as second:
        assert first.works()
        assert not second.works()
        assert second.get("/readyz").json() == {"ready": True, "leads": False}
        assert first.url == place.holder()

        second.write("heat", 7)  # which passes it on
        assert first.value("heat") == second.value("heat") == 7
        assert second.get("/").status_code == first.get("/").status_code
        told = place.hook.next().json["trilens"]
        until_ms = (int(time.time()) + 3600) * 1000
        silence = {"matchers": ['alertname="Never"'], "to_ms": until_ms, "author": "a", "comment": "b"}
        assert second.post("/api/silences", json=silence).status_code < 300

        first.process.send_signal(signal.SIGKILL)
        until(second.works, "nobody took over")
        assert place.holder() == second.url
        assert second.value("heat") == 7
        second.write("heat", 8)
        incidents = second.get("/api/incidents").json()["data"]
        assert [one["id"] for one in incidents] == [told["incident"]]
        assert "Never" in second.get("/api/silences").text
        assert place.hook.posted.empty()  # it was told of already


def test_one_that_was_stopped_for_too_long_ends(place: Place) -> None:
    with server(place) as first, server(place) as second:
        first.process.send_signal(signal.SIGSTOP)
        until(second.works, "nobody took over")
        first.process.send_signal(signal.SIGCONT)
        assert first.process.wait(timeout=60) == 3
        assert second.works()


def test_a_stop_hands_over_at_once(place: Place) -> None:
    with server(place) as first, server(place) as second:
        os.kill(first.process.pid, signal.SIGTERM)
        assert first.process.wait(timeout=60) == 0
        until(second.works, "nobody took over")
