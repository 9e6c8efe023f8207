"""One pod to its workload: up the owners as far as they can be read, by labels where they cannot."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.workload import Doubt, WorkloadKey
from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.objects import POD, Chain, ChainEnd, Link, ObjectName
from trilens.resolve.operators import BY_KIND, MEANS_MANY, OPERATORS
from trilens.resolve.operators.apps import DAEMONSET, Apps
from trilens.resolve.operators.base import Seat
from trilens.resolve.operators.kai import is_reservation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.workload import PodKey
    from trilens.resolve.objects import Objects
    from trilens.resolve.operators.base import Claim
    from trilens.resolve.readable import Readable

_LONGEST_LABEL = 63  # a longer name is cut in labels


class Placement(NamedTuple):
    workload: WorkloadKey
    seat: Seat
    objects: tuple[KubeObject, ...]  # from the workload's own, as far as they could be read, down to the pod
    claimed: ObjectName | None  # the name that labels gave, which another object may come to bear
    is_complete: bool  # False where an owner is named that is not there
    gone: str | None  # the uid of an owner that is named, could be read, and does not exist

    def outlives_its_owner(self, before: Placement) -> bool:
        """Whether it is only that an owner was deleted before its pods, as garbage collection does it."""
        return self.gone is not None and any(obj.uid == self.gone for obj in before.objects)

    def of(self, pod: KubeObject) -> Placement:
        """The same for a later state of its pod."""
        return self._replace(objects=(*self.objects[:-1], pod))


class Placed(NamedTuple):
    """A pod as it was when it was placed."""

    pod: KubeObject
    key: PodKey
    placement: Placement


class NoWorkload(NamedTuple):
    why: str


class _Top(NamedTuple):
    links: tuple[Link, ...]  # up to the workload; empty where that is the pod itself
    doubts: tuple[Doubt, ...]
    claimed: ObjectName | None = None
    is_complete: bool = True
    gone: str | None = None


def place(
    pod: KubeObject, objects: Objects, readable: Readable, system_namespaces: Sequence[str]
) -> Placement | NoWorkload:
    chain = objects.chain(pod)
    if (why := _no_workload(pod, chain, system_namespaces)) is not None:
        return NoWorkload(why)
    top = _top(pod, chain, objects, readable)
    own = top.links[-1] if top.links else Link(POD, pod.namespace, pod.name, pod.uid, pod)
    seat = Seat()
    for link in top.links:
        if (operator := BY_KIND.get(link.group_kind)) is not None:
            seat = operator.seat(pod, link, seat, objects)
    doubts = [*top.doubts, *_version_doubts(top.links), *_contradictions(pod, chain)]
    if own.group_kind not in BY_KIND:
        doubts.append(
            Doubt(
                "unknown-operator",
                f"{own.group_kind} is not known to Trilens: {own.name} is taken for one job",
            )
        )
    if not own.uid:
        doubts.append(
            Doubt(
                "uid-unknown",
                f"only the name of {own.group_kind} {own.name} is known: "
                "two of that name, one after the other, look like one",
                readable.remedy(own.group_kind),
            )
        )
    key = WorkloadKey(pod.cluster, own.namespace, *own.group_kind, own.name, own.uid)
    read = tuple(link.found for link in reversed(top.links) if link.found is not None)
    seat = replace(seat, doubts=(*seat.doubts, *doubts))
    return Placement(key, seat, (*read, pod), top.claimed, top.is_complete, top.gone)


def workload_above(obj: KubeObject, objects: Objects, readable: Readable) -> WorkloadKey | None:
    """The workload an object is, or is a part of, before it has pods; None where an owner is not there."""
    top = _top_by_owners(objects.chain(obj), readable)
    if not top.is_complete:
        return None
    own = top.links[-1] if top.links else Link(obj.group_kind, obj.namespace, obj.name, obj.uid, obj)
    return WorkloadKey(obj.cluster, own.namespace, *own.group_kind, own.name, own.uid)


def is_system(namespace: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(namespace, pattern) for pattern in patterns)


def _no_workload(pod: KubeObject, chain: Chain, system_namespaces: Sequence[str]) -> str | None:
    if is_reservation(pod):
        return "it holds a GPU that other pods share by fractions: they are the workloads"
    if wants_accelerator(pod):
        return None
    for link in chain.links:
        if link.group_kind == DAEMONSET:
            return f"DaemonSet {link.name} asks for no GPU"
        if link.group_kind.kind == "Node" and not link.group_kind.group:
            return f"it is a static pod of node {link.name} and asks for no GPU"
    if is_system(pod.namespace, system_namespaces):
        return f"namespace {pod.namespace} holds parts of the cluster itself, and it asks for no GPU"
    return None


def _top(pod: KubeObject, chain: Chain, objects: Objects, readable: Readable) -> _Top:
    top = _top_by_owners(chain, readable)
    if not top.is_complete:
        claim = _claim_beyond(pod, top.links)
        if claim is not None:
            top = _by_labels(pod, top, claim, objects, readable)
    highest = top.links[-1].group_kind if top.links else POD
    for operator in OPERATORS:
        if highest in operator.claims_above and (claim := operator.claim(pod)) is not None:
            link, name = _claimed_link(pod, claim, objects)
            return top._replace(links=(*top.links, link), claimed=name)
    return top


def _top_by_owners(chain: Chain, readable: Readable) -> _Top:
    links = chain.links
    for at, link in enumerate(links):
        if link.group_kind in MEANS_MANY:
            return _Top(links[:at], ())
    if chain.end is ChainEnd.CYCLE:
        return _Top(*_out_of_cycle(chain))
    if chain.end is ChainEnd.MISSING:
        missing = links[-1]
        doubt = readable.doubt_about(missing)
        gone = missing.uid if readable.is_synced(missing.group_kind) else None
        return _Top(links, (doubt,) if doubt else (), is_complete=doubt is None, gone=gone)
    return _Top(links, ())


def _out_of_cycle(chain: Chain) -> tuple[tuple[Link, ...], tuple[Doubt, ...]]:
    """Of objects that own each other the oldest is the workload: the same one for every pod below."""
    ring = [link for link in chain.links[chain.cycle_start :] if link.found is not None]
    names = ", ".join(sorted(f"{link.group_kind.kind} {link.name}" for link in ring)) or "the pod itself"
    doubt = Doubt("owner-cycle", f"owners in a circle: {names}", "remove one of these owner references")
    if not ring:
        return (), (doubt,)
    oldest = min(ring, key=lambda link: (link.found.created_ms if link.found else 0, link.uid))
    return chain.links[: chain.links.index(oldest) + 1], (doubt,)


def _claim_beyond(pod: KubeObject, links: Sequence[Link]) -> Claim | None:
    """What labels say lies above the last owner that is known."""
    known = {link.group_kind for link in links}
    for operator in OPERATORS:
        if not operator.claims_above:
            claim = operator.claim(pod)
            if claim is not None and claim.group_kind not in known:
                return claim
    return None


def _by_labels(pod: KubeObject, top: _Top, claim: Claim, objects: Objects, readable: Readable) -> _Top:
    link, name = _claimed_link(pod, claim, objects)
    doubt = Doubt(
        "from-labels",
        f"{claim.group_kind} {claim.name} is what labels say, its owner references do not reach it",
    )
    doubts = (*top.doubts, doubt)
    if link.found is None:
        return _Top((*top.links, link), doubts, name, is_complete=False, gone=top.gone)
    above = _top_by_owners(objects.chain(link.found), readable)
    links = (*top.links, link, *above.links)
    return _Top(links, (*doubts, *above.doubts), name, above.is_complete, top.gone or above.gone)


def _claimed_link(pod: KubeObject, claim: Claim, objects: Objects) -> tuple[Link, ObjectName]:
    name = ObjectName(claim.group_kind, pod.namespace, claim.name)
    uid = claim.uid or objects.uid_of(name) or ""
    return Link(claim.group_kind, pod.namespace, claim.name, uid, objects.get(uid)), name


def _version_doubts(links: Sequence[Link]) -> list[Doubt]:
    doubts = []
    for link in links:
        operator = BY_KIND.get(link.group_kind)
        if operator is None or link.found is None or not operator.versions:
            continue
        if link.found.version not in operator.versions:
            doubts.append(
                Doubt(
                    "unexpected-version",
                    f"{link.group_kind} {link.name} has version {link.found.version}, "
                    f"Trilens knows {', '.join(sorted(operator.versions))}: role and rank may be wrong",
                )
            )
    return doubts


def _contradictions(pod: KubeObject, chain: Chain) -> list[Doubt]:
    doubts = []
    for operator in OPERATORS:
        if operator.claims_above or isinstance(operator, Apps):  # these are no second opinion on owners
            continue
        claim = operator.claim(pod)
        if claim is None:
            continue
        same_kind = [link for link in chain.links if link.group_kind == claim.group_kind]
        if not same_kind and chain.end is ChainEnd.MISSING:
            continue  # the labels may tell what lies beyond
        if not any(_agree(claim, link) for link in same_kind):
            doubts.append(
                Doubt(
                    "labels-contradict-owners",
                    f"labels say {claim.group_kind} {claim.name}, owner references say "
                    f"{_owners_in_words(chain)}: the owners are believed",
                )
            )
    return doubts


def _agree(claim: Claim, link: Link) -> bool:
    if claim.uid and claim.uid != link.uid:
        return False
    cut = len(claim.name) == _LONGEST_LABEL and link.name.startswith(claim.name)
    return claim.name == link.name or cut


def _owners_in_words(chain: Chain) -> str:
    if not chain.links:
        return "none"
    top: GroupKind = chain.links[-1].group_kind
    return f"{top} {chain.links[-1].name}"
