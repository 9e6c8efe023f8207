"""Containers of the chart run as it asks: as whom, with which rights and files, until probes are well."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from chart import ALONE, BESIDE, LARGE
from chart_release import DAEMON_SETS, SECRETS, Release, new_release, pod_address, running_server
from local_container import Container, running_container

from certificates import make_authority, make_certificates, sign
from kubernetes_client import NODES, PODS, Resource
from metric_sources import prometheus
from servers import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes_api import KubernetesServer

pytestmark = pytest.mark.whole

FRONT = Path(__file__).parents[1] / "store" / "http_front.py"  # ClickHouse's, over the engine
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
KERNEL_LOG = "/var/log/kern.log"
FAULT = (
    f"{datetime.now(UTC).isoformat(timespec='microseconds')} gpu-1 kernel: "  # the API tells of the last day
    "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
)
SYSLOG = 104  # the user whom Debian's kern.log belongs to: root without capabilities may not read it
NODE = "gpu-1"
NONE_OF_THEM = [
    f"agent.needs.{need}.enabled=false"
    for need in (
        "kernelLog",
        "processes",
        "gpuDevices",
        "podResources",
        "podLogs",
        "terminationMessages",
        "state",
    )
]


@pytest.fixture(scope="module")
def release(kubernetes: KubernetesServer) -> Release:
    made = new_release(kubernetes)
    made.install(f"agent.needs.kernelLog.from={KERNEL_LOG}", values=ALONE)
    return made


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the agent's volumes stand for on a node."""
    folder = tmp_path_factory.mktemp("node")
    logs = folder / "log"
    logs.mkdir()
    log = logs / "kern.log"
    log.write_text(f"{FAULT}\n")
    os.chown(log, SYSLOG, SYSLOG)
    log.chmod(0o640)
    paths = {"/var/log": logs}
    for path in (
        "/var/lib/kubelet/pod-resources",
        "/var/log/pods",
        "/var/lib/kubelet/pods",
        "/var/lib/trilens-agent",
    ):
        paths[path] = folder / path.strip("/").replace("/", "-")
        paths[path].mkdir(mode=0o700)
    (logs / "pods").mkdir()
    return paths


@pytest.fixture(scope="module")
def agent(
    release: Release, node: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Container, str]]:
    """With all needs but a privileged container, and a pod of the cluster that says where it is."""
    folder, address = tmp_path_factory.mktemp("agent"), pod_address()
    pod = release.pod(DAEMON_SETS, "trilens-agent")
    environ = {"spec.nodeName": NODE, "TRILENS_AGENT_LISTEN": f"{address}:9334"}
    volumes = release.volumes(pod, folder, node)
    with running_container(
        "agent", pod, address=address, volumes=volumes, environ=environ, folder=folder
    ) as running:
        running.until_well()
        _announce(release, pod, address)
        yield running, address


@pytest.fixture(scope="module")
def server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Container, str]]:
    with running_server(release, tmp_path_factory.mktemp("server")) as running:
        yield running


def test_the_server_runs_as_nobody_with_nothing(server: tuple[Container, str]) -> None:
    container, _ = server
    assert container.status["Uid"].split() == ["65532"] * 4
    assert int(container.status["CapBnd"], 16) == 0
    assert container.status["NoNewPrivs"] == "1"
    assert "Read-only file system" not in container.log
    assert "Permission denied" not in container.log


def test_the_server_asks_for_the_token_of_the_secret(server: tuple[Container, str], release: Release) -> None:
    url = f"{server[1]}/api/workloads"
    assert httpx.get(url, trust_env=False).status_code == 401
    assert release.ask(url)["status"] == "success"


def test_a_prometheus_is_given_a_token_that_may_only_read(
    server: tuple[Container, str], release: Release
) -> None:
    asks = {"Authorization": f"Bearer {release.token('reader-token')}"}
    with httpx.Client(base_url=server[1], headers=asks, trust_env=False) as client:
        assert "trilens_build_info" in client.get("/metrics").text
        assert client.get("/metrics/workloads", params={"own": "true"}).status_code == 200
        assert client.post("/-/reload").status_code == 403
        assert client.get("/api/tokens").status_code == 403


def test_the_server_watches_its_cluster_with_what_it_was_granted(
    server: tuple[Container, str], release: Release
) -> None:
    def state() -> dict[str, Any]:
        told = release.ask(f"{server[1]}/readyz")
        found: dict[str, Any] = told["kubernetes"]["clusters"]["main"]
        return found

    until(lambda: bool(state()["synced"]), f"the cluster is not read through: {state()}")
    assert state()["to_grant"] == []


def test_the_agent_has_the_capabilities_of_its_needs_alone(agent: tuple[Container, str]) -> None:
    container, _ = agent
    assert container.status["Uid"].split() == ["0"] * 4
    read_search, ptrace = 1 << 2, 1 << 19
    assert int(container.status["CapEff"], 16) == read_search | ptrace


def test_a_fault_of_a_node_comes_to_the_server(
    server: tuple[Container, str], agent: tuple[Container, str], release: Release
) -> None:
    """By the pod's labels, its port, the token of the Secret, and the log that root alone could not read."""

    def events() -> list[Any]:
        found: list[Any] = release.ask(f"{server[1]}/api/events?node={NODE}")["data"]
        return found

    until(lambda: bool(events()), f"no fault is told:\n{agent[0].log[-2000:]}\n{server[0].log[-3000:]}")
    assert events()[0]["code"] == 79


def test_an_agent_without_needs_is_nobody(release: Release, tmp_path: Path) -> None:
    address = pod_address()
    own = new_release(release.server)
    own.install(*NONE_OF_THEM)
    pod = own.pod(DAEMON_SETS, "trilens-agent")
    assert not pod.get("hostPID")
    environ = {"spec.nodeName": NODE, "TRILENS_AGENT_LISTEN": f"{address}:9334"}
    volumes = own.volumes(pod, tmp_path, {})
    with running_container(
        "agent", pod, address=address, volumes=volumes, environ=environ, folder=tmp_path
    ) as container:
        container.until_well()
        assert container.status["Uid"].split() == ["65532"] * 4
        assert int(container.status["CapBnd"], 16) == 0
        health = httpx.get(f"http://{address}:9334/healthz", trust_env=False).json()
        assert health == {"healthy": True, "problems": {}}, "what is turned off is no problem"


def test_beside_a_prometheus_the_server_asks_that_one(kubernetes: KubernetesServer, tmp_path: Path) -> None:
    own = new_release(kubernetes)
    (tmp_path / "prometheus").mkdir()
    with ExitStack() as beside:
        url = beside.enter_context(prometheus(tmp_path / "prometheus"))
        # The kinds of the operator are not there; the monitors have tests of their own.
        without = "serviceMonitor.enabled=false,prometheusRule.enabled=false"
        own.install(without, f"config.source.url={url}", values=BESIDE)
        with running_server(own, tmp_path) as (container, server_url):
            answer = own.ask(f"{server_url}/api/v1/query?query=prometheus_ready%20or%20vector(7)")
            assert answer["data"]["result"][0]["value"][1] == "7"
            beside.close()

            def ready() -> int:
                return httpx.get(f"{server_url}/readyz", trust_env=False, timeout=30).status_code

            until(lambda: ready() == 503, "it is ready without its source")
            assert container.probe("readinessProbe"), "the Service has what goes on without it"


def test_with_a_certificate_the_server_speaks_https(kubernetes: KubernetesServer, tmp_path: Path) -> None:
    own = new_release(kubernetes)
    files = tmp_path / "certificates"
    files.mkdir()
    make_certificates(files)
    pair = {"tls.crt": (files / "server.pem").read_text(), "tls.key": (files / "server.key").read_text()}
    secret = {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "stringData": pair}
    kubernetes.client().create(SECRETS, secret, own.namespace)
    own.install("server.tls.secretName=cert,agent.enabled=false")
    authority = ssl.create_default_context(cafile=files / "ca.pem")
    authority.check_hostname = False  # it is asked by a pod's address, as probes are
    with running_server(own, tmp_path) as (_, url):
        assert url.startswith("https://")
        assert httpx.get(f"{url}/healthz", verify=authority, trust_env=False).status_code == 200


def test_with_a_certificate_agents_are_asked_by_https(kubernetes: KubernetesServer, tmp_path: Path) -> None:
    """By the name in it, though a pod has an address of its own, and by its authority alone."""
    own = new_release(kubernetes)
    folder, address = tmp_path / "agent", pod_address()
    folder.mkdir()
    make_authority(folder)
    sign(folder, "agent", hosts=f"DNS:trilens-agent.{own.namespace}.svc")
    keys = {"ca.crt": "ca.pem", "tls.crt": "agent.pem", "tls.key": "agent.key"}
    texts = {key: (folder / file).read_text() for key, file in keys.items()}
    secret = {"metadata": {"name": "agents"}, "type": "kubernetes.io/tls", "stringData": texts}
    kubernetes.client().create(SECRETS, secret, own.namespace)
    own.install(*NONE_OF_THEM, "agent.tls.secretName=agents", values=ALONE)
    pod = own.pod(DAEMON_SETS, "trilens-agent")
    environ = {"spec.nodeName": NODE, "TRILENS_AGENT_LISTEN": f"{address}:9334"}
    volumes = own.volumes(pod, folder, {})
    with running_container(
        "agent", pod, address=address, volumes=volumes, environ=environ, folder=folder
    ) as agent:
        agent.until_well()
        _announce(own, pod, address)
        with running_server(own, tmp_path) as (server, url):

            def agents() -> list[Any]:
                targets = own.ask(f"{url}/api/v1/targets")["data"]["activeTargets"]
                return [one for one in targets if one["labels"]["job"] == "trilens-agent"]

            until(lambda: any(one["health"] == "up" for one in agents()), f"{agents()}\n{server.log[-2000:]}")
            assert agents()[0]["scrapeUrl"] == f"https://{address}:9334/metrics"


def test_on_a_clickhouse_the_server_has_the_lease(kubernetes: KubernetesServer, tmp_path: Path) -> None:
    own = new_release(kubernetes)
    key = base64.urlsafe_b64encode(bytes(32)).decode()
    shared = {"clickhouse-password": "x", "session-key": key}
    secret = {"metadata": {"name": "trilens-shared"}, "stringData": shared}
    kubernetes.client().create(SECRETS, secret, own.namespace)
    (tmp_path / "clickhouse").mkdir()
    command = [sys.executable, str(FRONT), str(tmp_path / "clickhouse")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        store = f"http://127.0.0.1:{front.stdout.readline().strip()}/trilens"
        # 1.20 has no policy/v1.
        own.install("server.podDisruptionBudget.enabled=false", f"config.storage.url={store}", values=LARGE)
        with running_server(own, tmp_path) as (_, server_url):
            assert own.ask(f"{server_url}/api/workloads")["status"] == "success"
            lease = kubernetes.client().get(LEASES, "trilens", own.namespace)
            address = f"http://trilens-0.trilens-pods.{own.namespace}:9333"
            assert lease["metadata"]["annotations"]["trilens.io/address"] == address
        front.communicate(timeout=30)


def _announce(release: Release, pod: dict[str, Any], address: str) -> None:
    """The pod of the DaemonSet, as its controller and a kubelet would have it."""
    admin = release.server.client()
    admin.create(NODES, {"metadata": {"name": f"{NODE}-{release.namespace}"}})
    template = admin.get(DAEMON_SETS, "trilens-agent", release.namespace)["spec"]["template"]
    spec = {**pod, "nodeName": f"{NODE}-{release.namespace}"}
    metadata = {"name": "trilens-agent-x", "labels": template["metadata"]["labels"]}
    admin.create(PODS, {"metadata": metadata, "spec": spec}, release.namespace)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    admin.patch_status(PODS, "trilens-agent-x", {**status, **ready}, release.namespace)
