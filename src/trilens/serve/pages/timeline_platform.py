"""The layer of the platform: pods and phases, what happened to them, and what was found to be wrong."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.ledger import as_amount
from trilens.serve.pages.incident_names import suffers
from trilens.serve.pages.timeline_answers import MarkAnswer, PhaseSpan, PlatformLayer, TroubleSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval
    from trilens.model.incident import Incident
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import WorkloadKey
    from trilens.serve.pages.timeline_grid import Grid
    from trilens.store.workloads import WorkloadHistory

EVENTS_READ: Final = 2_000
_MARKS: Final = 300


def platform_layer(
    history: WorkloadHistory, events: Iterable[EventRecord], grid: Grid, now_ms: int
) -> PlatformLayer:
    marks = _marks(history.members, events, grid)
    return PlatformLayer(
        placed_pods(history, grid, now_ms),
        _pods([one for one in history.members if not one.node], history, grid, now_ms),
        [
            PhaseSpan(one.phase.value, one.reason, one.attempt, one.from_ms, one.to_ms)
            for one in history.phases
            if one.from_ms < grid.end_ms and (one.to_ms is None or one.to_ms > grid.start_ms)
        ],
        marks[:_MARKS],
        max(0, len(marks) - _MARKS),
    )


def placed_pods(history: WorkloadHistory, grid: Grid, now_ms: int) -> list[int | None]:
    """How many are on nodes."""
    return _pods([one for one in history.members if one.node], history, grid, now_ms)


def troubles(
    key: WorkloadKey, incidents: Iterable[Incident], findings: Iterable[FindingInterval]
) -> list[TroubleSpan]:
    """Those about this workload, in the order of their beginning. One that was put to another is shown
    there."""
    spans = [
        TroubleSpan(
            "incident",
            one.id,
            one.symptoms[0].name if one.symptoms else "",
            one.severity.value,
            one.title,
            one.onset_ms,
            one.resolved_ms,
            one.subject.rank,
            one.subject.node,
            one.subject.gpu,
            f"{as_amount(one.lost_quanta):f}" if one.lost_quanta is not None else None,
            one.currency,
        )
        for one in incidents
        if one.merged_into is None and suffers(key, one)
    ]
    spans += [
        TroubleSpan(
            "finding",
            one.key.id,
            one.finding.code,
            one.finding.severity.value,
            one.finding.text,
            one.finding.onset_ms,
            one.ended_ms,
            one.finding.subject.rank,
            one.finding.subject.node,
            one.finding.subject.gpu,
            None,
            None,
        )
        for one in findings
        if one.finding.subject.workload == key
    ]
    return sorted(spans, key=lambda one: (one.from_ms, one.what, one.id))


def _pods(
    members: Sequence[MembershipInterval], history: WorkloadHistory, grid: Grid, now_ms: int
) -> list[int | None]:
    """How many are there at the end of each slot; before anything was known of it, nobody knows."""
    begins = [one.from_ms for one in history.members] + [one.from_ms for one in history.phases]
    known_ms = min(begins, default=now_ms)
    ends = np.minimum(grid.edges_ms[1:], now_ms)
    there = np.searchsorted(np.sort([one.from_ms for one in members]), ends, side="right")
    gone = [one.to_ms for one in members if one.to_ms is not None]
    there = there - np.searchsorted(np.sort(gone), ends, side="right")
    return [
        int(one) if is_known else None
        for one, is_known in zip(there.tolist(), (ends >= known_ms).tolist(), strict=True)
    ]


def _marks(
    members: Sequence[MembershipInterval], events: Iterable[EventRecord], grid: Grid
) -> list[MarkAnswer]:
    """The latest first."""
    uids = {one.membership.pod.uid for one in members}
    names = {(one.membership.pod.namespace, one.membership.pod.name) for one in members}
    seen: dict[tuple[object, ...], EventRecord] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for event in events:
        if not any(
            victim.uid in uids if victim.uid else (victim.namespace, victim.name) in names
            for victim in event.victims
        ):
            continue
        key = (grid.slot_of(event.t_ms), event.kind, event.code, event.node, event.gpu, event.title)
        seen.setdefault(key, event)
        counts[key] += 1
    return [
        MarkAnswer(
            one.t_ms,
            one.kind.value,
            one.code,
            one.title or one.text,
            one.node or None,
            one.gpu,
            one.rank,
            counts[key],
        )
        for key, one in seen.items()
    ]
