"""What is told stays true when the API server forgets, dies, hangs up or falls silent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml
from tcp_proxy import tcp_proxy
from watching import IMPATIENT, as_user, watching

from kubernetes_client import NAMESPACES, NODES, PODS, Json
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tcp_proxy import TcpProxy
    from watching import Watching

    from kubernetes_api import KubernetesServer
    from trilens.collect.kubernetes.timing import WatchTiming


def pod(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "train"}]}}


@asynccontextmanager
async def watching_by_wire(
    server: KubernetesServer, namespace: str, folder: Path, timing: WatchTiming = IMPATIENT
) -> AsyncIterator[tuple[TcpProxy, Watching]]:
    """Over a connection that can be cut and held."""
    port = urlsplit(server.url).port
    assert port is not None
    async with tcp_proxy(port) as wire:
        access = _through_port(server, wire.port, folder)
        async with watching(access, only=["Pod"], namespaces=[namespace], timing=timing) as cluster:
            yield wire, cluster


def _through_port(server: KubernetesServer, port: int, folder: Path) -> KubeconfigAccess:
    config = yaml.safe_load(server.kubeconfig().read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    file = folder / "through.kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return KubeconfigAccess(file)


async def test_history_that_is_gone_is_made_up_for(private_kubernetes: KubernetesServer) -> None:
    """410: everything is read again, and what went meanwhile is told as removed."""
    admin = private_kubernetes.client()
    for name in ("stays", "goes", "comes-again"):
        admin.create(PODS, pod(name), "default")
    async with watching(as_user(private_kubernetes), only=["Pod"]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Pod")
        old_uid = sink.get("Pod", "comes-again").uid
        # On this thread, so that the watch sees nothing of it until all has happened.
        private_kubernetes.kill()
        private_kubernetes.start()
        admin.delete(PODS, "goes", "default")
        admin.delete(PODS, "comes-again", "default")
        admin.create(PODS, pod("comes-again"), "default")
        admin.create(PODS, pod("new"), "default")
        private_kubernetes.forget_history()
        await sink.until(lambda: sink.synced_kinds.count("Pod") == 2)

        assert sink.names("Pod", "default") == {"stays", "comes-again", "new"}
        assert sink.history("Pod", "stays") == [("changed", "stays")], "it did not change"
        assert sink.history("Pod", "goes")[-1] == ("removed", "goes")
        assert sink.history("Pod", "comes-again") == [
            ("changed", "comes-again"),
            ("removed", "comes-again"),
            ("changed", "comes-again"),
        ]
        assert sink.get("Pod", "comes-again").uid != old_uid

        admin.create(PODS, pod("later"), "default")
        await sink.until(lambda: "later" in sink.names("Pod", "default"))


async def test_a_server_killed_in_the_middle_of_a_watch(private_kubernetes: KubernetesServer) -> None:
    admin = private_kubernetes.client()
    admin.create(NAMESPACES, {"metadata": {"name": "killed"}})
    admin.create(PODS, pod("before"), "killed")
    async with watching(as_user(private_kubernetes), only=["Pod", "Node"]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Pod", "Node")
        private_kubernetes.kill()
        await cluster.until_state(lambda: cluster.resource("Pod").trouble is not None)
        trouble = cluster.resource("Pod").trouble
        assert trouble is not None
        assert trouble.text.startswith("no answer from the API server")
        assert "<ssl." not in trouble.text
        assert sink.names("Pod", "killed") == {"before"}, "not to be asked is not to be gone"

        await asyncio.to_thread(private_kubernetes.start)
        admin.create(PODS, pod("after"), "killed")
        await sink.until(lambda: "after" in sink.names("Pod", "killed"))
        assert cluster.resource("Pod").trouble is None
        assert sink.history("Pod", "before") == [("changed", "before")]


async def test_a_connection_that_is_dropped(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    admin = kubernetes.client()
    async with watching_by_wire(kubernetes, namespace, tmp_path) as (wire, cluster):
        sink = cluster.sink
        await cluster.until_synced("Pod")
        await cluster.until_watched("Pod", namespace)
        wire.cut()
        admin.create(PODS, pod("a"), namespace)
        await sink.until(lambda: "a" in sink.names("Pod", namespace))
        state = cluster.resource("Pod", namespace)
        assert (state.readings, state.connections) == (1, 2), "it goes on from where it was"


async def test_a_watch_that_falls_silent(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    """The connection is there, and nothing comes: as behind a router that forgot it."""
    admin = kubernetes.client()
    timing = replace(IMPATIENT, silence_s=1.0)
    async with watching_by_wire(kubernetes, namespace, tmp_path, timing) as (wire, cluster):
        sink = cluster.sink
        await cluster.until_watched("Pod", namespace)
        wire.hold()
        admin.create(PODS, pod("a"), namespace)
        wire.let_go()
        await sink.until(lambda: "a" in sink.names("Pod", namespace))
        state = cluster.resource("Pod", namespace)
        assert state.readings == 1
        assert state.connections >= 2
        assert state.trouble is None


async def test_a_watch_that_the_server_ends_is_opened_again(
    kubernetes: KubernetesServer, namespace: str
) -> None:
    admin = kubernetes.client()
    timing = replace(IMPATIENT, watch_s=1.0, steady_s=0.0)
    async with watching(as_user(kubernetes), only=["Pod"], namespaces=[namespace], timing=timing) as cluster:
        await cluster.until_watched("Pod", namespace, times=3)
        admin.create(PODS, pod("a"), namespace)
        await cluster.sink.until(lambda: "a" in cluster.sink.names("Pod", namespace))
        assert cluster.resource("Pod", namespace).readings == 1


async def test_the_server_sends_bookmarks(kubernetes: KubernetesServer, namespace: str) -> None:
    """On a watch on which nothing else can come: what happens is elsewhere."""
    timing = replace(IMPATIENT, watch_s=8.0)
    async with watching(as_user(kubernetes), only=["Pod"], namespaces=[namespace], timing=timing) as cluster:
        await cluster.until_watched("Pod", namespace)
        opened = cluster.resource("Pod", namespace).heard_ms
        assert opened is not None
        kubernetes.client().create(PODS, pod(namespace), "default")
        await cluster.until_state(lambda: (cluster.resource("Pod", namespace).heard_ms or 0) > opened)
        assert cluster.resource("Pod", namespace).connections == 1


async def test_thousands_of_pods_come_in_pages(kubernetes: KubernetesServer, namespace: str) -> None:
    names = {f"worker-{i:04}" for i in range(3000)}
    kubernetes.client().create_all(PODS, (pod(name) for name in sorted(names)), namespace)
    async with watching(as_user(kubernetes), only=["Pod"], namespaces=[namespace]) as cluster:
        await cluster.until_synced("Pod")
        assert cluster.sink.names("Pod", namespace) == names
        assert cluster.resource("Pod", namespace).objects == 3000


async def test_a_heartbeat_says_nothing_new(kubernetes: KubernetesServer, namespace: str) -> None:
    admin = kubernetes.client()
    admin.create(NODES, {"metadata": {"name": namespace}})
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    admin.patch_status(NODES, namespace, {"conditions": [condition]})
    async with watching(as_user(kubernetes), only=["Node"]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Node")
        beat = {**condition, "lastHeartbeatTime": "2026-01-01T00:05:00Z"}
        admin.patch_status(NODES, namespace, {"conditions": [beat]})
        admin.patch(NODES, namespace, {"spec": {"unschedulable": True}})
        await sink.until(lambda: sink.get("Node", namespace).body["spec"].get("unschedulable") is True)
        assert len(sink.history("Node", namespace)) == 2
