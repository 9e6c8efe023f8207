"""What makes a job slower than it was: clocks, one rank, a part of its steps, its neighbours, its disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import answer_of, whom
from trilens.diagnose.pace import SLOWER, paces
from trilens.diagnose.recent import earlier, late, now
from trilens.diagnose.scheduling.waiting import node_of
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseSeries
    from trilens.diagnose.pace import Pace

# By the label of trilens:gpu_throttled:bool. A power cap alone is usual under full load.
_REASONS: Final = {
    "sw_thermal": "thermal",
    "hw_thermal": "thermal",
    "power_brake": "power-brake",
    "hw_slowdown": "hw-slowdown",
    "sw_power_cap": "power-cap",
}
_HELD_SHARE: Final = 0.5  # of the last readings
_CLOCK_LOST: Final = 0.1
_GREW_SHARE: Final = 0.5  # of what steps take longer, to be the part that did it
_FULL: Final = 0.9  # of the processors or the memory of a node
_BUSY: Final = 0.8  # of the time a disk works
_FEW: Final = 4


class _Held(NamedTuple):
    how: str
    series: CaseSeries
    lost: float | None  # of its clock; None where nobody tells


@evidence("thermal", "power-brake", "hw-slowdown", "power-cap", "no")
def held_down_by(case: Case) -> Answer:
    """Detectors know the clock that is usual; without them the reasons that GPUs give, and their clocks."""
    for interval in case.findings(FindingKind.THROTTLING):
        finding = interval.finding
        names = {
            "held": whom(finding),
            "held_text": finding.text,
            "held_node": finding.subject.node or "its node",
        }
        return answer_of(interval, finding.cause, names)
    reasons = case.series("gpu-throttled")
    if not reasons:
        return Answer.unknown(
            Missing("why clocks of its GPUs are held down", "export DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
        )
    held = sorted(_held(case, reasons), key=lambda one: (one.how == "power-cap", -(one.lost or 0.0)))
    if not held:
        return Answer(
            ("no",), (Fact(f"none of {len(reasons)} reasons holds", "clock event reasons of its GPUs"),)
        )
    worst = held[0]
    labels = worst.series.labels
    node = labels.get("Hostname") or labels.get("node") or "its node"
    where = f"GPU {labels.get('gpu', '?')} of {node}"
    lost = (
        f"its clock is {worst.lost:.0%} lower than it was"
        if worst.lost is not None
        else "its clock is not known"
    )
    fact = Fact(f"{where}: {labels.get('reason')}, {lost}", "clock event reasons", worst.series.t_ms[-1])
    names = {"held": where, "held_text": lost, "held_node": node}
    subject = Subject(node=node, gpu_number=labels.get("gpu"))
    confidence = 0.9 if worst.lost is not None else 0.7
    return Answer((worst.how,), (fact,), confidence, names, subject=subject)


def _held(case: Case, reasons: Sequence[CaseSeries]) -> Iterator[_Held]:
    clocks = {one.labels.get("UUID"): one for one in case.series("sm-clock")}
    for one in reasons:
        how = _REASONS.get(one.labels.get("reason", ""))
        lately = late(one)
        if how is None or not lately or sum(lately) / len(lately) < _HELD_SHARE:
            continue
        clock = clocks.get(one.labels.get("UUID"))
        lost = _lost(clock) if clock is not None else None
        if how == "power-cap" and lost is None:
            continue
        if lost is None or lost >= _CLOCK_LOST:
            yield _Held(how, one, lost)


def _lost(clock: CaseSeries) -> float | None:
    then = earlier(clock)
    if len(then) < len(late(clock)):
        return None
    usual = sorted(then)[int(0.9 * len(then))]  # at work: at rest clocks are low
    return 1 - now(clock) / usual if usual > 0 else None


@evidence("compute", "data", "nobody")
def slow_rank(case: Case) -> Answer:
    """By the detector, which knows how each rank usually is; else a rank alone whose own part has grown."""
    for interval in case.findings(FindingKind.STRAGGLER):
        finding = interval.finding
        names = {
            "slow": whom(finding),
            "slow_text": finding.text,
            "slow_node": finding.subject.node or "its node",
        }
        how = finding.cause if finding.cause in ("compute", "data") else "compute"
        return answer_of(interval, how, names)
    known = paces(case)
    if len(known) < 2:
        return Answer.unknown(Missing("how fast each rank is", "have all ranks call trilens.init()"))
    return Answer(("nobody",), (Fact(f"no straggler among {len(known)} ranks", "steps of the run"),))


@evidence("data", "sync", "compute", "pauses", "steady")
def what_grew(case: Case) -> Answer:
    """Of the rank in the middle: its fastest stretch of steps against its last one."""
    known = paces(case)
    if not known:
        return Answer.unknown(Missing("how long its steps took", "have it call trilens.init()"))
    pace = known[0]
    source = f"steps of rank {pace.rank}"
    if pace.whole_ratio < SLOWER:
        said = f"{pace.now.step:.0f} ms a step, {pace.before.step:.0f} at best"
        return Answer(("steady",), (Fact(said, source),), 0.9, {"grew": said})
    if pace.ratio < SLOWER:
        said = f"{pace.pauses:.0%} of the time is between steps, {pace.pauses_before:.0%} before"
        return _grew(case, "pauses", said, source, pace, 0.9)
    more = pace.now.step - pace.before.step
    parts = {
        "data": _more(pace.before.data, pace.now.data),
        "sync": _more(pace.before.sync, pace.now.sync),
        "compute": pace.now.own - pace.before.own,
    }
    told = {name: value for name, value in parts.items() if value is not None}
    part = max(told, key=lambda name: told[name])
    said = f"{pace.now.step:.0f} ms a step, {pace.before.step:.0f} before; {part} {told[part]:+.0f} ms"
    if told[part] < _GREW_SHARE * more or (part == "compute" and len(told) < len(parts)):
        what = "which part of its steps has grown"
        facts = (Fact(said, source, pace.now.from_ms),)
        remedy = "mark the phases data and grad_sync of its steps: docs/sdk.md"
        return Answer(("unknown",), facts, missing=(Missing(what, remedy),))
    return _grew(case, part, said, source, pace, 0.95)


def _more(then: float | None, lately: float | None) -> float | None:
    return lately - then if then is not None and lately is not None else None


def _grew(case: Case, part: str, said: str, source: str, pace: Pace, confidence: float) -> Answer:
    facts = [Fact(said, source, pace.now.from_ms)]
    for one in case.series("checkpoint-duration") if part == "pauses" else ():
        if len(one.values) > 1:
            text = f"checkpoints take {one.values[-1]:.0f} s, at first {one.values[0]:.0f} s"
            facts.append(Fact(text, "training_checkpoint_duration_seconds", one.t_ms[-1]))
    return Answer((part,), tuple(facts), confidence, {"grew": said}, since_ms=pace.now.from_ms)


@evidence("noisy", "quiet")
def neighbours(case: Case) -> Answer:
    """A node that has no processors or no memory left, with other pods than the job's on it."""
    slow = {one.finding.subject.node for one in case.findings(FindingKind.STRAGGLER)} - {None}
    told = [
        (what, one)
        for what, figure in (("processors", "node-cpu"), ("memory", "node-memory"))
        for one in case.series(figure)
        if one.values and (not slow or one.labels.get("node") in slow)
    ]
    if not told:
        return Answer.unknown(Missing("how busy its nodes are", "have node-exporter scraped on its nodes"))
    full = [(what, one, taken) for what, one in told if (taken := now(one)) >= _FULL]
    for what, one, taken in sorted(full, key=lambda found: -found[2]):
        node = one.labels.get("node", "")
        others = _others(case, node)
        if others:
            fact = Fact(f"{node}: {what} {taken:.0%} taken", f"{what} of the node", one.t_ms[-1])
            named = ", ".join(others[:_FEW]) + (
                f" and {len(others) - _FEW} more" if len(others) > _FEW else ""
            )
            names = {
                "noisy_node": node,
                "scarce": what,
                "noisy_text": f"{taken:.0%} are taken, and {named} run there as well",
                "neighbours": named,
            }
            return Answer(
                ("noisy",),
                (fact, Fact(f"others there: {named}", f"pods of {node}")),
                0.9,
                names,
                subject=Subject(node=node),
            )
    highest = max(now(one) for _, one in told)
    return Answer(("quiet",), (Fact(f"at most {highest:.0%} of a node is taken", "figures of its nodes"),))


def _others(case: Case, node: str) -> list[str]:
    """Pods of others on that node; what belongs to the node itself is there on every one."""
    own = {pod.uid for pod in case.pods} | {one.membership.pod.uid for one in case.file.members}
    return sorted(
        f"{pod.namespace}/{pod.name}"
        for pod in case.of_kind("", "Pod")
        if pod.uid not in own
        and node_of(pod) == node
        and pod.namespace != "kube-system"
        and not (pod.controller is not None and pod.controller.kind == "DaemonSet")
    )


@evidence("busy", "idle")
def disks_busy(case: Case) -> Answer:
    told = [one for one in case.series("node-disk-busy") if one.values]
    if not told:
        return Answer.unknown(
            Missing("how busy the disks of its nodes are", "have node-exporter scraped on its nodes")
        )
    worst = max(told, key=now)
    node = worst.labels.get("node", "its node")
    fact = Fact(f"the disks of {node} work {now(worst):.0%} of the time", "node figures", worst.t_ms[-1])
    how = "busy" if now(worst) >= _BUSY else "idle"
    return Answer((how,), (fact,), 0.95, {"busy_node": node})
