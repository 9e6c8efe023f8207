"""Whether Kubernetes is seen: permissions, what cannot be followed, and doubts about whose pods are whose."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

# The exporters that tell of one and the same pod: each pod has one uid.
_DOUBLED_STATE_METRICS: Final = (
    "count by (cluster, job, instance) (kube_pod_info and on (uid) count by (uid) (kube_pod_info) > 1)"
)

_OF_DOUBT: Final = {
    "owner-gone": (
        "the last owner that is known stands for the workload",
        "delete the pods, or leave them be",
    ),
    "owner-unreadable": ("what is above may be the real workload", ""),
    "owner-unread": (
        "what is above may be the real workload",
        "take the kind out of kubernetes.clusters.*.leave_out",
    ),
    "from-labels": ("labels are a fallback, and anybody may set them", "let the owner references be read"),
    "uid-unknown": ("two of one name, one after the other, look like one", "let the workload's kind be read"),
    "owner-cycle": ("the oldest of them stands for the workload", ""),
    "labels-contradict-owners": ("the owners are believed", "correct the labels"),
    "unknown-operator": ("each object of that kind is taken for one job", "tell the authors of Trilens"),
    "unexpected-version": ("role and rank may be wrong", "update Trilens"),
    "clock-skew": ("its times were moved to fit the others", ""),
}
_UNKNOWN_DOUBT: Final = ("what is said of these workloads may be wrong", "see docs/workloads.md")


def clusters_see(evidence: Evidence) -> str:
    if not evidence.clusters:
        return "no cluster is watched"
    return f"{many(len(evidence.clusters), 'cluster')}, {many(len(evidence.workloads), 'workload')}"


def permissions(evidence: Evidence) -> Iterator[Finding]:
    for name, health in evidence.clusters.items():
        for grant in health["to_grant"]:
            where = f"Role in namespace {grant['namespace']}" if grant["namespace"] else "ClusterRole"
            yield Finding(
                "permissions",
                True,
                f"{name}: not allowed to {grant['rule']['verbs'][0]} {grant['rule']['resources'][0]}",
                "these objects are not seen; workloads that they own are told by labels, with a doubt",
                f"add to its {where}: {json.dumps(grant['rule'])} (trilens kubernetes rbac prints all)",
            )


def clusters(evidence: Evidence) -> Iterator[Finding]:
    for name, health in evidence.clusters.items():
        old = "what is shown of it may be old"
        if health["trouble"] is not None:
            remedy = "see that its kubeconfig is right and its API server can be reached from here"
            yield Finding("clusters", True, f"{name}: {health['trouble']}", old, remedy)
        for unfollowed in health["not_followed"]:
            if unfollowed["reason"] != health["trouble"]:
                what = f"{name}: cannot follow {few(unfollowed['kinds'])}: {unfollowed['reason']}"
                yield Finding("clusters", True, what, old, "it is tried again by itself; see the API server")
        if not health["synced"] and health["trouble"] is None and not health["not_followed"]:
            what = f"{name}: not read through yet"
            yield Finding("clusters", False, what, "workloads may be missing", "wait a moment")


def doubts(evidence: Evidence) -> Iterator[Finding]:
    about: dict[tuple[str, str], list[str]] = defaultdict(list)
    texts: dict[tuple[str, str], str] = {}
    for workload in evidence.workloads:
        for doubt in workload["doubts"]:
            key = (doubt["code"], doubt["remedy"] or "")
            about[key].append(f"{workload['namespace']}/{workload['name']}")
            texts.setdefault(key, doubt["text"])
    for (code, remedy), names in sorted(about.items()):
        means, otherwise = _OF_DOUBT.get(code, _UNKNOWN_DOUBT)
        what = f"{code}: {few(names)}: {texts[code, remedy]}"
        yield Finding("workloads", False, what, means, remedy or otherwise)


def state_metrics(evidence: Evidence) -> Iterator[Finding]:
    """Also those that Trilens makes itself, which have no job."""
    told_by = sorted(
        f"job {labels['job']} at {labels.get('instance', '')}" if "job" in labels else "Trilens itself"
        for labels in evidence.ask(_DOUBLED_STATE_METRICS)
    )
    if len(told_by) > 1:
        what = f"the same pods are told of twice as kube_*: by {few(told_by)}"
        means = "sums count them twice, and joins fail"
        remedy = "scrape one kube-state-metrics of a cluster, once; or set kubernetes.state_metrics: off"
        yield Finding("state_metrics", True, what, means, remedy)
