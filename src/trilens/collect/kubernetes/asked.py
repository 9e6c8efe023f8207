"""Objects of a cluster, asked for once: for a question that somebody has now, beside what is followed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.kubernetes.api import FORBIDDEN, NOT_FOUND, KubeApi
from trilens.collect.kubernetes.informer import Scope
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.pod_exec import Ran, run_in_container
from trilens.collect.kubernetes.rbac import Grant
from trilens.collect.kubernetes.resource_discovery import ResourceDiscovery, assumed
from trilens.collect.kubernetes.wire import Page, Unreadable, decode
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.collect.kubernetes.access import Access
    from trilens.collect.kubernetes.resource_discovery import Served
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import GroupKind, KubeObject

_DISCOVERED_S: Final = 60.0  # for so long what a cluster serves is believed
_PAGES: Final = 20  # of one kind: a namespace may have as many events as there is memory


class Wanted(NamedTuple):
    """Objects of one kind: of one namespace, or of all; and which of these are worth keeping."""

    kind: GroupKind
    scope: Scope = Scope()
    keep: Callable[[KubeObject], bool] = lambda _object: True


class Answered(NamedTuple):
    """What was there, and why there may be more: `trouble` is for people, `grant` what would have helped."""

    wanted: Wanted
    objects: tuple[KubeObject, ...] = ()
    trouble: str = ""
    grant: Grant | None = None
    is_served: bool = True


class ObjectQuestions:
    """To one cluster. Belongs to one event loop; `close` it there."""

    def __init__(self, cluster: str, access: Access, kinds: Sequence[WatchedKind]) -> None:
        self._cluster = cluster
        self._api = KubeApi(access)
        self._kinds = kinds
        self._served: tuple[float, dict[GroupKind, Served]] | None = None

    async def close(self) -> None:
        await self._api.close()

    async def ask(self, wanted: Sequence[Wanted]) -> list[Answered]:
        """An answer to each, in that order; one that fails does not keep the others from being given."""
        try:
            served = await self._what_is_served()
        except KubeApiError as e:
            return [Answered(one, trouble=e.message) for one in wanted]
        return list(await asyncio.gather(*(self._one(one, served.get(one.kind)) for one in wanted)))

    async def run(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, within_s: float
    ) -> Ran:
        """A command in a container. Raises KubeApiError."""
        return await run_in_container(self._api, namespace, pod, container, command, within_s=within_s)

    async def _what_is_served(self) -> dict[GroupKind, Served]:
        now = time.monotonic()
        if self._served is None or now - self._served[0] > _DISCOVERED_S:
            try:
                found = (await ResourceDiscovery(self._api, self._kinds).find()).served
            except KubeApiError as e:
                if e.status != FORBIDDEN:
                    raise
                found = assumed(self._kinds)
            self._served = now, {one.kind.group_kind: one for one in found}
        return self._served[1]

    async def _one(self, wanted: Wanted, served: Served | None) -> Answered:
        if served is None:
            return Answered(wanted, is_served=False)
        scope = wanted.scope
        try:
            return await self._list(wanted, served)
        except KubeApiError as e:
            if e.status == NOT_FOUND:
                return Answered(wanted, is_served=False)
            if e.status == FORBIDDEN:
                group = served.kind.group_kind.group
                grant = Grant("list", group, served.plural, scope.namespace)
                return Answered(wanted, trouble=e.message, grant=grant)
            return Answered(wanted, trouble=e.message)

    async def _list(self, wanted: Wanted, served: Served) -> Answered:
        scope = wanted.scope
        query = {"limit": str(served.kind.page)}
        fields = [f"metadata.name={scope.name}"] if scope.name else []
        fields += [scope.fields] if scope.fields else []
        if fields:
            query["fieldSelector"] = ",".join(fields)
        if scope.labels:
            query["labelSelector"] = scope.labels
        found: list[KubeObject] = []
        unreadable = 0
        for _ in range(_PAGES):
            body = await self._api.get(served.path(scope.namespace if served.namespaced else ""), query)
            page, more, unread = await asyncio.to_thread(self._read, wanted, served, body)
            found += page
            unreadable += unread
            if not more:
                trouble = f"{unreadable} of them cannot be read" if unreadable else ""
                return Answered(wanted, tuple(found), trouble)
            query["continue"] = more
        looked = f"only the first {_PAGES * served.kind.page:,} {served.plural} were looked at"
        return Answered(wanted, tuple(found), looked)

    def _read(self, wanted: Wanted, served: Served, body: bytes) -> tuple[list[KubeObject], str, int]:
        try:
            page = decode(body, Page)
        except Unreadable as e:
            raise KubeApiError(f"no list of {served.plural} was answered: {e}") from e
        reader = ObjectReader(self._cluster)  # one for each: it remembers what it shares, and is in a thread
        found, unreadable = [], 0
        for raw in page.items or ():
            try:
                one = reader.read(served.kind, served.version, raw)
            except Unreadable:
                unreadable += 1
                continue
            if wanted.keep(one):
                found.append(one)
        return found, page.metadata.continue_, unreadable
