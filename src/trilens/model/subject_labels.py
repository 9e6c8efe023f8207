"""Whom a finding or an incident is about, in the names that labels of metrics and alerts have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.model.finding import Subject


def subject_labels(subject: Subject) -> dict[str, str]:
    """All of them, empty where it does not concern one, or nobody knows."""
    workload, pod = subject.workload, subject.pod
    found = {
        "cluster": subject.known_cluster,
        "namespace": workload.namespace if workload else pod.namespace if pod else None,
        "workload": workload.name if workload else None,
        "kind": workload.kind if workload else None,
        "team": subject.team,
        "run": subject.run,
        "job_name": subject.job_name,
        "rank": str(subject.rank) if subject.rank is not None else None,
        "pod": pod.name if pod else None,
        "node": subject.node,
        "gpu": subject.gpu_number,
        "UUID": subject.gpu,
    }
    return {name: value or "" for name, value in found.items()}
