"""Objects of a real API server are told as they come, change and go, whatever happens on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from watching import IMPATIENT, RecordingSink, as_user, watching

from kubernetes_client import NAMESPACES, PODS, Json, Resource
from trilens.collect.kubernetes.intake import KubernetesIntake
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings

if TYPE_CHECKING:
    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient

EVENTS = Resource("", "v1", "events", "Event")


def pod(name: str, **labels: str) -> Json:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "train"}]},
    }


@pytest.fixture
def admin(kubernetes: KubernetesServer) -> KubernetesClient:
    return kubernetes.client()


async def test_what_is_there_and_what_happens_then(
    kubernetes: KubernetesServer, admin: KubernetesClient, namespace: str
) -> None:
    a, b = f"{namespace}-a", f"{namespace}-b"  # the whole cluster is looked at, and other tests have pods too
    admin.create(PODS, pod(a, team="vision"), namespace)
    async with watching(as_user(kubernetes), only=["Pod"]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Pod")
        assert sink.get("Pod", a).labels == {"team": "vision"}

        admin.create(PODS, pod(b), namespace)
        admin.patch(PODS, a, {"metadata": {"labels": {"team": "speech"}}}, namespace)
        admin.delete(PODS, b, namespace)
        await sink.until(lambda: ("removed", "Pod", b) in sink.told)
        assert sink.history("Pod", a) == [("changed", a), ("changed", a)]
        assert sink.history("Pod", b)[0] == ("changed", b)
        assert sink.get("Pod", a).labels == {"team": "speech"}
        await cluster.until_watched("Pod")
        state = cluster.resource("Pod")
        assert (state.synced, state.trouble, state.version) == (True, None, "v1")


async def test_an_event_is_told_once_and_never_goes(
    kubernetes: KubernetesServer, admin: KubernetesClient, namespace: str
) -> None:
    about = {"kind": "Pod", "namespace": namespace, "name": "a", "uid": "u"}
    admin.create(
        EVENTS, {"metadata": {"name": "a.1"}, "involvedObject": about, "reason": "Pulling"}, namespace
    )
    async with watching(as_user(kubernetes), only=["Event", "Pod"], namespaces=[namespace]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Event", "Pod")
        body = sink.get("Event", "a.1").body
        assert (body["reason"], body["involvedObject"]) == ("Pulling", about)

        admin.patch(EVENTS, "a.1", {"count": 2}, namespace)
        admin.delete(EVENTS, "a.1", namespace)
        admin.create(EVENTS, {"metadata": {"name": "a.2"}, "involvedObject": about}, namespace)
        await sink.until(lambda: "a.2" in sink.names("Event", namespace))
        assert sink.history("Event", "a.1") == [("changed", "a.1"), ("changed", "a.1")]
        assert sink.get("Event", "a.1").body["count"] == 2


async def test_only_the_named_namespaces_are_looked_at(
    kubernetes: KubernetesServer, admin: KubernetesClient, namespace: str
) -> None:
    other = f"{namespace}-other"
    admin.create(NAMESPACES, {"metadata": {"name": other}})
    for where in (namespace, other, "default"):
        admin.create(PODS, pod(f"in-{where}"), where)
    only = ["Pod", "Namespace", "Node"]
    async with watching(as_user(kubernetes), only=only, namespaces=[namespace, other]) as cluster:
        sink = cluster.sink
        await cluster.until_synced(*only)
        assert sink.synced_kinds.count("Pod") == 1, "when both are read, and not before"
        seen = {(str(kind), name) for kind, _, name in sink.objects if str(kind) != "Node"}
        assert seen == {
            ("Pod", f"in-{namespace}"),
            ("Pod", f"in-{other}"),
            ("Namespace", namespace),
            ("Namespace", other),
        }
        assert cluster.resource("Pod", other).objects == 1


async def test_several_clusters_at_once(
    kubernetes: KubernetesServer, private_kubernetes: KubernetesServer, namespace: str
) -> None:
    sink = RecordingSink()
    clusters = {
        "first": ClusterSettings(kubeconfig=kubernetes.kubeconfig(), leave_out=("Event",)),
        "second": ClusterSettings(kubeconfig=private_kubernetes.kubeconfig(), namespaces=("default",)),
    }
    private_kubernetes.client().create(PODS, pod(f"{namespace}-there"), "default")
    intake = KubernetesIntake(KubernetesSettings(clusters=clusters), Path(), sink, timing=IMPATIENT)
    running = asyncio.create_task(intake.run())
    await sink.until(lambda: {("synced", "Pod", name) for name in clusters} <= set(sink.told))
    private_kubernetes.kill()
    kubernetes.client().create(PODS, pod(f"{namespace}-here"), namespace)
    await sink.until(lambda: f"{namespace}-here" in sink.names("Pod", namespace))
    assert sink.get("Pod", f"{namespace}-here").cluster == "first"
    assert sink.get("Pod", f"{namespace}-there").cluster == "second"
    assert [state.cluster for state in intake.states()] == ["first", "second"]
    assert "Event" not in {str(state.kind) for state in intake.states()[0].resources}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
