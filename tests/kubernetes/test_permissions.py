"""The generated roles are enough, no rule in them is too many, and what is missing is named."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from watching import IMPATIENT, as_user, watching

from kubernetes_api import Identity, KubernetesServer, kubernetes_server
from kubernetes_client import NAMESPACES, PODS, KubernetesClient, Resource
from trilens.collect.kubernetes.catalogue import ALL, choose
from trilens.collect.kubernetes.rbac import Document, as_yaml, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

_RBAC = "rbac.authorization.k8s.io"
ROLES = {
    "ClusterRole": Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(
        _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    ),
    "Role": Resource(_RBAC, "v1", "roles", "Role"),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
}
DEFINITIONS = "CustomResourceDefinition.apiextensions.k8s.io"
OPERATORS = [kind for kind in ALL if kind.by_operator]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """One that has every operator's kinds."""
    with kubernetes_server(tmp_path_factory.mktemp("with-operators")) as server:
        for kind in OPERATORS:
            group_kind = kind.group_kind
            resource = Resource(group_kind.group, "v1", kind.plural, group_kind.kind, kind.namespaced)
            server.client().define(resource)
        for name in ("trilens", "train", "serve"):
            server.client().create(NAMESPACES, {"metadata": {"name": name}})
        yield server


@pytest.fixture
def trilens(server: KubernetesServer) -> Identity:
    """A service account that may do nothing yet."""
    return server.service_account("trilens", f"t-{uuid.uuid4().hex[:8]}")


def account(identity: Identity) -> str:
    return identity.name.rpartition(":")[2]


def apply(client: KubernetesClient, documents: list[Document]) -> None:
    for document in documents:
        namespace = document["metadata"].get("namespace", "")
        client.create(ROLES[document["kind"]], document, namespace)


def grant_all(client: KubernetesClient, identity: Identity) -> Document:
    """Returns the role."""
    documents = manifests(choose(), name=account(identity))
    apply(client, documents)
    return documents[0]


def set_rules(client: KubernetesClient, role: Document, rules: list[dict[str, Any]]) -> None:
    resource, namespace = ROLES[role["kind"]], role["metadata"].get("namespace", "")
    client.patch(resource, role["metadata"]["name"], {"rules": rules}, namespace)


SERVED = [kind for kind in choose() if str(kind.group_kind) != "ResourceClaim.resource.k8s.io"]


async def test_the_whole_cluster_with_exactly_the_generated_role(
    server: KubernetesServer, trilens: Identity
) -> None:
    """And with each of its rules taken away, exactly what that rule is for is missed."""
    admin = server.client()
    role = grant_all(admin, trilens)
    async with watching(as_user(server, trilens)) as cluster:
        sink = cluster.sink
        await cluster.until_synced(*(str(kind.group_kind) for kind in SERVED))
        await cluster.until_state(lambda: cluster.resource(DEFINITIONS).synced)
        await cluster.until_state(lambda: all(s.trouble is None for s in cluster.state().resources))
        assert cluster.state().grants == ()
        assert cluster.state().synced
        admin.create(PODS, _POD, "train")
        await sink.until(lambda: "a" in sink.names("Pod", "train"))

    for missing in role["rules"]:
        if missing["apiGroups"] == ["resource.k8s.io"]:
            continue  # this server is too old to have it
        set_rules(admin, role, [rule for rule in role["rules"] if rule is not missing])
        expected = {(missing["apiGroups"][0], resource) for resource in missing["resources"]}
        async with watching(as_user(server, trilens)) as cluster:
            await cluster.until_state(
                lambda cluster=cluster, expected=expected: (
                    {(grant.group, grant.resource) for grant in cluster.state().grants} == expected
                    and cluster.state().synced
                )
            )


async def test_some_namespaces_with_exactly_the_generated_roles(
    server: KubernetesServer, trilens: Identity
) -> None:
    admin = server.client()
    documents = manifests(choose(), ["train", "serve"], name=account(trilens))
    apply(admin, documents)
    async with watching(as_user(server, trilens), namespaces=["train", "serve"]) as cluster:
        await cluster.until_synced(*(str(kind.group_kind) for kind in SERVED))
        await cluster.until_state(lambda: all(s.trouble is None for s in cluster.state().resources))
        assert cluster.sink.names("Namespace", "") == {"train", "serve"}

    inside = next(d for d in documents if d["kind"] == "Role" and d["metadata"]["namespace"] == "train")
    set_rules(admin, inside, [rule for rule in inside["rules"] if rule["apiGroups"] != ["batch"]])
    async with watching(as_user(server, trilens), namespaces=["train", "serve"]) as cluster:
        await cluster.until_state(lambda: len(cluster.state().grants) == 1 and cluster.state().synced)
        assert (
            str(cluster.state().grants[0]) == 'allow "list" on jobs of API group "batch" in namespace train'
        )
        assert cluster.resource("Job.batch", "serve").trouble is None
        assert cluster.sink.remedies == [str(cluster.state().grants[0])], "told once"

    set_rules(admin, inside, inside["rules"])
    wide = documents[0]
    set_rules(admin, wide, [rule for rule in wide["rules"] if "resourceNames" not in rule])
    async with watching(as_user(server, trilens), namespaces=["train", "serve"]) as cluster:
        await cluster.until_state(lambda: len(cluster.state().grants) == 2 and cluster.state().synced)
        assert str(cluster.state().grants[1]) == (
            'allow "list" on the namespaces named train of API group "" in the whole cluster'
        )
        assert cluster.state().grants[1].rule()["resourceNames"] == ["train"]


async def test_a_permission_that_is_taken_away_and_given_back(
    server: KubernetesServer, trilens: Identity
) -> None:
    admin = server.client()
    role = grant_all(admin, trilens)
    admin.create(PODS, {**_POD, "metadata": {"name": "kept"}}, "serve")
    timing = replace(IMPATIENT, watch_s=1.0)  # a watch that is open goes on until it is opened again
    async with watching(as_user(server, trilens), only=["Pod", "Job.batch"], timing=timing) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Pod", "Job.batch")
        set_rules(admin, role, [rule for rule in role["rules"] if rule["apiGroups"] != [""]])
        await cluster.until_state(lambda: cluster.resource("Pod").trouble is not None)
        trouble = cluster.resource("Pod").trouble
        assert trouble is not None
        assert 'cannot watch resource "pods"' in trouble.text or 'cannot list resource "pods"' in trouble.text
        assert trouble.grant is not None
        assert trouble.grant.rule()["resources"] == ["pods"]
        assert sink.names("Pod", "serve") == {"kept"}, "not to be seen is not to be gone"
        assert cluster.resource("Job.batch").trouble is None

        admin.delete(PODS, "kept", "serve")
        set_rules(admin, role, role["rules"])
        await sink.until(lambda: not sink.names("Pod", "serve"))
        await cluster.until_state(lambda: cluster.resource("Pod").trouble is None)


def test_the_rules_allow_nothing_but_to_read() -> None:
    for documents in (manifests(ALL), manifests(ALL, ["train"])):
        rules = [rule for document in documents for rule in document.get("rules", ())]
        assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
        assert not any("*" in rule["resources"] + rule["apiGroups"] for rule in rules)
        assert not any("secrets" in rule["resources"] for rule in rules)
        assert as_yaml(documents).count("kind: ClusterRoleBinding") == 1


_POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "train"}]}}
