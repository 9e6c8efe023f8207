"""A workload's history as the answer that people see."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.money.spending_answer import spending_answer
from trilens.serve.workload_answers import (
    AttemptAnswer,
    GoneAnswer,
    MemberAnswer,
    MemberCount,
    PhaseAnswer,
    StepAnswer,
    WorkloadAnswer,
    WorkloadDetail,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.ledger.answers.spending import Spending
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.workload import Doubt, PodKey, Step
    from trilens.serve.workload_answers import MemberGpuAnswer
    from trilens.store.workloads import WorkloadHistory


def summary(history: WorkloadHistory, at_ms: int, ready: frozenset[PodKey] | None) -> WorkloadAnswer:
    """`ready` is None where nobody knows: at any moment but now."""
    record = history.record
    phase = _phase_at_end(history)
    members = [member for member in history.members if member.to_ms is None]
    doubts = [*record.doubts, *(doubt for member in members for doubt in member.membership.doubts)]
    return WorkloadAnswer(
        *record.key,
        record.created_ms,
        record.team,
        record.cost_centre,
        record.experiment,
        record.queue,
        _attempt(history),
        _phase(phase, at_ms) if phase is not None else None,
        gone(history),
        MemberCount(
            total=len(members),
            on_nodes=sum(bool(member.node) for member in members),
            ready=None if ready is None else sum(member.membership.pod in ready for member in members),
        ),
        _doubts(doubts),
    )


def detail(
    history: WorkloadHistory,
    at_ms: int,
    ready: frozenset[PodKey] | None,
    gpus: list[MemberGpuAnswer],
    gpus_held: int,
    spent: Spending | None,
    limit: int | None,
) -> WorkloadDetail:
    """`gpus` are those to be listed; of more than `limit` members, those that are there are."""
    in_phase: defaultdict[str, float] = defaultdict(float)
    phases = [_phase(phase, at_ms) for phase in history.phases]
    for phase in phases:
        in_phase[phase.phase] += phase.seconds
    return WorkloadDetail(
        summary(history, at_ms, ready),
        [_member(member, ready) for member in _listed(history.members, limit)],
        len(history.members),
        phases,
        dict(in_phase),
        [*_attempts(history)],
        [_step(step, at_ms) for step in history.record.steps],
        gpus,
        gpus_held,
        spending_answer(spent),
    )


def _step(step: Step, at_ms: int) -> StepAnswer:
    """The record is of today: what came after that moment had not happened yet."""
    if step.started_ms is None or step.started_ms > at_ms:
        state = step.state if step.started_ms is None else "Pending"
        return StepAnswer(step.name, state, None, None, None if step.started_ms else step.pod, None)
    if step.finished_ms is not None and step.finished_ms > at_ms:
        step = step._replace(state="Running", finished_ms=None)
    assert step.started_ms is not None
    end_ms = step.finished_ms if step.finished_ms is not None else at_ms
    return StepAnswer(*step, seconds=max(0, end_ms - step.started_ms) / 1000)


def _phase_at_end(history: WorkloadHistory) -> PhaseInterval | None:
    """The phase that lasts; None where none does."""
    last = history.phases[-1] if history.phases else None
    return last if last is not None and last.to_ms is None else None


def gone(history: WorkloadHistory) -> GoneAnswer | None:
    """None while something of it is there."""
    ends = [member.to_ms for member in history.members] + [phase.to_ms for phase in history.phases]
    if None in ends:
        return None
    last = history.phases[-1] if history.phases else None
    at_ms = max(end for end in ends if end is not None)
    return GoneAnswer(at_ms, last.phase.value if last else None, last.reason if last else "")


def _attempt(history: WorkloadHistory) -> int:
    """At that moment, which the record, being of today, does not tell."""
    seen = [phase.attempt for phase in history.phases]
    seen += [member.membership.attempt for member in history.members]
    return max(seen, default=history.record.attempt)


def _attempts(history: WorkloadHistory) -> Iterable[AttemptAnswer]:
    phases: defaultdict[int, list[PhaseInterval]] = defaultdict(list)
    for phase in history.phases:
        phases[phase.attempt].append(phase)
    members: defaultdict[int, list[MembershipInterval]] = defaultdict(list)
    for member in history.members:
        members[member.membership.attempt].append(member)
    for attempt in sorted({*phases, *members}):
        spans: list[PhaseInterval | MembershipInterval] = [*phases[attempt], *members[attempt]]
        ends = [span.to_ms for span in spans]
        last = phases[attempt][-1] if phases[attempt] else None
        yield AttemptAnswer(
            attempt,
            min(span.from_ms for span in spans),
            None if None in ends else max(end for end in ends if end is not None),
            last.phase.value if last is not None else None,
            last.reason if last is not None else "",
        )


def _phase(phase: PhaseInterval, at_ms: int) -> PhaseAnswer:
    end_ms = at_ms if phase.to_ms is None else phase.to_ms
    seconds = max(end_ms - phase.from_ms, 0) / 1000
    return PhaseAnswer(phase.phase.value, phase.reason, phase.attempt, phase.from_ms, phase.to_ms, seconds)


def _member(interval: MembershipInterval, ready: frozenset[PodKey] | None) -> MemberAnswer:
    member = interval.membership
    return MemberAnswer(
        member.pod.name,
        member.pod.uid,
        member.role,
        member.group,
        member.node_rank,
        interval.node or None,
        member.attempt,
        interval.from_ms,
        interval.to_ms,
        None if ready is None or interval.to_ms is not None else member.pod in ready,
        _doubts(member.doubts),
    )


def _listed(members: list[MembershipInterval], limit: int | None) -> list[MembershipInterval]:
    if limit is not None and len(members) > limit:
        members = heapq.nsmallest(limit, members, key=lambda one: (one.to_ms is not None, *_place(one)))
    return sorted(members, key=_place)


def _place(interval: MembershipInterval) -> tuple[object, ...]:
    member = interval.membership
    no_rank = member.node_rank is None
    return (
        member.attempt,
        no_rank,
        member.node_rank or 0,
        member.group or 0,
        member.pod.name,
        interval.from_ms,
    )


def _doubts(doubts: Iterable[Doubt]) -> list[DoubtAnswer]:
    """Each once: a missing permission is a doubt about every pod."""
    return [DoubtAnswer(*doubt) for doubt in dict.fromkeys(doubts)]
