"""What the simulated API server says of itself: its version, its API groups and their resources."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from trilens.simulate.objects import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.simulate.objects import Resource

_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_WITHOUT_DOMAIN: Final = ("", "apps", "batch")
_OF_KUBERNETES: Final = ".k8s.io"
_OF_SUBPROJECTS: Final = ".x-k8s.io"  # which bring custom resources as everybody else does
_SHORT_NAMES: Final = {
    "deployments": ["deploy"],
    "daemonsets": ["ds"],
    "endpoints": ["ep"],
    "events": ["ev"],
    "namespaces": ["ns"],
    "nodes": ["no"],
    "persistentvolumeclaims": ["pvc"],
    "pods": ["po"],
    "replicasets": ["rs"],
    "resourcequotas": ["quota"],
    "services": ["svc"],
    "statefulsets": ["sts"],
}

VERSION: Final = {
    "major": "1",
    "minor": "33",
    "gitVersion": "v1.33.4+simulated",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def is_built_in(resource: Resource) -> bool:
    """Not brought by an operator."""
    group = resource.group
    return group in _WITHOUT_DOMAIN or (
        group.endswith(_OF_KUBERNETES) and not group.endswith(_OF_SUBPROJECTS)
    )


def core_versions(address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def groups() -> dict[str, Any]:
    names = dict.fromkeys(resource.group for resource in RESOURCES if resource.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group_named(name: str) -> dict[str, Any] | None:
    if not any(resource.group == name for resource in RESOURCES):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resources_of(group: str, version: str) -> dict[str, Any] | None:
    own = [one for one in RESOURCES if (one.group, one.version) == (group, version)]
    if not own:
        return None
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),  # as it is: the core group's has none
        "groupVersion": own[0].api_version,
        "resources": [described for resource in own for described in _described(resource)],
    }


def definitions(created: str) -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions of what operators bring."""
    for resource in RESOURCES:
        if is_built_in(resource):
            continue
        name = f"{resource.plural}.{resource.group}"
        names = {
            "plural": resource.plural,
            "singular": resource.kind.lower(),
            "kind": resource.kind,
            "listKind": f"{resource.kind}List",
        }
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": created, "reason": reason, "message": said}
            for kind, reason, said in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": name,
                "uid": _uid(name),
                "generation": 1,
                "creationTimestamp": created,
            },
            "spec": {
                "group": resource.group,
                "names": names,
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "versions": [
                    {
                        "name": resource.version,
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                        "subresources": {"status": {}},
                    }
                ],
                "conversion": {"strategy": "None"},
            },
            "status": {
                "conditions": conditions,
                "acceptedNames": names,
                "storedVersions": [resource.version],
            },
        }


def _group(name: str) -> dict[str, Any]:
    own = dict.fromkeys(resource.version for resource in RESOURCES if resource.group == name)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in own]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _described(resource: Resource) -> Iterator[dict[str, Any]]:
    short = _SHORT_NAMES.get(resource.plural) if is_built_in(resource) else None
    yield {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(_VERBS),
        **({"shortNames": short} if short else {}),
    }
    yield {
        "name": f"{resource.plural}/status",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["get", "patch", "update"],
    }


def _uid(name: str) -> str:
    digits = hashlib.sha256(name.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
