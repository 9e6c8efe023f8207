"""The real Kubernetes API server that tests run against does what a cluster's does."""

from __future__ import annotations

import os
import ssl
import subprocess
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from kubernetes_api import Identity, KubernetesServer, Rule, kubernetes_server
from kubernetes_client import NAMESPACES, NODES, PODS, Json, KubernetesClient, Refused, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOOL = Path(__file__).resolve().parents[2] / "tools" / "kubernetes"
READ_PODS = Rule("", ("pods",), ("get", "list", "watch"))


def pod(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "train"}]}}


def code_of(refused: pytest.ExceptionInfo[Refused]) -> int:
    return refused.value.code


@pytest.fixture
def admin(kubernetes: KubernetesServer) -> KubernetesClient:
    return kubernetes.client()


def test_it_serves_the_version_of_its_program(admin: KubernetesClient) -> None:
    folder = subprocess.run([TOOL, "--where"], capture_output=True, text=True, check=True).stdout.strip()
    program = subprocess.run([f"{folder}/kube-apiserver", "--version"], capture_output=True, text=True)
    served = admin.request("GET", "/version")
    assert f"Kubernetes {served['gitVersion']}" == program.stdout.strip()
    if "KUBEBUILDER_ASSETS" not in os.environ:
        assert (served["major"], served["minor"]) == ("1", "20")


def test_an_object_is_created_changed_and_deleted(admin: KubernetesClient, namespace: str) -> None:
    made = admin.create(PODS, pod("a"), namespace)
    assert made["status"]["phase"] == "Pending"

    admin.patch(PODS, "a", {"metadata": {"labels": {"team": "vision"}}}, namespace)
    with pytest.raises(Refused) as refused:
        admin.replace(PODS, made)
    assert code_of(refused) == 409, "somebody else changed it meanwhile"

    current = admin.get(PODS, "a", namespace)
    current["metadata"]["labels"]["team"] = "speech"
    assert admin.replace(PODS, current)["metadata"]["labels"] == {"team": "speech"}

    admin.patch_status(PODS, "a", {"phase": "Running", "podIP": "10.1.2.3"}, namespace)
    assert admin.get(PODS, "a", namespace)["status"]["podIP"] == "10.1.2.3"

    admin.delete(PODS, "a", namespace)
    with pytest.raises(Refused) as refused:
        admin.get(PODS, "a", namespace)
    assert code_of(refused) == 404


def test_a_pod_on_a_node_is_deleted_at_once(admin: KubernetesClient, namespace: str) -> None:
    on_a_node = pod("a")
    on_a_node["spec"]["nodeName"] = "gone"
    admin.create(PODS, on_a_node, namespace)
    admin.delete(PODS, "a", namespace)
    assert admin.list(PODS, namespace)["items"] == []


def test_a_user_without_rights_is_refused(kubernetes: KubernetesServer, namespace: str) -> None:
    nobody = kubernetes.client(kubernetes.user(f"nobody-{namespace}"))
    with pytest.raises(Refused) as refused:
        nobody.list(PODS, namespace)
    assert code_of(refused) == 403


@pytest.fixture(params=["certificate", "token"])
def reader(request: pytest.FixtureRequest, kubernetes: KubernetesServer, namespace: str) -> Identity:
    """Somebody who may read pods, of this namespace only."""
    if request.param == "certificate":
        return kubernetes.user(f"reader-{namespace}", READ_PODS, namespace=namespace)
    return kubernetes.service_account(namespace, "reader", READ_PODS, namespace=namespace)


def test_a_user_may_do_what_the_rules_say(
    kubernetes: KubernetesServer, admin: KubernetesClient, namespace: str, reader: Identity
) -> None:
    admin.create(PODS, pod("a"), namespace)
    client = kubernetes.client(reader)
    assert [item["metadata"]["name"] for item in client.list(PODS, namespace)["items"]] == ["a"]
    beyond: dict[str, Callable[[], Json]] = {
        "another verb": lambda: client.delete(PODS, "a", namespace),
        "another namespace": lambda: client.list(PODS, "kube-system"),
        "all namespaces": lambda: client.list(PODS),
        "another resource": lambda: client.list(NODES),
    }
    for what, call in beyond.items():
        with pytest.raises(Refused) as refused:
            call()
        assert code_of(refused) == 403, what


def test_rules_may_hold_in_all_namespaces(
    kubernetes: KubernetesServer, admin: KubernetesClient, namespace: str
) -> None:
    admin.create(PODS, pod("a"), namespace)
    client = kubernetes.client(kubernetes.service_account(namespace, "everywhere", READ_PODS))
    seen = client.list(PODS)["items"]
    assert (namespace, "a") in {(p["metadata"]["namespace"], p["metadata"]["name"]) for p in seen}


def test_a_kubeconfig_names_the_server_and_the_user(kubernetes: KubernetesServer, reader: Identity) -> None:
    config = yaml.safe_load(kubernetes.kubeconfig(reader).read_text(encoding="utf-8"))
    context = {entry["name"]: entry["context"] for entry in config["contexts"]}[config["current-context"]]
    cluster = {entry["name"]: entry["cluster"] for entry in config["clusters"]}[context["cluster"]]
    user = {entry["name"]: entry["user"] for entry in config["users"]}[context["user"]]
    trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
    if "client-certificate" in user:
        trust.load_cert_chain(user["client-certificate"], user["client-key"])
    client = KubernetesClient(cluster["server"], trust, user.get("token", ""))
    with pytest.raises(Refused, match=f'User \\\\"{reader.name}\\\\" cannot list') as refused:
        client.list(NODES)
    assert code_of(refused) == 403, "known, but not allowed"
    client.close()


@pytest.fixture
def train_jobs(admin: KubernetesClient, namespace: str) -> Resource:
    """A kind that some operator would bring, of a group that no other test has."""
    resource = Resource(f"{namespace}.example.com", "v1alpha1", "trainjobs", "TrainJob")
    admin.define(resource)
    return resource


def names_and_types(events: Iterator[Json], count: int) -> list[tuple[str, str]]:
    return [(e["type"], e["object"]["metadata"]["name"]) for e in islice(events, count)]


def test_a_kind_of_an_operator_can_be_defined_and_watched(
    admin: KubernetesClient, namespace: str, train_jobs: Resource
) -> None:
    before = admin.list(train_jobs, namespace)["metadata"]["resourceVersion"]
    with admin.watch(train_jobs, namespace, {"resourceVersion": before}) as events:
        made = admin.create(
            train_jobs, {"metadata": {"name": "a"}, "spec": {"anything": {"at": ["all"]}}}, namespace
        )
        assert made["spec"] == {"anything": {"at": ["all"]}}
        changed = admin.patch_status(train_jobs, "a", {"phase": "Running"}, namespace)
        assert (changed["status"], changed["metadata"]["generation"]) == ({"phase": "Running"}, 1)
        admin.delete(train_jobs, "a", namespace)
        assert names_and_types(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_kind_may_have_a_schema(admin: KubernetesClient, namespace: str) -> None:
    queues = Resource(f"{namespace}.example.com", "v1", "queues", "Queue", namespaced=False)
    spec = {"type": "object", "properties": {"gpus": {"type": "integer"}}}
    admin.define(queues, {"type": "object", "properties": {"spec": spec}})
    made = admin.create(queues, {"metadata": {"name": "a"}, "spec": {"gpus": 8, "unknown": 1}})
    assert made["spec"] == {"gpus": 8}
    with pytest.raises(Refused) as refused:
        admin.create(queues, {"metadata": {"name": "b"}, "spec": {"gpus": "eight"}})
    assert code_of(refused) == 422


def test_killed_and_started_again_it_has_its_objects(private_kubernetes: KubernetesServer) -> None:
    admin = private_kubernetes.client()
    made = admin.create(PODS, pod("a"), "default")
    reader = private_kubernetes.user("reader", READ_PODS)
    private_kubernetes.kill()
    with pytest.raises(httpx.TransportError):
        admin.get(PODS, "a", "default")

    private_kubernetes.start()
    assert private_kubernetes.client(reader).get(PODS, "a", "default") == made
    admin.create(PODS, pod("b"), "default")


def test_history_that_was_forgotten_is_gone(private_kubernetes: KubernetesServer) -> None:
    admin = private_kubernetes.client()
    admin.create(NAMESPACES, {"metadata": {"name": "forgotten"}})
    since = admin.create(PODS, pod("a"), "forgotten")["metadata"]["resourceVersion"]
    admin.create(PODS, pod("b"), "forgotten")
    next_page = admin.list(PODS, "forgotten", query={"limit": 1})["metadata"]["continue"]
    with admin.watch(PODS, query={"resourceVersion": since}) as events:
        assert names_and_types(events, 1) == [("ADDED", "b")]

    private_kubernetes.forget_history()
    with admin.watch(PODS, query={"resourceVersion": since}) as events:
        told = next(events)
        assert (told["type"], told["object"]["code"]) == ("ERROR", 410)
    with pytest.raises(Refused) as refused:
        admin.list(PODS, "forgotten", query={"limit": 1, "continue": next_page})
    assert code_of(refused) == 410
    assert [item["metadata"]["name"] for item in admin.list(PODS, "forgotten")["items"]] == ["a", "b"]


def test_thousands_of_pods_can_be_created(admin: KubernetesClient, namespace: str) -> None:
    names = [f"worker-{i:04}" for i in range(2000)]
    made = admin.create_all(PODS, (pod(name) for name in names), namespace)
    assert [item["metadata"]["name"] for item in made] == names
    assert len(admin.list(PODS, namespace)["items"]) == 2000


def test_creating_many_tells_of_a_refusal(admin: KubernetesClient, namespace: str) -> None:
    with pytest.raises(Refused) as refused:
        admin.create_all(PODS, [pod("a"), pod("a")], namespace)
    assert code_of(refused) == 409


@pytest.fixture
def without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(empty))
    return tmp_path


def test_without_a_server_tests_skip_and_say_so(
    without_a_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match=r"no etcd in .*/empty: run tools/kubernetes"),
        kubernetes_server(without_a_server),
    ):
        pass


def test_without_a_server_tests_fail_in_ci(without_a_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no etcd in"), kubernetes_server(without_a_server):
        pass
