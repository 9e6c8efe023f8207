"""The permissions that the watched kinds need, and no more: to list and to watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.collect.kubernetes.watched_kind import WatchedKind

VERBS: Final = ("list", "watch")
DEFINITIONS_GROUP: Final = "apiextensions.k8s.io"
DEFINITIONS: Final = "customresourcedefinitions"
COMMANDS_GROUP: Final = "bus.volcano.sh"  # what Volcano's jobs are restarted by
COMMANDS: Final = "commands"
_API: Final = "rbac.authorization.k8s.io"
_NAMESPACES: Final = "namespaces"

Document = dict[str, Any]


class Grant(NamedTuple):
    """A permission that is missing."""

    verb: str
    group: str
    resource: str
    namespace: str = ""  # "" for all of them
    name: str = ""  # "" for all of them

    def __str__(self) -> str:
        what = f"the {self.resource} named {self.name}" if self.name else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f'allow "{self.verb}" on {what} of API group "{self.group}" {where}'

    def rule(self) -> Document:
        rule = {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}
        return {**rule, "resourceNames": [self.name]} if self.name else rule


class SecretName(NamedTuple):
    namespace: str
    name: str


def manifests(
    kinds: Iterable[WatchedKind],
    namespaces: Sequence[str] = (),
    *,
    secrets: Iterable[SecretName] = (),
    name: str = "trilens",
    home: str = "trilens",
) -> list[Document]:
    """Roles and their bindings to the service account `name` in the namespace `home`.

    `secrets` are those that monitors name: each is granted alone, and only to be read by its name.
    """
    kinds = tuple(kinds)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": home}
    by_name = _secret_roles(secrets, f"{name}-secrets", subject)
    if not namespaces:
        return [*_bound("ClusterRole", name, [*_rules(kinds), _definitions()], subject), *by_name]
    # What lies in no namespace can only be granted for the whole cluster. Namespaces go by name.
    wide = [kind for kind in kinds if not kind.namespaced and kind.plural != _NAMESPACES]
    rules = [*_rules(wide), _definitions()]
    if any(kind.plural == _NAMESPACES for kind in kinds):
        rules.append({**_rule("", [_NAMESPACES]), "resourceNames": sorted(namespaces)})
    documents = _bound("ClusterRole", name, rules, subject)
    inside = _rules(kind for kind in kinds if kind.namespaced)
    for namespace in namespaces:
        documents += _bound("Role", name, inside, subject, namespace)
    return [*documents, *by_name]


def fix_manifests(
    kinds: Iterable[WatchedKind],
    namespaces: Sequence[str] = (),
    *,
    name: str = "trilens",
    home: str = "trilens",
) -> list[Document]:
    """What `trilens fix` needs besides: apart from reading, so that a cluster may grant the one without the
    other. `kinds` are those of workloads."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": home}
    role = f"{name}-fix"
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}
    by_group: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.namespaced and kind.group_kind.group:
            by_group.setdefault(kind.group_kind.group, []).append(kind.plural)
    inside = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "patch"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        *(
            {"apiGroups": [group], "resources": sorted(found), "verbs": ["patch"]}
            for group, found in by_group.items()
        ),
        {"apiGroups": [COMMANDS_GROUP], "resources": [COMMANDS], "verbs": ["create"]},
    ]
    if not namespaces:
        return _bound("ClusterRole", role, [nodes, *inside], subject)
    documents = _bound("ClusterRole", role, [nodes], subject)
    for namespace in namespaces:
        documents += _bound("Role", role, inside, subject, namespace)
    return documents


def why_manifests(
    kinds: Iterable[WatchedKind],
    namespaces: Sequence[str] = (),
    *,
    name: str = "trilens",
    home: str = "trilens",
) -> list[Document]:
    """What `trilens why` reads besides when it is asked: what containers wrote, and `kinds` that nobody
    watches. Apart, since logs may hold anything."""
    kinds = tuple(kinds)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": home}
    role, verbs = f"{name}-why", ("list",)
    logs = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    if not namespaces:
        return _bound("ClusterRole", role, [logs, *_rules(kinds, verbs)], subject)
    documents = _bound("ClusterRole", role, _rules((k for k in kinds if not k.namespaced), verbs), subject)
    inside = [logs, *_rules((kind for kind in kinds if kind.namespaced), verbs)]
    for namespace in namespaces:
        documents += _bound("Role", role, inside, subject, namespace)
    return documents


def as_yaml(documents: Iterable[Document]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, default_flow_style=None, width=110)


def _rules(kinds: Iterable[WatchedKind], verbs: Sequence[str] = VERBS) -> list[Document]:
    by_group: dict[str, list[str]] = {}
    for kind in kinds:
        by_group.setdefault(kind.group_kind.group, []).append(kind.plural)
    return [_rule(group, sorted(plurals), verbs) for group, plurals in by_group.items()]


def _secret_roles(secrets: Iterable[SecretName], role: str, subject: Document) -> list[Document]:
    by_namespace: dict[str, list[str]] = {}
    for namespace, name in sorted(set(secrets)):
        by_namespace.setdefault(namespace, []).append(name)
    documents = []
    for namespace, names in by_namespace.items():
        rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": ["get"]}
        documents += _bound("Role", role, [rule], subject, namespace)
    return documents


def _definitions() -> Document:
    """So that an operator that is installed later is seen at once, and not within a minute."""
    return _rule(DEFINITIONS_GROUP, [DEFINITIONS])


def _rule(group: str, resources: list[str], verbs: Sequence[str] = VERBS) -> Document:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _bound(
    kind: str, name: str, rules: list[Document], subject: Document, namespace: str = ""
) -> list[Document]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    head = {"apiVersion": f"{_API}/v1"}
    return [
        {**head, "kind": kind, "metadata": metadata, "rules": rules},
        {
            **head,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _API, "kind": kind, "name": name},
            "subjects": [subject],
        },
    ]
