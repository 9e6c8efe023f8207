"""Kubernetes objects, as they cross from the watch to whoever makes sense of them."""

from __future__ import annotations

# What is in annotations here is read when a bundle is read.
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass
from typing import Any, NamedTuple


class GroupKind(NamedTuple):
    """What an object is. The group counts: Volcano's Job is not batch's."""

    group: str  # "" for the core group
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class OwnerRef(NamedTuple):
    group: str
    kind: str
    name: str
    uid: str
    controller: bool = False

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)


@dataclass(frozen=True, slots=True)
class KubeObject:
    """One object at one moment. Of `body` (everything but metadata) the intake keeps what is used."""

    cluster: str
    group: str
    version: str
    kind: str
    namespace: str  # "" where the object belongs to the whole cluster
    name: str
    uid: str
    resource_version: str
    created_ms: int
    deleted_ms: int | None  # since when it is being deleted
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[OwnerRef, ...]
    body: Mapping[str, Any]

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def controller(self) -> OwnerRef | None:
        """The owner that made it, where one says so; else the only one, if there is only one."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return self.owners[0] if len(self.owners) == 1 else None
