"""`kubernetes_sd_configs`, beside VictoriaMetrics on the same API server.

It has the same targets and labels as Prometheus, whose package in Debian is built without Kubernetes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from scripted_api import ScriptedApi, scripted_api
from watching import IMPATIENT, PATIENCE_S

from kubernetes_api import KubernetesServer, Rule, kubernetes_server
from kubernetes_client import NAMESPACES, NODES, PODS, KubernetesClient, Resource
from servers import free_port, require_server, running, until
from trilens.collect.config import ScrapeConfig, load_scrape_configs
from trilens.collect.discovery.kubernetes.access import access_of, namespaces_of
from trilens.collect.discovery.kubernetes.discovery import KubernetesDiscovery
from trilens.collect.discovery.kubernetes.endpoints import endpoint_slice_targets
from trilens.collect.discovery.kubernetes.kinds import ENDPOINT_SLICE, NODE
from trilens.collect.discovery.kubernetes.known import Known
from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.target import DroppedTarget, build_target
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from trilens.collect.discovery import TargetLabels

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SLICES = Resource("discovery.k8s.io", "v1beta1", "endpointslices", "EndpointSlice")

# What Prometheus documents and VictoriaMetrics 1.79 has not, or not on every target; and how it says 1m.
NOT_COMPARED = re.compile(
    "__meta_kubernetes_(pod_container_(id|image)|service_(port_number|loadbalancer_ip)|endpoints_.*"
    "|endpointslice_(name|address_type|(label|annotation).*))|__scrape_interval__"
)
OF_SERVICES = re.compile("__meta_kubernetes_service_(type|cluster_ip)")  # it has them on endpoints, too
SOME: Any = {"names": ["serve", "train", "empty"]}
JOBS: dict[str, Any] = {
    "nodes": {"role": "node"},
    "pods": {"role": "pod"},
    "pods-on-nodes": {"role": "pod", "attach_metadata": {"node": True}},
    "services": {"role": "service"},
    "endpoints": {"role": "endpoints", "namespaces": SOME},
    "slices": {"role": "endpointslice", "namespaces": SOME},
    "two-namespaces": {"role": "pod", "namespaces": {"names": ["train", "empty"]}},
    "chosen-by-label": {"role": "pod", "selectors": [{"role": "pod", "label": "app in (web)"}]},
    "chosen-by-field": {"role": "pod", "selectors": [{"role": "pod", "field": "status.phase=Running"}]},
    "chosen-endpoints": {
        "role": "endpoints",
        "namespaces": SOME,
        "selectors": [{"role": "endpoints", "label": "app=web"}, {"role": "pod", "label": "app=none"}],
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """One with a bit of everything that targets are made of."""
    with kubernetes_server(tmp_path_factory.mktemp("cluster")) as server:
        fill(server.client())
        yield server


def fill(admin: KubernetesClient) -> None:
    for name in ("train", "serve", "empty", "odd"):
        admin.create(NAMESPACES, {"metadata": {"name": name}})
    labels = {"kubernetes.io/hostname": "node-1", "gpu": ""}
    admin.create(
        NODES,
        {
            "metadata": {"name": "node-1", "labels": labels, "annotations": {"csi/x": "1"}},
            "spec": {"providerID": "aws:///a/i-1"},
        },
    )
    addresses = [("Hostname", "node-1"), ("ExternalIP", "203.0.113.1"), ("InternalIP", "10.9.0.1"),
                 ("InternalIP", "fd00::1")]  # fmt: skip
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
    admin.patch_status(NODES, "node-1", status)
    admin.create(NODES, {"metadata": {"name": "node-2"}})
    admin.patch_status(NODES, "node-2", {"addresses": [{"type": "Hostname", "address": "n2"}]})
    admin.create(NODES, {"metadata": {"name": "without-address"}})

    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "v"}
    web = {
        "metadata": {
            "name": "web",
            "labels": {"app": "web", "app.kubernetes.io/name": "web", "empty": ""},
            "annotations": {
                "prometheus.io/scrape": "true",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "long": "x" * 5000,
            },
            "ownerReferences": [other, owner],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [
                container("a", ("http", 8080, "TCP"), ("dns", 53, "UDP")),
                container("b", ("metrics", 9400, "TCP")),
                container("bare"),
            ],
            "initContainers": [container("setup", ("early", 7000, "TCP")), container("init-bare")],
        },
    }
    begun = {
        "containerStatuses": [container_status("a")],
        "initContainerStatuses": [container_status("setup")],
        "conditions": [ready("True")],
    }
    pod(admin, web, phase="Running", podIP="10.1.0.1", hostIP="10.9.0.1", **begun)
    pod(admin, simple("starting", "web"), phase="Pending")
    pod(admin, simple("unready"), phase="Running", podIP="fd00::7", conditions=[ready("False")])
    pod(admin, simple("done"), phase="Succeeded", podIP="10.1.0.3", conditions=[ready("False")])
    pod(admin, simple("elsewhere"), "train", phase="Running", podIP="10.1.0.4")

    meta = {"name": "web", "labels": {"app": "web", "a/b": "c"}, "annotations": {"note": "x"}}
    ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    admin.create(SERVICES, {"metadata": meta, "spec": {"ports": ports}}, "serve")
    balanced = {"type": "LoadBalancer", "loadBalancerIP": "198.51.100.1", "ports": ports[:1]}
    admin.create(SERVICES, {"metadata": {"name": "balanced"}, "spec": balanced}, "serve")
    outside = {"type": "ExternalName", "externalName": "db.example", "ports": ports[:1]}
    admin.create(SERVICES, {"metadata": {"name": "outside"}, "spec": outside}, "serve")
    headless = {"clusterIP": "None", "ports": [{"port": 9}]}
    admin.create(SERVICES, {"metadata": {"name": "headless"}, "spec": headless}, "train")

    subsets = [
        {
            "addresses": [
                {"ip": "10.1.0.1", "nodeName": "node-1", "targetRef": refer("Pod", "web"), "hostname": "h"},
                {"ip": "10.2.0.9"},
            ],
            "notReadyAddresses": [{"ip": "10.1.0.9", "targetRef": refer("Pod", "gone")}],
            "ports": [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        },
        {"addresses": [{"ip": "10.1.0.5", "targetRef": refer("Pod", "starting")}], "ports": [{"port": 1}]},
    ]
    admin.create(ENDPOINTS, {"metadata": meta, "subsets": subsets}, "serve")
    admin.create(ENDPOINTS, {"metadata": {"name": "no-service"}, "subsets": subsets[1:]}, "serve")

    strangers = {"addresses": ["10.2.0.9", "10.2.0.10"], "conditions": {"ready": False}}
    piece = {
        "metadata": {"name": "web-x", "labels": {"kubernetes.io/service-name": "web", "own": "1"}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": True},
                "hostname": "h",
                "topology": {"kubernetes.io/hostname": "node-1", "topology.kubernetes.io/zone": "z"},
                "targetRef": refer("Pod", "web"),
            },
            strangers,
        ],
        "ports": [{"name": "http", "port": 8080, "appProtocol": "h2c"}, {"name": "dns", "port": 53}],
    }
    admin.create(SLICES, piece, "serve")
    admin.create(SLICES, {**piece, "metadata": {"name": "alone"}, "endpoints": [strangers]}, "train")


def container(name: str, *ports: tuple[str, int, str]) -> dict[str, Any]:
    spelled = [{"name": port, "containerPort": number, "protocol": kind} for port, number, kind in ports]
    return {"name": name, "image": f"{name}:1", "ports": spelled}


def container_status(name: str) -> dict[str, Any]:
    ids = {"containerID": f"containerd://{name}", "image": "i", "imageID": "i"}
    return {"name": name, "ready": True, "restartCount": 0, **ids}


def simple(name: str, app: str = "other") -> dict[str, Any]:
    spec = {"nodeName": "node-2", "containers": [container("only", ("m", 9090, "TCP"))]}
    return {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}


def pod(admin: KubernetesClient, manifest: dict[str, Any], where: str = "serve", **status: Any) -> None:
    admin.create(PODS, manifest, where)
    admin.patch_status(PODS, manifest["metadata"]["name"], status, where)


def ready(status: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status}


def refer(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "namespace": "serve", "name": name}


def config_of(server: KubernetesServer, jobs: dict[str, Any]) -> dict[str, Any]:
    """Nothing is scraped: the addresses are made up, and dropped targets show what was discovered."""
    drop = [{"action": "drop", "source_labels": ["job"]}]
    key = server.admin.certificate
    tls = {"ca_file": str(server.authority), "cert_file": f"{key}.pem", "key_file": f"{key}.key"}
    access = {"api_server": server.url, "tls_config": tls}
    sections = [
        {
            "job_name": name,
            "relabel_configs": drop,
            "kubernetes_sd_configs": [job if "kubeconfig_file" in job else {**access, **job}],
        }
        for name, job in jobs.items()
    ]
    return {"global": {"scrape_interval": "1m", "scrape_timeout": "10s"}, "scrape_configs": sections}


@pytest.fixture(scope="module")
def others_say(
    cluster: KubernetesServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], dict[str, set[str]]]]:
    """What VictoriaMetrics discovered, by job."""
    folder, address = tmp_path_factory.mktemp("victoria"), f"127.0.0.1:{free_port()}"
    file = folder / "scrape.yml"
    file.write_text(yaml.safe_dump(config_of(cluster, JOBS)), encoding="utf-8")
    command = [
        require_server("victoria-metrics"),
        f"-promscrape.config={file}",
        "-promscrape.maxDroppedTargets=10000",
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={address}",
    ]
    with running(command, f"http://{address}/health", log=folder / "log"):

        def ask() -> dict[str, set[str]]:
            data = httpx.get(f"http://{address}/api/v1/targets", trust_env=False).json()["data"]
            found: dict[str, set[str]] = {}
            for target in data["activeTargets"] + data["droppedTargets"]:
                labels = target["discoveredLabels"]
                if not labels["__address__"].startswith(":"):  # a pod without an address is no target
                    found.setdefault(labels["job"], set()).add(spelled(labels))
            return found

        until(lambda: set(ask()) == set(JOBS), f"no targets for every job, see {folder / 'log'}")
        yield ask


def spelled(labels: dict[str, str]) -> str:
    """Comparable, and readable where it differs. An empty label is none."""
    of_service = labels["job"] == "services"
    kept = {
        name: value
        for name, value in labels.items()
        if value and not NOT_COMPARED.fullmatch(name) and (of_service or not OF_SERVICES.fullmatch(name))
    }
    return json.dumps(kept, sort_keys=True, indent=1)


class Discovered:
    """What a discovery published last."""

    def __init__(self, config: ScrapeConfig) -> None:
        self.config = config
        self.by_source: dict[str, Sequence[TargetLabels]] = {}
        self._changed = asyncio.Event()

    def __call__(self, source: str, targets: Sequence[TargetLabels]) -> None:
        self.by_source[source] = targets
        self._changed.set()

    def targets(self) -> list[TargetLabels]:
        return [target for targets in self.by_source.values() for target in targets]

    def names(self) -> set[str]:
        return {target["__meta_kubernetes_pod_name"] for target in self.targets()}

    def spelled(self) -> set[str]:
        built = [build_target(target, self.config) for target in self.targets()]
        assert all(isinstance(target, DroppedTarget) for target in built)
        return {spelled(target.discovered_labels) for target in built if isinstance(target, DroppedTarget)}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Warnings(logging.Handler):
    """What a discovery says in the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: list[logging.LogRecord] = []
        self._said = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self._said.set()

    async def until(self, condition: Callable[[logging.LogRecord], bool]) -> dict[str, Any]:
        """What the first such warning is about."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [record for record in self._records if condition(record)]):
                self._said.clear()
                await self._said.wait()
        about = ("job", "role", "namespace", "remedy", "reason")
        return {name: value for name, value in vars(found[0]).items() if name in about}


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    heard, log = Warnings(), logging.getLogger("trilens.collect.discovery")
    log.addHandler(heard)
    yield heard
    log.removeHandler(heard)


@asynccontextmanager
async def discovering(
    server: KubernetesServer, job: dict[str, Any], name: str = "job"
) -> AsyncIterator[Discovered]:
    (config,) = load_scrape_configs(config_of(server, {name: job}), server.authority.parent)
    async with following(config) as discovered:
        yield discovered


@asynccontextmanager
async def following(config: ScrapeConfig) -> AsyncIterator[Discovered]:
    (section,) = config.kubernetes_sd_configs
    discovered = Discovered(config)
    discovery = KubernetesDiscovery(section, job=config.job_name, publish_every_s=0.01, timing=IMPATIENT)
    task = asyncio.create_task(discovery.run(discovered))
    try:
        yield discovered
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("job", JOBS)
async def test_targets_have_the_labels_that_others_give_them(
    cluster: KubernetesServer, others_say: Callable[[], dict[str, set[str]]], job: str
) -> None:
    async with discovering(cluster, JOBS[job], job) as discovered:
        namespaces = JOBS[job].get("namespaces", {}).get("names", [""])
        await discovered.until(lambda: set(discovered.by_source) == set(namespaces))
        assert sorted(discovered.spelled()) == sorted(others_say()[job])


ON_NODES: Any = {"attach_metadata": {"node": True}, "namespaces": {"names": ["odd"]}}
WEB = {"kind": "Pod", "namespace": "odd", "name": "web"}
NODE_2 = {"__meta_kubernetes_node_name": "node-2"}
IS_WEB = {
    "__meta_kubernetes_pod_name": "web",
    "__meta_kubernetes_pod_ip": "fd00::9",
    "__meta_kubernetes_pod_ready": "unknown",
    "__meta_kubernetes_pod_phase": "Running",
    "__meta_kubernetes_pod_node_name": "node-2",
    "__meta_kubernetes_pod_label_app": "other",
    "__meta_kubernetes_pod_labelpresent_app": "true",
}


def port_of_web(name: str, number: int, protocol: str) -> dict[str, str]:
    return {
        "__meta_kubernetes_pod_container_name": "only",
        "__meta_kubernetes_pod_container_image": "only:1",
        "__meta_kubernetes_pod_container_port_name": name,
        "__meta_kubernetes_pod_container_port_number": str(number),
        "__meta_kubernetes_pod_container_port_protocol": protocol,
    }


@pytest.fixture(scope="module")
def odd(cluster: KubernetesServer) -> KubernetesServer:
    """What the two of us see differently: here the source of Prometheus decides."""
    web = simple("web")
    web["spec"]["containers"] = [container("only", ("m", 9090, "TCP"), ("dns", 53, "UDP"))]
    pod(cluster.client(), web, "odd", phase="Running", podIP="fd00::9")
    return cluster


def without_uid(targets: Sequence[TargetLabels]) -> list[TargetLabels]:
    return [
        {name: value for name, value in target.items() if value and name != "__meta_kubernetes_pod_uid"}
        for target in targets
    ]


async def test_endpoints_of_pods_and_nodes(odd: KubernetesServer) -> None:
    addresses = [
        {"ip": "10.3.0.1", "nodeName": "node-2", "targetRef": WEB},
        {"ip": "10.9.0.2", "targetRef": {"kind": "Node", "name": "node-2"}},
    ]
    subset = {"addresses": addresses, "ports": [{"name": "p", "port": 53, "protocol": "TCP"}]}
    meta = {"name": "odd", "labels": {"a/b": "c"}, "annotations": {"n": "1"}}
    odd.client().create(ENDPOINTS, {"metadata": meta, "subsets": [subset]}, "odd")
    shared = {
        "__meta_kubernetes_namespace": "odd",
        "__meta_kubernetes_endpoints_name": "odd",
        "__meta_kubernetes_endpoints_label_a_b": "c",
        "__meta_kubernetes_endpoints_labelpresent_a_b": "true",
        "__meta_kubernetes_endpoints_annotation_n": "1",
        "__meta_kubernetes_endpoints_annotationpresent_n": "true",
    }
    endpoint = {
        "__meta_kubernetes_endpoint_port_name": "p",
        "__meta_kubernetes_endpoint_port_protocol": "TCP",
        "__meta_kubernetes_endpoint_ready": "true",
    }
    target = "__meta_kubernetes_endpoint_address_target_"
    async with discovering(odd, {"role": "endpoints", **ON_NODES}) as discovered:
        await discovered.until(lambda: len(discovered.targets()) == 3)
        assert without_uid(discovered.targets()) == [
            {**shared, **endpoint, **NODE_2, **IS_WEB, **port_of_web("dns", 53, "TCP"),
             "__address__": "10.3.0.1:53", "__meta_kubernetes_endpoint_node_name": "node-2",
             f"{target}kind": "Pod", f"{target}name": "web"},
            {**shared, **endpoint, **NODE_2, "__address__": "10.9.0.2:53",
             f"{target}kind": "Node", f"{target}name": "node-2"},
            {**shared, **IS_WEB, **port_of_web("m", 9090, "TCP"), "__address__": "[fd00::9]:9090"},
        ]  # fmt: skip


async def test_endpoint_slices_of_pods_and_nodes(odd: KubernetesServer) -> None:
    piece = {
        "metadata": {"name": "odd", "labels": {"a/b": "c"}, "annotations": {"n": "1"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.3.0.1"], "conditions": {"ready": False}, "targetRef": WEB},
            {"addresses": ["10.9.0.2"], "targetRef": {"kind": "Node", "name": "node-2"}},
        ],
        "ports": [{"name": "", "port": 9090}, {"name": "any"}],
    }
    odd.client().create(SLICES, piece, "odd")
    prefix = "__meta_kubernetes_endpointslice_"
    shared = {
        "__meta_kubernetes_namespace": "odd",
        f"{prefix}name": "odd",
        f"{prefix}address_type": "IPv4",
        f"{prefix}label_a_b": "c",
        f"{prefix}labelpresent_a_b": "true",
        f"{prefix}annotation_n": "1",
        f"{prefix}annotationpresent_n": "true",
    }
    to_pod = {
        **shared, **IS_WEB,
        f"{prefix}port_protocol": "TCP",
        f"{prefix}endpoint_conditions_ready": "false",
        f"{prefix}address_target_kind": "Pod",
        f"{prefix}address_target_name": "web",
    }  # fmt: skip
    to_node = {
        **shared, **NODE_2,
        f"{prefix}port_protocol": "TCP",
        f"{prefix}address_target_kind": "Node",
        f"{prefix}address_target_name": "node-2",
    }  # fmt: skip
    numbered, named = {f"{prefix}port": "9090"}, {f"{prefix}port_name": "any"}
    async with discovering(odd, {"role": "endpointslice", **ON_NODES}) as discovered:
        await discovered.until(lambda: len(discovered.targets()) == 5)
        found = without_uid(discovered.targets())
        assert found == [
            {**to_pod, **numbered, **port_of_web("m", 9090, "TCP"), "__address__": "10.3.0.1:9090"},
            {**to_pod, **named, "__address__": "10.3.0.1"},
            {**to_node, **numbered, "__address__": "10.9.0.2:9090"},
            {**to_node, **named, "__address__": "10.9.0.2"},
            {**shared, **IS_WEB, **port_of_web("dns", 53, "UDP"), "__address__": "[fd00::9]:53"},
        ]


def test_an_endpoint_slice_as_newer_clusters_have_it() -> None:
    """v1 names node and zone, and keeps what is left of v1beta1's topology under another name."""
    metadata = {"name": "new", "namespace": "odd", "uid": "u", "resourceVersion": "1"}
    endpoint = {
        "addresses": ["10.3.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": "node-2",
        "zone": "z",
        "deprecatedTopology": {"a/b": "c"},
    }
    piece = {
        "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "endpoints": [endpoint],
        "ports": [{"port": 1}],
    }
    node = {"metadata": {**piece["metadata"], "name": "node-2", "namespace": ""}}
    reader, known = ObjectReader(""), Known()
    known.take(reader.read(NODE, "v1", json.dumps(node).encode()))
    obj = reader.read(ENDPOINT_SLICE, "v1", json.dumps(piece).encode())
    prefix = "__meta_kubernetes_endpointslice_"
    assert without_uid(list(endpoint_slice_targets(obj, known))) == [
        {
            **NODE_2,
            "__address__": "10.3.0.1:1",
            "__meta_kubernetes_namespace": "odd",
            f"{prefix}name": "new",
            f"{prefix}port": "1",
            f"{prefix}endpoint_conditions_ready": "true",
            f"{prefix}endpoint_conditions_serving": "true",
            f"{prefix}endpoint_conditions_terminating": "false",
            f"{prefix}endpoint_node_name": "node-2",
            f"{prefix}endpoint_zone": "z",
            f"{prefix}endpoint_topology_a_b": "c",
            f"{prefix}endpoint_topology_present_a_b": "true",
        }
    ]


async def test_what_only_prometheus_says_of_pods_and_services(cluster: KubernetesServer) -> None:
    async with discovering(cluster, {"role": "pod", "namespaces": SOME}) as discovered:
        await discovered.until(lambda: "web" in discovered.names())
        containers = {
            target["__meta_kubernetes_pod_container_name"]: target for target in discovered.targets()
        }
        web = containers["a"]
        assert web["__meta_kubernetes_pod_container_image"] == "a:1"
        assert web["__meta_kubernetes_pod_container_id"] == "containerd://a"
        assert containers["setup"]["__meta_kubernetes_pod_container_id"] == "containerd://setup"
        assert len(web["__meta_kubernetes_pod_annotation_long"]) == 5000
    async with discovering(cluster, {"role": "service", "namespaces": SOME}) as discovered:
        await discovered.until(lambda: len(discovered.by_source) == 3)
        by_address = {target["__address__"]: target for target in discovered.targets()}
        balanced = by_address["balanced.serve.svc:80"]
        assert balanced["__meta_kubernetes_service_port_number"] == "80"
        assert balanced["__meta_kubernetes_service_loadbalancer_ip"] == "198.51.100.1"


async def test_changes_arrive(kubernetes: KubernetesServer, namespace: str) -> None:
    admin = kubernetes.client()
    for name in ("stays", "goes"):
        pod(admin, simple(name), namespace, phase="Running", podIP="10.1.0.1")
    job = {
        "role": "pod",
        "namespaces": {"names": [namespace]},
        "attach_metadata": {"node": True},
        "kubeconfig_file": str(kubernetes.kubeconfig()),
    }
    async with discovering(kubernetes, job) as discovered:
        await discovered.until(lambda: discovered.names() == {"stays", "goes"})
        await asyncio.to_thread(admin.delete, PODS, "goes", namespace)
        await discovered.until(lambda: discovered.names() == {"stays"})
        await asyncio.to_thread(
            admin.patch, PODS, "stays", {"metadata": {"labels": {"app": "new"}}}, namespace
        )
        await discovered.until(lambda: discovered.targets()[0]["__meta_kubernetes_pod_label_app"] == "new")
        pod(admin, simple("comes"), namespace, phase="Running", podIP="10.1.0.2")
        await discovered.until(lambda: discovered.names() == {"stays", "comes"})
        addresses = {target["__meta_kubernetes_pod_ip"] for target in discovered.targets()}
        assert addresses == {"10.1.0.1", "10.1.0.2"}


async def test_a_missing_permission_is_named_and_only_its_namespace_waits(
    cluster: KubernetesServer, warnings: Warnings
) -> None:
    reader = cluster.user("reads-train", Rule("", ("pods",), ("list", "watch")), namespace="train")
    job = {
        "role": "pod",
        "namespaces": {"names": ["train", "serve"]},
        "kubeconfig_file": str(cluster.kubeconfig(reader)),
    }
    async with discovering(cluster, job, "gpu-pods") as discovered:
        await discovered.until(lambda: discovered.names() == {"elsewhere"})
        said = await warnings.until(lambda record: hasattr(record, "remedy"))
        assert said == {
            "job": "gpu-pods",
            "role": "pod",
            "namespace": "serve",
            "remedy": 'allow "list" on pods of API group "" in namespace serve',
        }
        assert set(discovered.by_source) == {"train"}  # of the other, nothing is known


SLICE_PAGE: Any = {
    "metadata": {"resourceVersion": "5"},
    "items": [
        {
            "metadata": {
                "name": "a",
                "namespace": "default",
                "uid": "u",
                "resourceVersion": "4",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "endpoints": [{"addresses": ["10.0.0.7"]}],
            "ports": [{"port": 9}],
        }
    ],
}


def serve_slices(api: ScriptedApi, version: str) -> None:
    group, resource = "/apis/discovery.k8s.io", {"name": "endpointslices", "kind": "EndpointSlice"}
    api.documents = {
        "/apis": {"groups": [{"name": "discovery.k8s.io", "versions": [{"version": version}]}]},
        f"{group}/{version}": {"resources": [{**resource, "namespaced": True, "verbs": ["list", "watch"]}]},
        f"{group}/{version}/endpointslices": SLICE_PAGE,
        "/api/v1/services": {"metadata": {"resourceVersion": "5"}},
    }


def slices_of(api: ScriptedApi, folder: Path) -> ScrapeConfig:
    section = {"role": "endpointslice", "kubeconfig_file": str(api.kubeconfig(folder))}
    document = {"scrape_configs": [{"job_name": "a", "kubernetes_sd_configs": [section]}]}
    (config,) = load_scrape_configs(document, folder)
    return config


async def test_slices_are_found_again_when_their_version_is_another(tmp_path: Path) -> None:
    async with scripted_api() as api:
        serve_slices(api, "v1beta1")
        async with following(slices_of(api, tmp_path)) as discovered:
            await discovered.until(lambda: len(discovered.targets()) == 1)
            moved = {**SLICE_PAGE["items"][0], "endpoints": [{"addresses": ["10.0.0.8"]}]}
            serve_slices(api, "v1")  # the cluster was upgraded
            api.documents["/apis/discovery.k8s.io/v1/endpointslices"] = {**SLICE_PAGE, "items": [moved]}
            await discovered.until(lambda: discovered.targets()[0]["__address__"] == "10.0.0.8:9")
            assert len(discovered.targets()) == 1, "nothing is left of the old version"


async def test_slices_are_assumed_where_the_cluster_may_not_be_asked(tmp_path: Path) -> None:
    async with scripted_api() as api:
        serve_slices(api, "v1")
        api.forbidden = {"/apis"}
        async with following(slices_of(api, tmp_path)) as discovered:
            await discovered.until(lambda: len(discovered.targets()) == 1)
            (target,) = discovered.targets()
    assert target["__meta_kubernetes_endpointslice_name"] == SLICE_PAGE["items"][0]["metadata"]["name"]


async def test_slices_are_waited_for_where_there_are_none_yet(tmp_path: Path, warnings: Warnings) -> None:
    async with scripted_api() as api, following(slices_of(api, tmp_path)) as discovered:
        said = await warnings.until(lambda record: True)
        assert said["reason"] == "the cluster serves no endpointslices"
        serve_slices(api, "v1")
        await discovered.until(lambda: len(discovered.targets()) == 1)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "role"),
        ({"role": "ingress"}, "the role ingress is not supported yet; use one of node, pod, service"),
        ({"role": "gateway"}, "role"),
        ({"role": "pod", "api_server": "https://a", "kubeconfig_file": "b"}, "not both"),
        ({"role": "pod", "api_server": "kubernetes"}, "'kubernetes' is not an http:// or https:// URL"),
        ({"role": "pod", "bearer_token": "x"}, "bearer_token is for an api_server, which is not given"),
        (
            {"role": "pod", "kubeconfig_file": "k", "namespaces": {"own_namespace": True}},
            "with kubeconfig_file there is none",
        ),
        ({"role": "pod", "selectors": [{"role": "node"}]}, "the role pod has selectors of pod only"),
        ({"role": "pod", "selectors": [{"role": "pod"}] * 2}, "two selectors of pod"),
        (
            {"role": "pod", "api_server": "https://a", "tls_config": {"min_version": "TLS13"}},
            "TLS versions cannot be chosen",
        ),
        ({"role": "pod", "attach_metadata": {"namespace": True}}, "attach_metadata.namespace"),
    ],
)
def test_a_section_that_cannot_be_followed_is_refused(
    tmp_path: Path, section: dict[str, Any], message: str
) -> None:
    document = {"scrape_configs": [{"job_name": "a", "kubernetes_sd_configs": [section]}]}
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        load_scrape_configs(document, tmp_path)
    assert "kubernetes_sd_configs[0]" in str(refused.value)


async def test_inside_a_cluster(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    (tmp_path / "token").write_text("t0k3n")
    (tmp_path / "namespace").write_text("monitoring")
    section = KubernetesSdConfig.model_validate(
        {"role": "pod", "namespaces": {"own_namespace": True, "names": ["train"]}}
    )
    entry = await access_of(section, tmp_path, environ).entry()
    assert (entry.server, entry.headers) == ("https://10.0.0.1:443", (("Authorization", "Bearer t0k3n"),))
    assert namespaces_of(section, tmp_path) == ("train", "monitoring")
    (tmp_path / "namespace").write_text("")
    with pytest.raises(ConfigError, match="our own namespace is not known"):
        namespaces_of(section, tmp_path)
    assert namespaces_of(KubernetesSdConfig(role="pod")) == ("",)


def test_a_certificate_that_cannot_be_read_is_said_before_anything_starts(tmp_path: Path) -> None:
    section = KubernetesSdConfig.model_validate(
        {"role": "pod", "api_server": "https://a", "tls_config": {"ca_file": str(tmp_path / "none.pem")}}
    )
    with pytest.raises(ConfigError, match="tls_config"):
        access_of(section)


async def test_the_http_settings_go_with_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    section = KubernetesSdConfig.model_validate(
        {
            "role": "pod",
            "api_server": "https://api.example/k8s/",
            "authorization": {"credentials_file": str(token)},
            "tls_config": {"server_name": "kubernetes", "insecure_skip_verify": True},
            "proxy_url": "http://proxy:3128",
        }
    )
    access = access_of(section)
    entry = await access.entry()
    assert (entry.server, entry.server_name, entry.proxy, entry.tls.verify) == (
        "https://api.example/k8s", "kubernetes", "http://proxy:3128", False,
    )  # fmt: skip
    assert entry.headers == (("Authorization", "Bearer one"),)
    token.write_text("two")
    assert (await access.entry()).headers == (("Authorization", "Bearer two"),)
