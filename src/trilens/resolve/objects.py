"""The objects of one cluster, by uid and by name, and the walk up their owners.

A name may pass to a new object, so everything is keyed on uid; group and kind are both compared, for
Volcano's Job is not batch's. The walk goes through Pods: a LeaderWorkerSet's worker hangs under one.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.kubernetes import GroupKind, KubeObject, OwnerRef

if TYPE_CHECKING:
    from collections.abc import Iterator

POD = GroupKind("", "Pod")

# The same objects under their first API group; old owner references still say so.
_MOVED_GROUPS = {
    GroupKind("extensions", kind): GroupKind("apps", kind)
    for kind in ("Deployment", "ReplicaSet", "DaemonSet")
}


class ObjectName(NamedTuple):
    """An object by what people call it. Whose it is changes when it is deleted and made anew."""

    group_kind: GroupKind
    namespace: str
    name: str


class Link(NamedTuple):
    """One owner on the way up. `found` is None where only the reference to it is known."""

    group_kind: GroupKind
    namespace: str
    name: str
    uid: str
    found: KubeObject | None


class ChainEnd(Enum):
    TOP = "top"  # the last one has no owner
    MISSING = "missing"  # the last one is named, and is not there
    CYCLE = "cycle"  # the last one is owned by an earlier one


class Chain(NamedTuple):
    links: tuple[Link, ...]  # from the direct owner upward
    end: ChainEnd
    cycle_start: int = 0  # with CYCLE: where the links begin that own each other


class Objects:
    def __init__(self) -> None:
        self._by_uid: dict[str, KubeObject] = {}
        self._uid_by_name: dict[ObjectName, str] = {}
        self._children: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._referred: dict[ObjectName, dict[str, int]] = {}  # uids that owner references give to a name

    def put(self, new: KubeObject) -> KubeObject | None:
        """Take in an object; returns what this one replaces: its last state, or a namesake that is gone."""
        name = object_name(new)
        old = self._by_uid.get(new.uid)
        if old is None:
            namesake = self._uid_by_name.get(name)
            if namesake is not None and namesake != new.uid:
                old = self._by_uid[namesake]
        if old is not None:
            self._unlink(old)
        self._by_uid[new.uid] = new
        self._uid_by_name[name] = new.uid
        for owner in new.owners:
            self._children[owner.uid][new.uid] = None
            referred = self._referred.setdefault(_referred_name(owner, new), {})
            referred[owner.uid] = referred.get(owner.uid, 0) + 1
        return old

    def drop(self, uid: str) -> KubeObject | None:
        old = self._by_uid.get(uid)
        if old is not None:
            self._unlink(old)
        return old

    def get(self, uid: str) -> KubeObject | None:
        return self._by_uid.get(uid)

    def named(self, group_kind: GroupKind, namespace: str, name: str) -> KubeObject | None:
        uid = self._uid_by_name.get(ObjectName(group_kind, namespace, name))
        return self._by_uid[uid] if uid is not None else None

    def uid_of(self, name: ObjectName) -> str | None:
        """The uid behind a name: of the object, or as others refer to it where it cannot be read."""
        uid = self._uid_by_name.get(name)
        if uid is not None:
            return uid
        referred = self._referred.get(name, {})
        return next(iter(referred)) if len(referred) == 1 else None

    def children(self, uid: str) -> Iterator[KubeObject]:
        for child in tuple(self._children.get(uid, ())):
            yield self._by_uid[child]

    def pods_below(self, uid: str) -> Iterator[KubeObject]:
        """Every pod that has this object above it, however far."""
        seen = {uid}
        ahead = [uid]
        while ahead:
            for child in self.children(ahead.pop()):
                if child.uid in seen:
                    continue
                seen.add(child.uid)
                ahead.append(child.uid)
                if child.group_kind == POD:
                    yield child

    def chain(self, start: KubeObject) -> Chain:
        """The owners of an object, upward, as far as they can be followed."""
        links: list[Link] = []
        place = {start.uid: -1}
        current = start
        while (owner := _owner_to_follow(current)) is not None:
            if owner.uid in place:
                return Chain(tuple(links), ChainEnd.CYCLE, max(place[owner.uid], 0))
            group_kind = canonical(owner.group_kind)
            found = self._by_uid.get(owner.uid)
            if found is not None and found.group_kind != group_kind:
                found = (
                    None  # that uid is something else: the reference is wrong, and Kubernetes ignores it too
                )
            namespace = found.namespace if found is not None else start.namespace
            place[owner.uid] = len(links)
            links.append(Link(group_kind, namespace, owner.name, owner.uid, found))
            if found is None:
                return Chain(tuple(links), ChainEnd.MISSING)
            current = found
        return Chain(tuple(links), ChainEnd.TOP)

    def _unlink(self, old: KubeObject) -> None:
        del self._by_uid[old.uid]
        name = object_name(old)
        if self._uid_by_name.get(name) == old.uid:
            del self._uid_by_name[name]
        for owner in old.owners:
            children = self._children.get(owner.uid)
            if children is not None:
                children.pop(old.uid, None)
                if not children:
                    del self._children[owner.uid]
            self._refer_less(_referred_name(owner, old), owner.uid)

    def _refer_less(self, name: ObjectName, uid: str) -> None:
        referred = self._referred.get(name, {})
        if referred.get(uid, 0) > 1:
            referred[uid] -= 1
        else:
            referred.pop(uid, None)
            if not referred:
                self._referred.pop(name, None)


def canonical(group_kind: GroupKind) -> GroupKind:
    return _MOVED_GROUPS.get(group_kind, group_kind)


def object_name(obj: KubeObject) -> ObjectName:
    return ObjectName(obj.group_kind, obj.namespace, obj.name)


def owner_names(obj: KubeObject) -> Iterator[ObjectName]:
    """What its owner references call them."""
    for owner in obj.owners:
        yield _referred_name(owner, obj)


def _referred_name(owner: OwnerRef, child: KubeObject) -> ObjectName:
    return ObjectName(canonical(owner.group_kind), child.namespace, owner.name)


def _owner_to_follow(obj: KubeObject) -> OwnerRef | None:
    """The controller. Of several owners with none in charge, the first: always the same one, at least."""
    return obj.controller or (min(obj.owners) if obj.owners else None)
