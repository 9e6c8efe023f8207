"""Which objects of a cluster a case wants: its own, then what belongs to these, and what serves them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.collect.kubernetes.asked import Wanted
from trilens.collect.kubernetes.informer import Scope
from trilens.diagnose.daemons import Daemon, is_daemon
from trilens.diagnose.monitors import looks_in, wants_exporter
from trilens.diagnose.selectors import lacking, requirements
from trilens.model.kubernetes import GroupKind
from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.reading import items, section, text
from trilens.serve.cases import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from trilens.model.kubernetes import KubeObject
    from trilens.model.workload import PodKey
    from trilens.serve.cases.about import About

_BY_NAME: Final = 16  # so many are asked for one by one; for more, all of a namespace are read through
_NODE_EVENTS: Final = "default"  # where Kubernetes keeps what it tells of nodes
_MADE_OF_JOBS: Final = ("PodGroup", "Workload")


def its_own(about: About) -> Iterable[Wanted]:
    """Pods, and the workloads that they are of."""
    yield from _pods(about)
    for key in about.workloads:
        kind = GroupKind(key.group, key.kind)
        if kind in kinds.KNOWN and kind != kinds.POD:
            yield Wanted(kind, Scope(key.namespace, key.name))


def around(about: About, known: Sequence[KubeObject], namespaces: Sequence[str]) -> Iterable[Wanted]:
    """What belongs to these pods and workloads; and of the platform what brings device plugins and exporters
    to nodes and has exporters scraped, in the `namespaces` that are watched ("": in all)."""
    pods = [one for one in known if one.group_kind == kinds.POD]
    is_waiting = any(not node_of(pod) for pod in pods) or not pods
    nodes = {*about.nodes, *map(node_of, pods)} - {""}
    yield from _nodes(nodes, everyone=is_waiting and about.node is None)
    if nodes:
        fields = "involvedObject.kind=Node"
        yield Wanted(kinds.EVENT, Scope(_NODE_EVENTS, fields=fields), lambda one: _about_name(one) in nodes)
    if any(_runtime_class(pod) or wants_accelerator(pod) for pod in pods):
        yield Wanted(kinds.RUNTIME_CLASS)
    if about.node is None:
        homes = {key.namespace for key in about.workloads} | {pod.namespace for pod in about.pods}
        for namespace in sorted(homes):
            here = [pod for pod in pods if pod.namespace == namespace]
            yield from _in_namespace(about, namespace, here, known)
        yield Wanted(kinds.CLUSTER_QUEUE)
    for namespace in namespaces:
        for kind in kinds.MONITORS:
            yield Wanted(kind, Scope(namespace))
        yield Wanted(kinds.DAEMON_SET, Scope(namespace))  # all: what they are is told by more than names
    if "" in namespaces:  # else they are granted one by one, and not to be listed
        yield Wanted(kinds.NAMESPACE)


def behind_monitors(known: Sequence[KubeObject], namespaces: Sequence[str]) -> Iterable[Wanted]:
    """The Services that the ServiceMonitors of exporters find, or should."""
    monitors = [one for one in known if one.group_kind == kinds.MONITORS[0] and _of_exporter(one)]
    selectors = [(one, requirements(section(one.body, "spec", "selector"))) for one in monitors]

    def is_wanted(service: KubeObject) -> bool:
        return any(
            looks_in(monitor, service.namespace)
            and (is_daemon(Daemon.EXPORTER, service) or not lacking(wanted, service.labels))
            for monitor, wanted in selectors
        )

    if monitors:
        for namespace in namespaces:
            yield Wanted(kinds.SERVICE, Scope(namespace), is_wanted)


def node_of(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "nodeName")


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


def _nodes(names: Collection[str], *, everyone: bool) -> Iterable[Wanted]:
    """All, where a pod looks for one."""
    if everyone or len(names) > _BY_NAME:
        yield Wanted(kinds.NODE, keep=lambda one: everyone or one.name in names)
    else:
        for name in sorted(names):
            yield Wanted(kinds.NODE, Scope(name=name))


def _of_exporter(monitor: KubeObject) -> bool:
    return is_daemon(Daemon.EXPORTER, monitor) or wants_exporter(monitor)


def _with_uid(uids: Collection[str]) -> Callable[[KubeObject], bool]:
    return lambda one: one.uid in uids


def _runtime_class(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "runtimeClassName")


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
