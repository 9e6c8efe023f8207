"""`trilens kubernetes rbac` prints roles for kubectl; that they are right is said by tests/kubernetes."""

from __future__ import annotations

from typing import Any

import yaml

from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.rbac import as_yaml, manifests
from trilens_process import trilens


def printed(*options: str) -> list[dict[str, Any]]:
    said = trilens("kubernetes", "rbac", *options)
    assert said.returncode == 0, said.stderr
    return list(yaml.safe_load_all(said.stdout))


def resources(role: dict[str, Any]) -> set[str]:
    return {resource for rule in role["rules"] for resource in rule["resources"]}


def test_all_of_a_cluster_unless_told_otherwise() -> None:
    assert trilens("kubernetes", "rbac").stdout == as_yaml(manifests(choose()))


def test_a_secret_is_granted_by_its_name_alone() -> None:
    role = printed("--secret", "serve/scrape-token")[2]
    assert role["metadata"] == {"name": "trilens-secrets", "namespace": "serve"}
    (rule,) = role["rules"]
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
        ["secrets"],
        ["scrape-token"],
        ["get"],
    )
    said = trilens("kubernetes", "rbac", "--secret", "scrape-token")
    assert (said.returncode, "NAMESPACE/NAME" in said.stderr) == (2, True)


def test_what_why_reads_besides_is_apart() -> None:
    wide, _, inside, _ = printed("--why", "-n", "train")
    assert (wide["metadata"], resources(wide)) == ({"name": "trilens-why"}, {"runtimeclasses"})
    assert inside["metadata"] == {"name": "trilens-why", "namespace": "train"}
    assert resources(inside) == {"pods/log", "services", "podgroups"}
    verbs = {resource: rule["verbs"] for rule in inside["rules"] for resource in rule["resources"]}
    assert verbs == {"pods/log": ["get"], "services": ["list"], "podgroups": ["list"]}


def test_namespaces_account_and_kinds() -> None:
    options = ("-n", "train", "-n", "serve", "--service-account", "watch/lens")
    documents = printed(*options, "--leave-out", "Event", "--add", "Service")
    assert [(one["kind"], one["metadata"].get("namespace")) for one in documents] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "train"),
        ("RoleBinding", "train"),
        ("Role", "serve"),
        ("RoleBinding", "serve"),
    ]
    subject = {"kind": "ServiceAccount", "name": "lens", "namespace": "watch"}
    assert all(one["subjects"] == [subject] for one in documents if "subjects" in one)
    assert "services" in resources(documents[2])
    assert "events" not in resources(documents[2])


def test_what_cannot_be_meant_is_refused() -> None:
    said = trilens("kubernetes", "rbac", "--leave-out", "Evnt")
    assert (said.returncode, said.stdout) == (2, "")
    assert "did you mean 'Event'?" in said.stderr
    for option, written in (("--service-account", "trilens"), ("--secret", "serve/"), ("--secret", "a/b/c")):
        said = trilens("kubernetes", "rbac", option, written)
        assert (said.returncode, said.stdout) == (2, "")
        assert f"write {option} NAMESPACE/NAME" in said.stderr
