"""Objects of a cluster, asked for once: for a question that somebody has now, beside what is followed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.kubernetes.api import FORBIDDEN, NOT_FOUND, KubeApi
from trilens.collect.kubernetes.informer import Scope
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.pod_exec import Ran, run_in_container
from trilens.collect.kubernetes.pod_log import LogEnd, read_log
from trilens.collect.kubernetes.rbac import Grant
from trilens.collect.kubernetes.resource_discovery import ResourceDiscovery, assumed
from trilens.collect.kubernetes.wire import Page, Unreadable, decode
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.collect.kubernetes.access import Access
    from trilens.collect.kubernetes.resource_discovery import Served
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import GroupKind, KubeObject

LATE: Final = "the API server did not answer in time"
_DISCOVERED_S: Final = 60.0  # for so long what a cluster serves is believed
_ANSWER_S: Final = 5.0  # for one page; somebody waits, and what else is known may be enough
_AT_ONCE: Final = 16
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


class _Catalogue(NamedTuple):
    """What the cluster serves; `unknown` are the API groups of which it could not say, with the reason."""

    asked_s: float
    served: Mapping[GroupKind, Served]
    unknown: Mapping[str, str]


class ObjectQuestions:
    """To one cluster. Belongs to one event loop; `close` it there."""

    def __init__(
        self, cluster: str, access: Access, kinds: Sequence[WatchedKind], *, answer_s: float = _ANSWER_S
    ) -> None:
        self._cluster = cluster
        self._api = KubeApi(access)
        self._kinds = kinds
        self._answer_s = answer_s
        self._catalogue: _Catalogue | None = None
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def close(self) -> None:
        await self._api.close()

    async def ask(self, wanted: Sequence[Wanted], until: float | None = None) -> list[Answered]:
        """An answer to each, in that order; one that fails or is slow does not keep the others from being
        given. After `until`, by the clock of the loop, what has come is the answer."""
        try:
            async with asyncio.timeout_at(until):
                catalogue = await self._what_is_served()
        except TimeoutError:
            return [Answered(one, trouble=LATE) for one in wanted]
        except KubeApiError as e:
            return [Answered(one, trouble=e.message) for one in wanted]
        return list(await asyncio.gather(*(self._one(one, catalogue, until) for one in wanted)))

    async def run(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, within_s: float
    ) -> Ran:
        """A command in a container. Raises KubeApiError."""
        return await run_in_container(self._api, namespace, pod, container, command, within_s=within_s)

    async def log(self, namespace: str, pod: str, container: str, *, previous: bool) -> LogEnd:
        """The end of what a container wrote, in this run or the one before. Raises KubeApiError."""
        return await read_log(self._api, namespace, pod, container, previous=previous)

    async def _what_is_served(self) -> _Catalogue:
        before, now = self._catalogue, time.monotonic()
        if before is not None and now - before.asked_s <= _DISCOVERED_S:
            return before
        try:
            found = await ResourceDiscovery(self._api, self._kinds, answer_s=self._answer_s).find()
            served, unknown = found.served, found.unknown
        except KubeApiError as e:
            if e.status == FORBIDDEN:
                served, unknown = assumed(self._kinds), {}
            elif before is not None:  # it seldom changes
                return before
            else:
                raise
        self._catalogue = _Catalogue(now, {one.kind.group_kind: one for one in served}, unknown)
        return self._catalogue

    async def _one(self, wanted: Wanted, catalogue: _Catalogue, until: float | None) -> Answered:
        served = catalogue.served.get(wanted.kind)
        if served is None:
            untold = catalogue.unknown.get(wanted.kind.group, "")
            return Answered(wanted, trouble=untold, is_served=bool(untold))
        found: list[KubeObject] = []
        try:
            async with asyncio.timeout_at(until), self._gate:
                trouble = await self._list(wanted, served, found)
            return Answered(wanted, tuple(found), trouble)
        except TimeoutError:
            return Answered(wanted, tuple(found), LATE)
        except KubeApiError as e:
            if e.status == NOT_FOUND:
                return Answered(wanted, is_served=False)
            grant = None
            if e.status == FORBIDDEN:
                grant = Grant("list", served.kind.group_kind.group, served.plural, wanted.scope.namespace)
            return Answered(wanted, tuple(found), e.message, grant)

    async def _list(self, wanted: Wanted, served: Served, found: list[KubeObject]) -> str:
        """Page by page into `found`: what has come before the time is over is kept. Says what is wrong."""
        scope = wanted.scope
        query = {"limit": str(served.kind.page)}
        fields = [f"metadata.name={scope.name}"] if scope.name else []
        fields += [scope.fields] if scope.fields else []
        if fields:
            query["fieldSelector"] = ",".join(fields)
        if scope.labels:
            query["labelSelector"] = scope.labels
        path = served.path(scope.namespace if served.namespaced else "")
        unreadable = 0
        for _ in range(_PAGES):
            async with asyncio.timeout(self._answer_s):
                body = await self._api.get(path, query)
            page, more, unread = await asyncio.to_thread(self._read, wanted, served, body)
            found += page
            unreadable += unread
            if not more:
                return f"{unreadable} of them cannot be read" if unreadable else ""
            query["continue"] = more
        return f"only the first {_PAGES * served.kind.page:,} {served.plural} were looked at"

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
