"""The Kubernetes objects of a case, as the API server has them now, and what only it can be asked for."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from trilens.collect.kubernetes.asked import ObjectQuestions
from trilens.collect.kubernetes.informer import Scope
from trilens.collect.kubernetes.intake import access_to
from trilens.diagnose.daemons import Daemon, is_daemon
from trilens.model.errors import ConfigError, IntakeError
from trilens.model.verdict import Missing
from trilens.resolve.accelerators import wants_accelerator
from trilens.serve.cases import kinds
from trilens.serve.cases.about import NoObjects, Objects, Probed, Written
from trilens.serve.cases.pod_logs import ask_logs
from trilens.serve.cases.probing import probe
from trilens.serve.cases.wanted import around, behind_monitors, its_own, node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from trilens.collect.kubernetes.asked import Answered, Wanted
    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.workload import PodKey
    from trilens.serve.cases.about import About
    from trilens.settings.kubernetes import KubernetesSettings

_FOLLOWED_S: Final = 5.0  # what is followed is at hand; it may be in the middle of a change
# What makes GPUs usable on a node, and what tells of them.
_PLATFORM: Final = re.compile(
    r"device-plugin|dcgm|nvidia|gpu-operator|gpu-feature|hami|volcano|kai-|kueue|node-exporter|amd-gpu", re.I
)
_WHOLE: Final = frozenset({kinds.DAEMON_SET, kinds.SERVICE, *kinds.MONITORS})
_RBAC: Final = "`trilens kubernetes rbac` prints the roles, with --why those of this"


class WatchedObjects(Protocol):
    """Thread-safe."""

    def pods_of(
        self, cluster: str, keep: Callable[[KubeObject], bool], within_s: float
    ) -> Sequence[KubeObject]:
        """Raises IntakeError."""


class ObjectAnswers(Protocol):
    async def ask(self, wanted: Sequence[Wanted], until: float | None = None) -> list[Answered]: ...


class CaseObjects:
    """Belongs to one event loop; `close` it there."""

    def __init__(self, settings: KubernetesSettings, folder: Path, watched: WatchedObjects) -> None:
        self._settings = settings
        self._folder = folder
        self._watched = watched
        self._clusters: dict[str, ObjectQuestions] = {}

    async def close(self) -> None:
        for cluster in self._clusters.values():
            await cluster.close()

    def neighbours(self, about: About, objects: Collection[KubeObject]) -> Objects:
        """Other pods on the nodes of the case; on all nodes those that have GPUs or make them usable; and
        its own that are not among the objects. From what is followed: there may be thousands, and whole ones
        are not needed. In a thread."""
        if about.cluster not in self._settings.clusters:
            return Objects()
        is_waiting = _is_waiting(about, objects)
        keep = _is_neighbour(about, objects, is_waiting=is_waiting)
        try:
            found = self._watched.pods_of(about.cluster, keep, _FOLLOWED_S)
        except IntakeError as e:
            return Objects(missing=(Missing(f"other pods of {about.cluster}: {e.message}", "ask again"),))
        # Who waits is told of everybody who has what it waits for.
        is_whole = is_waiting and not self._settings.clusters[about.cluster].namespaces
        return Objects(tuple(found), kinds=(kinds.POD,) if is_whole else ())

    async def ask(self, about: About, until: float) -> Objects:
        settings = self._settings.clusters.get(about.cluster)
        if settings is None:
            return Objects()
        try:
            cluster = self._cluster(about.cluster)
        except ConfigError as e:
            return Objects(missing=(Missing(f"the objects of {about.cluster}: {e.message}", e.hint or ""),))
        return await gather_objects(cluster, about, settings.namespaces or ("",), until)

    async def logs(
        self,
        about: About,
        objects: Collection[KubeObject],
        pods: Collection[PodKey],
        ranks: Mapping[PodKey, int],
        until: float,
    ) -> Written:
        if about.cluster not in self._settings.clusters:
            return Written()
        uids = {pod.uid for pod in pods}
        there = [one for one in objects if one.group_kind == kinds.POD and one.uid in uids]
        try:
            cluster = self._cluster(about.cluster)
        except ConfigError:  # which `ask` has told
            return Written()
        return await ask_logs(cluster, there, ranks, until)

    async def probe(self, about: About, objects: Collection[KubeObject]) -> Probed:
        if about.cluster not in self._settings.clusters:
            return await NoObjects().probe(about, objects)
        uids = {pod.uid for pod in about.pods}
        own = [one for one in objects if one.group_kind == kinds.POD and one.uid in uids]
        try:
            cluster = self._cluster(about.cluster)
        except ConfigError:  # which `ask` has told
            return Probed()
        return await probe(cluster, own)

    def _cluster(self, name: str) -> ObjectQuestions:
        if name not in self._clusters:
            access = access_to(self._settings.clusters[name], self._folder)
            self._clusters[name] = ObjectQuestions(name, access, kinds.CASE_KINDS)
        return self._clusters[name]


async def gather_objects(
    cluster: ObjectAnswers, about: About, namespaces: Sequence[str], until: float
) -> Objects:
    """In three rounds, each of which tells what to ask for in the next; none takes the time of those after
    it. What has not come by `until` is missing."""
    answers: list[Answered] = []

    def known() -> list[KubeObject]:
        return [one for answer in answers for one in answer.objects]

    answers += await cluster.ask([*its_own(about)], _part_of(until, 1 / 2))
    answers += await cluster.ask([*around(about, known(), namespaces)], _part_of(until, 3 / 4))
    if services := [*behind_monitors(known(), namespaces)]:
        answers += await cluster.ask(services, until)
    found = {one.uid or one.name: one for one in known()}
    return Objects(tuple(found.values()), tuple(_missing(about.cluster, answers)), tuple(_whole(answers)))


def _part_of(until: float, share: float) -> float:
    """When so much of what is left until then is over."""
    now = asyncio.get_running_loop().time()
    return now + (until - now) * share


def _whole(answers: Sequence[Answered]) -> Iterable[GroupKind]:
    """Those of the platform that were read everywhere, and those that the cluster does not even serve. Of
    Services only those that monitors could mean were kept."""
    everywhere = {answer.wanted.kind for answer in answers if answer.wanted.scope == Scope()}
    failed = {answer.wanted.kind for answer in answers if answer.trouble}
    return sorted((everywhere - failed) & _WHOLE)


def _missing(cluster: str, answers: Sequence[Answered]) -> Iterable[Missing]:
    """A kind that the cluster does not serve is not missing: there are none of it."""
    troubles: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for answer in answers:
        if answer.trouble:
            remedy = f"{answer.grant}; {_RBAC}" if answer.grant is not None else "trilens doctor looks why"
            troubles[answer.trouble, remedy][str(answer.wanted.kind)] = None
    for (trouble, remedy), named in troubles.items():  # a server that is gone fails them all alike
        yield Missing(f"{', '.join(named)} of {cluster}: {trouble}", remedy)


def _is_waiting(about: About, objects: Collection[KubeObject]) -> bool:
    """Whether a pod looks for a node, or may: of its own none was read."""
    own = {pod.uid for pod in about.pods}
    is_unread = bool(own) and own.isdisjoint(one.uid for one in objects)
    return is_unread or any(one.group_kind == kinds.POD and not node_of(one) for one in objects)


def _is_neighbour(
    about: About, objects: Collection[KubeObject], *, is_waiting: bool
) -> Callable[[KubeObject], bool]:
    known, own = {one.uid for one in objects}, {pod.uid for pod in about.pods}

    def is_wanted(pod: KubeObject) -> bool:
        node = node_of(pod)
        if pod.uid in known:
            return False
        if pod.uid in own:  # the API server was asked for it and did not answer
            return True
        if not node:
            return False
        if node in about.nodes or (is_waiting and wants_accelerator(pod)):
            return True
        return _is_platform(pod) and (is_waiting or not _is_on_every_node(pod))

    return is_wanted


def _is_platform(one: KubeObject) -> bool:
    return _PLATFORM.search(one.name) is not None or any(is_daemon(daemon, one) for daemon in Daemon)


def _is_on_every_node(pod: KubeObject) -> bool:
    return pod.controller is not None and pod.controller.kind == "DaemonSet"
