"""Whom an incident means by the names of those that suffer: two clusters may have workloads of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.alert.incidents.told import workload_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilens.model.incident import Incident
    from trilens.model.workload import WorkloadKey


def clusters_of(incident: Incident) -> frozenset[str]:
    """Those where it is known to be; none where nothing that it is made of tells."""
    subjects = (incident.subject, *(one.subject for one in incident.symptoms))
    return frozenset(one.known_cluster for one in subjects) - {""}


def may_be_in(cluster: str, clusters: Collection[str]) -> bool:
    """What is not known is no reason against it."""
    return not cluster or not clusters or cluster in clusters


def suffers(workload: WorkloadKey, incident: Incident) -> bool:
    if incident.subject.workload == workload:
        return True
    is_named = workload_name(workload) in incident.workloads
    return is_named and may_be_in(workload.cluster, clusters_of(incident))
