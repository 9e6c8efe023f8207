"""Fixes as a sight shows them: of own workloads and their pods; of nodes, to who sees whole clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_workloads import seen_workloads, shown_keys
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.fix import Fix, FixTarget
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight

_NEAR_MS = 60_000


def seen_fixes(found: Sequence[Fix], workloads: Workloads, sight: Sight, guard: QueryGuard) -> list[Fix]:
    if sight.is_whole:
        return list(found)
    keys = {one.target: _key(one.target) for one in found}
    shown = shown_keys(workloads, sight, keys.values(), guard)
    seen = seen_workloads(workloads, sight)

    def shows(fix: Fix) -> bool:
        target = fix.target
        if not target.namespace or sight.teams is None:
            return sight.shows_node(target.cluster)
        if target.kind != "Pod":
            return keys[target] in shown
        around = Span(fix.t_ms - _NEAR_MS, fix.t_ms + _NEAR_MS)
        members = seen.members_among([(target.namespace, target.name, target.uid)], around, guard)
        return any(one.membership.pod.cluster == target.cluster for one in members)

    return [one for one in found if shows(one)]


def _key(target: FixTarget) -> WorkloadKey:
    return WorkloadKey(target.cluster, target.namespace, target.group, target.kind, target.name, target.uid)
