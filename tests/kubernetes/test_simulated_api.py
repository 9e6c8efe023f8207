"""The simulated cluster's API: the real collectors follow it, and it answers as a real API server does."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from watching import IMPATIENT, PATIENCE_S, watching

from kubernetes_client import PODS, Resource
from trilens.collect.config import load_scrape_configs
from trilens.collect.discovery.kubernetes.discovery import KubernetesDiscovery
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.simulate.over_http.server import SimulatedCluster, bind
from trilens.simulate.scenario import read_scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from trilens.collect.discovery import TargetLabels

Json = dict[str, Any]

START_MS = 1_790_000_000_000
CREATED = "2026-09-21T14:13:20Z"
EMPTY = "name: empty\npools:\n- {name: h100, model: H100, nodes: 2}\n"
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
PODS_PATH = "/api/v1/pods"


@contextmanager
def quiet_cluster() -> Iterator[SimulatedCluster]:
    """One in which nothing happens by itself."""
    with SimulatedCluster(World(read_scenario(EMPTY, "empty"), start_ms=START_MS)) as cluster:
        yield cluster


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with quiet_cluster() as running:
        yield running


@pytest.fixture
def api(cluster: SimulatedCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.url, trust_env=False) as client:
        yield client


def pod(name: str, namespace: str = "train", phase: str = "Running", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "creationTimestamp": CREATED,
            "labels": labels,
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 8000}]}],
        },
        "status": {"phase": phase, "podIP": "10.0.0.1"},
    }


def put(cluster: SimulatedCluster, *objects: Json) -> None:
    cluster.ask(lambda world: [world.objects.put(obj) for obj in objects])


def delete(cluster: SimulatedCluster, obj: Json) -> None:
    cluster.ask(lambda world: world.objects.delete(obj))


def version(cluster: SimulatedCluster) -> int:
    return cluster.ask(lambda world: world.objects.resource_version)


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    status = answer.json()
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", answer.status_code)
    return answer.status_code, status["reason"], status["message"]


def access(cluster: SimulatedCluster, folder: Path) -> KubeconfigAccess:
    cluster.write_kubeconfig(folder / "kubeconfig")
    return KubeconfigAccess(folder / "kubeconfig")


class Watcher:
    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> tuple[str, Json]:
        event = json.loads(await asyncio.wait_for(anext(self._lines), 30))
        return event["type"], event["object"]

    async def rest(self) -> list[tuple[str, Json]]:
        events = [json.loads(line) async for line in self._lines]
        return [(event["type"], event["object"]) for event in events]


@pytest.fixture
async def watch(cluster: SimulatedCluster) -> AsyncIterator[Callable[..., Any]]:
    """Watches of pods, closed at the end."""
    async with AsyncExitStack() as open_until_then, httpx.AsyncClient(trust_env=False) as client:

        async def begin(path: str = PODS_PATH, **query: str) -> Watcher:
            asked = client.stream("GET", cluster.url + path, params={"watch": "true", **query}, timeout=30)
            answer = await open_until_then.enter_async_context(asked)
            assert answer.status_code == 200
            return Watcher(answer.aiter_lines())

        yield begin


# The real collectors.


async def test_the_intake_sees_what_there_is_and_what_happens(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j", "namespace": "train", "uid": "u", "creationTimestamp": CREATED},
    }
    put(cluster, *(pod(f"p-{i:04}", rank=str(i)) for i in range(1200)), job)  # more than fit on a page
    async with watching(access(cluster, tmp_path)) as followed:
        sink = followed.sink
        await followed.until_state(lambda: followed.state().synced)
        state = followed.state()
        assert state.complaints() == []
        assert {str(one.kind) for one in state.resources} >= {"Pod", "Node", "JobSet.jobset.x-k8s.io"}

        def seen() -> set[tuple[str, str, str, str]]:
            return {
                (str(kind), where, name, obj.resource_version)
                for (kind, where, name), obj in sink.objects.items()
                if str(kind) in ("Pod", "PyTorchJob.kubeflow.org", "Namespace", "Node")
            }

        def told() -> set[tuple[str, str, str, str]]:
            kinds = {"Pod": "Pod", "PyTorchJob": "PyTorchJob.kubeflow.org", "Namespace": "Namespace"}
            kinds["Node"] = "Node"
            return cluster.ask(
                lambda world: {
                    (
                        kinds[obj["kind"]],
                        obj["metadata"].get("namespace", ""),
                        obj["metadata"]["name"],
                        obj["metadata"]["resourceVersion"],
                    )
                    for obj in world.objects
                    if obj["kind"] in kinds
                }
            )

        assert seen() == told()
        put(cluster, pod("new"), pod("p-0001", phase="Failed"))
        delete(cluster, pod("p-0002"))
        await sink.until(lambda: ("removed", "Pod", "p-0002") in sink.told)
        assert sink.get("Pod", "p-0001").body["status"]["phase"] == "Failed"
        assert seen() == told()
        assert followed.resource("Pod").readings == 1


async def test_history_that_is_forgotten_is_gone(
    cluster: SimulatedCluster, watch: Callable[..., Any]
) -> None:
    put(cluster, pod("a"))
    then = version(cluster)
    event = {"apiVersion": "v1", "kind": "Event"}
    metadata = {"namespace": "train", "uid": "e", "creationTimestamp": CREATED}
    events = [{**event, "metadata": {**metadata, "name": f"e-{i}"}} for i in range(20_001)]
    put(cluster, *events)  # more than are remembered
    watched = await watch("/api/v1/events", resourceVersion=str(then))
    ((kind, status),) = await watched.rest()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    # Other kinds have their own history.
    pods = await watch(resourceVersion=str(then), timeoutSeconds="1")
    assert await pods.rest() == []


async def test_targets_are_discovered(cluster: SimulatedCluster, tmp_path: Path) -> None:
    put(cluster, pod("web", app="web"), pod("ended", app="web", phase="Succeeded"), pod("other", app="db"))
    cluster.write_kubeconfig(tmp_path / "kubeconfig")
    selectors = [{"role": "pod", "label": "app in (web)", "field": "status.phase=Running"}]
    section = {"role": "pod", "kubeconfig_file": "kubeconfig", "selectors": selectors}
    (config,) = load_scrape_configs(
        {"scrape_configs": [{"job_name": "pods", "kubernetes_sd_configs": [section]}]}, tmp_path
    )
    published: asyncio.Queue[Sequence[TargetLabels]] = asyncio.Queue()
    discovery = KubernetesDiscovery(
        config.kubernetes_sd_configs[0], job="pods", publish_every_s=0.01, timing=IMPATIENT
    )

    async def pods_of(count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE_S):
            while len(targets := await published.get()) != count:
                pass
        assert {target["__address__"] for target in targets} == {"10.0.0.1:8000"}
        return sorted(target["__meta_kubernetes_pod_name"] for target in targets)

    task = asyncio.create_task(discovery.run(lambda _source, targets: published.put_nowait(targets)))
    assert await pods_of(1) == ["web"]
    put(cluster, pod("web-2", app="web"))
    assert await pods_of(2) == ["web", "web-2"]
    put(cluster, pod("web", app="web", phase="Succeeded"))
    assert await pods_of(1) == ["web-2"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# As a real API server answers.


def shape(value: Any) -> Any:
    """Which keys there are, and of which type values are; of a list, what its first entry is like."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


ONE_POD = "/api/v1/namespaces/{0}/pods"
ASKED = {
    "the version": ("/version", {}),
    "the core group": ("/api", {}),
    "a group": ("/apis/batch", {}),
    "a group of an operator": ("/apis/kubeflow.org", {}),
    "no group": ("/apis/nothing/v1", {}),
    "resources of a group": ("/apis/kubeflow.org/v1", {}),
    "a page of pods": (ONE_POD + "?limit=1", {}),
    "no pods": (ONE_POD + "?labelSelector=x=y", {}),
    "an object of an operator": ("/apis/kubeflow.org/v1/namespaces/{0}/pytorchjobs/j", {}),
    "no such pod": (ONE_POD + "/nothing", {}),
    "no such job": ("/apis/kubeflow.org/v1/namespaces/{0}/pytorchjobs/nothing", {}),
    "no such resource": ("/api/v1/nothings", {}),
    "no such field": (ONE_POD + "?fieldSelector=a.b=c", {}),
    "no selector": (ONE_POD + "?labelSelector=a%20within(x)", {}),
    "no number": (ONE_POD + "?limit=x", {}),
    "no token": (ONE_POD + "?limit=1&continue=abc", {}),
    "no such form": (ONE_POD, {"Accept": "application/xml"}),
    "names only": (ONE_POD, {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}),
    "a form or another": (ONE_POD, {"Accept": "application/vnd.kubernetes.protobuf;v=v0,application/json"}),
}
NOT_COMPARED = {"managedFields", "storageVersionHash", "categories", "spec", "status"}  # of an object


def bare(value: Any) -> Any:
    """Without what the real server adds to objects, and what differs between versions of it."""
    if isinstance(value, dict):
        dropped = NOT_COMPARED if "kind" not in value or value["kind"] != "Status" else set()
        return {key: bare(part) for key, part in value.items() if key not in dropped}
    return [bare(part) for part in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def both(
    kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """The same objects in a real and in a simulated cluster."""
    admin = kubernetes.client()
    admin.define(PYTORCH_JOBS)
    admin.create(
        Resource("", "v1", "namespaces", "Namespace", namespaced=False), {"metadata": {"name": "twin"}}
    )
    admin.create(PYTORCH_JOBS, {"metadata": {"name": "j"}, "spec": {}}, "twin")
    job = admin.get(PYTORCH_JOBS, "j", "twin")
    pods = []
    for name in ("a", "b"):
        manifest = pod(name, "twin", app="x")
        made = {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": manifest["spec"]}
        admin.create(PODS, made, "twin")
        pods.append(admin.get(PODS, name, "twin"))
    with quiet_cluster() as cluster, httpx.Client(base_url=cluster.url, trust_env=False) as client:
        put(cluster, job, *pods)
        yield admin._http, client


@pytest.mark.parametrize("asked", ASKED)
def test_answers_have_the_shape_of_real_ones(both: tuple[httpx.Client, httpx.Client], asked: str) -> None:
    path, headers = ASKED[asked]
    real, simulated = (client.get(path.format("twin"), headers=headers) for client in both)
    assert simulated.status_code == real.status_code
    assert simulated.headers["content-type"] == real.headers["content-type"]
    if "json" not in real.headers["content-type"]:
        assert simulated.text.strip() == real.text.strip()
        return
    expected, got = bare(real.json()), bare(simulated.json())
    if got.get("kind") == "APIResourceList":
        named = [one for one in got["resources"] if one["name"] == "pytorchjobs"]
        got["resources"] = named
        expected["resources"] = [one for one in expected["resources"] if one["name"] == "pytorchjobs"]
    assert shape(got) == shape(expected)


def test_a_state_to_come_is_not_shown(api: httpx.Client) -> None:
    refused = api.get(PODS_PATH, params={"resourceVersion": "99999999"})
    assert refusal(refused)[:2] == (504, "Timeout")
    assert "Too large resource version" in refusal(refused)[2]


def test_reading_is_all_there_is(api: httpx.Client) -> None:
    assert refusal(api.post(PODS_PATH, json={}))[:2] == (405, "MethodNotAllowed")
    assert api.get("/readyz").text == "ok"


# Lists.


def test_pages_show_one_moment(api: httpx.Client, cluster: SimulatedCluster) -> None:
    put(cluster, *(pod(f"p{i}") for i in range(5)), pod("elsewhere", "other"))
    first = api.get(PODS_PATH, params={"limit": 4})
    assert names(first) == ["elsewhere", "p0", "p1", "p2"]
    metadata = first.json()["metadata"]
    assert metadata["remainingItemCount"] == 2
    put(cluster, pod("p9"), pod("p3", phase="Failed"))
    delete(cluster, pod("p4"))
    rest = api.get(PODS_PATH, params={"limit": 4, "continue": metadata["continue"]})
    assert names(rest) == ["p3", "p4"]
    assert rest.json()["items"][0]["status"]["phase"] == "Running"
    assert rest.json()["metadata"] == {"resourceVersion": metadata["resourceVersion"]}
    assert names(api.get("/api/v1/namespaces/train/pods")) == ["p0", "p1", "p2", "p3", "p9"]


def test_a_list_that_was_begun_too_long_ago_begins_anew(api: httpx.Client, cluster: SimulatedCluster) -> None:
    put(cluster, pod("a"), pod("b"))
    first = api.get(PODS_PATH, params={"limit": 1}).json()["metadata"]["continue"]
    for i in range(64):
        put(cluster, pod("a", turn=str(i)))
        api.get(PODS_PATH, params={"limit": 1})
    code, reason, _ = refusal(api.get(PODS_PATH, params={"limit": 1, "continue": first}))
    assert (code, reason) == (410, "Expired")


SELECTORS = {
    "app=web": ["a"],
    "app==web": ["a"],
    "app!=web": ["b", "c"],
    "app": ["a", "b"],
    "!app": ["c"],
    "app in (web, db)": ["a", "b"],
    "app notin (web)": ["b", "c"],
    "app,tier=1": ["b"],
    "example.com/x=1": ["c"],
    "app=": [],
}


@pytest.mark.parametrize("selector", SELECTORS)
def test_labels_select(api: httpx.Client, cluster: SimulatedCluster, selector: str) -> None:
    put(cluster, pod("a", app="web"), pod("b", app="db", tier="1"), pod("c", **{"example.com/x": "1"}))
    assert names(api.get(PODS_PATH, params={"labelSelector": selector})) == SELECTORS[selector]


def test_fields_select(api: httpx.Client, cluster: SimulatedCluster) -> None:
    put(cluster, pod("a"), pod("b", "other"), pod("c", phase="Pending"))

    def chosen(selector: str) -> list[str]:
        return names(api.get(PODS_PATH, params={"fieldSelector": selector}))

    assert chosen("metadata.name=b") == ["b"]
    assert chosen("status.phase!=Running") == ["c"]
    assert chosen("metadata.namespace=train,spec.nodeName=node-1") == ["a", "c"]
    refused = api.get("/api/v1/nodes", params={"fieldSelector": "status.phase=x"})
    assert refusal(refused)[2] == "field label not supported: status.phase"


# Watches.


async def test_a_watch_goes_on_from_a_version(cluster: SimulatedCluster, watch: Callable[..., Any]) -> None:
    put(cluster, pod("old"))
    then = version(cluster)
    put(cluster, pod("a"))
    watched = await watch(resourceVersion=str(then))
    kind, obj = await watched.next()
    assert (kind, obj["metadata"]["name"], obj["kind"], obj["apiVersion"]) == ("ADDED", "a", "Pod", "v1")
    put(cluster, pod("a", phase="Failed"))
    kind, obj = await watched.next()
    assert (kind, obj["status"]["phase"]) == ("MODIFIED", "Failed")
    delete(cluster, pod("a"))
    kind, obj = await watched.next()
    assert (kind, obj["metadata"]["resourceVersion"]) == ("DELETED", str(version(cluster)))


async def test_a_watch_from_nowhere_begins_with_all_there_is(
    cluster: SimulatedCluster, watch: Callable[..., Any]
) -> None:
    put(cluster, pod("a"), pod("b"))
    watched = await watch("/api/v1/namespaces/train/pods")
    assert {(await watched.next())[1]["metadata"]["name"] for _ in "ab"} == {"a", "b"}
    put(cluster, pod("elsewhere", "other"), pod("c"))
    assert (await watched.next())[1]["metadata"]["name"] == "c"


async def test_what_enters_a_selection_is_added_and_what_leaves_it_deleted(
    cluster: SimulatedCluster, watch: Callable[..., Any]
) -> None:
    put(cluster, pod("a", app="web"), pod("b"))
    then = version(cluster)
    watched = await watch(resourceVersion=str(then), labelSelector="app")
    put(cluster, pod("b", app="db"), pod("c"), pod("a"), pod("b", app="web"))
    delete(cluster, pod("c"))
    delete(cluster, pod("b"))
    seen = [(kind, obj["metadata"]["name"]) for kind, obj in [await watched.next() for _ in range(4)]]
    assert seen == [("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_ends_in_time_with_a_bookmark(
    cluster: SimulatedCluster, watch: Callable[..., Any]
) -> None:
    put(cluster, pod("a"))
    then = version(cluster)
    watched = await watch(resourceVersion=str(then), timeoutSeconds="1", allowWatchBookmarks="true")
    put(cluster, {**pod("a"), "apiVersion": "v1", "kind": "Service"})  # another resource moves the version on
    ((kind, mark),) = await watched.rest()
    assert (kind, mark["kind"]) == ("BOOKMARK", "Pod")
    assert mark["metadata"]["resourceVersion"] == str(version(cluster))


async def test_a_watch_from_a_state_to_come_is_told_so(
    cluster: SimulatedCluster, watch: Callable[..., Any]
) -> None:
    """As after a restart, when a client comes with a version of the world before."""
    watched = await watch(resourceVersion="99999999")
    ((kind, status),) = await watched.rest()
    assert (kind, status["code"]) == ("ERROR", 504)


def test_watch_lists_are_refused(api: httpx.Client) -> None:
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert refusal(api.get(PODS_PATH, params=query))[:2] == (422, "Invalid")


def test_definitions_by_name(api: httpx.Client) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = api.get(path, headers={"Accept": accept})
    assert "rayjobs.ray.io" in names(answer)
    assert "pods." not in " ".join(names(answer))
    assert set(answer.json()["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_a_taken_port_is_told(cluster: SimulatedCluster) -> None:
    port = int(cluster.url.rpartition(":")[2])
    with pytest.raises(OSError, match="Address already in use"):
        bind(port)
