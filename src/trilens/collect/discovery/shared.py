"""One watch for all jobs that ask for the same: thirty ServiceMonitors often look at three namespaces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from trilens.collect.discovery.base import Discovery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.collect.config_section import Section
    from trilens.collect.discovery.base import Publish, TargetLabels


class WatchingDiscovery(Discovery, Protocol):
    def troubles(self) -> list[str]:
        """What keeps it from finding all that there is, for people. May be asked from any thread."""


class SharedDiscoveries:
    """Of one event loop. What a section finds is found once for all jobs that have an equal one."""

    def __init__(self) -> None:
        self._all: list[_Shared] = []

    def join(self, section: Section, make: Callable[[], WatchingDiscovery]) -> Discovery:
        """`make` is called where nobody has such a section yet."""
        shared = next((other for other in self._all if other.section == section), None)
        if shared is None:
            shared = _Shared(section, make())
            self._all.append(shared)
        return _Part(shared, self)

    def troubles(self) -> list[str]:
        return [trouble for shared in list(self._all) for trouble in shared.discovery.troubles()]

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, shared: _Shared) -> None:
        """It may have been left by all meanwhile: a job that replaces another joins before that one ends."""
        if shared not in self._all:
            self._all.append(shared)

    def leave(self, shared: _Shared) -> None:
        if not shared.listeners and shared in self._all:
            self._all.remove(shared)


class _Shared:
    def __init__(self, section: Section, discovery: WatchingDiscovery) -> None:
        self.section = section
        self.discovery = discovery
        self.listeners: list[Publish] = []
        self._found: dict[str, Sequence[TargetLabels]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, publish: Publish) -> asyncio.Task[None]:
        """Says at once what is known, and begins to look where nobody did."""
        self.listeners.append(publish)
        for source, targets in self._found.items():
            publish(source, targets)
        if self._task is None:
            self._task = asyncio.create_task(self.discovery.run(self._publish))
        return self._task

    async def leave(self, publish: Publish) -> None:
        self.listeners.remove(publish)
        if not self.listeners and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _publish(self, source: str, targets: Sequence[TargetLabels]) -> None:
        self._found[source] = targets
        for listener in list(self.listeners):
            listener(source, targets)


class _Part:
    """A job's share in it."""

    def __init__(self, shared: _Shared, everything: SharedDiscoveries) -> None:
        self._shared = shared
        self._all = everything

    async def run(self, publish: Publish) -> None:
        self._all.enter(self._shared)
        task = self._shared.listen(publish)
        try:
            await asyncio.wait([task])
            task.result()  # it ends by a fault only, which is told to each
        finally:
            await self._shared.leave(publish)
            self._all.leave(self._shared)
