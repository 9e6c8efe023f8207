"""Targets that a cluster's objects ask for: from a real API server to `trilens up` and a real Prometheus."""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from http_target import HttpTarget
from kubernetes_client import NAMESPACES, PODS, Resource
from metric_sources import prometheus
from servers import until
from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.rbac import Document, SecretName, manifests
from trilens_process import server, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient

SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
POD_MONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor")
SERVICES = Resource("", "v1", "services", "Service")
SECRETS = Resource("", "v1", "secrets", "Secret")
SLICES = Resource("discovery.k8s.io", "v1beta1", "endpointslices", "EndpointSlice")
_RBAC = "rbac.authorization.k8s.io"
ROLES = {
    kind: Resource(_RBAC, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}


@dataclass
class Lab:
    """A cluster with programs in it, all of which are one on loopback, and a Trilens that watches it."""

    admin: KubernetesClient
    namespace: str
    account: str
    target: HttpTarget
    url: str = ""

    @property
    def port(self) -> int:
        return int(self.target.address.rpartition(":")[2])

    def targets(self, job: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self.url}/api/v1/targets", params={"scrapePool": job, "state": "active"})
        return list(answer.json()["data"]["activeTargets"])

    def until_up(self, job: str) -> dict[str, str]:
        """The labels of its only target."""
        until(lambda: [t["health"] for t in self.targets(job)] == ["up"], f"{job}: {self.targets(job)}")
        return dict(self.targets(job)[0]["labels"])

    def complaints(self) -> list[str]:
        return list(httpx.get(f"{self.url}/readyz").json()["kubernetes"]["complaints"])

    def series(self, query: str) -> list[dict[str, str]]:
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query})
        return [one["metric"] for one in answer.json()["data"]["result"]]

    def pod(self, name: str, port_name: str, labels: dict[str, str], **annotations: str) -> None:
        container = {
            "name": "main",
            "image": "i",
            "ports": [{"containerPort": self.port, "name": port_name}],
        }
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        self.admin.create(
            PODS, {"metadata": metadata, "spec": {"containers": [container], "nodeName": "n"}}, self.namespace
        )
        self.admin.patch_status(PODS, name, {"phase": "Running", "podIP": "127.0.0.1"}, self.namespace)

    def service(self, name: str) -> None:
        """With an endpoint that cannot be reached: an API server takes no loopback address for one."""
        spec = {"ports": [{"name": "http", "port": 80}]}
        self.admin.create(
            SERVICES, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, self.namespace
        )
        metadata = {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}}
        piece = {
            "metadata": metadata,
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.1.1"]}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        }
        self.admin.create(SLICES, piece, self.namespace)

    def service_monitor(self, name: str, **endpoint: Any) -> None:
        """Of a service of this name; its own relabelling leads to the program."""
        here = {"targetLabel": "__address__", "replacement": self.target.address}
        spec = {
            "selector": {"matchLabels": {"app": name}},
            "endpoints": [{"port": "http", "relabelings": [here], **endpoint}],
        }
        self.admin.create(SERVICE_MONITORS, {"metadata": {"name": name}, "spec": spec}, self.namespace)


def apply(admin: KubernetesClient, documents: list[Document]) -> None:
    for document in documents:
        admin.create(ROLES[document["kind"]], document, document["metadata"].get("namespace", ""))


def make_pods(lab: Lab) -> None:
    """Before Trilens runs: targets that come later are taken over some seconds later."""
    asked = {"prometheus.io/scrape": "true", "prometheus.io/path": "/other", "prometheus.io/param_x": "1"}
    lab.pod("asks", "any", {}, **asked, **{"prometheus.io/port": str(lab.port)})
    lab.pod("asks-not", "any", {}, **{**asked, "prometheus.io/scrape": "false"})
    lab.pod("dcgm-x", "metrics", {"app": "nvidia-dcgm-exporter"})
    lab.pod("node-x", "http-metrics", {"app.kubernetes.io/name": "prometheus-node-exporter"})
    lab.pod("proxied", "https", {"app.kubernetes.io/name": "kube-state-metrics"})
    lab.pod("run-0", "trilens", {"team": "vision"})


@pytest.fixture(scope="module")
def lab(kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """With exactly the permissions that are generated for it."""
    folder = tmp_path_factory.mktemp("lab")
    admin, namespace = kubernetes.client(), f"lab-{uuid.uuid4().hex[:8]}"
    admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    for resource in (SERVICE_MONITORS, POD_MONITORS):
        admin.define(resource)
    account = kubernetes.service_account(namespace, namespace)
    kinds = choose(add=["Service", "EndpointSlice.discovery.k8s.io"])
    apply(admin, manifests(kinds, [namespace], name=namespace, home=namespace))
    cluster = {
        "kubeconfig": str(kubernetes.kubeconfig(account)),
        "namespaces": [namespace],
        "monitors": "all",
        "annotations": True,
        "exporters": True,
    }
    settings = {
        "kubernetes": {"clusters": {"lab": cluster}},
        "scrape": {"global": {"scrape_interval": "1s"}},
    }
    file = folder / "trilens.yaml"
    file.write_text(yaml.safe_dump(settings))
    with HttpTarget('a 1\nDCGM_FI_DEV_GPU_UTIL{gpu="0",pod="train-0"} 5\n') as target:
        target.say("b 2\n", "/other")
        lab = Lab(admin, namespace, namespace, target)
        make_pods(lab)
        with server(folder, "--config", str(file)) as (lab.url, _):
            yield lab


def test_monitors_are_scraped_as_they_come_change_and_go(lab: Lab) -> None:
    ns = lab.namespace
    lab.service("web")
    lab.service_monitor("web")
    labels = lab.until_up(f"serviceMonitor/{ns}/web/0")
    assert labels == {
        "cluster": "lab",
        "namespace": ns,
        "service": "web",
        "endpoint": "http",
        "job": "web",
        "instance": lab.target.address,
    }
    lab.pod("trainer-0", "shown", {"app": "trainer"})
    lab.admin.create(
        POD_MONITORS,
        {
            "metadata": {"name": "trainer"},
            "spec": {
                "selector": {"matchLabels": {"app": "trainer"}},
                "podMetricsEndpoints": [{"port": "shown"}],
            },
        },
        ns,
    )
    labels = lab.until_up(f"podMonitor/{ns}/trainer/0")
    assert labels == {
        "cluster": "lab",
        "namespace": ns,
        "pod": "trainer-0",
        "container": "main",
        "endpoint": "shown",
        "job": f"{ns}/trainer",
        "instance": lab.target.address,
    }
    assert "/other" not in {path for path, _ in lab.target.requests}
    endpoint = lab.admin.get(SERVICE_MONITORS, "web", ns)["spec"]["endpoints"][0]
    changed = {"spec": {"endpoints": [{**endpoint, "path": "/other"}]}}
    lab.admin.patch(SERVICE_MONITORS, "web", changed, ns)
    until(lambda: bool(lab.series('b{service="web"}')), "the new path is not scraped")

    lab.admin.delete(POD_MONITORS, "trainer", ns)
    until(lambda: not lab.targets(f"podMonitor/{ns}/trainer/0"), "a deleted monitor is still scraped")
    assert lab.targets(f"serviceMonitor/{ns}/web/0")


def test_a_secret_that_may_not_be_read_is_said_and_the_target_is_left_alone(lab: Lab) -> None:
    ns = lab.namespace
    lab.admin.create(SECRETS, {"metadata": {"name": "token"}, "stringData": {"t": "t0k3n"}}, ns)
    lab.service("closed")
    lab.service_monitor("closed", bearerTokenSecret={"name": "token", "key": "t"})
    expected = (
        f"lab: ServiceMonitor {ns}/closed is not scraped: the Secret {ns}/token may not be read; "
        f'allow "get" on the secrets named token of API group "" in namespace {ns}'
    )
    until(lambda: expected in lab.complaints(), "nothing is said of the secret")
    assert lab.targets(f"serviceMonitor/{ns}/closed/0") == []
    found = json.loads(trilens("doctor", "--json", "--server", lab.url).stdout)
    (finding,) = [one["what"] for one in found if one["check"] == "monitors"]
    assert finding.startswith(f"lab: ServiceMonitor {ns}/closed: the Secret {ns}/token may not be read")

    roles = manifests((), secrets=[SecretName(ns, "token")], name=lab.account, home=ns)
    apply(lab.admin, [role for role in roles if not role["kind"].startswith("Cluster")])

    def granted() -> bool:  # roles count a little later; a change of the monitor makes it be looked at again
        note = {"metadata": {"annotations": {"tried": uuid.uuid4().hex}}}
        lab.admin.patch(SERVICE_MONITORS, "closed", note, ns)
        return expected not in lab.complaints()

    until(granted, "the grant is not seen")
    lab.until_up(f"serviceMonitor/{ns}/closed/0")
    assert "Bearer t0k3n" in {headers.get("Authorization") for _, headers in lab.target.requests}


def test_annotated_pods_are_scraped(lab: Lab) -> None:
    labels = lab.until_up("kubernetes-pods")
    assert labels == {
        "cluster": "lab",
        "namespace": lab.namespace,
        "pod": "asks",
        "node": "n",
        "job": "kubernetes-pods",
        "instance": lab.target.address,
    }
    assert "/other?x=1" in {path for path, _ in lab.target.requests}


def test_exporters_are_found_by_their_labels(lab: Lab) -> None:
    labels = lab.until_up("dcgm-exporter")
    common = {"cluster": "lab", "node": "n", "instance": lab.target.address}
    assert labels == {**common, "job": "dcgm-exporter"}, "a GPU without a pod must not get the exporter's"
    (read,) = lab.series('DCGM_FI_DEV_GPU_UTIL{job="dcgm-exporter"}')
    assert read["pod"] == "train-0"
    assert lab.until_up("node-exporter") == {
        **common, "job": "node-exporter", "namespace": lab.namespace, "pod": "node-x",
    }  # fmt: skip
    assert lab.targets("kube-state-metrics") == []


@contextmanager
def a_prometheus_that_asks(lab: Lab, folder: Path) -> Iterator[str]:
    relabel = [
        {"action": "labelmap", "regex": "__meta_trilens_(.+)"},
        {"source_labels": ["__meta_trilens_workload"], "target_label": "job"},
    ]
    jobs = [
        {
            "job_name": "programs",
            "http_sd_configs": [{"url": f"{lab.url}/api/v1/sd/programs", "refresh_interval": "1s"}],
            "relabel_configs": relabel,
        }
    ]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    with prometheus(folder, yaml.safe_dump(config)) as url:
        yield url


def test_a_prometheus_scrapes_programs_through_service_discovery(lab: Lab, tmp_path: Path) -> None:
    def listed() -> list[dict[str, Any]]:
        answer = httpx.get(f"{lab.url}/api/v1/sd/programs", params={"namespace": lab.namespace}).json()
        return [group for group in answer if group["labels"]["__meta_trilens_pod"] == "run-0"]

    until(lambda: bool(listed()), "the program is not listed")
    assert listed() == [
        {
            "targets": [lab.target.address],
            "labels": {
                "__scheme__": "http",
                "__metrics_path__": "/metrics",
                "__meta_trilens_cluster": "lab",
                "__meta_trilens_namespace": lab.namespace,
                "__meta_trilens_pod": "run-0",
                "__meta_trilens_container": "main",
                "__meta_trilens_node": "n",
                "__meta_trilens_workload": "run-0",
                "__meta_trilens_kind": "Pod",
                "__meta_trilens_attempt": "0",
                "__meta_trilens_team": "vision",
            },
        }
    ]
    nowhere = httpx.get(f"{lab.url}/api/v1/sd/programs", params={"namespace": "nowhere"})
    assert (nowhere.json(), nowhere.headers["content-type"]) == ([], "application/json")
    with a_prometheus_that_asks(lab, tmp_path) as url:

        def scraped() -> bool:
            query = {"query": 'up{workload="run-0",team="vision",job="run-0"} == 1'}
            return bool(httpx.get(f"{url}/api/v1/query", params=query).json()["data"]["result"])

        until(scraped, "Prometheus does not scrape it")
