"""What is known of one resource, and the telling of how that differs from what comes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Set

    from trilens.model.kubernetes import KubeObject


class Listener(Protocol):
    def changed(self, obj: KubeObject) -> None: ...

    def removed(self, obj: KubeObject) -> None: ...


class ObjectKey(NamedTuple):
    namespace: str
    name: str


class KnownObjects:
    def __init__(self, listener: Listener, *, remembered: bool) -> None:
        """Objects that are not remembered are told once in each version, and never as removed."""
        self._listener = listener
        self._remembered = remembered
        self._objects: dict[ObjectKey, KubeObject] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def take(self, obj: KubeObject) -> ObjectKey:
        key = ObjectKey(obj.namespace, obj.name)
        before = self._objects.get(key)
        if before is not None and before.resource_version == obj.resource_version:
            return key
        if not self._remembered:
            self._objects[key] = replace(obj, labels={}, annotations={}, owners=(), body={})
            self._listener.changed(obj)
            return key
        if before is not None and before.uid != obj.uid:
            self._listener.removed(before)  # and another one of its name came, while we did not look
            before = None
        self._objects[key] = obj
        if before is None or not _says_the_same(before, obj):
            self._listener.changed(obj)
        return key

    def remove(self, obj: KubeObject) -> None:
        """`obj` is how it was at its end."""
        before = self._objects.pop(ObjectKey(obj.namespace, obj.name), None)
        if before is not None and self._remembered:
            self._listener.removed(obj if obj.uid == before.uid else before)

    def keep_only(self, present: Set[ObjectKey] = frozenset()) -> None:
        for key in self._objects.keys() - present:
            before = self._objects.pop(key)
            if self._remembered:
                self._listener.removed(before)

    def inherit(self, older: KnownObjects) -> None:
        """What is known from another version of the kind: it is told again, or as removed."""
        self._objects = {key: replace(obj, resource_version="") for key, obj in older._objects.items()}


def _says_the_same(a: KubeObject, b: KubeObject) -> bool:
    """In all that is kept of it: a node's heartbeat makes a new version of it, and says nothing new."""
    return (
        a.version == b.version
        and a.body == b.body
        and a.labels == b.labels
        and a.annotations == b.annotations
        and a.owners == b.owners
        and a.deleted_ms == b.deleted_ms
    )
