"""Nodes of a test on the real API server, and a keeper that may be started over them again and again."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kubernetes_client import NODES, Resource
from live_cluster import make_node
from servers import until
from trilens.model.event import EventKind, EventRecord
from trilens.model.fix import SERVER, Deed, Fix, FixState, FixTarget, fix_id
from trilens.serve.cure.keeper import CureKeeper
from trilens.settings.cure import CurePolicy
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import Identity, KubernetesServer
    from trilens.serve.cure.book import FixLog
    from trilens.store.store import Store

RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
VOLCANO_COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
HOME = "cure-keeper"
POLICY = CurePolicy.model_validate({"allow": [{"do": list(Deed)}], "max_nodes": 100, "approved": ["xid-79"]})


class Bench:
    def __init__(self, kubernetes: KubernetesServer, store: Store, folder: Path, name: str) -> None:
        self.store, self.name = store, name
        self.nodes: list[str] = []
        self._kubernetes, self._folder = kubernetes, folder

    def node(self, n: int = 0) -> str:
        made = f"{self.name}-{n}"
        make_node(self._kubernetes.client(), made)
        self.nodes.append(made)
        return made

    def is_closed(self, node: str) -> bool:
        return bool(self._kubernetes.client().get(NODES, node)["spec"].get("unschedulable"))

    @contextmanager
    def keeper(
        self,
        policy: CurePolicy | None = POLICY,
        identity: Identity | None = None,
        records: FixLog | None = None,
    ) -> Iterator[CureKeeper]:
        """`records` are another server's, or those of the store."""
        cluster = ClusterSettings(kubeconfig=self._kubernetes.kubeconfig(identity))
        found = self._kubernetes.client().list(NODES)["items"]
        nodes = {one["metadata"]["name"] for one in found}
        keeper = CureKeeper(
            policy,
            KubernetesSettings(clusters={"lab": cluster}),
            self._folder,
            records or self.store.fixes,
            self.store.events,
            lambda node: ["lab"] if node in nodes else [],
        )
        keeper.start()
        try:
            yield keeper
        finally:
            keeper.stop()

    def fix(self, id: str) -> Fix | None:
        self.store.fixes.settled(5)
        return self.store.fixes.get(id)

    def comes_to(self, id: str, state: FixState) -> Fix:
        def is_so() -> bool:
            found = self.fix(id)
            return found is not None and found.state is state

        until(is_so, f"{id} is not {state}")
        found = self.fix(id)
        assert found is not None
        return found


def node_target(node: str) -> FixTarget:
    return FixTarget("lab", "", "Node", "", node)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def begun(node: str, by: str = SERVER, **more: Any) -> Fix:
    fix = Fix(fix_id(node), now_ms(), Deed.CORDON, node_target(node), by, "why", "", FixState.BEGUN)
    return replace(fix, fault="xid-79", **more)


def xid(node: str, code: int, id: str = "e1", **more: Any) -> EventRecord:
    event = EventRecord(
        node, id, now_ms(), EventKind.XID, code, "NVRM", None, None, None, 0, None, None, None, None
    )
    return replace(event, **more)
