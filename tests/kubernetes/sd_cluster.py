"""A cluster with a bit of everything that targets are made of."""

from __future__ import annotations

from typing import Any

from kubernetes_client import NAMESPACES, NODES, PODS, KubernetesClient, Resource

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SLICES = Resource("discovery.k8s.io", "v1beta1", "endpointslices", "EndpointSlice")


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
