"""Follows what one `kubernetes_sd_configs` entry speaks of, and publishes the targets that it makes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from trilens.collect.discovery.kubernetes.access import access_of, namespaces_of
from trilens.collect.discovery.kubernetes.kinds import NODE
from trilens.collect.discovery.kubernetes.known import Known
from trilens.collect.discovery.kubernetes.roles import ROLES
from trilens.collect.kubernetes.api import FORBIDDEN, KubeApi
from trilens.collect.kubernetes.backoff import Backoff
from trilens.collect.kubernetes.informer import Informer, Scope
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.resource_discovery import ResourceDiscovery, Served
from trilens.collect.kubernetes.timing import WatchTiming
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.collect.discovery.base import Publish, TargetLabels
    from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig
    from trilens.collect.kubernetes.rbac import Grant
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import KubeObject

log = logging.getLogger(__name__)

_PUBLISH_EVERY_S: Final = 5.0  # pods come in crowds, and each publication looks at every target of the job
_A_BREATH: Final = 100  # objects made to targets before scrapes get their turn
_NEWEST: Final = "v1"


class KubernetesDiscovery:
    def __init__(
        self,
        section: KubernetesSdConfig,
        *,
        job: str,
        publish_every_s: float = _PUBLISH_EVERY_S,
        timing: WatchTiming | None = None,
    ) -> None:
        """`job` is whose targets they are, for what is said in the log."""
        self._api = KubeApi(access_of(section))
        self._followers = [
            _Follower(section, namespace, self._api, job, publish_every_s, timing or WatchTiming())
            for namespace in namespaces_of(section)
        ]

    def troubles(self) -> list[str]:
        """May be asked from any thread."""
        return [trouble for follower in self._followers for trouble in follower.troubles()]

    async def run(self, publish: Publish) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for follower in self._followers:
                    tasks.create_task(follower.run(publish))
        finally:
            await self._api.close()


class _Follower:
    """One namespace, or all: where one may not be read, the targets of the others are found all the same."""

    def __init__(
        self,
        section: KubernetesSdConfig,
        namespace: str,
        api: KubeApi,
        job: str,
        publish_every_s: float,
        timing: WatchTiming,
    ) -> None:
        self._role = ROLES[section.role]
        nodes = (NODE,) if section.attach_metadata.node and self._role.on_nodes else ()
        self._kinds: tuple[WatchedKind, ...] = (self._role.kind, *self._role.joined, *nodes)
        self._selectors = {ROLES[selector.role].kind: selector for selector in section.selectors}
        self._namespace = namespace
        self._api = api
        self._about = {"job": job, "role": section.role, "namespace": namespace or "all"}
        self._publish_every_s = publish_every_s
        self._timing = timing
        self._reader = ObjectReader(cluster="", all_annotations=True)
        self._known = Known()
        self._informers: list[Informer] = []
        self._news = asyncio.Event()
        self._published: list[TargetLabels] | None = None
        self._other_version = False
        self._not_found: str | None = None

    def troubles(self) -> Iterator[str]:
        job = self._about["job"]
        if self._not_found is not None:
            yield f"job {job}: {self._not_found}"
        for informer in list(self._informers):
            complaint = informer.state().complaint()
            if complaint is not None:
                yield f"job {job}: {complaint}"

    async def run(self, publish: Publish) -> None:
        backoff = Backoff(self._timing.first_retry_s, self._timing.last_retry_s)
        while True:
            try:
                served = [await self._find(kind) for kind in self._kinds]
            except KubeApiError as e:
                self._not_found = e.message
                log.warning("targets cannot be discovered", extra={**self._about, "reason": e.message})
            else:
                self._not_found = None
                await self._follow(served, publish)
            await asyncio.sleep(backoff.next_s())

    # What informers tell.

    def changed(self, obj: KubeObject) -> None:
        self._known.take(obj)
        self._news.set()

    def removed(self, obj: KubeObject) -> None:
        self._known.drop(obj)
        self._news.set()

    def read_through(self, informer: Informer) -> None:
        self._news.set()

    def refused(self, informer: Informer, grant: Grant) -> None:
        log.warning("targets cannot be discovered", extra={**self._about, "remedy": str(grant)})

    def is_absent(self, informer: Informer) -> None:
        if not informer.served.kind.version:  # what is always there is only not there yet
            self._other_version = True
            self._news.set()

    async def _find(self, kind: WatchedKind) -> Served:
        if kind.version:
            return Served(kind, kind.version, kind.plural, kind.namespaced)
        try:
            found = await ResourceDiscovery(self._api, [kind]).find()
        except KubeApiError as e:
            if e.status != FORBIDDEN:
                raise
            return Served(kind, _NEWEST, kind.plural, kind.namespaced)
        if not found.served:
            why = "; ".join(found.unknown.values()) or f"the cluster serves no {kind.plural}"
            raise KubeApiError(why)
        return found.served[0]

    async def _follow(self, served: Sequence[Served], publish: Publish) -> None:
        """Until one of them is not served any more in the version that it had."""
        self._known = Known()
        self._other_version = False
        self._informers = [
            Informer(each, self._scope(each), self._api, self._reader, self, self._timing) for each in served
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run()) for informer in self._informers]
            await self._publish_news(publish)
            for task in tasks:
                task.cancel()

    def _scope(self, served: Served) -> Scope:
        namespace = self._namespace if served.namespaced else ""
        selector = self._selectors.get(served.kind)
        if selector is None:
            return Scope(namespace)
        return Scope(namespace, labels=selector.label, fields=selector.field)

    async def _publish_news(self, publish: Publish) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if self._other_version:
                return
            if not all(informer.synced for informer in self._informers):
                continue  # half of what there is would take targets away that are still there
            targets = await self._targets()
            if targets != self._published:
                publish(self._namespace, targets)
                self._published = targets
            await asyncio.sleep(self._publish_every_s)

    async def _targets(self) -> list[TargetLabels]:
        targets: list[TargetLabels] = []
        for i, obj in enumerate(self._known.all(self._role.kind), 1):
            targets += self._role.targets(obj, self._known)
            if i % _A_BREATH == 0:
                await asyncio.sleep(0)
        return targets
