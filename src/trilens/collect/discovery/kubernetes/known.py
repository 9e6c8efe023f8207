"""The objects that targets are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.discovery.kubernetes.kinds import NODE, POD, SERVICE

if TYPE_CHECKING:
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import GroupKind, KubeObject


class Known:
    """Of a kind that is not followed nothing is known: nodes have a say only where they are asked for."""

    def __init__(self) -> None:
        self._objects: dict[GroupKind, dict[tuple[str, str], KubeObject]] = {}

    def take(self, obj: KubeObject) -> None:
        self._objects.setdefault(obj.group_kind, {})[obj.namespace, obj.name] = obj

    def drop(self, obj: KubeObject) -> None:
        self._objects.get(obj.group_kind, {}).pop((obj.namespace, obj.name), None)

    def all(self, kind: WatchedKind) -> list[KubeObject]:
        return list(self._objects.get(kind.group_kind, {}).values())

    def node(self, name: str) -> KubeObject | None:
        return self._get(NODE, "", name)

    def pod(self, namespace: str, name: str) -> KubeObject | None:
        return self._get(POD, namespace, name)

    def service(self, namespace: str, name: str) -> KubeObject | None:
        return self._get(SERVICE, namespace, name)

    def _get(self, kind: WatchedKind, namespace: str, name: str) -> KubeObject | None:
        return self._objects.get(kind.group_kind, {}).get((namespace, name))
