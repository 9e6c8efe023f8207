"""One cluster, followed: every watched kind that it serves, and those that it comes to serve."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, ParamSpec

from trilens.collect.kubernetes.api import FORBIDDEN, KubeApi
from trilens.collect.kubernetes.backoff import Backoff
from trilens.collect.kubernetes.definitions import Definitions
from trilens.collect.kubernetes.informer import Informer, Scope
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.resource_discovery import Found, ResourceDiscovery, Served, assumed
from trilens.collect.kubernetes.state import ClusterState, Trouble
from trilens.collect.kubernetes.timing import WatchTiming
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trilens.collect.kubernetes.access import Access
    from trilens.collect.kubernetes.rbac import Grant
    from trilens.collect.kubernetes.sink import ObjectSink
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import KubeObject

log = logging.getLogger(__name__)

_P = ParamSpec("_P")

_NAMESPACES: Final = "namespaces"
_SOON: Final = 0.1  # seconds: a definition comes a moment before what it defines is served


class ClusterWatch:
    """`run` it on an event loop until it is cancelled. Everything else may be asked from any thread."""

    def __init__(
        self,
        cluster: str,
        access: Access,
        kinds: Sequence[WatchedKind],
        sink: ObjectSink,
        *,
        namespaces: Sequence[str] = (),
        timing: WatchTiming | None = None,
    ) -> None:
        """`namespaces` are the only ones looked at; all when there are none."""
        self.cluster = cluster
        self._kinds = kinds
        self._sink = sink
        self._namespaces = namespaces
        self._timing = timing or WatchTiming()
        self._api = KubeApi(access)
        self._reader = ObjectReader(cluster)
        self._discovery = ResourceDiscovery(self._api, kinds)
        self._look_again = asyncio.Event()
        self._definitions = Definitions(kinds, self._api, self._reader, self._timing, self._look_again.set)
        self._followed: dict[Served, list[Informer]] = {}
        self._tasks: dict[Informer, asyncio.Task[None]] = {}
        self._missing_since: dict[Served, float] = {}
        self._trouble: Trouble | None = None
        self._sink_failures = 0

    def state(self) -> ClusterState:
        return ClusterState(
            cluster=self.cluster,
            discovered=bool(self._followed),
            trouble=self._trouble,
            definitions=self._definitions.state(),
            resources=tuple(informer.state() for informer in self._informers()),
            not_taken=self._sink_failures,
        )

    async def run(self) -> None:
        self._start(self._definitions.informer)
        soon = Backoff(_SOON, self._timing.discovery_s)
        try:
            while True:
                self._look_again.clear()
                if await self._look_guarded():
                    soon.reset()
                    wait_s = self._timing.discovery_s
                else:
                    wait_s = soon.next_s()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._look_again.wait()
                    soon.reset()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._api.close()

    # What informers tell.

    def changed(self, obj: KubeObject) -> None:
        self._tell(self._sink.changed, obj)

    def removed(self, obj: KubeObject) -> None:
        self._tell(self._sink.removed, obj)

    def read_through(self, informer: Informer) -> None:
        if all(other.synced for other in self._followed.get(informer.served, ())):
            self._tell(self._sink.synced, self.cluster, informer.served.kind.group_kind)

    def refused(self, informer: Informer, grant: Grant) -> None:
        self._tell(self._sink.refused, self.cluster, informer.served.kind.group_kind, str(grant))

    def is_absent(self, informer: Informer) -> None:
        self._look_again.set()

    # Which kinds there are.

    async def _look_guarded(self) -> bool:
        try:
            return await self._look()
        except Exception as e:  # a defect of ours must not end what is followed already
            log.exception("discovery failed", extra={"cluster": self.cluster})
            self._set_trouble(f"finding out what is served failed: {e!r}")
            return False

    async def _look(self) -> bool:
        """Follow what is served. False when the answer will be another one soon."""
        try:
            found = await self._discovery.find()
        except KubeApiError as e:
            return self._look_failed(e)
        unknown = "; ".join(f"{group or 'core'}: {why}" for group, why in found.unknown.items())
        self._set_trouble(f"cannot tell what is served: {unknown}" if unknown else None)
        self._follow(found)
        names = {served.kind.definition for served in self._followed}
        ending = any(self._definitions.is_gone(served.kind) for served in self._followed)
        return not unknown and not ending and self._definitions.expected() <= names

    def _look_failed(self, error: KubeApiError) -> bool:
        if error.status != FORBIDDEN:
            self._set_trouble(error.message)
            return False
        self._set_trouble(
            f"{error.message}; bind the ClusterRole system:discovery for operators' kinds to be seen"
        )
        if not self._followed:
            self._follow(Found(assumed(self._kinds), {}))
        return True

    def _follow(self, found: Found) -> None:
        for served in found.served:
            self._missing_since.pop(served, None)
            if served not in self._followed:
                self._followed[served] = list(self._informers_of(served))
                for informer in self._followed[served]:
                    self._start(informer)
        for served in [*self._followed]:
            if served not in found.served and served.kind.group_kind.group not in found.unknown:
                self._drop_if_gone(served, found)

    def _drop_if_gone(self, served: Served, found: Found) -> None:
        """A server that starts does not know all of its kinds yet, so it is not believed at once."""
        now = asyncio.get_running_loop().time()
        since = self._missing_since.setdefault(served, now)
        instead = next((other for other in found.served if other.kind is served.kind), None)
        sure = instead is not None or self._definitions.is_gone(served.kind)
        if not sure and now - since < self._timing.gone_after_s:
            return
        del self._missing_since[served]
        ended = self._followed.pop(served)
        for informer in ended:
            self._tasks.pop(informer).cancel()
        if instead is None:
            for informer in ended:
                informer.forget()
        else:
            for newer, older in zip(self._followed[instead], ended, strict=False):
                newer.inherit(older)
        log.info("no longer served", extra={"cluster": self.cluster, "kind": str(served.kind.group_kind)})

    def _informers_of(self, served: Served) -> Iterator[Informer]:
        for scope in self._scopes(served):
            yield Informer(served, scope, self._api, self._reader, self, self._timing)

    def _scopes(self, served: Served) -> list[Scope]:
        if not self._namespaces:
            return [Scope()]
        if served.namespaced:
            return [Scope(namespace=namespace) for namespace in self._namespaces]
        if served.plural == _NAMESPACES:
            return [Scope(name=namespace) for namespace in self._namespaces]
        return [Scope()]

    def _start(self, informer: Informer) -> None:
        self._tasks[informer] = asyncio.create_task(self._keep_running(informer))

    async def _keep_running(self, informer: Informer) -> None:
        backoff = Backoff(self._timing.first_retry_s, self._timing.last_retry_s)
        while True:
            try:
                await informer.run()
            except Exception as e:  # a defect in following one kind must not end the others
                log.exception("following failed", extra={"kind": str(informer.served.kind.group_kind)})
                informer.fault(e)
                await asyncio.sleep(backoff.next_s())

    def _informers(self) -> list[Informer]:
        return [informer for informers in list(self._followed.values()) for informer in informers]

    def _tell(self, tell: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception:  # one object that nobody can handle must not end the watch
            if not self._sink_failures:
                log.exception("what was seen was not taken", extra={"cluster": self.cluster})
            self._sink_failures += 1

    def _set_trouble(self, text: str | None) -> None:
        if text is None:
            self._trouble = None
            return
        if self._trouble is None:
            log.warning("discovery failed", extra={"cluster": self.cluster, "reason": text})
        since_ms = self._trouble.since_ms if self._trouble else round(time.time() * 1000)
        self._trouble = Trouble(text, since_ms)
