"""`kubernetes_sd_configs`, beside VictoriaMetrics on the same API server.

It has the same targets and labels as Prometheus, whose package in Debian is built without Kubernetes.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from discovering import Discovered, config_of, discovering
from sd_cluster import ENDPOINTS, SLICES, container, fill, pod, simple

from kubernetes_api import KubernetesServer, kubernetes_server
from servers import free_port, require_server, running, until
from trilens.collect.discovery.kubernetes.endpoints import endpoint_slice_targets
from trilens.collect.discovery.kubernetes.kinds import ENDPOINT_SLICE, NODE
from trilens.collect.discovery.kubernetes.known import Known
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.target import DroppedTarget, build_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trilens.collect.discovery import TargetLabels


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


def spelled_targets(discovered: Discovered) -> set[str]:
    built = [build_target(target, discovered.config) for target in discovered.targets()]
    assert all(isinstance(target, DroppedTarget) for target in built)
    return {spelled(target.discovered_labels) for target in built if isinstance(target, DroppedTarget)}


@pytest.mark.parametrize("job", JOBS)
async def test_targets_have_the_labels_that_others_give_them(
    cluster: KubernetesServer, others_say: Callable[[], dict[str, set[str]]], job: str
) -> None:
    async with discovering(cluster, JOBS[job], job) as discovered:
        namespaces = JOBS[job].get("namespaces", {}).get("names", [""])
        await discovered.until(lambda: set(discovered.by_source) == set(namespaces))
        assert sorted(spelled_targets(discovered)) == sorted(others_say()[job])


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
