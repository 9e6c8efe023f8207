"""How the watching of one cluster goes, for programs: what to grant, and what is not followed, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.collect.kubernetes.state import ClusterState


def cluster_health(state: ClusterState) -> Mapping[str, Any]:
    kinds_by_reason: dict[str, list[str]] = defaultdict(list)
    for resource in (state.definitions, *state.resources):
        if resource.trouble is not None and resource.trouble.grant is None:
            kinds_by_reason[resource.trouble.text].append(str(resource.kind))
    return {
        "synced": state.synced,
        "trouble": state.trouble.text if state.trouble is not None else None,
        "not_followed": [
            {"reason": reason, "kinds": sorted(set(kinds))} for reason, kinds in kinds_by_reason.items()
        ],
        "to_grant": [
            {"namespace": grant.namespace, "rule": grant.rule(), "text": str(grant)} for grant in state.grants
        ],
    }
