"""What schedulers say of a pod that has no node, read: what keeps it from how many nodes.

kube-scheduler in all its versions, Volcano, KAI and Run:ai, coscheduling, HAMi, Kueue, the cluster autoscaler
and Karpenter. The sentences are theirs; what is in none of the tables is kept as `OTHER`, and never dropped.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.resolve.accelerators import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Iterator


class Blocker(StrEnum):
    INSUFFICIENT_GPU = "insufficient-gpu"
    INSUFFICIENT_RESOURCE = "insufficient-resource"  # processors, memory, places for pods
    TAINT = "taint"
    CONTROL_PLANE = "control-plane"  # the taint that keeps workloads from the nodes of Kubernetes itself
    NODE_UNREACHABLE = "node-unreachable"  # or not ready, or short of memory or disk
    CORDONED = "cordoned"
    SELECTOR = "selector"  # node selector, or affinity to nodes
    PODS_APART = "pods-apart"  # affinity between pods, or spreading
    PORTS = "ports"
    VOLUME = "volume"
    CLAIM = "claim"  # dynamic resource allocation
    VGPU_UNFIT = "vgpu-unfit"  # shares of GPUs: HAMi
    GANG_NOT_READY = "gang-not-ready"
    QUOTA = "quota"
    QUOTA_PENDING_PREEMPTION = "quota-pending-preemption"
    QUOTA_NEVER = "quota-never"  # more than the queue may ever have
    QUEUE_INACTIVE = "queue-inactive"
    DEACTIVATED = "deactivated"
    TOPOLOGY = "topology"  # no rack or block has room for all of it
    AUTOSCALER_NO_FIT = "autoscaler-no-fit"
    AUTOSCALER_AT_LIMIT = "autoscaler-at-limit"
    AUTOSCALER_SCALING = "autoscaler-scaling"
    GATED = "gated"
    OTHER = "other"


class Blocked(NamedTuple):
    """One reason. `detail` is what it is about: a resource, a taint, a flavor; "" where it does not say."""

    blocker: Blocker
    nodes: int | None  # how many nodes; None where it is no matter of nodes
    detail: str
    text: str


class _Sign(NamedTuple):
    match: re.Pattern[str]  # its group `detail`, where it has one, is what it is about
    blocker: Blocker


def _signs(*table: tuple[str, Blocker]) -> tuple[_Sign, ...]:
    return tuple(_Sign(re.compile(pattern, re.IGNORECASE), blocker) for pattern, blocker in table)


_TAINT: Final = r"(?:had|have|with) (?:an? )?(?:untolerated )?taint(?:\(s\))?(?: \{(?P<detail>[^}]*)\})?"

# Of a number of nodes. The first that matches counts.
_OF_NODES: Final = _signs(
    (r"taints? \{(?P<detail>node-role\.kubernetes\.io/(?:control-plane|master)[^}]*)\}",
     Blocker.CONTROL_PLANE),
    (r"taints? \{(?P<detail>node\.kubernetes\.io/unschedulable[^}]*)\}", Blocker.CORDONED),
    (r"taints? \{(?P<detail>node\.(?:kubernetes|cloudprovider\.kubernetes)\.io/[^}]*)\}",
     Blocker.NODE_UNREACHABLE),
    (_TAINT, Blocker.TAINT),
    (r"did(?:n't| not) tolerate taint", Blocker.TAINT),
    (r"PodToleratesNodeTaints", Blocker.TAINT),
    (r"were unschedulable|NodeUnschedulable", Blocker.CORDONED),
    (r"(?:were|was|is|are) not ready|unreachable|NodeNotReady|CheckNodeCondition"
     r"|(?:memory|disk|pid) ?pressure", Blocker.NODE_UNREACHABLE),
    (r"NodeUnfitPod|node unregistered|Card\w+|AllocatedCards\w+|NumaNotFit|ExclusiveDeviceAllocateConflict"
     r"|ResourceQuotaNotFit|calcScore", Blocker.VGPU_UNFIT),
    (r"volume node affinity conflict|volume zone|NoVolumeZoneConflict|VolumeNodePredicates?|max volume count"
     r"|persistent ?volumes? to bind|pvc\(s\) bound to non-existent|VolumeBinding", Blocker.VOLUME),
    (r"pod affinity|anti-affinity|topology spread|MatchInterPodAffinity", Blocker.PODS_APART),
    (r"node affinity|node selector|MatchNodeSelector|didn't match the requested (?:node )?hostname",
     Blocker.SELECTOR),
    (r"free ports|PodFitsHostPorts", Blocker.PORTS),
    (r"allocate all claims|resourceclaim|resource claim|device ?class", Blocker.CLAIM),
    (r"sibling pods|minMember|pod ?group", Blocker.GANG_NOT_READY),
    (r"over quota|quota", Blocker.QUOTA),
    (r"Too many pods", Blocker.INSUFFICIENT_RESOURCE),
    (r"Insufficient (?P<detail>[\w./-]*[\w])", Blocker.INSUFFICIENT_RESOURCE),
    (r"enough resources?: (?P<detail>[\w./ -]*\w)", Blocker.INSUFFICIENT_RESOURCE),
    (r"(?:GPU|CPU|memory) resources?|does not have enough capacity", Blocker.INSUFFICIENT_RESOURCE),
)  # fmt: skip

# Of the pod itself, or its group, or its queue: wherever they stand in the text.
_OF_PODS: Final = _signs(
    (r"Pending the preemption of", Blocker.QUOTA_PENDING_PREEMPTION),
    (r"request > maximum capacity|(?:exceeds?|larger than) (?:the )?(?:nominal|maximum) ",
     Blocker.QUOTA_NEVER),
    (r"resource (?P<detail>\S+) unavailable in ClusterQueue", Blocker.QUOTA_NEVER),
    (r"(?:Local|Cluster)Queue (?P<detail>\S+) (?:doesn't exist|does not exist|is inactive|is stopped)"
     r"|namespace doesn't match ClusterQueue", Blocker.QUEUE_INACTIVE),
    (r"workload is deactivated|is deactivated", Blocker.DEACTIVATED),
    (r"topology \"?(?P<detail>[\w.-]+)\"? doesn't allow to fit", Blocker.TOPOLOGY),
    (r"insufficient (?:unused )?quota (?:for (?P<detail>\S+) )?", Blocker.QUOTA),
    (r"over quota|quota has reached|queue resource quota insufficient|ElasticQuota|exceeded quota"
     r"|queue .* overused", Blocker.QUOTA),
    (r"tasks? in gang unschedulable|pod group is not ready|sibling pods|gets rejected due to"
     r"|at plugin Coscheduling|minMember"
     r"|can possibly be assigned to|Unable to schedule podgroup", Blocker.GANG_NOT_READY),
    (r"flavor \S+ doesn't match node affinity", Blocker.SELECTOR),
    (r"untolerated taint (?P<detail>\S+) in flavor", Blocker.TAINT),
    (r"unbound (?:immediate )?PersistentVolumeClaims?|persistentvolumeclaim|storageclass|VolumeBinding",
     Blocker.VOLUME),
    (r"resourceclaims?\b|allocate all claims|deviceclass|device class", Blocker.CLAIM),
    (r"no available node, \d+ nodes? do not meet|\bNodeUnfitPod|\bCard[A-Z]\w+|AllocatedCardsInsufficient",
     Blocker.VGPU_UNFIT),
    (r"scheduling is blocked due to non-empty scheduling gates|scheduling gate", Blocker.GATED),
    (r"No node in .* has (?P<detail>GPU) resources", Blocker.INSUFFICIENT_RESOURCE),
)  # fmt: skip

_AUTOSCALERS: Final = _signs(
    (r"triggered scale-up: |should schedule on: |Pod should schedule", Blocker.AUTOSCALER_SCALING),
    (r"max node group size reached|in backoff after failed scale-up|max cluster (?:cpu|memory|gpu)"
     r"|limits? exceeded|all available instance types exceed", Blocker.AUTOSCALER_AT_LIMIT),
    (r"didn't trigger scale-up|predicate checking error|incompatible with nodepool|Failed to schedule pod"
     r"|no instance type", Blocker.AUTOSCALER_NO_FIT),
)  # fmt: skip

_PREEMPTION: Final = re.compile(r"\.?\s*(?:still not schedulable, )?preemption: ", re.IGNORECASE)
_COUNTED: Final = re.compile(
    r"(?P<fit>\d+)/(?P<total>\d+) nodes are (?:un)?available: (?P<reasons>.*)", re.DOTALL
)
_UNCOUNTED: Final = re.compile(
    r"(?:all nodes are unavailable|no nodes with enough resources were found): (?P<reasons>.*)",
    re.DOTALL | re.IGNORECASE,
)
_PREDICATES: Final = re.compile(
    r"No nodes are available that match all of the (?:following )?predicates:+ (?P<reasons>.*)", re.DOTALL
)
_PREDICATE: Final = re.compile(r"(?P<text>[^,()]+(?:\([^\d)]*\))?) \((?P<count>\d+)\)")
_BETWEEN: Final = re.compile(r"(?:,\s+|\.\s+|;\s+|\s*\n\s*)(?=\d+ )")
_REASON: Final = re.compile(r"(?P<count>\d+) (?:node\(s\) )?(?P<text>.*)", re.DOTALL)
_SCALING: Final = ("TriggeredScaleUp", "Nominated")
_NOT_A_REASON: Final = re.compile(r"preemption is not helpful|no preemption victims", re.IGNORECASE)


def read_message(message: str, *, reporter: str = "", reason: str = "") -> tuple[Blocked, ...]:
    """What is in the way, in the order in which it is said; `reporter` and `reason` as the event has them."""
    said = message.strip()
    if (found := _autoscaler(said, reporter, reason)) is not None:
        return (found,)
    head = _PREEMPTION.split(said, maxsplit=1)[0]
    return tuple(dict.fromkeys(_blocked(head)))


def _blocked(head: str) -> Iterator[Blocked]:
    if (old := _PREDICATES.search(head)) is not None:
        for one in _PREDICATE.finditer(old["reasons"]):
            yield _of_nodes(one["text"].strip(), int(one["count"]))
        return
    listed = _COUNTED.search(head) or _UNCOUNTED.search(head)
    if listed is None:
        yield from _of_pod(head)
        return
    yield from (one for one in _of_pod(head[: listed.start()]) if one.blocker is not Blocker.OTHER)
    reasons = listed["reasons"].rstrip(". \n")
    if not reasons[:1].isdigit():  # a reason for all of them at once
        yield from _of_pod(reasons)
        return
    for part in _BETWEEN.split(reasons):
        counted = _REASON.match(part)
        if counted is not None and not _NOT_A_REASON.search(part):
            yield _of_nodes(counted["text"].strip(), int(counted["count"]))


def _of_nodes(said: str, count: int) -> Blocked:
    for sign in _OF_NODES:
        if (found := sign.match.search(said)) is not None:
            return Blocked(_resource(sign.blocker, found), count, _detail(found), said)
    return Blocked(Blocker.OTHER, count, "", said)


def _of_pod(said: str) -> Iterator[Blocked]:
    for sign in _OF_PODS:
        if (found := sign.match.search(said)) is not None:
            yield Blocked(_resource(sign.blocker, found), None, _detail(found), said)
            return
    if said.strip():
        yield Blocked(Blocker.OTHER, None, "", said)


def _autoscaler(said: str, reporter: str, reason: str) -> Blocked | None:
    for sign in _AUTOSCALERS:
        if sign.match.search(said) or (sign.blocker is Blocker.AUTOSCALER_SCALING and reason in _SCALING):
            return Blocked(sign.blocker, None, "", said)
    is_autoscaler = "autoscaler" in reporter or "karpenter" in reporter
    return Blocked(Blocker.OTHER, None, "", said) if is_autoscaler else None


def _resource(blocker: Blocker, found: re.Match[str]) -> Blocker:
    if blocker is not Blocker.INSUFFICIENT_RESOURCE:
        return blocker
    detail = _detail(found) or found.group()
    is_gpu = is_accelerator(detail) or "gpu" in detail.lower()
    return Blocker.INSUFFICIENT_GPU if is_gpu else blocker


def _detail(found: re.Match[str]) -> str:
    return (found.groupdict().get("detail") or "").strip(" .,\"'")
