"""Kubernetes objects for tests, written as manifests and read as the watch would hand them over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trilens.model.kubernetes import KubeObject, OwnerRef
from trilens.resolve.operators import BY_KIND
from trilens.resolve.reading import time_ms
from trilens.resolve.resolver import ClusterResolver
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.workload import Membership, Workload, WorkloadKey

Manifest = dict[str, Any]

NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z


def at(seconds: float) -> str:
    """A Kubernetes time so many seconds after noon."""
    return datetime.fromtimestamp(NOON_MS / 1000 + seconds, UTC).isoformat().replace("+00:00", "Z")


def at_ms(seconds: float) -> int:
    return NOON_MS + round(seconds * 1000)


def to_object(manifest: Manifest, cluster: str = "test") -> KubeObject:
    meta = manifest["metadata"]
    group, _, version = manifest["apiVersion"].rpartition("/")
    owners = []
    for owner in meta.get("ownerReferences", ()):
        owner_group = owner["apiVersion"].rpartition("/")[0]
        owners.append(
            OwnerRef(owner_group, owner["kind"], owner["name"], owner["uid"], owner.get("controller", False))
        )
    return KubeObject(
        cluster,
        group,
        version,
        manifest["kind"],
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        meta.get("resourceVersion", "1"),
        time_ms(meta.get("creationTimestamp")) or NOON_MS,
        time_ms(meta.get("deletionTimestamp")),
        meta.get("labels", {}),
        meta.get("annotations", {}),
        tuple(owners),
        {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")},
    )


def owned_by(owner: Manifest, *, controller: bool = True) -> Manifest:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
    }


class MadeObjects:
    """Stands for the API server: gives uids, remembers everything."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []

    def create(self, manifest: Manifest) -> Manifest:
        meta = manifest["metadata"]
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{len(self.manifests):05d}"
        meta.setdefault("namespace", "default")
        meta.setdefault("uid", f"uid-{manifest['kind'].lower()}-{meta['name']}-{len(self.manifests)}")
        meta.setdefault("creationTimestamp", at(0))
        self.manifests.append(manifest)
        return manifest

    def objects(self) -> list[KubeObject]:
        return [to_object(manifest) for manifest in self.manifests]


class KeptIntervals:
    """A sink in memory, with the rule that the same beginning replaces."""

    def __init__(self) -> None:
        self.memberships: dict[tuple[object, int], MembershipInterval] = {}
        self.phases: dict[tuple[WorkloadKey, int, str], PhaseInterval] = {}
        self.records: dict[WorkloadKey, Workload] = {}
        self.told = 0

    def membership(self, interval: MembershipInterval) -> None:
        self.told += 1
        self.memberships[interval.membership.pod, interval.from_ms] = interval

    def phase(self, interval: PhaseInterval) -> None:
        self.told += 1
        self.phases[interval.workload, interval.from_ms, interval.phase] = interval

    def workload(self, record: Workload) -> None:
        self.told += 1
        self.records[record.key] = record

    def phases_of(self, name: str) -> list[str]:
        return [interval.phase.value for key, interval in self.phases.items() if key[0].name == name]


def resolver(sink: KeptIntervals | None = None, **ownership: Any) -> ClusterResolver:
    """One that has read every kind there is an operator for."""
    made = ClusterResolver(
        "test",
        OwnershipSettings(**ownership),
        TopologySettings(),
        sink if sink is not None else KeptIntervals(),
    )
    sync(made)
    return made


def sync(made: ClusterResolver) -> None:
    for kind in BY_KIND:
        made.synced(kind)


def resolved(objects: Iterable[KubeObject], made: ClusterResolver | None = None) -> dict[str, Membership]:
    """The memberships by pod name."""
    made = made if made is not None else resolver()
    for obj in objects:
        made.changed(obj)
    made.settle(at_ms(3600))
    made.settle(at_ms(3700))  # patience with owners that never come is over
    return {key.name: member for key, member in made.memberships().items()}
