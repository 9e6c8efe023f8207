"""The phase of a workload now, and those it went through unseen, from its object, its queue and its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.model.life import Phase
from trilens.resolve.operators.kueue import admission, admitted_ms
from trilens.resolve.reading import condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.model.kubernetes import KubeObject
    from trilens.model.life import PhaseInterval
    from trilens.resolve.operators.base import Operator, Said
    from trilens.resolve.stages import Milestones, Stage

# How far a phase is on the way to running.
_WAY = (Phase.QUEUED, Phase.ADMITTED, Phase.SCHEDULING, Phase.PULLING, Phase.STARTING, Phase.RUNNING)
_ORDER = {phase: at for at, phase in enumerate(_WAY)}


class Moment(NamedTuple):
    phase: Phase
    reason: str
    since_ms: int | None  # None: since now, as far as anybody knows


class Member(NamedTuple):
    """A pod that holds its seat now."""

    name: str
    stage: Stage
    milestones: Milestones


class View(NamedTuple):
    """All that tells how a workload is doing."""

    operator: Operator | None  # None: a kind that nobody knows
    own: KubeObject | None  # its own object, where that can be read and still exists
    members: Sequence[Member]
    roles: Mapping[str, int]  # how many members have each
    admissions: Sequence[KubeObject]  # Kueue's Workloads for it
    last: PhaseInterval | None


def phase_now(view: View) -> Moment | None:
    """None: it is over, and nobody said how."""
    said = view.operator.said(view.own) if view.operator is not None and view.own is not None else None
    if said is not None and said.phase.is_end:
        return Moment(*said)
    live = [member for member in view.members if not _is_gone(member.stage)]
    if (held := _held_by_queue(view, live)) is not None:
        return held
    if said is not None and said.phase is Phase.SUSPENDED:
        return Moment(*said)
    if live:
        return _by_live_pods(view, live, said)
    return _without_live_pods(view, said)


def way_here(view: View, now: Moment, attempt: int) -> list[Moment]:
    """The phases that led to this one, as far as timestamps tell: a look every few seconds misses the short
    ones, and a first look misses all."""
    last = view.last.phase if view.last is not None else None
    if not view.members or last is Phase.RUNNING:
        return []
    began_ms = view.last.from_ms if view.last is not None else None
    marks = [member.milestones for member in view.members]
    if began_ms is not None:  # after a restart: those of the pods that came since
        marks = [mark for mark in marks if mark.created_ms > began_ms] or marks
    created_ms = view.own.created_ms if view.own is not None else min(mark.created_ms for mark in marks)
    found: list[tuple[Phase, int | None, str]] = []
    is_known_from_its_beginning = view.last is not None or attempt == 0
    if view.admissions and is_known_from_its_beginning:  # else its quota is from an earlier life, which ran
        found.append((Phase.QUEUED, created_ms, "waits for quota"))
        found.append((Phase.ADMITTED, _latest([admitted_ms(queued) for queued in view.admissions]), ""))
    found.append((Phase.SCHEDULING, min(mark.created_ms for mark in marks), ""))
    pulling = [mark.pulling_ms for mark in marks if mark.pulling_ms is not None]
    scheduled_ms = _latest([mark.scheduled_ms for mark in marks])
    if pulling:
        found.append((Phase.PULLING, min(pulling), ""))
        pulled = [mark.pulled_ms for mark in marks if mark.pulled_ms is not None]
        found.append((Phase.STARTING, max(pulled) if pulled else None, ""))
    else:
        found.append((Phase.STARTING, scheduled_ms, ""))
    found.append((Phase.RUNNING, _latest([mark.running_ms for mark in marks]), ""))
    reached = _ORDER.get(now.phase, len(_WAY))
    start = _ORDER.get(last, -1) if last is not None else -1
    way: list[Moment] = []
    next_ms = now.since_ms
    for phase, since_ms, reason in reversed(found):
        if (
            since_ms is not None
            and start < _ORDER[phase] < reached
            and (began_ms is None or since_ms > began_ms)
            and (next_ms is None or since_ms < next_ms)
        ):
            way.append(Moment(phase, reason, since_ms))
            next_ms = since_ms
    return way[::-1]


def _held_by_queue(view: View, live: Sequence[Member]) -> Moment | None:
    answers = [admission(queued) for queued in view.admissions]
    if not answers or any(answer is None for answer in answers):
        return None
    held = max((answer for answer in answers if answer is not None), key=lambda answer: answer.since_ms or 0)
    if held.phase is Phase.QUEUED:
        return None if any(member.stage.is_up for member in live) else Moment(*held)
    if view.members:
        return Moment(*held)  # its pods are on their way out
    return Moment(Phase.QUEUED, f"again, {held.phase.value}: {held.reason}", None)


def _by_live_pods(view: View, live: Sequence[Member], said: Said | None) -> Moment:
    stages = [_as_before(member.stage, view.last) for member in live]
    is_service = view.operator is not None and view.operator.is_service
    running = [stage for stage in stages if stage.phase is Phase.RUNNING]
    if is_service:
        if running:
            return Moment(Phase.RUNNING, "", _earliest([stage.since_ms for stage in running]))
        restarting = [stage for stage in stages if stage.phase is Phase.RESTARTING]
        if restarting:
            return Moment(*restarting[0][:3])
        return _moment(max(stages, key=lambda stage: _ORDER[stage.phase]))
    for member in view.members:
        if member.stage.phase.is_interruption:
            return Moment(member.stage.phase, f"{member.name}: {member.stage.reason}", member.stage.since_ms)
    for member in view.members:
        if member.stage.phase in (Phase.RESTARTING, Phase.FAILED):
            reason = f"{member.name}: {member.stage.reason}"
            return Moment(Phase.RESTARTING, reason, member.stage.since_ms)
    if len(running) == len(stages):
        if lacking := _lacking(view):
            return Moment(Phase.RESTARTING if _has_run(view) else Phase.SCHEDULING, lacking, None)
        return Moment(Phase.RUNNING, "", _latest([stage.since_ms for stage in running]))
    if said is not None and said.phase is Phase.RESTARTING:
        return Moment(*said)
    return _moment(min(stages, key=lambda stage: _ORDER[stage.phase]))


def _lacking(view: View) -> str:
    """Which pods are not there without which it does not run: gone, or not made yet."""
    if view.operator is None or view.own is None or "" in view.roles:  # who has no role may have any
        return ""
    counts = [(view.roles.get(role, 0), need, role) for role, need in view.operator.needs(view.own).items()]
    return ", ".join(
        f"{there} of {need} {role} pods are there" for there, need, role in counts if there < need
    )


def _has_run(view: View) -> bool:
    if view.last is not None:
        return view.last.phase in (Phase.RUNNING, Phase.RESTARTING)
    return view.own is not None and condition(view.own, "Running") is not None


def _without_live_pods(view: View, said: Said | None) -> Moment | None:
    if (taken := next((m.stage for m in view.members if m.stage.phase.is_interruption), None)) is not None:
        return _moment(taken)
    if view.members:
        return _by_ended_pods(view)
    if view.own is None:
        return None
    if said is not None:
        return Moment(*said)
    if view.last is not None and view.last.phase.is_end:
        return Moment(view.last.phase, view.last.reason, view.last.from_ms)
    if view.last is not None and (view.last.phase.is_interruption or view.last.phase is Phase.RESTARTING):
        return Moment(view.last.phase, view.last.reason, None)
    if view.last is not None and _ORDER.get(view.last.phase, 0) >= _ORDER[Phase.PULLING]:
        return Moment(Phase.RESTARTING, "its pods are gone", None)
    if view.admissions:
        return Moment(Phase.ADMITTED, "no pods yet", _latest([admitted_ms(one) for one in view.admissions]))
    return Moment(Phase.SCHEDULING, "no pods yet", view.own.created_ms)


def _by_ended_pods(view: View) -> Moment:
    """All pods have ended. What has a controller is over when the controller says so."""
    failed = next((member for member in view.members if member.stage.phase is Phase.FAILED), None)
    has_controller = view.own is not None and view.operator is not None and view.operator.known_without_pods
    if failed is not None:
        phase = Phase.RESTARTING if has_controller else Phase.FAILED
        return Moment(phase, f"{failed.name}: {failed.stage.reason}", failed.stage.since_ms)
    if has_controller and view.last is not None:
        return Moment(view.last.phase, view.last.reason, view.last.from_ms)
    ends = [member.stage.since_ms for member in view.members]
    return Moment(Phase.RUNNING if has_controller else Phase.SUCCEEDED, "", _latest(ends))


def _as_before(stage: Stage, last: PhaseInterval | None) -> Stage:
    """A running job whose readiness probe fails still runs."""
    if stage.is_up and last is not None and last.phase is Phase.RUNNING:
        return stage._replace(phase=Phase.RUNNING)
    return stage


def _is_gone(stage: Stage) -> bool:
    return stage.phase.is_end or stage.phase.is_interruption


def _moment(stage: Stage) -> Moment:
    return Moment(stage.phase, stage.reason, stage.since_ms)


def _latest(times: Sequence[int | None]) -> int | None:
    """The last of them; None where one is not known, for that may be later."""
    return max((at for at in times if at is not None), default=None) if None not in times else None


def _earliest(times: Sequence[int | None]) -> int | None:
    return min((at for at in times if at is not None), default=None)
