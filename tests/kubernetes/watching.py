"""A cluster watched in a test: what it told, and waiting for it to tell more."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.cluster import ClusterWatch
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.collect.kubernetes.timing import WatchTiming

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kubernetes_api import Identity, KubernetesServer
    from trilens.collect.kubernetes.access import Access
    from trilens.collect.kubernetes.state import ClusterState, ResourceState
    from trilens.model.kubernetes import GroupKind, KubeObject

PATIENCE_S = 30.0  # a test that waits longer has failed

# Everything that takes minutes in a real cluster, in moments.
IMPATIENT = WatchTiming(
    first_retry_s=0.02, last_retry_s=0.5, refused_retry_s=0.2, discovery_s=0.5, gone_after_s=30.0
)


class RecordingSink:
    """An ObjectSink that keeps what there is, and in which order it was told."""

    def __init__(self) -> None:
        self.objects: dict[tuple[GroupKind, str, str], KubeObject] = {}
        self.told: list[tuple[str, str, str]] = []  # what happened, kind, name
        self.synced_kinds: list[str] = []
        self.remedies: list[str] = []
        self._told = asyncio.Event()

    def changed(self, obj: KubeObject) -> None:
        self.objects[obj.group_kind, obj.namespace, obj.name] = obj
        self._tell("changed", obj.group_kind, obj.name)

    def removed(self, obj: KubeObject) -> None:
        del self.objects[obj.group_kind, obj.namespace, obj.name]
        self._tell("removed", obj.group_kind, obj.name)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        self.synced_kinds.append(str(kind))
        self._tell("synced", kind, cluster)

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        self.remedies.append(remedy)
        self._tell("refused", kind, cluster)

    def names(self, kind: str, namespace: str) -> set[str]:
        return {name for known, where, name in self.objects if (str(known), where) == (kind, namespace)}

    def get(self, kind: str, name: str) -> KubeObject:
        found = [obj for (known, _, n), obj in self.objects.items() if (str(known), n) == (kind, name)]
        assert len(found) == 1, f"{len(found)} objects {kind} {name}"
        return found[0]

    def history(self, kind: str, *names: str) -> list[tuple[str, str]]:
        return [(what, name) for what, k, name in self.told if k == kind and name in names]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Looks again whenever something is told."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._told.clear()
                await self._told.wait()

    def _tell(self, what: str, kind: GroupKind, name: str) -> None:
        self.told.append((what, str(kind), name))
        self._told.set()


class Watching:
    """A ClusterWatch at work."""

    def __init__(self, watch: ClusterWatch, sink: RecordingSink) -> None:
        self.watch = watch
        self.sink = sink

    def state(self) -> ClusterState:
        return self.watch.state()

    def resource(self, kind: str, namespace: str = "") -> ResourceState:
        state = self.state()
        states = (state.definitions, *state.resources)
        found = [s for s in states if (str(s.kind), s.namespace) == (kind, namespace)]
        assert len(found) == 1, f"{len(found)} states of {kind} in {namespace!r}"
        return found[0]

    async def until_watched(self, kind: str, namespace: str = "", times: int = 1) -> None:
        """Until a watch was opened so often."""

        def connections() -> int:
            return sum(
                s.connections
                for s in self.state().resources
                if (str(s.kind), s.namespace) == (kind, namespace)
            )

        await self.until_state(lambda: connections() >= times)

    async def until_synced(self, *kinds: str) -> None:
        await self.sink.until(lambda: set(kinds) <= set(self.sink.synced_kinds))

    async def until_state(self, condition: Callable[[], bool]) -> None:
        """For what is not told to the sink, so that there is no event to wait for."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@asynccontextmanager
async def watching(
    access: Access,
    *,
    cluster: str = "test",
    only: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    sink: RecordingSink | None = None,
    timing: WatchTiming = IMPATIENT,
    **chosen: Any,
) -> AsyncIterator[Watching]:
    """`only` are the kinds of interest; the usual ones when there are none."""
    kinds = [kind for kind in choose(**chosen) if not only or str(kind.group_kind) in only]
    sink = sink or RecordingSink()
    watch = ClusterWatch(cluster, access, kinds, sink, namespaces=namespaces, timing=timing)
    task = asyncio.create_task(watch.run())
    try:
        yield Watching(watch, sink)
    finally:
        assert not task.done() or task.cancelled(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def as_user(server: KubernetesServer, identity: Identity | None = None) -> KubeconfigAccess:
    return KubeconfigAccess(server.kubeconfig(identity))
