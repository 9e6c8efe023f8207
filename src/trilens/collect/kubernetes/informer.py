"""One resource, followed: read all of it, then watch, and read it again only when history is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.collect.kubernetes.api import FORBIDDEN, GONE, JSON, NOT_FOUND, HistoryLost, WatchSilent
from trilens.collect.kubernetes.backoff import Backoff, jittered
from trilens.collect.kubernetes.known_objects import KnownObjects, Listener, ObjectKey
from trilens.collect.kubernetes.rbac import Grant
from trilens.collect.kubernetes.state import ResourceState, Trouble
from trilens.collect.kubernetes.wire import Bookmark, Page, Status, Unreadable, WatchEvent, decode
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    import msgspec

    from trilens.collect.kubernetes.api import KubeApi
    from trilens.collect.kubernetes.objects import ObjectReader
    from trilens.collect.kubernetes.resource_discovery import Served
    from trilens.collect.kubernetes.timing import WatchTiming
    from trilens.model.kubernetes import KubeObject

log = logging.getLogger(__name__)

# No answer; credentials refused; too many requests; not ready: after these a watch goes on where it was.
_SAY_NOTHING_OF_HISTORY: Final = (None, 401, 429, 503)
_A_BREATH: Final = 100  # objects read before others on the event loop get their turn


class Scope(NamedTuple):
    """Which objects of a kind: those of a namespace, or the one of this name; all when both are empty.

    `labels` and `fields` are selectors, as the API server takes them.
    """

    namespace: str = ""
    name: str = ""
    labels: str = ""
    fields: str = ""


class InformerListener(Listener, Protocol):
    """What an informer tells whom it works for."""

    def read_through(self, informer: Informer) -> None:
        """All that there is has been told."""

    def refused(self, informer: Informer, grant: Grant) -> None:
        """It may not be read."""

    def is_absent(self, informer: Informer) -> None:
        """The server does not know this resource (404)."""


class Informer:
    def __init__(
        self,
        served: Served,
        scope: Scope,
        api: KubeApi,
        reader: ObjectReader,
        listener: InformerListener,
        timing: WatchTiming,
        *,
        list_as: str = JSON,
        watch_as: str = JSON,
    ) -> None:
        """`list_as` and `watch_as` say in which form objects are wanted."""
        self.served = served
        self.scope = scope
        self._api = api
        self._reader = reader
        self._listener = listener
        self._timing = timing
        self._list_as = list_as
        self._watch_as = watch_as
        self._path = served.path(scope.namespace)
        self._backoff = Backoff(timing.first_retry_s, timing.last_retry_s)
        self._version: str | None = None  # up to which all is known; None when it must be read from the start
        self._known = KnownObjects(listener, remembered=served.kind.remembered)
        self._verb = "list"
        self._trouble: Trouble | None = None
        self._heard_ms: int | None = None
        self._readings = 0
        self._connections = 0
        self._malformed = 0

    @property
    def synced(self) -> bool:
        return self._readings > 0

    def state(self) -> ResourceState:
        return ResourceState(
            kind=self.served.kind.group_kind,
            version=self.served.version,
            namespace=self.scope.namespace or self.scope.name,
            synced=self.synced,
            objects=len(self._known),
            trouble=self._trouble,
            heard_ms=self._heard_ms,
            readings=self._readings,
            connections=self._connections,
            malformed=self._malformed,
        )

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._read_all()
                await self._watch(self._version)
            except KubeApiError as e:
                await asyncio.sleep(self._after(e))

    def inherit(self, older: Informer) -> None:
        """Before it runs: go on with what was known from another version of the kind."""
        self._known.inherit(older._known)

    def forget(self) -> None:
        """The resource is not served any more: nothing of it is left."""
        self._known.keep_only()
        self._version = None

    def fault(self, error: BaseException) -> None:
        """A defect of ours: said where people look, and everything is read again."""
        self._set_trouble(f"following it failed: {error!r}")
        self._version = None

    async def _read_all(self) -> None:
        self._verb = "list"
        seen: set[ObjectKey] = set()
        version = token = ""
        while True:
            page = await self._page(token)
            for i, raw in enumerate(page.items or (), 1):
                obj = self._read(raw)
                if obj is not None:
                    seen.add(self._known.take(obj))
                if i % _A_BREATH == 0:
                    await asyncio.sleep(0)
            version, token = page.metadata.resource_version, page.metadata.continue_
            if not token:
                break
        self._known.keep_only(seen)
        self._version = version
        self._readings += 1
        self._listener.read_through(self)

    async def _page(self, token: str) -> Page:
        query = {"limit": str(self.served.kind.page), **self._selected()}
        if token:
            query["continue"] = token
        body = await self._api.get(self._path, query, accept=self._list_as)
        self._heard_ms = _now_ms()
        try:
            return decode(body, Page)
        except Unreadable as e:
            raise KubeApiError(f"the list of {self.served.plural} cannot be read: {e}") from e

    async def _watch(self, version: str | None) -> None:
        self._verb = "watch"
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version or "",
            "timeoutSeconds": str(max(1, round(jittered(self._timing.watch_s)))),
            **self._selected(),
        }
        silence_s = self._timing.silence_s
        clock = asyncio.get_running_loop().time
        async with self._api.lines(self._path, query, silence_s=silence_s, accept=self._watch_as) as lines:
            self._connections += 1
            self._heard_ms = _now_ms()
            self._clear_trouble()
            steady_at = clock() + self._timing.steady_s
            try:
                async for line in lines:
                    self._heard_ms = _now_ms()
                    self._follow(line)
            finally:
                if clock() >= steady_at:
                    self._backoff.reset()
        if clock() < steady_at:
            await asyncio.sleep(self._backoff.next_s())  # or a server that hangs up at once is asked all day

    def _selected(self) -> dict[str, str]:
        by_name = f"metadata.name={self.scope.name}" if self.scope.name else ""
        fields = ",".join(filter(None, (by_name, self.scope.fields)))
        selectors = {"fieldSelector": fields, "labelSelector": self.scope.labels}
        return {name: selector for name, selector in selectors.items() if selector}

    def _follow(self, line: bytes) -> None:
        try:
            event = decode(line, WatchEvent)
            match event.type:
                case "ADDED" | "MODIFIED" | "DELETED":
                    self._follow_object(event)
                case "BOOKMARK":
                    self._version = decode(event.object, Bookmark).metadata.resource_version
                case "ERROR":
                    status = decode(event.object, Status)
                    raise HistoryLost(status.message, status=status.code or None)
                case _:
                    self._malformed += 1
        except Unreadable as e:
            self._malformed += 1
            raise HistoryLost(f"a watch event cannot be read: {e}") from e

    def _follow_object(self, event: WatchEvent) -> None:
        obj = self._read(event.object)
        if obj is None:
            return
        if event.type == "DELETED":
            self._known.remove(obj)
        else:
            self._known.take(obj)
        self._version = obj.resource_version

    def _read(self, raw: msgspec.Raw) -> KubeObject | None:
        try:
            return self._reader.read(self.served.kind, self.served.version, raw)
        except Unreadable as e:
            if not self._malformed:
                log.warning("an object cannot be read", extra={"path": self._path, "reason": str(e)})
            self._malformed += 1
            return None

    def _after(self, error: KubeApiError) -> float:
        """Take note of what went wrong; the seconds to wait."""
        if isinstance(error, WatchSilent) and self._verb == "watch":
            return 0.0  # nothing is wrong but, perhaps, the connection
        if isinstance(error, HistoryLost) or error.status not in _SAY_NOTHING_OF_HISTORY:
            self._version = None  # also for who may list and not watch: so changes are seen all the same
        if error.status == FORBIDDEN:
            self._refused(error)
            return jittered(self._timing.refused_retry_s)
        if error.status != GONE:  # which is how things are, and no trouble
            self._set_trouble(error.message)
        if error.status == NOT_FOUND:
            self._listener.is_absent(self)
        return self._backoff.next_s(at_least_s=error.retry_after_s or 0.0)

    def _refused(self, error: KubeApiError) -> None:
        group, plural = self.served.kind.group_kind.group, self.served.plural
        grant = Grant(self._verb, group, plural, self.scope.namespace, self.scope.name)
        if grant.verb == "list" and (self._trouble is None or self._trouble.grant != grant):
            self._listener.refused(self, grant)
        self._set_trouble(error.message, grant)

    def _set_trouble(self, text: str, grant: Grant | None = None) -> None:
        if self._trouble is None:  # said once, not at every attempt
            log.warning("cannot follow", extra={"path": self._path, "reason": text})
        since_ms = self._trouble.since_ms if self._trouble else _now_ms()
        self._trouble = Trouble(text, since_ms, grant)

    def _clear_trouble(self) -> None:
        if self._trouble is not None:
            log.info("following again", extra={"path": self._path})
        self._trouble = None


def _now_ms() -> int:
    return round(time.time() * 1000)
