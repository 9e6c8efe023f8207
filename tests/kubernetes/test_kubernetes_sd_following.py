"""Discovered targets follow the cluster, through missing permissions and changes of version."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from discovering import Warnings, discovering, following
from scripted_api import ScriptedApi, scripted_api
from sd_cluster import pod, simple

from kubernetes_api import KubernetesServer, Rule
from kubernetes_client import NAMESPACES, PODS
from trilens.collect.config import ScrapeConfig, load_scrape_configs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    heard, log = Warnings(), logging.getLogger("trilens.collect.discovery")
    log.addHandler(heard)
    yield heard
    log.removeHandler(heard)


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
    kubernetes: KubernetesServer, namespace: str, warnings: Warnings
) -> None:
    admin, closed = kubernetes.client(), f"{namespace}-closed"
    admin.create(NAMESPACES, {"metadata": {"name": closed}})
    for name, where in (("seen", namespace), ("unseen", closed)):
        pod(admin, simple(name), where, phase="Running", podIP="10.1.0.1")
    reader = kubernetes.user(
        f"reads-{namespace}", Rule("", ("pods",), ("list", "watch")), namespace=namespace
    )
    job = {
        "role": "pod",
        "namespaces": {"names": [namespace, closed]},
        "kubeconfig_file": str(kubernetes.kubeconfig(reader)),
    }
    async with discovering(kubernetes, job, "gpu-pods") as discovered:
        await discovered.until(lambda: discovered.names() == {"seen"})
        said = await warnings.until(lambda record: hasattr(record, "remedy"))
        assert said == {
            "job": "gpu-pods",
            "role": "pod",
            "namespace": closed,
            "remedy": f'allow "list" on pods of API group "" in namespace {closed}',
        }
        assert set(discovered.by_source) == {namespace}  # of the other, nothing is known


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
