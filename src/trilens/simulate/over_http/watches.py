"""Watches: what happens to objects of a resource, line by line, from a version on."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import orjson

from trilens.simulate.objects import Expired
from trilens.simulate.over_http.media_types import metadata_only
from trilens.simulate.over_http.refusals import Refusal, expired, too_large_version
from trilens.simulate.over_http.requested import Selection, is_true, read_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from trilens.simulate.objects import Change, KubeDict, ObjectTable
    from trilens.simulate.over_http.requested import ResourcePath

_BOOKMARK_S: Final = 60.0
_SHORTEST_S: Final = 1800  # of a watch that does not say how long; Kubernetes takes up to twice as much


class News:
    """Tells those who wait that the world has moved on. Belongs to one event loop."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def tell(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Take it before looking, and wait for it after: then nothing falls in between."""
        return self._next


class Watch:
    def __init__(
        self,
        objects: ObjectTable,
        news: News,
        path: ResourcePath,
        query: Mapping[str, str],
        *,
        names_only: bool,
    ) -> None:
        """Raises Refusal for what cannot be understood."""
        if is_true(query, "sendInitialEvents"):
            message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise Refusal(422, "Invalid", message)
        self._objects = objects
        self._news = news
        self._path = path
        self._selection = Selection(path, query)
        self._version = read_number(query, "resourceVersion")
        timeout_s = read_number(query, "timeoutSeconds")
        self._timeout_s = timeout_s or random.uniform(_SHORTEST_S, 2 * _SHORTEST_S)  # noqa: S311
        self._bookmarks = is_true(query, "allowWatchBookmarks")
        self._shape: Callable[[KubeDict], KubeDict] = metadata_only if names_only else _whole

    async def lines(self) -> AsyncIterator[bytes]:
        """Until its time is over, or its history is lost; several lines at once where there are several."""
        clock = asyncio.get_running_loop().time
        ends_at = clock() + self._timeout_s
        bookmark_at = clock() + _BOOKMARK_S
        if self._version == 0:  # anything will do: all there is comes first, as if it were new
            resource = self._path.resource
            present = self._objects.list(resource.group, resource.version, resource.plural)
            self._version = self._objects.resource_version
            yield self._encoded(("ADDED", obj) for obj in present if self._selection.has(obj))
        while True:
            moved_on = self._news.next()
            try:
                changes = self._changes()
            except Refusal as e:
                yield _line("ERROR", e.status)
                return
            lines = self._encoded(event for change in changes if (event := self._event(change)) is not None)
            if changes:
                self._version = changes[-1].resource_version
            if self._bookmarks and clock() >= min(bookmark_at, ends_at):
                self._version = self._objects.resource_version
                lines += _line("BOOKMARK", self._bookmark())
                bookmark_at = clock() + _BOOKMARK_S
            if lines:
                yield lines
            if clock() >= ends_at:
                return
            try:
                async with asyncio.timeout_at(min(ends_at, bookmark_at)):
                    await moved_on.wait()
            except TimeoutError:
                pass

    def _changes(self) -> list[Change]:
        resource = self._path.resource
        if self._version > self._objects.resource_version:
            raise too_large_version(self._version, self._objects.resource_version)
        try:
            return [*self._objects.changes_since(self._version, resource.group, resource.plural)]
        except Expired as e:
            raise expired(str(e)) from e

    def _event(self, change: Change) -> tuple[str, KubeDict] | None:
        """As seen through the selection: what enters it is added, and what leaves it is deleted."""
        was = self._selection.has(change.previous)
        is_ = change.type != "DELETED" and self._selection.has(change.object)
        if not was and not is_:
            return None
        return ("MODIFIED" if was else "ADDED") if is_ else "DELETED", change.object

    def _encoded(self, events: Iterable[tuple[str, KubeDict]]) -> bytes:
        return b"".join(_line(kind, self._shape(obj)) for kind, obj in events)

    def _bookmark(self) -> dict[str, Any]:
        resource = self._path.resource
        metadata = {"resourceVersion": str(self._version), "creationTimestamp": None}
        return self._shape({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})


def _whole(obj: KubeDict) -> KubeDict:
    return obj


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"
