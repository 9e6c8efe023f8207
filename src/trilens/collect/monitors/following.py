"""The monitors of clusters as they come, change and go, and the jobs that they make at each moment."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.monitors.choice import PROMETHEUS, has_labels, is_selected
from trilens.collect.monitors.job import POD_MONITOR, SERVICE_MONITOR, jobs_of
from trilens.collect.monitors.keys import KeyNeeded, Keys
from trilens.model.errors import ConfigError, TrilensError
from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trilens.collect.cluster_scope import ClusterScope
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.kubernetes.access import Access
    from trilens.collect.monitors.job import JobDocument
    from trilens.model.kubernetes import KubeObject

log = logging.getLogger(__name__)

_SETTLE_S: Final = 0.5  # monitors come in crowds: a Helm chart brings ten at once
_NAMESPACE: Final = GroupKind("", "Namespace")
_MONITORS: Final = (SERVICE_MONITOR, POD_MONITOR)
_KINDS: Final = (*_MONITORS, PROMETHEUS, _NAMESPACE)


class Choice(NamedTuple):
    """Which monitors of a cluster are taken."""

    selected: bool = False  # only those that a Prometheus object selects
    labels: Mapping[str, str] = {}  # only those that carry these


class Unusable(NamedTuple):
    """A monitor that is not scraped, and why."""

    cluster: str
    monitor: str  # ServiceMonitor namespace/name
    reason: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.monitor} is not scraped: {self.reason}"


class ClusterMonitors:
    """`run` it on the event loop that tells it of changes, until it is cancelled."""

    def __init__(
        self,
        scope: ClusterScope,
        choice: Choice,
        access: Access,
        make: Callable[[JobDocument], ScrapeConfig],
        apply: Callable[[Sequence[ScrapeConfig]], None],
        *,
        settle_s: float = _SETTLE_S,
    ) -> None:
        """`make` raises ConfigError for a job that makes no sense; `apply` may block."""
        self._scope = scope
        self._choice = choice
        self._api = KubeApi(access)
        self._keys = Keys(self._api)
        self._make = make
        self._apply = apply
        self._settle_s = settle_s
        self._objects: dict[GroupKind, dict[tuple[str, str], KubeObject]] = {kind: {} for kind in _KINDS}
        self._news = asyncio.Event()
        self._made: dict[str, tuple[JobDocument, ScrapeConfig]] = {}
        self._applied: list[ScrapeConfig] = []
        self._unusable: dict[str, str] = {}

    @property
    def cluster(self) -> str:
        return self._scope.cluster

    def unusable(self) -> list[Unusable]:
        return [Unusable(self.cluster, name, why) for name, why in sorted(self._unusable.items())]

    def changed(self, obj: KubeObject) -> None:
        of_kind = self._objects.get(obj.group_kind)
        if of_kind is not None:
            of_kind[obj.namespace, obj.name] = obj
            self._news.set()

    def removed(self, obj: KubeObject) -> None:
        of_kind = self._objects.get(obj.group_kind)
        if of_kind is not None and of_kind.pop((obj.namespace, obj.name), None) is not None:
            self._news.set()

    def make_with(self, make: Callable[[JobDocument], ScrapeConfig]) -> None:
        """In place of the `make` that it has: all jobs are made anew. On its event loop."""
        self._make = make
        self._made.clear()
        self._news.set()

    async def run(self) -> None:
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._keys.next_look_s()):
                        await self._news.wait()
                await asyncio.sleep(self._settle_s)
                self._news.clear()
                try:
                    await self._update()
                except Exception:  # a defect in one cluster's jobs must not end the watching of all
                    log.exception("monitors were not looked at", extra={"cluster": self.cluster})
        finally:
            await self._api.close()

    async def _update(self) -> None:
        self._keys.look_again()
        jobs: list[ScrapeConfig] = []
        unusable: dict[str, str] = {}
        for monitor in [one for kind in _MONITORS for one in self._objects[kind].values()]:
            name = f"{monitor.kind} {monitor.namespace}/{monitor.name}"
            try:
                if self._is_taken(monitor):
                    jobs += await self._jobs(monitor)
            except ConfigError as e:
                unusable[name] = str(e).removeprefix("scrape_configs[0].")
            except (AttributeError, KeyError, TypeError):  # without a schema, anything may stand there
                unusable[name] = f"what it says is not what a {monitor.kind} says"
        for name in unusable.keys() - self._unusable.keys():
            about = {"cluster": self.cluster, "monitor": name, "reason": unusable[name]}
            log.warning("a monitor is not scraped", extra=about)
        self._unusable = unusable
        names = {job.job_name for job in jobs}
        self._made = {name: made for name, made in self._made.items() if name in names}
        if jobs != self._applied:
            try:
                await asyncio.to_thread(self._apply, jobs)
                self._applied = jobs
            except TrilensError as e:
                log.warning(
                    "the jobs of monitors were not taken over",
                    extra={"cluster": self.cluster, "reason": str(e)},
                )

    def _is_taken(self, monitor: KubeObject) -> bool:
        if not has_labels(monitor, self._choice.labels):
            return False
        if not self._choice.selected:
            return True
        namespaces = {name: namespace for (_, name), namespace in self._objects[_NAMESPACE].items()}
        return is_selected(monitor, self._objects[PROMETHEUS].values(), namespaces)

    async def _jobs(self, monitor: KubeObject) -> list[ScrapeConfig]:
        while True:
            try:
                documents = jobs_of(monitor, self._scope, self._keys)
            except KeyNeeded as e:
                await self._keys.read(e.holder)
            else:
                return [await self._job(document) for document in documents]

    async def _job(self, document: JobDocument) -> ScrapeConfig:
        """Made once, and beside the event loop: to load certificates takes its time."""
        before = self._made.get(document["job_name"])
        if before is not None and before[0] == document:
            return before[1]
        make = self._make
        job = await asyncio.to_thread(make, document)
        if make is self._make:  # or it is made anew soon
            self._made[document["job_name"]] = document, job
        return job


class Monitors:
    """Those of all clusters, behind one set of ears (an ObjectSink)."""

    def __init__(self, clusters: Iterable[ClusterMonitors]) -> None:
        self._clusters = {monitors.cluster: monitors for monitors in clusters}
        self._loop: asyncio.AbstractEventLoop | None = None

    def make_with(self, make: Callable[[JobDocument], ScrapeConfig]) -> None:
        """From any thread."""
        loop = self._loop
        for monitors in self._clusters.values():
            if loop is None:  # nobody else has it yet
                monitors.make_with(make)
            else:
                with suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(monitors.make_with, make)

    def unusable(self) -> list[Unusable]:
        return [one for monitors in self._clusters.values() for one in monitors.unusable()]

    def changed(self, obj: KubeObject) -> None:
        if (monitors := self._clusters.get(obj.cluster)) is not None:
            monitors.changed(obj)

    def removed(self, obj: KubeObject) -> None:
        if (monitors := self._clusters.get(obj.cluster)) is not None:
            monitors.removed(obj)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        pass  # what is not known yet makes no job yet

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        pass  # the watch says so itself, with what to grant

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            for monitors in self._clusters.values():
                tasks.create_task(monitors.run())
