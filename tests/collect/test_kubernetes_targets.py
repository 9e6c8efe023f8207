"""From pods on a real API server to samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recording_sink import RecordingSink

from http_target import HttpTarget
from kubernetes_client import PODS
from servers import until
from trilens.collect.config import load_scrape_configs
from trilens.collect.manager import ScrapeManager

if TYPE_CHECKING:
    from kubernetes_api import KubernetesServer


def test_a_pod_is_scraped_while_another_job_lacks_a_permission(
    kubernetes: KubernetesServer, namespace: str
) -> None:
    nobody = kubernetes.user(f"nobody-{namespace}")
    with HttpTarget("a 1\n") as target:
        port = int(target.address.rpartition(":")[2])
        container = {"name": "c", "image": "i", "ports": [{"containerPort": port}]}
        manifest = {
            "metadata": {"name": "p", "labels": {"team": "vision"}},
            "spec": {"containers": [container]},
        }
        kubernetes.client().create(PODS, manifest, namespace)
        kubernetes.client().patch_status(PODS, "p", {"phase": "Running", "podIP": "127.0.0.1"}, namespace)

        def job(name: str, **access: Any) -> dict[str, Any]:
            section = {"role": "pod", "namespaces": {"names": [namespace]}, **access}
            relabel = {"action": "labelmap", "regex": "__meta_kubernetes_pod_label_(.+)"}
            return {"job_name": name, "relabel_configs": [relabel], "kubernetes_sd_configs": [section]}

        refused = job("refused", kubeconfig_file=str(kubernetes.kubeconfig(nobody)))
        allowed = job("allowed", kubeconfig_file=str(kubernetes.kubeconfig()))
        document = {"global": {"scrape_interval": "100ms"}, "scrape_configs": [refused, allowed]}
        sink = RecordingSink()
        manager = ScrapeManager(load_scrape_configs(document, kubernetes.authority.parent), sink)
        manager.start()
        try:
            sink.wait_for(lambda seen: seen.values("a"))
            (status,) = manager.targets()
            assert status.labels == {"job": "allowed", "instance": target.address, "team": "vision"}
            assert status.discovered_labels["__meta_kubernetes_pod_name"] == "p"
            until(lambda: len(manager.discovery_troubles()) == 1, "nothing is said of the other job")
            (trouble,) = manager.discovery_troubles()
            assert trouble.startswith(f"job refused: cannot follow Pod in {namespace}: ")
            assert trouble.endswith(f'; allow "list" on pods of API group "" in namespace {namespace}')
        finally:
            manager.stop()
