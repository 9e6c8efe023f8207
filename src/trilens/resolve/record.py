"""What is known of a workload beside its members, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.kubernetes import GroupKind
from trilens.model.workload import Doubt, Workload, WorkloadKey
from trilens.resolve.operators import BY_KIND

if TYPE_CHECKING:
    from collections.abc import Collection

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.ownership import OwnershipRules
    from trilens.resolve.placement import Placed

SKEW_MS = 5_000  # a clock that is off by less is not worth a word


def record_of(
    workload: WorkloadKey,
    own: KubeObject | None,
    pods: Collection[Placed],
    attempt: int,
    skew_ms: int,
    rules: OwnershipRules,
    namespace: KubeObject | None,
) -> Workload:
    """The doubts of a workload are those of its pods, one of each sort."""
    if pods:
        labelled = min(pods, key=lambda placed: placed.key).placement.objects  # the same one every time
    else:
        labelled = (own,) if own is not None else ()
    doubts = {doubt for placed in pods for doubt in placed.placement.seat.doubts}
    if skew_ms > SKEW_MS:
        text = f"a node's clock is off by {skew_ms // 1000} s or more: its times were moved to fit the others"
        doubts.add(Doubt("clock-skew", text, "check time synchronisation on its nodes"))
    operator = BY_KIND.get(GroupKind(workload.group, workload.kind))
    return Workload(
        workload,
        own.created_ms if own is not None else None,
        attempt,
        *rules.of(labelled, workload.namespace, namespace),
        steps=operator.steps(own) if operator is not None and own is not None else (),
        doubts=_one_of_each_sort(doubts),
    )


def _one_of_each_sort(doubts: Collection[Doubt]) -> tuple[Doubt, ...]:
    """A thousand pods may have a thousand owners that cannot be read: that is one doubt."""
    sorts: dict[tuple[str, str], list[Doubt]] = {}
    for doubt in sorted(doubts, key=lambda doubt: (doubt.code, doubt.remedy or "", doubt.text)):
        sorts.setdefault((doubt.code, doubt.remedy or ""), []).append(doubt)
    return tuple(
        first._replace(text=f"{first.text}; and {len(others)} more of the sort") if others else first
        for first, *others in sorts.values()
    )
