"""The Kubernetes objects of a case, as the API server has them now."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from trilens.collect.kubernetes.asked import Answered, ObjectQuestions, Wanted
from trilens.collect.kubernetes.informer import Scope
from trilens.collect.kubernetes.intake import access_to
from trilens.diagnose.daemons import Daemon, is_daemon
from trilens.model.errors import ConfigError, IntakeError
from trilens.model.kubernetes import GroupKind
from trilens.model.verdict import Missing
from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.reading import items, section, text
from trilens.serve.cases import kinds
from trilens.serve.cases.about import NoObjects, Objects, Probed
from trilens.serve.cases.probing import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from trilens.model.kubernetes import KubeObject
    from trilens.model.workload import PodKey
    from trilens.serve.cases.about import About
    from trilens.settings.kubernetes import KubernetesSettings

_BY_NAME: Final = 16  # so many are asked for one by one; for more, all of a namespace are read through
_ANSWER_S: Final = 30.0  # later than that, whoever asks is better served with what is known
_NODE_EVENTS: Final = "default"  # where Kubernetes keeps what it tells of nodes
# What makes GPUs usable on a node, and what tells of them.
_PLATFORM: Final = re.compile(
    r"device-plugin|dcgm|nvidia|gpu-operator|gpu-feature|hami|volcano|kai-|kueue|node-exporter|amd-gpu", re.I
)
_MADE_OF_JOBS: Final = ("PodGroup", "Workload")
_RBAC: Final = "`trilens kubernetes rbac` prints the roles"


class WatchedObjects(Protocol):
    """Thread-safe."""

    def pods_of(self, cluster: str, keep: Callable[[KubeObject], bool]) -> Sequence[KubeObject]:
        """Raises IntakeError."""


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
        """Other pods on the nodes of the case; on all nodes those that have GPUs or make them usable. From
        what is followed: there may be thousands, and whole ones are not needed. In a thread."""
        if about.cluster not in self._settings.clusters:
            return Objects()
        own = {one.uid for one in objects}
        is_waiting = any(one.group_kind == kinds.POD and not _node_of(one) for one in objects)

        def is_wanted(pod: KubeObject) -> bool:
            node = _node_of(pod)
            if pod.uid in own or not node:
                return False
            if node in about.nodes or (is_waiting and wants_accelerator(pod)):
                return True
            return _is_platform(pod) and (is_waiting or not _is_on_every_node(pod))

        try:
            return Objects(tuple(self._watched.pods_of(about.cluster, is_wanted)))
        except IntakeError as e:
            return Objects(missing=(Missing(f"other pods of {about.cluster}: {e.message}", "ask again"),))

    async def ask(self, about: About) -> Objects:
        settings = self._settings.clusters.get(about.cluster)
        if settings is None:
            return Objects()
        try:
            cluster = self._cluster(about.cluster)
        except ConfigError as e:
            return Objects(missing=(Missing(f"the objects of {about.cluster}: {e.message}", e.hint or ""),))
        first = await _in_time(cluster, [*_pods(about), *_own(about)])
        known = [one for answer in first for one in answer.objects]
        namespaces = settings.namespaces or ("",)
        second = await _in_time(cluster, [*_around(about, known), *_platform(namespaces)])
        found = {one.uid or one.name: one for answer in (*first, *second) for one in answer.objects}
        return Objects(
            tuple(found.values()), tuple(_missing(about.cluster, [*first, *second])), tuple(_whole(second))
        )

    async def probe(self, about: About, objects: Collection[KubeObject]) -> Probed:
        if about.cluster not in self._settings.clusters:
            return await NoObjects().probe(about, objects)
        uids = {pod.uid for pod in about.pods}
        own = [one for one in objects if one.group_kind == kinds.POD and one.uid in uids]
        return await probe(self._cluster(about.cluster), own)

    def _cluster(self, name: str) -> ObjectQuestions:
        if name not in self._clusters:
            access = access_to(self._settings.clusters[name], self._folder)
            self._clusters[name] = ObjectQuestions(name, access, kinds.CASE_KINDS)
        return self._clusters[name]


async def _in_time(cluster: ObjectQuestions, wanted: Sequence[Wanted]) -> list[Answered]:
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await cluster.ask(wanted)
    except TimeoutError:
        return [Answered(one, trouble=f"no answer within {_ANSWER_S:g} s") for one in wanted]


def _pods(about: About) -> Iterable[Wanted]:
    if about.node is not None:
        yield Wanted(kinds.POD, Scope(fields=f"spec.nodeName={about.node}"))
        return
    by_namespace: defaultdict[str, set[PodKey]] = defaultdict(set)
    for pod in about.pods:
        by_namespace[pod.namespace].add(pod)
    for namespace, pods in by_namespace.items():
        uids = {pod.uid for pod in pods}
        if len(pods) <= _BY_NAME:
            for pod in sorted(pods):
                yield Wanted(kinds.POD, Scope(namespace, pod.name), _with_uid(uids))
        else:
            yield Wanted(kinds.POD, Scope(namespace), _with_uid(uids))


def _own(about: About) -> Iterable[Wanted]:
    """The workloads themselves."""
    for key in about.workloads:
        kind = GroupKind(key.group, key.kind)
        if kind in kinds.KNOWN and kind != kinds.POD:
            yield Wanted(kind, Scope(key.namespace, key.name))


def _around(about: About, known: Sequence[KubeObject]) -> Iterable[Wanted]:
    """What belongs to these pods and workloads."""
    pods = [one for one in known if one.group_kind == kinds.POD]
    is_waiting = any(not _node_of(pod) for pod in pods) or not pods
    yield from _nodes(about, pods, everyone=is_waiting and about.node is None)
    if about.nodes:
        wanted = frozenset(about.nodes)
        fields = "involvedObject.kind=Node"
        yield Wanted(kinds.EVENT, Scope(_NODE_EVENTS, fields=fields), lambda one: _about_name(one) in wanted)
    if about.node is not None:
        return
    for namespace in sorted({key.namespace for key in about.workloads}):
        here = [pod for pod in pods if pod.namespace == namespace]
        yield from _in_namespace(about, namespace, here, known)
    yield Wanted(kinds.CLUSTER_QUEUE)
    classes = {text(section(pod.body, "spec"), "runtimeClassName") for pod in pods} - {""}
    if classes:
        yield Wanted(kinds.RUNTIME_CLASS)


def _in_namespace(
    about: About, namespace: str, pods: Sequence[KubeObject], known: Sequence[KubeObject]
) -> Iterable[Wanted]:
    uids = {one.uid for one in known} | {pod.uid for pod in about.pods} | {key.uid for key in about.workloads}
    owners = {owner for pod in pods for owner in pod.owners if owner.uid not in uids}
    uids |= {owner.uid for owner in owners}
    for owner in sorted(owners):
        if owner.group_kind in kinds.KNOWN:
            yield Wanted(owner.group_kind, Scope(namespace, owner.name))
    names = {key.name for key in about.workloads} | {pod.name for pod in about.pods}
    claims = {
        text(section(volume, "persistentVolumeClaim"), "claimName")
        for pod in pods
        for volume in items(section(pod.body, "spec"), "volumes")
    } - {""}

    def is_ours(event: KubeObject) -> bool:
        name = _about_name(event)
        if _about_uid(event) in uids or name in names or name in claims:
            return True
        # What schedulers and queues make of a job is called after it.
        kind = text(section(event.body, "involvedObject"), "kind")
        return kind in _MADE_OF_JOBS and any(key.name in name for key in about.workloads)

    yield Wanted(kinds.EVENT, Scope(namespace), is_ours)
    yield Wanted(kinds.QUOTA, Scope(namespace))
    if claims:
        yield Wanted(kinds.VOLUME_CLAIM, Scope(namespace), lambda one: one.name in claims)
    if any(section(pod.body, "spec").get("resourceClaims") for pod in pods):
        yield Wanted(kinds.RESOURCE_CLAIM, Scope(namespace))
    yield Wanted(kinds.QUEUED, Scope(namespace), lambda one: _is_of(one, uids, names))
    yield Wanted(kinds.LOCAL_QUEUE, Scope(namespace))
    groups = {value for pod in pods for value in _pod_groups(pod)}
    for kind in kinds.POD_GROUPS:
        # Volcano makes them of jobs; to the others' pods it is written. Who has none need not be allowed to.
        if groups or kind == kinds.POD_GROUPS[0]:
            yield Wanted(kind, Scope(namespace), lambda one: one.name in groups or _is_of(one, uids, names))


def _nodes(about: About, pods: Sequence[KubeObject], *, everyone: bool) -> Iterable[Wanted]:
    """All, where a pod looks for one."""
    names = {*about.nodes, *(_node_of(pod) for pod in pods)} - {""}
    if everyone or len(names) > _BY_NAME:
        yield Wanted(kinds.NODE, keep=lambda one: everyone or one.name in names)
    else:
        for name in sorted(names):
            yield Wanted(kinds.NODE, Scope(name=name))


def _platform(namespaces: Sequence[str]) -> Iterable[Wanted]:
    """What brings device plugins and exporters to nodes, and what has exporters scraped."""
    for namespace in namespaces:
        for kind in kinds.MONITORS:
            yield Wanted(kind, Scope(namespace))
        yield Wanted(kinds.DAEMON_SET, Scope(namespace))  # all: what they are is told by more than names
    if "" in namespaces:  # else they are granted one by one, and not to be listed
        yield Wanted(kinds.NAMESPACE)


def _whole(answers: Sequence[Answered]) -> Iterable[GroupKind]:
    """Those of the platform that were read everywhere, and those that the cluster does not even serve."""
    everywhere = {answer.wanted.kind for answer in answers if answer.wanted.scope == Scope()}
    failed = {answer.wanted.kind for answer in answers if answer.trouble}
    return sorted((everywhere - failed) & {kinds.DAEMON_SET, *kinds.MONITORS})


def _missing(cluster: str, answers: Sequence[Answered]) -> Iterable[Missing]:
    """A kind that the cluster does not serve is not missing: there are none of it."""
    troubles: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for answer in answers:
        if answer.trouble:
            remedy = f"{answer.grant}; {_RBAC}" if answer.grant is not None else "trilens doctor looks why"
            troubles[answer.trouble, remedy][str(answer.wanted.kind)] = None
    for (trouble, remedy), named in troubles.items():  # a server that is gone fails them all alike
        yield Missing(f"{', '.join(named)} of {cluster}: {trouble}", remedy)


def _with_uid(uids: Collection[str]) -> Callable[[KubeObject], bool]:
    return lambda one: one.uid in uids


def _node_of(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "nodeName")


def _about_uid(event: KubeObject) -> str:
    return text(section(event.body, "involvedObject"), "uid")


def _about_name(event: KubeObject) -> str:
    return text(section(event.body, "involvedObject"), "name")


def _is_of(one: KubeObject, uids: Collection[str], names: Collection[str]) -> bool:
    return any(owner.uid in uids for owner in one.owners) or one.name in names


def _pod_groups(pod: KubeObject) -> Iterable[str]:
    """What each gang scheduler calls the label or annotation that names the group."""
    for name, value in (*pod.labels.items(), *pod.annotations.items()):
        if "pod-group" in name or name.endswith("/group-name"):
            yield value


def _is_platform(one: KubeObject) -> bool:
    return _PLATFORM.search(one.name) is not None or any(is_daemon(daemon, one) for daemon in Daemon)


def _is_on_every_node(pod: KubeObject) -> bool:
    return pod.controller is not None and pod.controller.kind == "DaemonSet"
